"""How long a report takes to make and to open.

    pip install '.[cli]' playwright
    python benchmarks/reporting.py [--steps 1000] [--megabytes 40] [--tasks 10000] [--runs 5]

A task of many steps and much text, and a tree of many tasks, are generated. For each it
prints the seconds of ``otel-kernel-trace report``, a process of its own; the size of the
page; and the seconds until Chromium, started and idle, shows the page ready to use. These
are medians. For the tree also how long the slowest of 120 pictures took while its
overview was scrolled from end to end.

The texts are of words that are drawn at random, so that they compress as texts do.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from otel_kernel_trace import ActionType, Trace

_WORDS = re.findall(
    r"\w+",
    """
    block tile warp shared memory load store mask offsets reduce accumulate stride axis kernel grid thread
    register spill occupancy coalesced vector half float tensor pointer synchronise prefetch unroll epilogue
    swizzle bank conflict latency throughput divide multiply exponent softmax row column batch head query
    """,
)
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") or ""


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--megabytes", type=int, default=40)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--keep", type=Path, help="generate here, and leave it")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder: Path = given.keep or Path(scratch)
        deep, wide = folder / "deep", folder / "wide"
        if not deep.exists():
            make_deep(deep, given.steps, given.megabytes * 1_000_000)
        measure(f"a task of {given.steps} steps and {given.megabytes} MB of text", deep, folder, given.runs)
        if not wide.exists():
            make_wide(wide, given.tasks)
        measure(f"a tree of {given.tasks} tasks", wide, folder, given.runs, is_scrolled=True)


def make_deep(log_dir: Path, steps: int, size: int) -> None:
    """One task: every other step a Coder's with prompt, reasoning and code, the others verifications."""
    draw = random.Random(1)
    trace = Trace("attention", "1", log_dir=str(log_dir))
    each = 2 * size // steps
    code = [line_of(draw) for _ in range(each // 5 // 40)]
    for attempt in range(steps // 2):
        for _ in range(5):
            code[draw.randrange(len(code))] = line_of(draw)
        trace.insert_designer_or_coder_record(
            res="\n".join(code),
            prompt=text_of(draw, each // 2),
            reasoning=text_of(draw, each // 5),
            action_type=ActionType.FIX_CODER if attempt else ActionType.DO_CODER,
        )
        has_passed = attempt % 3 == 2
        trace.insert_verifier_record(
            str(has_passed), text_of(draw, each // 10), profile=f'{{"speedup": {1 + attempt / 100}}}'
        )
    trace.close()


def make_wide(log_dir: Path, tasks: int) -> None:
    """Many tasks of four steps with short texts."""
    draw = random.Random(2)
    for number in range(tasks):
        trace = Trace(f"op_{number % 100}", str(number), log_dir=str(log_dir))
        for attempt in range(2):
            kind = ActionType.FIX_CODER if attempt else ActionType.DO_CODER
            trace.insert_designer_or_coder_record(
                res=text_of(draw, 300), prompt=text_of(draw, 300), reasoning="", action_type=kind
            )
            has_passed = attempt == 1 and number % 4 > 0
            log = "" if has_passed else f"Traceback\nValueError: {line_of(draw)}"
            trace.insert_verifier_record(str(has_passed), log, profile='{"speedup": 1.5}')
        trace.close()


def line_of(draw: random.Random) -> str:
    """Some 40 characters."""
    return " ".join(draw.choices(_WORDS, k=6))


def text_of(draw: random.Random, size: int) -> str:
    """Lines of words."""
    return "\n".join(line_of(draw) for _ in range(max(1, size // 43)))


def measure(what: str, log_dir: Path, folder: Path, runs: int, *, is_scrolled: bool = False) -> None:
    """Make a report and open it, several times."""
    output = folder / "report.html"
    command = [sys.executable, "-c", "from otel_kernel_trace.cli import main; main()", "report", str(log_dir)]
    made = []
    for _ in range(runs):
        begin = time.perf_counter()
        subprocess.run([*command, "-o", str(output)], check=True, stderr=subprocess.DEVNULL)
        made.append(time.perf_counter() - begin)
    print(f"{what}:")
    print(f"  report  {statistics.median(made):6.2f} s  ({min(made):.2f} to {max(made):.2f})")
    print(f"  page    {output.stat().st_size / 1e6:6.1f} MB")
    if not CHROMIUM:
        print("  no Chromium is there to open it")
        return
    opened, slowest = open_page(output, runs, is_scrolled=is_scrolled)
    print(f"  usable  {statistics.median(opened):6.2f} s  ({min(opened):.2f} to {max(opened):.2f})")
    if is_scrolled:
        print(f"  scroll  {slowest:6.0f} ms for the slowest picture")


def open_page(page_file: Path, runs: int, *, is_scrolled: bool) -> tuple[list[float], float]:
    """Seconds until the page is usable, and milliseconds of the slowest picture in scrolling."""
    from playwright.sync_api import sync_playwright

    opened = []
    slowest = 0.0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for _ in range(runs):
            page = browser.new_page(viewport={"width": 1400, "height": 900})
            begin = time.perf_counter()
            page.goto(page_file.as_uri(), wait_until="commit")
            page.wait_for_selector("html[data-ready]", state="attached", timeout=60_000)
            page.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
            opened.append(time.perf_counter() - begin)
            if is_scrolled:
                slowest = max(slowest, float(page.evaluate(_SCROLL)))
            page.close()
        browser.close()
    return opened, slowest


_SCROLL = """async () => {
  const grid = document.querySelector('.grid');
  let slowest = 0, last = performance.now();
  for (let at = 0; at <= 120; at++) {
    grid.scrollTop = (grid.scrollHeight - grid.clientHeight) * at / 120;
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    if (at > 2) slowest = Math.max(slowest, now - last);
    last = now;
  }
  return slowest;
}"""


if __name__ == "__main__":
    main()
