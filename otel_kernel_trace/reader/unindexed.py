"""Which files of a tree an index does not tell of, by the steps in their names."""

from __future__ import annotations

from collections.abc import Mapping

from otel_kernel_trace.filenames import CONDUCTOR, NUMBERED
from otel_kernel_trace.names import safe_name
from otel_kernel_trace.store import Folder

_LAYOUTS = [NUMBERED[name] for name in ("design", "akg_agents")]
"""Those whose names begin differently."""


class UnknownNames:
    """Names of files that say a step of which the index does not tell.

    Args:
        steps: those that it tells of, by folder of the op and by task.
        only: the one task that matters.
    """

    def __init__(self, steps: Mapping[str, Mapping[str, set[int]]], only: tuple[str, str] | None) -> None:
        self._steps = steps
        self._only = None if only is None else safe_name(only[0])
        self._only_rows = () if only is None else tuple(layout.rows(only[1]) for layout in _LAYOUTS)

    def __call__(self, folder: Folder, names: list[str]) -> list[str]:
        op, marker = folder[0], f"_{folder[0]}_"
        if self._only is not None:
            if op != self._only:
                return []
            names = [name for name in names if name.startswith(self._only_rows)]
        rows: set[str] = set()
        for layout in _LAYOUTS:
            if any(name.startswith(layout.task_prefix) for name in names):
                for task_id, steps in self._steps.get(op, {}).items():
                    prefix = layout.rows(task_id)
                    rows.update([f"{prefix}{step:02d}" for step in steps])
        unknown = [name for name in names if name[: name.find(marker)] not in rows]
        # Of a verification's folder the name ends behind the row.
        return [name for name in unknown if name.removesuffix("_verify") not in rows and name != CONDUCTOR]
