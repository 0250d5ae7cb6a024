"""A builder's lines as events, figures and text of the span that they were said under."""

from __future__ import annotations

import contextlib
import enum
import gc
import logging
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import Tracer

from otel_kernel_trace import KernelTracer, LinkedSpanExporter, TracingLogger, configure
from otel_kernel_trace.builder import read_line, read_log
from otel_kernel_trace.builder.book import LogText
from otel_kernel_trace.builder.logger import severity_of
from otel_kernel_trace.busy import busy
from otel_kernel_trace.indexed import Passed, indexed_spans, whole_attributes
from otel_kernel_trace.store import Store
from tests import builder_logs
from tests.faults import forked

PREFIX = "kernel_trace.builder."
REFUSED = "Cannot fuse A + B: unsupported broadcast pattern"


class Spans:
    """Spans that have ended, by name."""

    def __init__(self, limits: SpanLimits | None = None) -> None:
        self._memory = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False, span_limits=limits)
        self.provider.add_span_processor(SimpleSpanProcessor(self._memory))
        self.tracer: Tracer = self.provider.get_tracer("test")

    def __getitem__(self, name: str) -> ReadableSpan:
        return next(span for span in self._memory.get_finished_spans() if span.name == name)


@pytest.fixture
def spans() -> Iterator[Spans]:
    made = Spans()
    yield made
    made.provider.shutdown()


def events_of(span: ReadableSpan) -> list[dict[str, object]]:
    """The builder's events of a span, by the last words of their attributes' names."""
    assert all(event.name == "kernel_trace.builder" for event in span.events)
    return [
        {key.removeprefix(PREFIX): value for key, value in (event.attributes or {}).items()}
        for event in span.events
    ]


def figures_of(span: ReadableSpan) -> dict[str, object]:
    """What is on the span itself, likewise."""
    return {
        key.removeprefix(PREFIX): value
        for key, value in (span.attributes or {}).items()
        if key.startswith(PREFIX)
    }


def messages_of(span: ReadableSpan) -> list[object]:
    return [event["message"] for event in events_of(span)]


def test_each_line_is_an_event_with_what_it_tells(spans: Spans) -> None:
    with spans.tracer.start_as_current_span("build"):
        logger = TracingLogger()
        logger.log(3, "RoPE configured, context length 2048")
        logger.log(2, REFUSED)
        logger.log(4, "Original: 53 layers")
        logger.log(4, "ConvReluFusion: Fusing A with B")
        logger.log(4, "Tactic: 1002 time 0.059")
        logger.log(4, "plain and verbose")
    assert events_of(spans["build"]) == [
        {"severity": "INFO", "message": "RoPE configured, context length 2048"},
        {
            "severity": "WARNING",
            "message": REFUSED,
            "kind": "fusion_refused",
            "fused": "A + B",
            "reason": "unsupported broadcast pattern",
        },
        {
            "severity": "VERBOSE",
            "message": "Original: 53 layers",
            "kind": "layers",
            "layers": 53,
            "pass": "original",
        },
        {
            "severity": "VERBOSE",
            "message": "ConvReluFusion: Fusing A with B",
            "kind": "fusion_made",
            "fused": "A with B",
            "rule": "ConvReluFusion",
        },
    ]


@pytest.mark.parametrize("log", builder_logs.ALL.values(), ids=list(builder_logs.ALL))
def test_said_live_a_log_comes_to_the_same_as_read_from_a_file(spans: Spans, log: str) -> None:
    logger = TracingLogger()
    with spans.tracer.start_as_current_span("build"):
        for line in map(read_line, log.splitlines()):
            logger.log(line.severity, line.message)
    summary = read_log(log)
    assert logger.summary == summary
    figures = figures_of(spans["build"])
    text = figures.pop("log")
    assert {PREFIX + name: value for name, value in figures.items()} == summary.attributes()
    assert isinstance(text, str)
    assert read_log(text) == summary


class _Numbered(enum.IntEnum):
    WARNING = 2


class _Named(enum.Enum):
    WARNING = "w"


class _Valued(enum.Enum):
    LOUD = 2


@pytest.mark.parametrize(
    "severity",
    [2, 2.0, _Numbered.WARNING, _Named.WARNING, _Valued.LOUD, "WARNING", "warning", "W", 30, "warn"],
)
def test_severities_in_whatever_form(severity: object) -> None:
    assert severity_of(severity) == "WARNING"


@pytest.mark.parametrize(
    ("number", "severity"),
    [
        (0, "INTERNAL_ERROR"),
        (1, "ERROR"),
        (3, "INFO"),
        (4, "VERBOSE"),
        (5, "VERBOSE"),
        (-1, "VERBOSE"),
        (10, "VERBOSE"),
        (20, "INFO"),
        (40, "ERROR"),
        (50, "INTERNAL_ERROR"),
        (10**30, "INTERNAL_ERROR"),
        (None, "INFO"),
        ("", "INFO"),
        ("loud", "INFO"),
        (object(), "INFO"),
        (float("nan"), "INFO"),
    ],
)
def test_a_number_that_is_none_of_tensorrts_is_one_of_loggings(number: object, severity: str) -> None:
    assert severity_of(number) == severity


class _Hostile:
    def __str__(self) -> str:
        raise RuntimeError("no text")

    def __int__(self) -> int:
        raise RuntimeError("no number")

    @property
    def name(self) -> str:
        raise RuntimeError("no name")


@pytest.mark.parametrize("severity", [3, None, _Hostile(), "x", b"\xff", [], {}])
@pytest.mark.parametrize(
    "message", [None, b"Original: \xff", _Hostile(), "\ud800", "\0", "", 7, "x" * 5_000_000]
)
def test_nothing_that_is_said_raises(spans: Spans, severity: object, message: object) -> None:
    with spans.tracer.start_as_current_span("build"):
        logger = TracingLogger()
        logger.log(severity, message)
        logger.info(message)
    assert logger.summary.lines + logger.lost == 2
    assert figures_of(spans["build"])["lines"] == logger.summary.lines


def test_it_is_a_handler_of_logging(spans: Spans) -> None:
    source = logging.getLogger("tests.a_custom_operator")
    source.setLevel(logging.DEBUG)
    source.propagate = False
    with TracingLogger() as logger, spans.tracer.start_as_current_span("build"):
        source.addHandler(logger)
        source.warning("Cannot fuse %s: %s", "A + B", "unsupported broadcast pattern")
        source.critical("over")
        source.debug("counted")
        source.info("%d arguments", "too", "many")
        try:
            raise ValueError("bad")
        except ValueError:
            source.exception("failed")
        source.removeHandler(logger)
    said = events_of(spans["build"])
    assert [event["severity"] for event in said] == ["WARNING", "INTERNAL_ERROR", "ERROR"]
    assert said[0]["kind"] == "fusion_refused"
    assert "ValueError: bad" in str(said[2]["message"])
    assert (logger.summary.lines, logger.lost) == (4, 1)


@pytest.mark.parametrize(
    ("level", "shown"),
    [
        ("error", ["e", "Original: 2 layers"]),
        ("warning", ["e", "w", "Original: 2 layers"]),
        ("info", ["e", "w", "i", "Original: 2 layers"]),
        ("verbose", ["e", "w", "i", "v", "Original: 2 layers"]),
    ],
)
def test_level_says_what_becomes_events_and_all_is_in_the_log(
    spans: Spans, level: str, shown: list[str]
) -> None:
    logger = TracingLogger(level=level)
    with spans.tracer.start_as_current_span("build"):
        logger.error("e")
        logger.warning("w")
        logger.info("i")
        logger.verbose("v")
        logger.verbose("Original: 2 layers")
    assert messages_of(spans["build"]) == shown
    assert "[I] i\n[V] v\n[V] Original: 2 layers\n" in str(figures_of(spans["build"])["log"])


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="level is 'error', 'warning', 'info' or 'verbose', not 'loud'"):
        TracingLogger(level="loud")
    with pytest.raises(ValueError, match="max_events is a number of events, not -1"):
        TracingLogger(max_events=-1)


@pytest.mark.parametrize("noise", ["w", "i", "e", "v", "refused", "fused"])
def test_notable_lines_have_room_however_many_others_there_are(spans: Spans, noise: str) -> None:
    says = {
        "w": (2, "slow"),
        "i": (3, "hello"),
        "e": (1, "bad"),
        "v": (4, "Running: ConvReluFusion on a"),
        "refused": (4, REFUSED),
        "fused": (4, "Fusing A with B"),
    }[noise]
    told = [
        (1, "the error"),
        (2, "the warning"),
        (4, "Cannot fuse C: late"),
        (4, "Fusing C with D"),
        (3, "RoPE configured"),
        (4, "Original: 2 layers"),
        (3, "Total Activation Memory: 5 bytes"),
        (3, "Engine generation completed in 2 seconds."),
    ]
    with spans.tracer.start_as_current_span("build"):
        logger = TracingLogger(level="verbose")
        for _ in range(5000):
            logger.log(*says)
        for line in told:
            logger.log(*line)
    span = spans["build"]
    assert span.dropped_events == 0
    assert len(span.events) <= 96
    kinds = [event["message"] for event in events_of(span)]
    own = {
        "w": "the warning",
        "i": "RoPE configured",
        "e": "the error",
        "refused": "Cannot fuse C: late",
        "fused": "Fusing C with D",
    }.get(noise)
    assert [message for _, message in told if message not in kinds] == ([own] if own else [])
    assert figures_of(span)["lines"] == 5008
    assert str(figures_of(span)["log"]).count("\n") == 5008


@pytest.mark.parametrize("limit", [0, 1, 3, 10, 128, 1000])
def test_no_event_is_dropped_whatever_the_limit(limit: int) -> None:
    spans = Spans(SpanLimits(max_events=limit))
    with spans.tracer.start_as_current_span("build"):
        logger = TracingLogger(level="verbose")
        for log in builder_logs.ALL.values():
            for line in log.splitlines() * 20:
                logger.log(len(line) % 5, line)
    assert spans["build"].dropped_events == 0
    assert len(spans["build"].events) <= limit * 3 // 4


def test_max_events_is_the_most(spans: Spans) -> None:
    with spans.tracer.start_as_current_span("build"):
        logger = TracingLogger(max_events=0)
        logger.error("bad")
    assert events_of(spans["build"]) == []
    assert figures_of(spans["build"])["errors"] == 1


def test_lines_of_threads_without_context_go_to_the_span_that_was_current_last(spans: Spans) -> None:
    logger = TracingLogger()
    for name in ("first", "second"):
        with spans.tracer.start_as_current_span(name):
            logger.info(f"begins {name}")
            thread = threading.Thread(target=logger.error, args=[f"in {name}"])
            thread.start()
            thread.join()
    assert messages_of(spans["first"]) == ["begins first", "in first"]
    assert messages_of(spans["second"]) == ["begins second", "in second"]


def test_lines_without_a_span_wait_for_the_first(spans: Spans) -> None:
    logger = TracingLogger()
    logger.error("early")
    with spans.tracer.start_as_current_span("first"):
        logger.info("hello")
    logger.info("between")
    with spans.tracer.start_as_current_span("second"):
        logger.info("again")
    assert messages_of(spans["first"]) == ["early", "hello"]
    early, hello = spans["first"].events
    assert early.timestamp < hello.timestamp
    assert figures_of(spans["second"])["log"] == "[I] between\n[I] again\n"


def test_lines_under_a_span_that_is_not_recorded_are_in_the_summary_alone(spans: Spans) -> None:
    unsampled = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False).get_tracer("test")
    with spans.tracer.start_as_current_span("build"):
        logger = TracingLogger()
        with unsampled.start_as_current_span("left out", context=Context()):
            logger.error("not here")
        logger.error("here")
    assert messages_of(spans["build"]) == ["here"]
    assert figures_of(spans["build"])["errors"] == 1
    assert logger.summary.errors == 2


def test_a_parent_on_another_machine_is_no_span_to_write_on(spans: Spans) -> None:
    logger = TracingLogger()
    with trace.use_span(trace.NonRecordingSpan(trace.SpanContext(1, 2, is_remote=True))):
        logger.error("early")
    with spans.tracer.start_as_current_span("build"):
        logger.info("hello")
    assert messages_of(spans["build"]) == ["early", "hello"]


def test_the_span_that_was_current_when_the_logger_was_made_is_remembered(spans: Spans) -> None:
    with spans.tracer.start_as_current_span("build"):
        logger = TracingLogger()
        with trace.use_span(trace.INVALID_SPAN):
            logger.info("from elsewhere")
    assert messages_of(spans["build"]) == ["from elsewhere"]


def test_under_goes_before_all_and_writes_when_it_is_left(spans: Spans) -> None:
    logger = TracingLogger()
    span = spans.tracer.start_span("build")
    with spans.tracer.start_as_current_span("another"):
        with logger.under(span):
            logger.info("a")
            with logger.under(span):
                logger.info("b")
            logger.info("c")
        assert isinstance(span, ReadableSpan)
        assert figures_of(span)["lines"] == 3
        logger.info("d")
    span.end()
    assert messages_of(spans["build"]) == ["a", "b", "c"]
    assert messages_of(spans["another"]) == ["d"]


def test_flush_puts_on_what_is_known_and_the_end_what_came_since(spans: Spans) -> None:
    logger = TracingLogger()
    with spans.tracer.start_as_current_span("build") as span:
        logger.info("a")
        assert isinstance(span, ReadableSpan)
        assert figures_of(span) == {}
        logger.flush()
        assert figures_of(span)["lines"] == 1
        logger.close()
        logger.info("b")
    assert figures_of(spans["build"])["log"] == "[I] a\n[I] b\n"


def test_two_loggers_under_one_span_both_have_their_say(spans: Spans) -> None:
    one, other = TracingLogger(), TracingLogger()
    with spans.tracer.start_as_current_span("build"):
        one.info("a")
        other.info("b")
    assert messages_of(spans["build"]) == ["a", "b"]


def test_a_span_is_not_kept_alive(spans: Spans) -> None:
    logger = TracingLogger()
    span = spans.tracer.start_span("abandoned")
    with logger.under(span):
        logger.info("a")
    reference = weakref.ref(span)
    del span
    gc.collect()
    assert reference() is None
    logger.info("b")
    logger.flush()


def test_after_the_end_lines_are_taken_and_harm_nothing(
    spans: Spans, caplog: pytest.LogCaptureFixture
) -> None:
    logger = TracingLogger()
    with spans.tracer.start_as_current_span("build"):
        logger.info("a")
    spans.provider.shutdown()
    logger.close()
    logger.error("late")
    logging.shutdown([weakref.ref(logger)])  # as at exit
    assert logger.summary.lines == 2
    assert caplog.records == []


def test_many_threads_lose_nothing(spans: Spans) -> None:
    logger = TracingLogger()

    def say(thread: int) -> None:
        for n in range(500):
            logger.log(4, f"Fusing a{thread} with b{n}")

    with spans.tracer.start_as_current_span("build"):
        logger.info("begins")
        threads = [threading.Thread(target=say, args=[n]) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    figures = figures_of(spans["build"])
    assert (figures["lines"], figures["fusions_made"]) == (4001, 4000)
    assert len(set(str(figures["log"]).splitlines())) == 4001


def test_a_forked_child_begins_anew_even_while_the_lock_is_held(spans: Spans) -> None:
    logger = TracingLogger()
    with spans.tracer.start_as_current_span("build"):
        logger.info("parent's")
        with logger._accounts.lock, forked() as child:
            if child.is_child:
                logger.warning("child's")
                logger.flush()
                log = figures_of(trace.get_current_span())["log"]  # type: ignore[arg-type]
                child.ends(log == "[W] child's\n")
        logger.info("after")
    assert figures_of(spans["build"])["log"] == "[I] parent's\n[I] after\n"


def test_a_line_in_the_middle_of_a_line_is_put_off(spans: Spans) -> None:
    """The garbage collector and signal handlers run between any two instructions of ours."""
    logger = TracingLogger()
    with spans.tracer.start_as_current_span("build"):
        logger.info("a")
        with busy, logger._accounts.lock:  # as in the middle of a line
            logger.info("b")
            assert logger._tally.summary().lines == 1
        assert logger.summary.lines == 2
    assert figures_of(spans["build"])["log"] == "[I] a\n[I] b\n"


def test_a_handler_of_the_root_logger_does_not_feed_itself(spans: Spans) -> None:
    logger = TracingLogger()
    root = logging.getLogger()
    root.addHandler(logger)
    try:
        with spans.tracer.start_as_current_span("build") as span:
            logging.getLogger("tests").warning("a")
            span.end()
            logging.getLogger("tests").warning("b")
    finally:
        root.removeHandler(logger)
    assert messages_of(spans["build"]) == ["a"]
    assert logger.summary.warnings in (2, 3)  # the SDK may say that the span has ended


def test_a_log_longer_than_is_kept_has_a_mark_where_it_was_cut() -> None:
    text = LogText(most_beginning=200_000, most_end=300_000)
    lines = [f"[V] line {n} {'x' * 100}" for n in range(20_000)]
    for line in lines:
        text.add(line)
    kept = text.text().splitlines()
    marks = [n for n, line in enumerate(kept) if line.startswith("[… ")]
    assert len(marks) == 1
    before, after = kept[: marks[0]], kept[marks[0] + 1 :]
    assert before == lines[: len(before)]
    assert after == lines[-len(after) :]
    cut = lines[len(before) : -len(after)]
    assert kept[marks[0]] == (
        f"[… {len(cut)} lines of {sum(map(len, cut)) + len(cut)} characters are cut here …]"
    )
    assert 300_000 < len(text.text()) <= 500_100


def _stand_in() -> tuple[ModuleType, list[object]]:
    """A module like ``tensorrt``: its interface has a metaclass, and must be constructed."""
    constructed: list[object] = []

    class Meta(type):
        pass

    class ILogger(metaclass=Meta):
        def __init__(self) -> None:
            constructed.append(self)

        def log(self, severity: object, msg: str) -> None:
            raise NotImplementedError

    module = ModuleType("tensorrt")
    module.ILogger = ILogger  # type: ignore[attr-defined]
    return module, constructed


def test_where_tensorrt_is_imported_it_is_one_of_its_loggers(monkeypatch: pytest.MonkeyPatch) -> None:
    module, constructed = _stand_in()
    monkeypatch.setitem(sys.modules, "tensorrt", module)

    class Mine(TracingLogger):
        pass

    both: type[TracingLogger] = type("Both", (TracingLogger, module.ILogger), {})
    for cls in (TracingLogger, Mine, both):
        logger = cls(level="error", max_events=3)
        assert isinstance(logger, module.ILogger)
        assert isinstance(logger, cls)
        assert type(logger) is type(cls())
        assert logger in constructed
        logger.log(3, "a")
        assert logger.summary.lines == 1


def test_a_tensorrt_whose_logger_has_no_constructor_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(self: object) -> None:
        raise TypeError("ILogger: No constructor defined!")

    module = ModuleType("tensorrt")
    module.ILogger = type("ILogger", (), {"__init__": none})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tensorrt", module)
    logger = TracingLogger()
    logger.info("a")
    assert logger.summary.lines == 1


def test_the_real_tensorrt_takes_it(spans: Spans) -> None:
    tensorrt = pytest.importorskip("tensorrt")
    logger = TracingLogger()
    with spans.tracer.start_as_current_span("build"):
        with contextlib.suppress(TypeError):  # there is none without a GPU
            tensorrt.Builder(logger)
    assert isinstance(logger, tensorrt.ILogger)
    assert logger.summary.lines > 0


def test_a_backend_gets_a_preview_of_the_log() -> None:
    memory = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(LinkedSpanExporter(memory, preview_chars=10)))
    with provider.get_tracer("test").start_as_current_span("build"):
        TracingLogger().info("x" * 100_000)
    (span,) = memory.get_finished_spans()
    assert figures_of(span)["log"] == "[I] xxxxxx"
    assert figures_of(span)["log.size"] == 100_005


def test_in_a_tree_the_index_has_the_events_the_figures_and_the_whole_log(tmp_path: Path) -> None:
    provider = configure(
        tmp_path, tracer_provider=TracerProvider(span_limits=SpanLimits(max_attribute_length=100))
    )
    with KernelTracer("attention", "1", provider) as tracer, tracer.verifier(framework="torch") as check:
        logger = TracingLogger()
        for line in builder_logs.TRTEXEC_10.splitlines() * 10:
            logger.log(4, line)
        logger.warning(REFUSED)
        check.record(True)
    provider.shutdown()
    store = Store(str(tmp_path))
    found = [span for span in indexed_spans(store, Passed()) if span.name == "VERIFY" and span.end_time]
    assert len(found) == 1
    given = whole_attributes(found[0], store, Passed())
    text = given["kernel_trace.builder.log"]
    assert isinstance(text, str)
    assert len(text.splitlines()) == 261
    assert given["kernel_trace.builder.fusions_refused"] == 1
    assert any(event.name == "kernel_trace.builder" for event in found[0].events)


class TestLevels:
    """KERNEL_TRACE_LEVEL says what is kept of lines; figures are of all."""

    SAID = ((0, "out of order"), (1, "no engine"), (2, REFUSED), (3, "a layer"), (4, "a tactic"))

    @pytest.mark.parametrize(
        ("level", "events", "kept"),
        [
            ("error", 2, 2),
            ("warn", 3, 3),
            ("info", 4, 5),
            ("debug", 5, 5),
            ("info,builder=error", 2, 2),
            ("serving", 3, 3),
        ],
    )
    def test_the_higher_the_more(
        self, level: str, events: int, kept: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("KERNEL_TRACE_LEVEL", level)
        span = self._said()
        assert len([event for event in span.events if event.name == "kernel_trace.builder"]) == events
        assert span.attributes is not None
        assert len(str(span.attributes[PREFIX + "log"]).splitlines()) == kept
        assert span.attributes[PREFIX + "lines"] == len(self.SAID)
        assert span.attributes[PREFIX + "fusions_refused"] == 1

    def test_off_puts_nothing_on_spans(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("KERNEL_TRACE_LEVEL", "builder=off")
        span = self._said()
        assert not span.events
        assert not span.attributes

    def test_the_argument_comes_first(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("KERNEL_TRACE_LEVEL", "info")
        assert len(self._said(level="error").events) == 3  # a refused fusion tells something

    def test_a_program_may_ask_for_what_a_gate_needs(self) -> None:
        logger = TracingLogger()
        for severity, message in [*self.SAID, (4, "ConvReluFusion: Fusing conv1 with relu1")]:
            logger.log(severity, message)
        assert logger.fusion_count == 1
        assert logger.warnings == ["out of order", "no engine", REFUSED]

    def _said(self, level: str | None = None) -> ReadableSpan:
        provider, done = TracerProvider(shutdown_on_exit=False), InMemorySpanExporter()
        provider.add_span_processor(SimpleSpanProcessor(done))
        logger = TracingLogger(level=level)
        with provider.get_tracer("t").start_as_current_span("build"):
            for severity, message in self.SAID:
                logger.log(severity, message)
        [span] = done.get_finished_spans()
        return span
