"""Open files that close when nobody has them any more."""

from __future__ import annotations

import os
import weakref


def close_with(owner: object, fd: int) -> None:
    """Close ``fd`` when ``owner`` is collected.

    Not when the interpreter exits: what ends its spans only then still writes, and the
    system closes the file anyway.
    """
    weakref.finalize(owner, os.close, fd).atexit = False
