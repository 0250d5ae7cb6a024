"""Looking at the tree that a test wrote."""

from __future__ import annotations

import os
from pathlib import Path

PRIVATE = ".kernel_trace"


def tree(log_dir: Path | str) -> dict[str, str]:
    """Relative path → text of every file of a tree, byte for byte."""
    return {path: data.decode() for path, data in raw_tree(log_dir).items()}


def raw_tree(log_dir: Path | str) -> dict[str, bytes]:
    """Relative path → content; what is beside the tree is left out."""
    found = {}
    for folder, folders, files in os.walk(log_dir):
        if PRIVATE in folders:
            folders.remove(PRIVATE)
        for file in files:
            path = Path(folder, file)
            found[path.relative_to(log_dir).as_posix()] = path.read_bytes()
    return found
