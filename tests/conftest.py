"""What every test may rely on: no setting of the developer's own environment reaches it."""

from __future__ import annotations

import os
import signal

import pytest

# Jobs that a shell has in the background ignore it, and so would all that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("OTEL_", "KERNEL_TRACE_LEVEL")):
            monkeypatch.delenv(name)
