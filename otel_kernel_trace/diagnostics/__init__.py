"""What compilers, runs and comparisons say is wrong: logs in, values out.

:func:`parse_diagnostics` reads any mixture of logs in one pass (:mod:`.parsing`). Each tool has one small
class in one file of :mod:`.parsers`; what several say of the same trouble becomes one diagnostic in
:mod:`.assembly`.

To add a tool, add a file to ``parsers/`` with a class like this one. Nothing else is touched: the folder is
scanned::

    class MakeParser(Parser):
        signs = ("make: *** ",)                      # a line without one of these is never shown

        def feed(self, line: Line) -> bool:
            _, sign, message = line.text.partition("make: *** ")
            if sign:                                 # while open, other tools' lines come, too
                self.findings.append(Finding("make", "error", "other", message, line.number))
            return False                             # True: show me the next line as well

``feed`` takes bounded time, so that a log takes linear time: no regular expression that can look at the same
text twice, no list of lines that only grows. What a tool adds below (candidates, a stack) goes to
:meth:`.Finding.note`. Words that several tools share (``undeclared``, ``no matching function``) have their
category and name in :mod:`.wording`.
"""

from otel_kernel_trace.diagnostics.model import CATEGORIES, Category, Diagnostic, Severity
from otel_kernel_trace.diagnostics.parsing import parse_diagnostics
from otel_kernel_trace.diagnostics.ranking import Counts, by_weight, counts, first_error

__all__ = [
    "CATEGORIES",
    "Category",
    "Counts",
    "Diagnostic",
    "Severity",
    "by_weight",
    "counts",
    "first_error",
    "parse_diagnostics",
]
