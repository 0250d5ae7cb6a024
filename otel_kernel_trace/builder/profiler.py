"""What each layer of an engine takes, as TensorRT's profiler tells it."""

from __future__ import annotations

import contextlib
import json
import math
import statistics
from collections import deque
from dataclasses import asdict, dataclass
from functools import partial
from types import TracebackType
from typing import Final

from opentelemetry.trace import Span

from otel_kernel_trace import attributes
from otel_kernel_trace.builder.accounts import Accounts
from otel_kernel_trace.builder.interfaces import construct_interface, with_interface
from otel_kernel_trace.busy import busy
from otel_kernel_trace.live import set_attributes

MOST_LAYERS: Final = 4096
"""Layers that are told apart; what comes after is one, :data:`OTHER_LAYERS`."""
OTHER_LAYERS: Final = "(other layers)"
_MOST_TIMES = 512
_LONGEST_NAME = 1024


@dataclass(frozen=True, slots=True)
class LayerTime:
    """One layer over all runs; times in milliseconds."""

    layer: str
    runs: int
    mean: float
    median: float
    """Of the last 512 runs."""
    total: float
    share: float
    """Of the total of all layers, 0 to 1."""


class _Layer:
    __slots__ = ("last", "runs", "total")

    def __init__(self) -> None:
        self.runs = 0
        self.total = 0.0
        self.last: deque[float] = deque(maxlen=_MOST_TIMES)


class _Table:
    """The layers of one span, in the order in which they came first."""

    def __init__(self) -> None:
        self._layers: dict[str, _Layer] = {}

    def add(self, name: str, milliseconds: float) -> None:
        layer = self._layers.get(name)
        if layer is None:
            if len(self._layers) >= MOST_LAYERS:
                name = OTHER_LAYERS
            layer = self._layers.setdefault(name, _Layer())
        layer.runs += 1
        layer.total += milliseconds
        layer.last.append(milliseconds)

    def times(self) -> tuple[LayerTime, ...]:
        total = math.fsum(layer.total for layer in self._layers.values())
        return tuple(
            LayerTime(
                name,
                layer.runs,
                layer.total / layer.runs,
                statistics.median(layer.last),
                layer.total,
                layer.total / total if total else 0.0,
            )
            for name, layer in self._layers.items()
        )


class LayerProfiler:
    """Collects layer times: ``context.profiler = LayerProfiler()`` on a TensorRT execution context.

    Times belong to the span that is current where a run is executed, as lines of a
    :class:`TracingLogger` do; the table is put on it, as JSON in ``kernel_trace.layers``, just
    before it ends, and by :meth:`close` and :meth:`flush`.

    Needs no TensorRT. Where a program has imported it, the profiler is a
    ``tensorrt.IProfiler``, too; import it before making the profiler. Thread-safe, usable in a
    forked child, which begins anew. Never raises; what is no time of 0 or more is counted in
    :attr:`lost`. Memory is bounded: 4096 layers, 512 times each.
    """

    def __new__(cls) -> LayerProfiler:
        joined = with_interface(cls, "IProfiler")
        made: LayerProfiler = super(LayerProfiler, joined).__new__(joined)
        return made

    def __init__(self) -> None:
        construct_interface(self, "IProfiler")
        self._all = _Table()
        self._accounts = Accounts(lambda _: _Table(), self._write)
        self.lost = 0
        """Times that could not be taken."""

    def report_layer_time(self, layer_name: object, ms: object) -> None:
        """Take the time, in milliseconds, that a layer took in one run."""
        try:
            milliseconds = float(ms)  # type: ignore[arg-type]  # that is what is tried
            if not 0 <= milliseconds < math.inf:
                raise ValueError(f"no time: {milliseconds}")
            self._take(attributes.text(layer_name)[:_LONGEST_NAME], milliseconds)
        except Exception:  # noqa: BLE001 - TensorRT ends the process for an exception here
            self.lost += 1

    @property
    def per_layer(self) -> tuple[LayerTime, ...]:
        """All times so far, under whatever span; layers in the order in which they came first."""
        with busy, self._accounts.lock:
            return self._all.times()

    def flush(self) -> None:
        """Put what is known so far on the spans that have not ended."""
        with contextlib.suppress(Exception):
            self._accounts.flush()

    def close(self) -> None:
        """Flush. Times that come later are taken all the same."""
        self.flush()

    def under(self, span: Span) -> contextlib.AbstractContextManager[None]:
        """A block in which all times, of whatever thread, belong to ``span``."""
        return self._accounts.under(span)

    def __enter__(self) -> LayerProfiler:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _take(self, name: str, milliseconds: float) -> None:
        if busy.puts_off(partial(self.report_layer_time, name, milliseconds)):
            return
        with busy, self._accounts.lock:
            self._all.add(name, milliseconds)
            here = self._accounts.here()
            if here is not None:
                here[1].add(name, milliseconds)

    def _write(self, span: Span, table: _Table) -> None:
        with busy, self._accounts.lock:
            times = table.times()
        content = json.dumps([asdict(time) for time in times], ensure_ascii=False)
        set_attributes(span, {attributes.LAYER_TIMES: content})
