"""gcc and clang, as text in any locale.

https://gcc.gnu.org/onlinedocs/gcc/Diagnostic-Message-Formatting-Options.html
https://clang.llvm.org/docs/ClangCommandLineReference.html#diagnostic-flags
"""

from __future__ import annotations

import re
from typing import Final

from otel_kernel_trace.diagnostics.finding import Finding
from otel_kernel_trace.diagnostics.lines import Line
from otel_kernel_trace.diagnostics.parser import Parser
from otel_kernel_trace.diagnostics.wording import category_of, identifier_of

_KINDS: Final = (
    "fatal error",
    "internal compiler error",
    "error",
    "warning",
    "note",
    "remark",
    "sorry, unimplemented",
)
_KIND: Final = "(?P<kind>" + "|".join(_KINDS) + "): "
_MESSAGE: Final = re.compile(
    r"(?P<file>(?:[A-Za-z]:)?[^:\n]{1,500}):(?P<line>\d{1,9}):(?:(?P<column>\d{1,9}):)? "
    + _KIND
    + r"(?P<message>.*)"
)
_DRIVER: Final = re.compile(
    r"(?:[^\s:]{0,300}/)?(?P<driver>(?:[\w-]{1,40}-)?(?:gcc|g\+\+|cc1|cc1plus|c\+\+|cc|lto1|as"
    r"|clang|clang\+\+|hipcc|nvc\+\+)(?:-\d[\d.]{0,8})?): " + _KIND + r"(?P<message>.*)"
)
_OPTION: Final = re.compile(r" \[(-[^\[\]\s]{1,100})\]$")
_IN_FUNCTION: Final = re.compile(
    r"(?P<file>(?:[A-Za-z]:)?[^:\n]{1,500}): (?P<what>In [a-z ]{0,60}|At global scope)(?:['‘`]"
    r"(?P<function>[^\n]{1,1000})['’])?[:,]?$"
)
_REQUIRED: Final = ("required from", "required by")
_CLANG_BEGINS: Final = (
    "use of undeclared identifier",
    "no matching function for call to '",
    "no member named",
    "unknown type name",
    "cannot initialize",
    "invalid operands to binary expression",
    "non-void function does not return",
    "reference to __",
    "call to undeclared",
    "call to undeclared function",
    "too few arguments to function call",
    "too many arguments to function call",
    "incompatible pointer types",
    "no template named",
    "no type named",
    "no viable ",
    "candidate template ignored",
    "too many errors emitted",
    "linker command failed",
)
_GENERATED: Final = re.compile(
    r"(?:(\d{1,6}) warnings?)?(?: and )?(?:(\d{1,6}) errors?)? generated(?: when compiling for "
    r"[\w.-]{1,40})?\.$"
)
_NOT_THEIRS: Final = (".py", ".mlir")


class GccClangParser(Parser):
    """``file:line:column: error: message [-Woption]``.

    It is gcc's unless the wording or clang's closing count of the errors shows the other.
    """

    signs = (
        " error: ",
        ": warning: ",
        ": note: ",
        ": remark: ",
        ", unimplemented: ",
        " generated",
        "compilation terminated",
        "In file included from ",
        ": In ",
        ": At global scope",
        *_REQUIRED,
    )

    def __init__(self) -> None:
        super().__init__()
        self._functions: dict[str, str | None] = {}
        self._context: list[str] = []
        self._gcc_files: set[str] = set()
        self._undecided: list[Finding] = []

    def feed(self, line: Line) -> bool:
        text = line.text
        found = _MESSAGE.match(text) if ": " in text else None
        if found is not None and _is_file(found["file"]):
            self._message(found, line)
            return False
        driver = _DRIVER.match(text)
        if driver is not None:
            self._driver(driver, line)
        elif text.startswith("compilation terminated"):  # gcc's
            self._undecided.clear()
        elif " generated" in text:
            self._closing(text.strip())
        elif text.startswith("In file included from ") or any(words in text for words in _REQUIRED):
            self._remember(text)
        else:
            self._function(text)
        return False

    def _message(self, found: re.Match[str], line: Line) -> None:
        file = found["file"]
        message = found["message"].strip()
        if found["kind"] == "note":
            if self.findings:
                self.findings[-1].note(f"{file}:{found['line']}: {message}")
            return
        finding = self._finding(found["kind"], message, line)
        finding.file = file
        finding.line = int(found["line"])
        finding.column = int(found["column"]) if found["column"] else None
        finding.function = self._functions.get(file)
        self.findings.append(finding)
        self._undecided.append(finding)

    def _driver(self, found: re.Match[str], line: Line) -> None:
        message = found["message"].strip()
        if found["kind"] == "note":
            return
        finding = self._finding(found["kind"], message, line)
        if "clang" in found["driver"]:
            finding.tool = "clang"
        finding.consequence = (
            message.startswith(("linker command failed", "ptxas command failed"))
            or "command failed" in message
        )
        self.findings.append(finding)

    def _finding(self, kind: str, message: str, line: Line) -> Finding:
        code = None
        option = _OPTION.search(message)
        if option is not None:
            code, message = option.group(1), message[: option.start()]
        finding = Finding(
            "clang" if message.startswith(_CLANG_BEGINS) else "gcc",
            "warning" if kind == "warning" else "note" if kind == "remark" else "error",
            "crash" if kind == "internal compiler error" else category_of(message),
            message,
            line.number,
            identifier=identifier_of(message),
            code=code,
        )
        for context in self._context:
            finding.note(context)
        self._context.clear()
        return finding

    def _remember(self, text: str) -> None:
        if len(self._context) < 8:
            self._context.append(text.strip()[:300])

    def _function(self, text: str) -> None:
        found = _IN_FUNCTION.match(text)
        if found is None:
            return
        self._gcc_files.add(found["file"])
        self._functions[found["file"]] = (
            found["function"] if "unction" in found["what"] or "structor" in found["what"] else None
        )
        self._context.clear()
        if "instantiation" in found["what"]:
            self._remember(text)

    def _closing(self, text: str) -> None:
        """``2 warnings and 1 error generated.`` is clang's, and so are the messages that it counts."""
        found = _GENERATED.match(text)
        if found is None:
            return
        warnings, errors = int(found.group(1) or 0), int(found.group(2) or 0)
        counted = self._undecided[-(warnings + errors) or len(self._undecided) :]
        severities = [finding.severity for finding in counted]
        if (severities.count("warning"), severities.count("error")) == (warnings, errors):
            for finding in counted:
                if finding.file not in self._gcc_files:
                    finding.tool = "clang"
        self._undecided.clear()


def _is_file(name: str) -> bool:
    """Whether a name before a number and a colon is a source file of theirs, and no time of the day."""
    return (
        any(sign in name for sign in "./\\<")
        and not name.replace(".", "").isdigit()
        and not name.endswith(_NOT_THEIRS)
        and "loc(" not in name
    )
