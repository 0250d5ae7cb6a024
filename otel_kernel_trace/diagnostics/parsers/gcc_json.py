"""gcc's diagnostics as JSON (gcc 9 to 14) and as SARIF (gcc 13 and later, clang 15 and later).

https://gcc.gnu.org/onlinedocs/gcc-14.1.0/gcc/Diagnostic-Message-Formatting-Options.html
https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from otel_kernel_trace.diagnostics.finding import Finding
from otel_kernel_trace.diagnostics.lines import Line
from otel_kernel_trace.diagnostics.parser import Parser
from otel_kernel_trace.diagnostics.wording import category_of, identifier_of

_BLANKS: Final = " \t\r\n,"
_GOES_ON: Final = (" ", "]", "}")
_BEGINS: Final = ('[{"', '{"$schema"', '{"version"', '{"runs"')


class GccJsonParser(Parser):
    """An array of diagnostics in one line, or, since gcc 14, in several, of which the others are indented.

    Whole elements of an array that was cut are taken. Elements are decoded once each.
    """

    signs = ('{"',)
    precedence = 2

    def __init__(self) -> None:
        super().__init__()
        self._first: Line | None = None
        self._end = 0

    def feed(self, line: Line) -> bool:
        if line.text.startswith(_BEGINS):
            self._take()
            self._first = line
        elif not line.text.startswith(_GOES_ON):
            self._take()
        self._end = line.end
        return self._first is not None

    def finish(self) -> None:
        self._take()

    def _take(self) -> None:
        first, self._first = self._first, None
        if first is None or first.log.find('"message"', first.start, self._end) < 0:
            return
        for document in _documents(first.log[first.start : self._end].lstrip()):
            for message in _messages(document):
                message.log_line = first.number
                self.findings.append(message)


def _documents(text: str) -> Iterator[object]:
    """The elements of an array, as far as they are whole, or the one object."""
    decoder = json.JSONDecoder()
    place = 1 if text.startswith("[") else 0
    while place < len(text):
        try:
            document, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            return
        yield document
        while place < len(text) and text[place] in _BLANKS:
            place += 1


def _messages(document: object) -> Iterator[Finding]:
    if not isinstance(document, dict):
        return
    if "kind" in document and "message" in document:
        found = _message(document)
        if found is not None:
            yield found
    for run in _dicts(document.get("runs")):
        is_clang = _name(run).startswith("clang")
        for result in _dicts(run.get("results")):
            found = _result(result)
            if found is not None:
                found.tool = "clang" if is_clang else "gcc"
                yield found


def _name(run: dict[str, object]) -> str:
    """The tool that a run of SARIF is of."""
    tool = run.get("tool")
    driver = tool.get("driver") if isinstance(tool, dict) else None
    return _text(driver.get("name")) if isinstance(driver, dict) else ""


def _message(document: dict[str, object]) -> Finding | None:
    kind = document["kind"]
    if kind not in ("error", "fatal error", "warning", "sorry, unimplemented", "internal compiler error"):
        return None
    text = _text(document["message"])
    if not text:
        return None
    option = document.get("option")
    finding = _finding(
        "warning" if kind == "warning" else "error", text, option if isinstance(option, str) else None
    )
    for location in _dicts(document.get("locations"))[:1]:
        caret = location.get("caret")
        if isinstance(caret, dict):
            finding.file = _text(caret.get("file")) or None
            finding.line, finding.column = _number(caret.get("line")), _number(caret.get("column"))
    for child in _dicts(document.get("children")):
        finding.note(_text(child.get("message")))
    return finding


def _result(result: dict[str, object]) -> Finding | None:
    level = result.get("level", "warning")
    message = result.get("message")
    if level not in ("error", "warning") or not isinstance(message, dict):
        return None
    text = _text(message.get("text"))
    if not text:
        return None
    rule = result.get("ruleId")
    code = rule if isinstance(rule, str) and rule.startswith("-") else None
    finding = _finding("warning" if level == "warning" else "error", text, code)
    for location in _dicts(result.get("locations"))[:1]:
        physical = location.get("physicalLocation")
        if isinstance(physical, dict):
            artifact, region = physical.get("artifactLocation"), physical.get("region")
            if isinstance(artifact, dict):
                finding.file = _text(artifact.get("uri")).removeprefix("file://") or None
            if isinstance(region, dict):
                finding.line = _number(region.get("startLine"))
                finding.column = _number(region.get("startColumn"))
    for related in _dicts(result.get("relatedLocations")):
        said = related.get("message")
        if isinstance(said, dict):
            finding.note(_text(said.get("text")))
    return finding


def _finding(severity: str, text: str, code: str | None) -> Finding:
    return Finding(
        "gcc",
        "warning" if severity == "warning" else "error",
        category_of(text),
        text,
        0,
        identifier=identifier_of(text),
        code=code,
    )


def _dicts(value: object) -> list[dict[str, object]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _text(value: object) -> str:
    return value.partition("\n")[0] if isinstance(value, str) else ""


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
