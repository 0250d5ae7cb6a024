"""The page itself: its template with the styles and scripts in it, and what it may do."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from jinja2 import Environment, Template
from markupsafe import Markup

from otel_kernel_trace.page.shown import MAX_TEXT_BYTES

VENDOR_STYLES = ("vendor/uPlot.min.css",)
VENDOR_SCRIPTS = ("vendor/highlight.min.js", "vendor/uPlot.min.js", "vendor/diff.min.js")

STYLES = (
    "styles/colours.css",
    "styles/base.css",
    "styles/top.css",
    "styles/found.css",
    "styles/tip.css",
    "styles/help.css",
    "styles/numbers.css",
    "styles/overview.css",
    "styles/task.css",
    "styles/panels.css",
    "styles/rail.css",
    "styles/steps.css",
    "styles/findings.css",
    "styles/parts.css",
    "styles/diffs.css",
    "styles/code.css",
    "styles/narrow.css",
    "styles/print.css",
)
"""The page's own styles: of two rules that weigh the same, the later one counts."""

SCRIPTS = (
    "scripts/untrusted.js",
    "scripts/elements.js",
    "scripts/numbers.js",
    "scripts/routes.js",
    "scripts/source.js",
    "scripts/state.js",
    "scripts/pieces.js",
    "scripts/overview.js",
    "scripts/pictures.js",
    "scripts/speedups.js",
    "scripts/timeline.js",
    "scripts/code.js",
    "scripts/diffs.js",
    "scripts/found.js",
    "scripts/parts.js",
    "scripts/findings.js",
    "scripts/steps.js",
    "scripts/task.js",
    "scripts/search.js",
    "scripts/navigation.js",
    "scripts/live.js",
    "scripts/theme.js",
    "scripts/keys.js",
    "scripts/start.js",
)
"""The page's own scripts, in one closure: each uses only what comes before it."""

BLOCKS = "<!-- blocks -->"
"""Stands in the page where the blocks of a report go."""


@dataclass(frozen=True, slots=True)
class Document:
    """A page, and its Content-Security-Policy as a header has it."""

    html: str
    policy: str


def document(title: str, config: Mapping[str, object], *, is_served: bool) -> Document:
    """The page.

    Args:
        title: name of the tree.
        config: what its script is told at once.
        is_served: whether it asks a server, or has everything in it.
    """
    styles = [*map(_asset, VENDOR_STYLES), _own_style()]
    scripts = [*map(_asset, VENDOR_SCRIPTS), _own_script()]
    policy = _policy(styles, scripts, is_served=is_served)
    # All in one line of ASCII without < and &: nothing in it can end the element.
    told = (
        json.dumps({**config, "maxText": MAX_TEXT_BYTES})
        .replace("<", "\\u003c")
        .replace("&", "\\u0026")
        .replace(">", "\\u003e")
    )
    html = _template().render(
        title=title,
        policy=policy,
        styles=[Markup(style) for style in styles],
        scripts=[Markup(script) for script in scripts],
        config=Markup(told),
        blocks=Markup(BLOCKS),
    )
    # What only a header may say.
    return Document(html, f"{policy}; frame-ancestors 'none'")


@cache
def _template() -> Template:
    return Environment(autoescape=True, keep_trailing_newline=True).from_string(_read("page.html"))


@cache
def _own_style() -> str:
    return "\n".join(map(_asset, STYLES))


@cache
def _own_script() -> str:
    """All of them in one closure, which leaves no global name behind."""
    return "\n".join(['(() => {\n"use strict";\n', *map(_asset, SCRIPTS), "})();\n"])


@cache
def _asset(name: str) -> str:
    """A style or script, so that it can stand in an element of the page."""
    text = _read(name).replace("<!--", "<\\!--")  # the same to a script; in an element, a comment begins
    lowered = text.lower()
    if "</script" in lowered or "</style" in lowered:
        raise ValueError(f"{name} would end its element")
    return text


def _policy(styles: list[str], scripts: list[str], *, is_served: bool) -> str:
    rules = {
        "default-src": "'none'",
        "script-src": " ".join(map(_hash, scripts)),
        "style-src": " ".join(map(_hash, styles)),
        "img-src": "data:",  # the page's own icon
        "base-uri": "'none'",
        "form-action": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    if is_served:
        rules["connect-src"] = "'self'"
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _read(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8").replace("\r\n", "\n")
