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

STYLES = ("vendor/uPlot.min.css", "page.css")
SCRIPTS = ("vendor/highlight.min.js", "vendor/uPlot.min.js", "vendor/diff.min.js", "page.js")

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
    styles = [_asset(name) for name in STYLES]
    scripts = [_asset(name) for name in SCRIPTS]
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
