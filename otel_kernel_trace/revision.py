"""Which commit is checked out, without running git.

The files are those of https://git-scm.com/docs/gitrepository-layout.
"""

from __future__ import annotations

import os
import re
import stat

_COMMIT = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_REF = re.compile(rb"ref: (refs/[^\0\r\n]{1,1024})")
_MAX_FOLDERS = 64
_MAX_BYTES = 4 * 1024 * 1024
"""A longer file is not read on; a hundred refs take some 7 kB."""


def commit_at(folder: str) -> str | None:
    """The commit that is checked out in the work tree around a folder, in hexadecimal.

    Whether files were changed since is not looked at. Never raises; reads five small files at most.

    Returns:
        None where there is no work tree, no commit yet, or refs are kept in another way (reftable).
    """
    try:
        git_folder = _git_folder(os.path.abspath(folder))
        return None if git_folder is None else _head(git_folder)
    except (OSError, ValueError):
        return None


def _git_folder(folder: str) -> str | None:
    for _ in range(_MAX_FOLDERS):
        found = os.path.join(folder, ".git")
        if os.path.isdir(found):
            return found
        if os.path.isfile(found):  # of a further work tree, or a submodule
            said = _content(found)
            if not said.startswith(b"gitdir: "):
                return None
            return os.path.join(folder, os.fsdecode(said[len(b"gitdir: ") :].strip()))
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above
    return None


def _head(git_folder: str) -> str | None:
    head = _content(os.path.join(git_folder, "HEAD"))
    ref = _REF.match(head)
    if ref is None:
        return _commit(head)
    if b".." in ref[1]:
        return None  # no name of a ref, and it would lead out of the folder
    shared = git_folder
    if os.path.isfile(os.path.join(git_folder, "commondir")):
        said = os.fsdecode(_content(os.path.join(git_folder, "commondir")).strip())
        shared = os.path.join(git_folder, said)
    for place in (git_folder, shared):
        path = os.path.join(place, *os.fsdecode(ref[1].strip()).split("/"))
        if os.path.isfile(path):
            return _commit(_content(path))
    for line in _content(os.path.join(shared, "packed-refs")).splitlines():
        commit, _, name = line.partition(b" ")
        if name.strip() == ref[1].strip():
            return _commit(commit)
    return None


def _commit(said: bytes) -> str | None:
    found = _COMMIT.fullmatch(said.strip())
    return found[0].decode() if found else None


def _content(path: str) -> bytes:
    """The beginning of a plain file; of a pipe, which would be waited for, nothing."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        return file.read(_MAX_BYTES) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
