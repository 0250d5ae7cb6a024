"""The page: what a person sees and does in a browser, and what a server keeps to itself."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from opentelemetry.sdk.trace import TracerProvider

import tests.browser
from otel_kernel_trace import ActionType, KernelTracer, Trace, configure

pytest.importorskip("jinja2")
pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from otel_kernel_trace.page import blocks, hosts, shown
from otel_kernel_trace.page.document import BLOCKS, SCRIPTS, STYLES, document
from otel_kernel_trace.reader import Tree

if TYPE_CHECKING:
    from playwright.sync_api import Page

browser = tests.browser.browser
opener = tests.browser.opener
Opener = tests.browser.Opener

_COMMAND = [sys.executable, "-c", "from otel_kernel_trace.cli import main; main()"]
_PAGE = Path(blocks.__file__).parent
_ANSWERING = 30.0

_FIRST = "import numpy as np\n\n\ndef kernel(x):\n    return x * exp(-x)\n"
_SECOND = "import numpy as np\n\n\ndef kernel(x):\n    return x / (1 + np.exp(-x))\n"
_LOG = "Traceback (most recent call last):\n  File 'k.py', line 5\nNameError: name 'exp' is not defined\n"


def _reply(code: str, comment: str) -> str:
    return json.dumps({"code": code, "description": comment})


def _write_swish(log_dir: Path, task: str = "7") -> None:
    """A task as they are: a sketch, judged, a kernel that fails, and one that does not."""
    provider = TracerProvider(shutdown_on_exit=False)
    configure(log_dir, tracer_provider=provider)
    model: dict[str, str | int] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "some-model",
        "gen_ai.usage.input_tokens": 40,
    }
    with KernelTracer("swish", task, provider) as tracer:
        with tracer.designer(prompt="Sketch swish.") as design:
            with provider.get_tracer("client").start_as_current_span("chat some-model", attributes=model):
                pass
            design.record(result="one pass", reasoning="Elementwise, so one pass.")
        with tracer.conductor(prompt="Is the sketch right?", judges=design) as check:
            check.record("It is right.")
        with tracer.coder(prompt="Write swish.\n" * 50) as code:
            code.record(_reply(_FIRST, "the first"), "Straight from the sketch.")
        with tracer.verifier(framework="numpy", impl_type="numba") as verification:
            verification.record(False, _LOG, reference="def reference(x): ...", implementation=_FIRST)
        with tracer.conductor(prompt="Why did it fail?", judges=verification) as why:
            why.record("The needle: exp is not imported.")
        with tracer.coder(prompt="Mend it.", action_type=ActionType.FIX_CODER) as fix:
            fix.record(_reply(_SECOND, "with numpy's exp"), "It needs np.exp.")
        with tracer.verifier(framework="numpy", impl_type="numba") as verification:
            verification.record(True, "", {"speedup": 2.5, "gen_time_us": 12.5}, implementation=_SECOND)
    provider.shutdown()


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """A tree of two tasks, one of which failed."""
    log_dir = tmp_path / "kernels"
    _write_swish(log_dir)
    with closing(Trace("gelu", "3", log_dir)) as trace:
        trace.insert_designer_or_coder_record(_reply("pass\n", ""), "Write gelu.", "", ActionType.DO_CODER)
        trace.insert_verifier_record("False", "k.cu(3): error: expected a ';'\nmore", "")
    return log_dir


def _run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*_COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
        check=False,
    )


def _report(log_dir: Path, *arguments: str) -> str:
    """The address of a report."""
    output = log_dir.parent / "report.html"
    done = _run("report", log_dir, *arguments, "-o", output)
    assert done.returncode == 0, done.stderr
    return output.as_uri()


@dataclass
class _Served:
    url: str
    port: int
    process: subprocess.Popen[str]


@contextmanager
def _served(log_dir: Path, *arguments: str) -> Iterator[_Served]:
    process = subprocess.Popen(
        [*_COMMAND, "serve", str(log_dir), "--port", "0", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[0]
        yield _Served(url, int(url.rstrip("/").rpartition(":")[2]), process)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=_ANSWERING)


def _asked(
    served: _Served, path: str, method: str = "GET", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=_ANSWERING)
    connection.putrequest(method, path, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, content


# What is behind it


def test_texts_are_packed_once_and_found_again(tmp_path: Path) -> None:
    with (tmp_path / "blocks").open("wb") as file, blocks.BlockWriter(file) as writer:
        first, again = writer.add(b"text"), writer.add(b"text")
        other = writer.add(b"other")
        large = writer.add(b"x" * blocks.BLOCK_BYTES)
        empty = writer.add(b"")
    assert first == again == blocks.Ref(0, 0, 4)
    assert other == blocks.Ref(0, 4, 5)
    assert large == blocks.Ref(1, 0, blocks.BLOCK_BYTES)
    assert empty.size == 0
    elements = (tmp_path / "blocks").read_bytes().splitlines()
    assert len(elements) == 2
    assert all(
        re.fullmatch(rb'<script type="[a-z/-]+" id="b[01]">[A-Za-z0-9+/=]+</script>', e) for e in elements
    )


def test_model_calls_stand_in_the_actions_that_made_them(log_dir: Path) -> None:
    task = shown.task_of(Tree(log_dir).task("swish", "7"), lambda action, part: {"name": part.name})
    assert [action.get("calls", []) != [] for action in task["actions"]] == [True] + [False] * 6
    assert task["calls"] == []
    assert [attempt.get("passed") for attempt in task["attempts"]] == [False, True]
    json.loads(json.dumps(task, allow_nan=False))


@pytest.mark.parametrize(
    ("host", "header", "is_allowed"),
    [
        ("127.0.0.1", "127.0.0.1:8000", True),
        ("127.0.0.1", "LOCALHOST:8000", True),
        ("127.0.0.1", "[::1]:8000", True),
        ("127.0.0.1", "evil.example:8000", False),
        ("127.0.0.1", "localhost:8001", False),
        ("127.0.0.1", "localhost", False),
        ("127.0.0.1", "localhost.evil.example:8000", False),
        ("127.0.0.1", "192.0.2.7:8000", False),
        ("127.0.0.1", "", False),
        ("127.0.0.1", "forwarded:9000", True),
        ("gpu.example", "gpu.example:8000", True),
        ("::", "[2001:db8::1]:8000", True),
        ("0.0.0.0", "192.0.2.7:8000", True),
        ("0.0.0.0", "evil.example:8000", False),
        ("0.0.0.0", "192.0.2.7:8001", False),
    ],
)
def test_a_server_knows_its_names(host: str, header: str, is_allowed: bool) -> None:
    allowed = hosts.allowed_hosts(host, 8000, ["forwarded:9000"])
    assert hosts.is_allowed(header, allowed, host, 8000) is is_allowed


def test_without_a_port_only_where_none_is_needed() -> None:
    assert hosts.is_allowed("localhost", hosts.allowed_hosts("127.0.0.1", 80), "127.0.0.1", 80)


def test_what_others_wrote_is_what_its_list_says() -> None:
    listed = dict(
        re.findall(
            r"^\| `([^`]+)` .*\| `([0-9a-f]{64})` \|$", (_PAGE / "vendor/README.md").read_text(), re.MULTILINE
        )
    )
    there = {path.name for path in (_PAGE / "vendor").iterdir()} - {"README.md"}
    assert there == set(listed)
    for name, digest in listed.items():
        assert hashlib.sha256((_PAGE / "vendor" / name).read_bytes()).hexdigest() == digest, name


def test_the_page_may_do_little() -> None:
    report = document("</title><script>", {"title": "</script><script>"}, is_served=False)
    served = document("tree", {}, is_served=True)
    assert "<title>&lt;/title&gt;" in report.html
    assert "</script><script>" not in report.html.partition('id="config"')[2].partition("\n")[0]
    assert "default-src 'none'" in report.policy
    assert "unsafe" not in report.policy
    assert "connect-src" not in report.policy
    assert "connect-src 'self'" in served.policy
    assert report.html.count(BLOCKS) == 1
    there = [path for folder in ("scripts", "styles") for path in (_PAGE / folder).iterdir()]
    assert sorted(path.relative_to(_PAGE).as_posix() for path in there) == sorted([*SCRIPTS, *STYLES])
    own = "".join((_PAGE / name).read_text() for name in SCRIPTS)
    assert not re.search(
        r"innerHTML\s*=|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", own
    )
    assert not re.search(r"\son\w+=|javascript:", (_PAGE / "page.html").read_text())


# The command


def test_a_report_is_one_file_that_names_no_folder(log_dir: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [*_COMMAND, "report", str(log_dir)], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stderr.startswith("report.html: 2 tasks with ")
    content = (tmp_path / "report.html").read_text()
    assert str(tmp_path) not in content
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    assert not re.search(r'(src|href)="(https?:|//|/)', content.partition("<script>")[0])


def test_a_report_goes_to_stdout_and_of_one_task(log_dir: Path) -> None:
    done = _run("report", log_dir, "swish", "7", "-o", "-")
    assert done.returncode == 0
    assert done.stdout.startswith("<!doctype html>")
    assert done.stderr.startswith("1 task with ")


@pytest.mark.parametrize("arguments", [["nowhere"], ["swish", "99"]])
def test_what_is_not_there_is_one_sentence(log_dir: Path, arguments: list[str]) -> None:
    done = _run("report", log_dir, *arguments, "-o", log_dir.parent / "r.html")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "there is no" in done.stderr
    assert not (log_dir.parent / "r.html").exists()


def test_a_folder_that_is_no_tree_is_refused(tmp_path: Path) -> None:
    done = _run("report", tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "there is no record in" in done.stderr


@pytest.mark.parametrize(
    ("command", "missing"), [("report", "jinja2"), ("serve", "uvicorn"), ("serve", "starlette")]
)
def test_without_the_extra_it_says_how_to_get_it(
    log_dir: Path, tmp_path: Path, command: str, missing: str
) -> None:
    hidden = f"import sys; sys.modules['{missing}'] = None\nfrom otel_kernel_trace.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", hidden, command, str(log_dir)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "pip install 'otel-kernel-trace[cli]'" in done.stderr


def test_an_interrupted_report_leaves_nothing(log_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/report.html").write_text("the one before")
    interrupted = (
        "from otel_kernel_trace.page import report\n"
        "def interrupted(*_, **__): raise KeyboardInterrupt\n"
        "report.document = interrupted\n"
        "from otel_kernel_trace.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", interrupted, "report", str(log_dir)],
        cwd=tmp_path / "out",
        capture_output=True,
        check=False,
    )
    assert done.returncode == 130
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["report.html"]
    assert (tmp_path / "out/report.html").read_text() == "the one before"


def test_what_is_too_much_is_left_out_and_said(log_dir: Path) -> None:
    big = Trace("big", "1", log_dir)
    for _ in range(6):
        big.insert_designer_or_coder_record(os.urandom(400_000).hex(), "p", "", ActionType.DO_CODER)
    big.close()
    done = _run("report", log_dir, "--most", "1", "-o", log_dir.parent / "r.html")
    assert done.returncode == 0
    assert "left out at --most 1 MB" in done.stderr


# In a browser


@pytest.mark.browser
def test_from_all_tasks_to_what_a_kernel_was(log_dir: Path, opener: Opener) -> None:
    page: Page = opener(_report(log_dir)).page
    rows = page.locator(".row")
    assert rows.count() == 2
    assert "k.cu:3: expected a ';'" in rows.nth(0).inner_text()
    assert "2.50×" in rows.nth(1).inner_text()
    page.get_by_role("row", name="swish").click()
    page.wait_for_selector(".task-view")
    assert page.locator(".task-head h1").inner_text() == "swish"
    assert page.locator(".steps li").count() == 5
    assert page.locator(".first-error").inner_text().endswith("NameError: name 'exp' is not defined")
    assert page.locator(".u-wrap canvas").count() == 1
    assert page.locator("canvas.timeline").count() == 1
    assert {"model", "verify", "waiting", "unaccounted"} <= set(page.locator(".legend").inner_text().split())
    # The sketch, the model call in it, and the judgement below it.
    assert "some-model" in page.locator(".action.designer .calls").inner_text()
    assert "It is right." in page.locator(".action.judgement").inner_text()


@pytest.mark.browser
def test_what_changed_between_two_attempts(log_dir: Path, opener: Opener) -> None:
    page: Page = opener(_report(log_dir) + "#/swish/7/4").page
    page.wait_for_selector(".diff .add")
    assert page.locator(".diff .del").all_inner_texts()[0].endswith("    return x * exp(-x)")
    assert page.locator(".diff .add").all_inner_texts()[0].endswith("    return x / (1 + np.exp(-x))")
    assert "with numpy's exp" in page.locator(".comment").inner_text()
    page.get_by_role("button", name="Code", exact=True).click()
    page.wait_for_selector(".numbered .hljs-keyword")
    assert "return x / (1 + np.exp(-x))" in page.locator(".numbered").inner_text()
    assert page.locator(".turn").inner_text() == "Verified in step 5: passed, 2.50×"
    page.locator(".turn a").click()
    page.wait_for_selector(".verdict.pass")
    assert "2.50× as fast as the reference" in page.locator(".verdict").inner_text()
    assert "gen_time_us" in page.locator(".profile").inner_text()


@pytest.mark.browser
def test_parts_open_and_close(log_dir: Path, opener: Opener) -> None:
    page: Page = opener(_report(log_dir) + "#/swish/7/3").page
    page.wait_for_selector(".verdict.fail")
    assert "name 'exp' is not defined" in page.locator('[data-part="error_log"]').inner_text()
    reference = page.locator('[data-part="source.reference"]')
    assert "def reference" not in reference.inner_text()
    reference.get_by_role("button", name="Reference").click()
    page.wait_for_selector('[data-part="source.reference"].open pre')
    assert "def reference" in reference.inner_text()
    reference.get_by_role("button", name="Reference").click()
    assert reference.locator("pre").count() == 0
    # A long text is shown by its beginning.
    page.goto(page.url.partition("#")[0] + "#/swish/7/2")
    prompt = page.locator('[data-part="prompt"]')
    prompt.get_by_role("button", name="Show all 50 lines").click()
    assert prompt.locator("pre").inner_text().count("Write swish.") == 50


@pytest.mark.browser
def test_a_link_leads_to_a_step_and_a_text(log_dir: Path, opener: Opener) -> None:
    url = _report(log_dir)
    page: Page = opener(f"{url}#/swish/7/3/source.implementation").page
    page.wait_for_selector('[data-part="source.implementation"].open.flash')
    link = page.locator('[data-part="ANALYZE_ERROR:result"] .part-tools a')
    assert link.get_attribute("href") == "#/swish/7/3/ANALYZE_ERROR%3Aresult"
    assert page.locator(".steps [aria-current]").get_attribute("data-step") == "3"
    other: Page = opener(f"{url}#/swish/7/3/ANALYZE_ERROR%3Aresult").page
    other.wait_for_selector('[data-part="ANALYZE_ERROR:result"].flash')
    for wrong in ("#/swish/8", "#/swish/7/99", "#/%E0%A4%A/7", "#/swish/7/x/y?q=%", "#//////"):
        strange: Page = opener(url + wrong).page
        assert strange.locator("main").inner_text() != ""


@pytest.mark.browser
def test_search_finds_every_text(log_dir: Path, opener: Opener) -> None:
    page: Page = opener(_report(log_dir)).page
    page.keyboard.press("/")
    page.keyboard.type("NEEDLE")
    page.wait_for_selector(".hit")
    assert page.locator(".hit").count() == 1
    assert "3 ANALYZE_ERROR · Result" in page.locator(".hit .where").inner_text()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_selector('[data-part="ANALYZE_ERROR:result"].open')
    assert page.evaluate("CSS.highlights.get('found-here')?.size") == 1
    assert page.locator("#found").is_hidden()
    page.fill("#search", "no such words")
    page.wait_for_selector('.told:has-text("Nothing like that")')
    page.keyboard.press("Escape")
    assert page.locator("#found").is_hidden()


@pytest.mark.browser
def test_keys(log_dir: Path, opener: Opener) -> None:
    page: Page = opener(_report(log_dir)).page
    for key in ("j", "j"):
        page.keyboard.press(key)
    assert "swish" in page.locator(".row.selected").inner_text()
    page.keyboard.press("Enter")
    page.wait_for_selector(".task-view")

    def step() -> str | None:
        return page.locator(".steps [aria-current]").get_attribute("data-step")

    seen = []
    for key in ("j", "j", "k", "G", "g", "g", "n", "n", "p", "e"):
        page.keyboard.press(key)
        seen.append(step())
    assert seen == ["2", "3", "2", "5", "5", "1", "2", "4", "2", "3"]
    page.keyboard.press("?")
    assert page.locator("dialog").is_visible()
    page.keyboard.press("Escape")
    assert page.locator("dialog").is_hidden()
    page.keyboard.press("g")
    page.keyboard.press("o")
    page.wait_for_selector(".overview")
    page.go_back()
    page.wait_for_selector(".task-view")
    assert step() == "3"
    page.keyboard.press("Escape")
    page.wait_for_selector(".overview")


@pytest.mark.browser
def test_tasks_are_filtered_and_sorted(log_dir: Path, opener: Opener) -> None:
    page: Page = opener(_report(log_dir)).page
    page.get_by_role("columnheader", name="Best speedup").click()
    assert page.locator(".row").nth(0).inner_text().startswith("swish")
    page.fill("#filter", "expected ;")
    assert page.locator(".row").count() == 1
    page.fill("#filter", "")
    page.get_by_role("button", name="passed").click()
    assert page.locator(".row").count() == 1
    page.fill("#filter", "gelu")
    assert "No task is like that." in page.locator(".space").inner_text()


@pytest.mark.browser
def test_dark_and_light(log_dir: Path, opener: Opener) -> None:
    url = _report(log_dir)
    background = "getComputedStyle(document.body).backgroundColor"
    light: Page = opener(url).page
    dark: Page = opener(url, scheme="dark").page
    assert light.evaluate(background) == "rgb(246, 246, 243)"
    assert dark.evaluate(background) == "rgb(20, 22, 26)"
    dark.click("#theme")
    assert dark.evaluate(background) == "rgb(246, 246, 243)"
    dark.reload()
    dark.wait_for_selector("html[data-ready]", state="attached")
    assert dark.evaluate(background) == "rgb(246, 246, 243)"


@pytest.mark.browser
def test_on_paper(log_dir: Path, opener: Opener) -> None:
    page: Page = opener(_report(log_dir) + "#/swish/7/all", scheme="dark").page
    page.wait_for_selector(".pane:not([aria-busy])")
    assert page.locator(".action").count() == 7
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("#search").is_hidden()
    assert page.locator(".diff .add").first.is_visible()
    assert page.pdf().startswith(b"%PDF")


_BIDI = "".join(map(chr, [*range(0x202A, 0x202F), *range(0x2066, 0x206A)]))
_HOSTILE = [
    "</script><script>window.hit=1</script>",
    "<img src=x onerror='window.hit=2'>",
    "--></style><svg onload=window.hit=3>",
    "<!--<script>window.hit=4",
    "{{ 7*7 }}${window.hit=5}javascript:window.hit=6",
    f"access {_BIDI} level",
    "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b[2K\r\0\x85",
    "\ud800 lone, \ufffe none, \u2028 line",
]


@pytest.mark.browser
def test_texts_do_nothing(tmp_path: Path, opener: Opener) -> None:
    text = "\n".join(_HOSTILE)
    op, task = "a\"'><img src=x onerror=window.hit=7>\u202e", "<b>#%2F?&"
    with closing(Trace(op, task, tmp_path / "<i>&'\"")) as trace:
        for code in (text, text + "\nmore " + text):
            trace.insert_designer_or_coder_record(code, text, text, ActionType.DO_CODER)
            trace.insert_verifier_record("False", text, json.dumps({text: text, "speedup": "1e999"}))
            trace.insert_conductor_record(text, text, text, ActionType.VERIFY)
    one = opener(_report(tmp_path / "<i>&'\"") + "#/")
    page: Page = one.page
    page.locator(".row").click()
    page.wait_for_selector(".task-view")
    for step in range(1, 5):
        page.locator(f'.steps a[data-step="{step}"]').click()
        for toggle in page.locator('.toggle[aria-expanded="false"]').all():
            toggle.click()
        page.wait_for_selector(".body pre, .diff")
    page.locator('.steps a[data-step="2"]').click()
    log = page.locator('[data-part="error_log"] pre')
    assert "<img src=x onerror='window.hit=2'>" in log.inner_text()
    marks = log.locator(".mark").all_inner_texts()
    assert {f"U+{ord(sign):04X}" for sign in _BIDI} <= set(marks)
    assert "U+0000" in marks
    assert log.locator(".ansi-1").inner_text() == "red"
    page.fill("#search", "</script>")
    page.wait_for_selector(".hit")
    page.locator(".hit").first.click()
    assert page.evaluate("window.hit") is None
    assert page.locator("main img, main script, main style, main iframe").count() == 0
    assert "\u202e" not in page.title()
    # Nor would a script of theirs run, got it into the document.
    page.evaluate(
        "try { document.body.innerHTML = '<img src=x onerror=window.hit=8>' } catch { window.refused = true }"
    )
    assert page.evaluate("window.refused") is True
    assert page.evaluate("window.hit") is None
    page.close()
    one.complaints.clear()  # that it was refused


@pytest.mark.browser
def test_a_very_long_line_is_cut_and_said(tmp_path: Path, opener: Opener) -> None:
    with closing(Trace("long", "1", tmp_path / "tree")) as trace:
        trace.insert_designer_or_coder_record("short", "x" * 9_000_000, "y" * 1_000_000, ActionType.DO_CODER)
    page: Page = opener(_report(tmp_path / "tree")).page
    prompt = page.locator('[data-part="prompt"]')
    assert len(prompt.locator("pre").inner_text()) < 20_000
    prompt.get_by_role("button", name="Show all 1 line").click()
    assert len(prompt.locator("pre").inner_text()) == 300_000
    prompt.get_by_role("button", name="Show more (3,700,000 characters left)").click()
    assert prompt.get_by_role("button", name="Show more (3,400,000 characters left)").is_visible()


@pytest.mark.browser
def test_a_text_that_is_gone_is_said(log_dir: Path, opener: Opener) -> None:
    [prompt] = log_dir.glob("gelu/*_prompt.txt")
    prompt.unlink()
    [reasoning] = log_dir.glob("gelu/*_reasoning.txt")
    reasoning.unlink()
    reasoning.symlink_to("/etc/hostname")
    page: Page = opener(_report(log_dir, "gelu")).page
    assert "Not here: its file is not there." in page.locator('[data-part="prompt"]').inner_text()
    assert "Not here: " in page.locator('[data-part="reasoning"]').inner_text()


@pytest.mark.browser
def test_a_tree_without_an_index_is_read_as_far_as_it_goes(log_dir: Path, opener: Opener) -> None:
    shutil.rmtree(log_dir / ".kernel_trace")
    page: Page = opener(_report(log_dir) + "#/swish/7/4").page
    page.wait_for_selector(".diff .add")
    assert page.locator(".task-head .badge").inner_text() == "unknown"
    assert "No times are recorded." in page.locator(".panels").inner_text()
    for nothing in ("null", "undefined", "NaN", "[object"):
        assert nothing not in page.locator("main").inner_text()


@pytest.mark.browser
def test_many_tasks_are_drawn_as_they_are_seen(tmp_path: Path, opener: Opener) -> None:
    for number in range(200):
        with closing(Trace(f"op{number}", "1", tmp_path / "tree")) as trace:
            trace.insert_verifier_record("True", "", "speedup: 2x")
    page: Page = opener(_report(tmp_path / "tree")).page
    assert page.locator(".row").count() < 80
    page.keyboard.press("G")
    page.wait_for_selector('.row.selected:has-text("op199")')
    assert page.locator(".row").count() < 80
    page.emulate_media(media="print")
    page.locator(".row").nth(199).wait_for(state="attached")
    page.emulate_media(media="screen")
    page.locator(".row").nth(199).wait_for(state="detached")


# A server


def test_a_server_keeps_to_its_page(log_dir: Path) -> None:
    with _served(log_dir) as served:
        status, headers, page = _asked(served, "/")
        assert status == 200
        assert headers["content-type"] == "text/html; charset=utf-8"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "server" not in headers
        assert str(log_dir.parent).encode() not in page
        status, headers, content = _asked(served, "/", "HEAD")
        assert (status, content) == (200, b"")
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"):
            assert _asked(served, "/api/overview", method)[0] == 405
        for host in ("evil.example", f"evil.example:{served.port}", "localhost:1", ""):
            assert _asked(served, "/api/overview", Host=host)[0] == 421
        assert _asked(served, "/api/overview", Host=f"localhost:{served.port}")[0] == 200
        origin = _asked(served, "/api/overview", Origin="https://evil.example")
        assert not [name for name in origin[1] if name.startswith("access-control")]
        assert _asked(served, "/api/overview", Sec_Fetch_Site="cross-site")[0] == 403


_NOTHING = [
    "/../../../../etc/passwd",
    "/%2e%2e/%2e%2e/etc/passwd",
    "//etc/passwd",
    "/api/text/0/../../secret.txt",
    "/api/text/0/%2e%2e%2f%2e%2e%2fsecret.txt",
    "/api/text/0/WzEsICJ4Il0",
    "/api/text/0/e30",
    "/api/text/0/MQ",
    "/api/text/0/%C3%A9",
    "/api/text/0/" + "W" * 5000,
    "/api/task/99",
    "/gelu/",
    "/.kernel_trace/index",
]
_NONSENSE = [
    "/api/task/x",
    "/api/task/-1",
    "/api/overview?since=x",
    "/api/search/0",
    "/api/search/0?q=" + "x" * 2000,
]


def test_a_server_reads_nothing_else(log_dir: Path) -> None:
    (log_dir.parent / "secret.txt").write_text("secret")
    [prompt] = log_dir.glob("gelu/*_prompt.txt")
    prompt.unlink()
    prompt.symlink_to(log_dir.parent / "secret.txt")
    before = sorted((path, path.lstat().st_mtime_ns) for path in log_dir.rglob("*"))
    with _served(log_dir) as served:
        rows = json.loads(_asked(served, "/api/overview")[2])["rows"]
        [number] = [number for number, row in rows.items() if row["op"] == "gelu"]
        parts = json.loads(_asked(served, f"/api/task/{number}")[2])["actions"][0]["parts"]
        refs = {part["name"]: part["ref"] for part in parts}
        assert _asked(served, f"/api/text/{refs['result']}")[2].startswith(b"pass")
        status, _, said = _asked(served, f"/api/text/{refs['prompt']}")
        assert status == 404
        assert b"secret" not in said
        for path in _NOTHING:
            assert _asked(served, path)[0] == 404, path
        for path in _NONSENSE:
            assert _asked(served, path)[0] == 400, path
    assert sorted((path, path.lstat().st_mtime_ns) for path in log_dir.rglob("*")) == before


def test_a_server_ends_when_it_is_told(log_dir: Path) -> None:
    with _served(log_dir) as served:
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
            served.url, timeout=_ANSWERING
        ).close()
        served.process.send_signal(signal.SIGINT)
        out, told = served.process.communicate(timeout=_ANSWERING)
        assert (served.process.returncode, out, told) == (130, "", "")


def test_a_port_that_is_taken_is_one_sentence(log_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = _run("serve", log_dir, "--port", taken.getsockname()[1])
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)


@pytest.mark.browser
def test_following_a_running_pipeline(log_dir: Path, opener: Opener) -> None:
    with closing(Trace("swish", "8", log_dir)) as trace, _served(log_dir) as served:
        trace.insert_designer_or_coder_record("one", "p", "", ActionType.DO_CODER)
        page: Page = opener(served.url).page
        page.wait_for_selector('.row[href="#/swish/8"]:has-text("unverified")')
        assert page.locator(".row").count() == 3
        page.wait_for_selector(".row:has-text(\"k.cu:3: expected a ';'\")")
        page.locator('.row[href="#/swish/8"]').click()
        page.wait_for_selector(".task-view")
        page.click("#follow")
        trace.insert_verifier_record("False", "it broke", "")
        page.wait_for_selector('.steps a[data-step="2"][aria-current]')
        page.wait_for_selector('[data-part="error_log"]:has-text("it broke")')
        trace.insert_designer_or_coder_record("two", "p", "", ActionType.FIX_CODER)
        page.wait_for_selector('.steps a[data-step="3"][aria-current]')
        page.wait_for_selector('.diff .add:has-text("two")')
        trace.insert_verifier_record("True", "", '{"speedup": 3}')
        page.wait_for_selector('.task-head .badge:has-text("passed")')
        page.fill("#search", "it BROKE")
        page.wait_for_selector(".hit")
        assert page.locator(".hit").count() == 1
        with closing(Trace("new", "1", log_dir)) as other:
            other.insert_designer_or_coder_record("r", "p", "", ActionType.DO_CODER)
        page.goto(served.url + "#/")
        page.wait_for_selector('.row:has-text("new")')
        page.close()  # before the server


@pytest.mark.browser
def test_a_server_may_be_there_before_the_pipeline(tmp_path: Path, opener: Opener) -> None:
    with _served(tmp_path) as served:
        page = opener(served.url).page
        page.wait_for_selector('text="There is no task yet."')
        Trace("swish", "8", tmp_path).insert_verifier_record("True", "", "")
        page.wait_for_selector('.row[href="#/swish/8"]:has-text("passed")')
        page.close()  # before the server


@pytest.mark.browser
def test_a_server_that_is_gone_is_said(log_dir: Path, opener: Opener) -> None:
    with _served(log_dir) as served:
        one = opener(served.url)
        one.page.wait_for_selector(".live.on")
    one.page.wait_for_selector(".live.off")
    assert one.page.locator(".row").count() == 2
    one.page.close()
    one.complaints.clear()  # that nobody answers
