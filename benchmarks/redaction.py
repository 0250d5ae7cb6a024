"""What redaction costs where there is no secret, paired with the same export without it.

    pip install .
    python benchmarks/redaction.py [--records 400] [FOLDER ...]

Every record is exported twice in a row, with and without redaction, in alternating order, to
two trees. The table has the medians of the times, and the median of the pairs' ratios. Three sorts
of prompts of 20 kB: the same but for its first line; one of which a fifth is new each time, as an
agent's is that gets a document, a kernel and the last error; and one that is all new.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider

from otel_kernel_trace import KernelTraceSpanExporter, attributes
from otel_kernel_trace import record as some_code

_SIZE = 20_000
_spans = TracerProvider(shutdown_on_exit=False).get_tracer("benchmark")
_CODE = [line for line in Path(some_code.__file__).read_text(encoding="utf-8").splitlines() if line]


def _new_code(step: int, size: int) -> str:
    """Lines of code in an order that has not been there, each with something new in it."""
    chosen = random.Random(step)
    lines: list[str] = []
    while size > 0:
        lines.append(f"{chosen.choice(_CODE)}  # {chosen.randrange(10**6)}\n")
        size -= len(lines[-1])
    return "".join(lines)


_SAME = _new_code(-1, _SIZE)


def _same(step: int) -> str:
    return f"Attempt {step}.\n{_SAME}"


def _a_fifth_new(step: int) -> str:
    return _SAME[: _SIZE * 4 // 5] + _new_code(step, _SIZE // 5)


def _all_new(step: int) -> str:
    return _new_code(step, _SIZE)


PROMPTS: dict[str, Callable[[int], str]] = {
    "the same but for a line": _same,
    "a fifth is new": _a_fifth_new,
    "all new": _all_new,
}


def action_span(step: int, prompt: str) -> ReadableSpan:
    """A finished span to record, made off the clock."""
    given = {
        **attributes.of_action("swish", "1", step, "DO_CODER"),
        **attributes.of_parts({"prompt": prompt}),
    }
    span = _spans.start_span("DO_CODER", attributes=given)
    span.end()
    assert isinstance(span, ReadableSpan)
    return span


def microseconds(exporter: KernelTraceSpanExporter, span: ReadableSpan) -> float:
    begin = time.perf_counter_ns()
    exporter.export((span,))
    return (time.perf_counter_ns() - begin) / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description="What redaction costs where there is no secret.")
    parser.add_argument("--records", type=int, default=400, help="records of each sort")
    parser.add_argument("folders", nargs="*", type=Path, help="where to write, by default tmpfs and disk")
    arguments = parser.parse_args()
    for folder in arguments.folders or [Path("/dev/shm"), Path(tempfile.gettempdir())]:
        print(f"| prompt of 20 kB, in {folder} | without, µs | with, µs | ratio |\n|---|---:|---:|---:|")
        for name, prompt in PROMPTS.items():
            folder.mkdir(parents=True, exist_ok=True)
            root = Path(tempfile.mkdtemp(dir=folder))
            plain = KernelTraceSpanExporter(root / "plain", redact=False)
            redacting = KernelTraceSpanExporter(root / "redacted", redact=True)
            pairs = []
            for step in range(1, arguments.records + 1):
                text = prompt(step)
                spans = action_span(step, text), action_span(step, text)
                if step % 2:
                    one = microseconds(plain, spans[0])
                    two = microseconds(redacting, spans[1])
                else:
                    two = microseconds(redacting, spans[1])
                    one = microseconds(plain, spans[0])
                pairs.append((one, two))
            assert not redacting.redactions.secrets
            shutil.rmtree(root)
            pairs = pairs[arguments.records // 10 :]
            without, with_ = (statistics.median(each) for each in zip(*pairs, strict=True))
            ratio = statistics.median(two / one for one, two in pairs)
            print(f"| {name} | {without:.0f} | {with_:.0f} | {ratio:.3f} |")
        print()


if __name__ == "__main__":
    main()
