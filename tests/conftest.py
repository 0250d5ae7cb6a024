"""What every test may rely on: no setting of the developer's own environment reaches it."""

from __future__ import annotations

import os

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # A browser's event loop stays in its process; there asyncio can't be tested any more.
    items.sort(key=lambda item: item.get_closest_marker("browser") is not None)


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("OTEL_", "KERNEL_TRACE_LEVEL")):
            monkeypatch.delenv(name)
