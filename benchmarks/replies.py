"""How the time to parse a reply grows with its length: linearly, whatever is in it.

python benchmarks/replies.py
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable

from otel_kernel_trace.reply import document

ANSWER = json.dumps({"code": "def f():\n    return {}\n", "description": "It returns."})

SHAPES: dict[str, Callable[[int], str]] = {
    "prose with one fenced block": lambda n: f"{'Tile it {so}. ' * (n // 14)}\n```json\n{ANSWER}\n```\n",
    "one long object": lambda n: json.dumps({"code": "x = 1\n" * (n // 7), "description": ""}),
    "unclosed braces": lambda n: "{" * n,
    "unclosed braces and quotes": lambda n: '{"' * (n // 2),
    "deep nesting": lambda n: '{"a":' * (n // 6) + "1" + "}" * (n // 6),
    "deep nesting, unclosed": lambda n: '{"a":' * (n // 5),
    "many JSON objects": lambda n: '{"a": 1, "b": [1, 2]}\n' * (n // 22),
    "many answers": lambda n: f"{ANSWER}\n" * (n // len(ANSWER)),
    "escaped quotes": lambda n: '{"' + '\\"' * (n // 2),
    "backslashes": lambda n: '{"a": "' + "\\" * n,
    "strings in two readings": lambda n: '{"a":"{",":":",' * (n // 14),
}


def seconds(reply: str) -> float:
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        document(reply)
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def main() -> None:
    print("| reply | 100 kB, ms | 1 MB, ms | ratio |\n|---|---:|---:|---:|")
    for name, shape in SHAPES.items():
        short, long = seconds(shape(100_000)), seconds(shape(1_000_000))
        print(f"| {name} | {short * 1e3:.1f} | {long * 1e3:.1f} | {long / short:.1f} |")


if __name__ == "__main__":
    main()
