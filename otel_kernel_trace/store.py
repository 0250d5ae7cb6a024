"""The one place that touches a file system.

Everything happens below one root folder and relative to open folders (``openat``
and its kin), so that a symbolic link put in the way is an error and never a way
out. Files appear under their names whole or not at all: they are written without a
name (``O_TMPFILE``), or under a temporary one beside the tree, and then linked into
place, which fails where something is there already.

Nothing is synced to the disk: a file survives the death of the process, at any
instant, but not necessarily that of the machine.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import weakref
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from otel_kernel_trace.appended import Appended
from otel_kernel_trace.closing import close_with, identity_of, is_same
from otel_kernel_trace.counter import Counter, lock_file
from otel_kernel_trace.recent import Recent
from otel_kernel_trace.scratch import Scratch

Folder = tuple[str, ...]
"""A folder below the root, one component an item."""

NewFile = tuple[Folder, str, bytes]
"""Folder, name and whole content."""

PRIVATE = ".kernel_trace"
"""The folder below the root for what is not part of the tree."""

_MAX_DEPTH = 8
"""Folders below the root in which a file of ours may be."""

_TEMPORARY: Folder = (PRIVATE, "tmp")

_O_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_O_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe in the way holds nobody up
_O_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_O_SHARED = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_O_UNNAMED = os.O_WRONLY | os.O_CLOEXEC | getattr(os, "O_TMPFILE", 0)

_NO_UNNAMED_FILES = frozenset(
    {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT, errno.EPERM, errno.EXDEV}
)
"""What kernels, file systems and sandboxes answer where they lack ``O_TMPFILE`` or its link."""

_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
"""What file systems without hard links answer (FAT, some network ones)."""

_NO_FOLDER = frozenset({errno.ELOOP, errno.ENOTDIR, errno.EMLINK})
"""What opening a link or a file as a folder gives, by system."""


class Store:
    """Files below one root.

    Thread-safe, and usable in a forked child. Methods raise ``OSError`` where the
    file system refuses, and keep nothing that a later call would stumble over.

    Args:
        root: absolute path of the folder; made, with its parents, when first needed.
        file_mode: permission bits of every file, whatever the umask; folders get the
            matching ones. None leaves both to the umask.
    """

    def __init__(self, root: str, file_mode: int | None = None) -> None:
        self.root = root
        self._file_mode = file_mode
        self._folder_mode = None if file_mode is None else file_mode | (file_mode & 0o444) >> 2
        self._has_unnamed_files = hasattr(os, "O_TMPFILE")

    def publish(self, files: Sequence[NewFile], *, replace: bool = False) -> bool:
        """Put files in place, each of them whole or not at all.

        Returns:
            False where a name is taken and ``replace`` is not asked; then none of the
            files is there.

        Raises:
            OSError: a file could not be written. Those before it stay.
        """
        opened: _OpenFolder | None = None
        last_folder: Folder | None = None
        for index, (folder, name, content) in enumerate(files):
            if opened is None or folder != last_folder:
                opened, last_folder = self._folder(folder), folder
            try:
                published = self._publish_one(opened, name, content, replace)
            except FileNotFoundError:
                # The folder was deleted since: make it anew, once.
                _folders.clear()
                opened = self._folder(folder)
                published = self._publish_one(opened, name, content, replace)
            if not published:
                self._withdraw(files[:index])
                return False
        return True

    def read(self, folder: Folder, name: str) -> bytes:
        """The content of a file; a link is not followed."""
        with self.open(folder, name) as file:
            return file.read()

    def open(self, folder: Folder, name: str) -> BinaryIO:
        """A file to read; a link is not followed."""
        opened = self._folder(folder, make=False)
        fd = os.open(name, _O_READ, dir_fd=opened.fd)
        try:
            return open(fd, "rb")
        except OSError:  # a folder
            os.close(fd)
            raise

    def read_at(self, path: str, offset: int = 0, size: int = -1) -> bytes:
        """Of a file, named by its path below the root, ``size`` bytes or all that follow ``offset``.

        Raises:
            OSError: it can't be read, is no plain file, or the path leads out of the root.
        """
        *folder, name = path.split("/")
        if len(folder) > _MAX_DEPTH or any(
            item in ("", ".", "..") or "\0" in item for item in (*folder, name)
        ):
            raise FileNotFoundError(errno.ENOENT, "no path of a file in the tree", path)
        with self.open(tuple(folder), name) as file:
            there = os.fstat(file.fileno())
            if not stat.S_ISREG(there.st_mode):
                raise OSError(errno.EINVAL, "no plain file", path)
            file.seek(min(offset, there.st_size))
            return file.read(min(size, there.st_size))

    def changed(self, path: str) -> int:
        """When a file, named by its path below the root, was last changed; nanoseconds since 1970."""
        *folder, name = path.split("/")
        opened = self._folder(tuple(folder), make=False)
        return os.lstat(name, dir_fd=opened.fd).st_mtime_ns

    def is_folder(self, folder: Folder) -> bool:
        """Whether a folder is there that is no link."""
        try:
            self._folder(folder, make=False)
        except OSError:
            return False
        return True

    def entries(self, folder: Folder) -> list[str]:
        """The names in a folder, in no order."""
        return _names_in(self._folder(folder, make=False))

    def exists(self, folder: Folder, name: str) -> bool:
        """Whether something of that name is in a folder."""
        try:
            opened = self._folder(folder, make=False)
            os.lstat(name, dir_fd=opened.fd)
        except FileNotFoundError:
            return False
        return True

    def make_folder(self, folder: Folder) -> bool:
        """Make a folder and those above it; whether it was not there before."""
        parent = self._folder(folder[:-1])
        try:
            self._mkdir(parent, folder[-1])
        except FileExistsError:
            self._folder(folder)  # a link or a file in the way is told now
            return False
        return True

    def empty_folder(self, folder: Folder) -> None:
        """Remove the files of a folder."""
        opened = self._folder(folder)
        for name in _names_in(opened):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=opened.fd)

    def open_counter(self, folder: Folder, name: str) -> Counter:
        """A number that all processes share which open a counter of that name."""
        opened = self._folder(folder)
        counter = Counter(os.open(name, _O_SHARED, self._mode(), dir_fd=opened.fd))
        if self._file_mode is not None:
            os.fchmod(counter.fd, self._file_mode)
        return counter

    def open_appended(self, folder: Folder, name: str) -> Appended:
        """A file that grows at its end, made where it is not there. To be written by one process alone."""
        opened = self._folder(folder)
        fd = os.open(name, _O_SHARED, self._mode(), dir_fd=opened.fd)
        if self._file_mode is not None:
            os.fchmod(fd, self._file_mode)
        return Appended(fd, "/".join((*folder, name)))

    def has(self, file: Appended, folder: Folder, name: str) -> bool:
        """Whether an open file is still the one of that name: all may have been moved or deleted."""
        try:
            there = os.lstat(name, dir_fd=self._folder(folder).fd)
        except OSError:
            return False
        return file.is_at(there)

    def withdraw(self, folder: Folder, name: str) -> None:
        """Remove a file if it is there."""
        opened = self._folder(folder)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=opened.fd)

    def _mode(self) -> int:
        return 0o666 if self._file_mode is None else self._file_mode

    @contextlib.contextmanager
    def locked(self, folder: Folder, name: str) -> Iterator[None]:
        """Keeps out other processes and threads that lock the same name."""
        opened = self._folder(folder)
        fd = os.open(name, _O_SHARED, self._mode(), dir_fd=opened.fd)
        try:
            lock_file(fd)
            yield
        finally:
            os.close(fd)  # and with it the lock

    def open_scratch(self) -> Scratch:
        """A file without a name, gone with the process, for what should not fill the memory.

        Where many trees have one already it is another tree's, as each is an open file.
        """
        others = [scratch for scratch in _scratches.values() if scratch.is_writable]
        if len(others) >= _MAX_SCRATCHES:
            return others[0]
        opened = self._folder((PRIVATE,))
        name = _temporary_name()
        fd = os.open(name, _O_NEW & ~os.O_WRONLY | os.O_RDWR, 0o600, dir_fd=opened.fd)
        os.unlink(name, dir_fd=opened.fd)
        scratch = Scratch(fd)
        _scratches[id(scratch)] = scratch
        return scratch

    def _withdraw(self, files: Sequence[NewFile]) -> None:
        for folder, name, _ in files:
            self.withdraw(folder, name)

    def _publish_one(self, folder: _OpenFolder, name: str, content: bytes, replace: bool) -> bool:
        _check_name(name)
        if not self._has_unnamed_files or replace:
            return self._publish_named(folder, name, content, replace)
        try:
            return self._publish_unnamed(folder, name, content)
        except OSError as error:
            if error.errno not in _NO_UNNAMED_FILES:
                raise
        # Either the file system lacks them, or the other way fails likewise and says why.
        published = self._publish_named(folder, name, content, replace)
        self._has_unnamed_files = False
        return published

    def _publish_unnamed(self, folder: _OpenFolder, name: str, content: bytes) -> bool:
        fd = os.open(".", _O_UNNAMED, 0o666, dir_fd=folder.fd)
        try:
            self._fill(fd, content)
            os.link(f"/proc/self/fd/{fd}", name, dst_dir_fd=folder.fd, follow_symlinks=True)
        except FileExistsError:
            return False
        finally:
            os.close(fd)
        return True

    def _publish_named(self, folder: _OpenFolder, name: str, content: bytes, replace: bool) -> bool:
        scratch = self._folder(_TEMPORARY)
        temporary = _temporary_name()
        fd = os.open(temporary, _O_NEW, 0o666, dir_fd=scratch.fd)
        try:
            try:
                self._fill(fd, content)
            finally:
                os.close(fd)
            if not replace:
                return _link(scratch.fd, temporary, folder.fd, name)
            os.replace(temporary, name, src_dir_fd=scratch.fd, dst_dir_fd=folder.fd)
            return True
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=scratch.fd)

    def _fill(self, fd: int, content: bytes) -> None:
        written = os.write(fd, content)
        while written < len(content):
            written += os.write(fd, memoryview(content)[written:])
        if self._file_mode is not None:
            os.fchmod(fd, self._file_mode)

    def _folder(self, folder: Folder, *, make: bool = True) -> _OpenFolder:
        opened = _folders.get((self.root, folder))
        if opened is not None and opened.is_current():
            return opened
        return _folders.put((self.root, folder), self._open_folder(folder, make))

    def _open_folder(self, folder: Folder, make: bool) -> _OpenFolder:
        if not folder:
            if make and not os.path.isdir(self.root):
                os.makedirs(self.root, exist_ok=True)
                if self._folder_mode is not None:
                    os.chmod(self.root, self._folder_mode)
            # The root is the user's choice, links in its path included.
            path = os.path.realpath(self.root)
            return _OpenFolder(path, os.open(path, _O_FOLDER))
        _check_name(folder[-1])
        parent = self._folder(folder[:-1], make=make)
        if make:
            with contextlib.suppress(FileExistsError):
                self._mkdir(parent, folder[-1])
        path = os.path.join(parent.path, folder[-1])
        try:
            return _OpenFolder(path, os.open(folder[-1], _O_FOLDER, dir_fd=parent.fd))
        except OSError as error:
            if error.errno in _NO_FOLDER:
                reason = "not a folder, or a link to one, which is not followed"
                raise NotADirectoryError(errno.ENOTDIR, reason, path) from error
            raise

    def _mkdir(self, parent: _OpenFolder, name: str) -> None:
        os.mkdir(name, dir_fd=parent.fd)
        if self._folder_mode is not None:
            fd = os.open(name, _O_FOLDER, dir_fd=parent.fd)
            try:
                os.fchmod(fd, self._folder_mode)
            finally:
                os.close(fd)


class _OpenFolder:
    """A folder held open; closed when nobody uses it any more."""

    __slots__ = ("__weakref__", "_identity", "fd", "path")

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self.fd = fd
        self._identity = close_with(self, fd)

    def is_current(self) -> bool:
        """Whether it is open and the path still names it: it may have been moved or deleted."""
        try:
            there = os.lstat(self.path)
        except OSError:
            return False
        return identity_of(there) == self._identity and is_same(self.fd, self._identity)


# Open files are few, however many trees there are.
_folders: Recent[tuple[str, Folder], _OpenFolder] = Recent(32)
_scratches: weakref.WeakValueDictionary[int, Scratch] = weakref.WeakValueDictionary()
_MAX_SCRATCHES = 16


def _names_in(folder: _OpenFolder) -> list[str]:
    # Opened anew: threads that list through one descriptor share its place, and miss entries.
    fd = os.open(".", _O_FOLDER, dir_fd=folder.fd)
    try:
        return os.listdir(fd)
    finally:
        os.close(fd)


def _link(source_fd: int, source: str, target_fd: int, target: str) -> bool:
    try:
        os.link(source, target, src_dir_fd=source_fd, dst_dir_fd=target_fd, follow_symlinks=False)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # Without links nothing is both atomic and exclusive; steps are claimed before, so
        # that only a stranger writing the same name in the same instant could be replaced.
        with contextlib.suppress(FileNotFoundError):
            os.lstat(target, dir_fd=target_fd)
            return False
        os.rename(source, target, src_dir_fd=source_fd, dst_dir_fd=target_fd)
    return True


def _check_name(name: str) -> None:
    """A layout may be anybody's: what it names stays below the root."""
    if name in ("", ".", "..") or "/" in name:
        raise ValueError(f"{name!r} can't be the name of a file or folder of a tree")


def _temporary_name() -> str:
    return f"{os.getpid()}-{os.urandom(8).hex()}"
