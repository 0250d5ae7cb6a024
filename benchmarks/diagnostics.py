"""How long a log takes to be read: CPU seconds for ten megabytes of each shape, real logs and hostile ones.

python benchmarks/diagnostics.py [--megabytes 10]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

from otel_kernel_trace.diagnostics import parse_diagnostics
from otel_kernel_trace.resources import parse_resources

LOGS = Path(__file__).parent.parent / "tests" / "logs"

HOSTILE = {
    "tracebacks that only begin": "Traceback (most recent call last):\n",
    "one long line": "x",
    "error: in one line": "error: ",
    "error: in many lines": "error: \n",
    "line ends": "\n",
    "braces": "{",
    "braces, a line each": "{\n",
    "quotes": '"',
    "JSON that only begins": '[{"kind"',
    "JSON that only begins, a line each": '[{"kind"\n',
    "JSON, ever deeper": '[{"a":',
    "colours": "\x1b[",
    "colons before an error": ":" * 1990 + " error: x\n",
    "frames": '  File "x.py", line 3, in f\n    f()\n',
    "quoted names": "a.c:1:2: error: " + "' name '" * 200 + "\n",
}


def shapes(length: int) -> Iterator[tuple[str, str]]:
    """Names and logs of about a number of characters."""
    for path in sorted(LOGS.glob("*.log")):
        text = path.read_text(encoding="utf-8")
        yield path.stem, text * (length // len(text) + 1)
    for name, unit in HOSTILE.items():
        yield name, unit * (length // len(unit) + 1)
    lines = (f"f{n}.cpp:{n}:7: error: 'n{n}' was not declared in this scope\n" for n in range(length // 60))
    yield "errors, each another, a line each", "".join(lines)


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--megabytes", type=float, default=10.0)
    length = int(arguments.parse_args().megabytes * 1e6)
    parse_diagnostics("")  # imports the parsers
    print("| log | MB | diagnostics | parse_diagnostics, s | parse_resources, s |\n|---|---:|---:|---:|---:|")
    for name, text in shapes(length):
        begin = time.process_time()
        found = len(parse_diagnostics(text))
        between = time.process_time()
        parse_resources(text)
        end = time.process_time()
        print(
            f"| {name} | {len(text) / 1e6:.1f} | {found} | {between - begin:.2f} | {end - between:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
