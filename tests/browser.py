"""A real browser, for tests of the page: Chromium, driven by Playwright.

A test that uses it is skipped where one of them is missing, or fails there if
KERNEL_TRACE_REQUIRE_COMPONENTS is set. A test takes a fixture, which its module picks up by
its name:

    browser = tests.browser.browser
    opener = tests.browser.opener
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_USABLE_MS = 30_000  # on a machine that is busy with other tests

Scheme = Literal["light", "dark"]


@dataclass
class Opened:
    """A page, and what it did that it should not."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    """Errors in its console and of its scripts."""
    requests: list[str] = field(default_factory=list)
    """Addresses that it asked for."""


Opener = Callable[..., Opened]
"""Opens an address: ``opener(url, scheme="dark")``."""


def _missing(reason: str) -> None:
    if os.environ.get("KERNEL_TRACE_REQUIRE_COMPONENTS"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for all tests of a module: beside its event loop a process can't test asyncio."""
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        _missing("Playwright is not there: pip install playwright")
        raise
    program = os.environ.get("KERNEL_TRACE_CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)
    if program is None:
        _missing("Chromium is not there: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program)
        yield browser
        browser.close()


@pytest.fixture
def opener(browser: Browser) -> Iterator[Opener]:
    """Opens pages, each in a window of its own, and checks at the end that they kept to themselves."""
    opened: list[tuple[Opened, str]] = []
    contexts = []

    def open_page(url: str, *, scheme: Scheme = "light") -> Opened:
        context = browser.new_context(color_scheme=scheme, viewport={"width": 1300, "height": 850})
        contexts.append(context)
        one = Opened(context.new_page())
        one.page.set_default_timeout(_USABLE_MS)

        def said(message: ConsoleMessage) -> None:
            if message.type in ("error", "warning"):
                one.complaints.append(message.text)

        def asked(dialog: Dialog) -> None:
            one.complaints.append(f"asked {dialog.message!r}")
            dialog.dismiss()

        one.page.on("console", said)
        one.page.on("dialog", asked)
        one.page.on("pageerror", lambda error: one.complaints.append(str(error)))
        one.page.on("request", lambda request: one.requests.append(request.url))
        opened.append((one, url.partition("#")[0]))
        one.page.goto(url)
        one.page.wait_for_selector("html[data-ready]", state="attached")
        return one

    yield open_page
    for one, url in opened:
        assert one.complaints == []
        assert [asked for asked in one.requests if not asked.startswith((url, "data:"))] == []
    for context in contexts:
        context.close()
