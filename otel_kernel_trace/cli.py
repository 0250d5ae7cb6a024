"""The command ``otel-kernel-trace``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command; without its extra, say so in one line."""
    try:
        from otel_kernel_trace.commands import command
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        sys.exit("otel-kernel-trace needs its extra: pip install 'otel-kernel-trace[cli]'")
    command()
