"""Reading trees: what the commands and the page know, for programs.

>>> from otel_kernel_trace.reader import Tree
>>> tree = Tree("./kernel_trace_logs")
>>> for summary in tree.summaries():
...     print(summary.op_name, summary.task_id, summary.outcome.value, summary.best_speedup)
>>> task = tree.task("swish", "123")
>>> print(tree.text(task.actions[0].parts["prompt"]))

Needs nothing but the core. Nothing is written, and nothing outside the tree is read.
"""

from otel_kernel_trace.reader.attempts import Attempt, BlamedLine, attempts_of, blame, code_of, diff, pair_of
from otel_kernel_trace.reader.comparison import Comparison, Stats, compare
from otel_kernel_trace.reader.model import Action, ModelCall, Outcome, Part, Stage, Summary, Task, Tokens
from otel_kernel_trace.reader.recurrence import STALL, Recurrence, error_of, recurrences
from otel_kernel_trace.reader.stages import (
    PlacedStage,
    SpanId,
    StageChange,
    StageTotals,
    actions_around,
    changes_of,
    placed_stages,
)
from otel_kernel_trace.reader.timeline import Bar, Price, Spent, bars_of, cost_of, spent, tokens_by_model
from otel_kernel_trace.reader.tree import NoTreeError, Tree

__all__ = [
    "STALL",
    "Action",
    "Attempt",
    "Bar",
    "BlamedLine",
    "Comparison",
    "ModelCall",
    "NoTreeError",
    "Outcome",
    "Part",
    "PlacedStage",
    "Price",
    "Recurrence",
    "SpanId",
    "Spent",
    "Stage",
    "StageChange",
    "StageTotals",
    "Stats",
    "Summary",
    "Task",
    "Tokens",
    "Tree",
    "actions_around",
    "attempts_of",
    "bars_of",
    "blame",
    "changes_of",
    "code_of",
    "compare",
    "cost_of",
    "diff",
    "error_of",
    "pair_of",
    "placed_stages",
    "recurrences",
    "spent",
    "tokens_by_model",
]
