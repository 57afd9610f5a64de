"""Artifacts as files under one folder. A file has its final name only when all its bytes are on the disk.

Every folder on the way is opened by itself and never through a symbolic link, so that no path leads out of the root,
whatever somebody puts there meanwhile. Names and hashes of new files are the callers' business.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

PART_PREFIX = ".part-"
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class StoreError(Exception):
    """The store cannot do what was asked; the message names the path and the remedy."""


class StoreFull(StoreError):
    """There is no room left on the disk of the store."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A file that is durable under its final name. `path` is relative to the root of the store."""

    path: str
    bytes: int


class PartFile:
    """A file that is being written beside its target, under a name that nobody reads."""

    def __init__(self, path: Path, folder: int, fd: int) -> None:
        self.path = path
        self.bytes_written = 0
        self._folder: int | None = folder  # held open, so that the part is found again whatever happens to the path
        self._fd: int | None = fd

    def write(self, chunk: bytes) -> None:
        """Write all of `chunk` at once, past any buffer. On failure nothing is left behind."""
        remaining = memoryview(chunk)
        with self._usable() as (_, fd):
            while remaining:
                remaining = remaining[os.write(fd, remaining) :]
        self.bytes_written += len(chunk)

    def move_to(self, folder: int, name: str) -> None:
        """Bring the bytes to the disk, then take the final name, then bring that to the disk; the part is over."""
        with self._usable() as (own_folder, fd):
            os.fsync(fd)
            os.replace(self.path.name, name, src_dir_fd=own_folder, dst_dir_fd=folder)
            os.fsync(folder)
        self._close()

    def discard(self) -> None:
        """Leave nothing behind. Safe at any time, also twice, also after the part was committed."""
        if self._folder is not None:
            with suppress(OSError):
                os.unlink(self.path.name, dir_fd=self._folder)
        self._close()

    @contextmanager
    def _usable(self) -> Iterator[tuple[int, int]]:
        if self._folder is None or self._fd is None:
            raise StoreError(f"{self.path} was already committed or discarded")
        try:
            yield self._folder, self._fd
        except OSError as error:
            self.discard()
            raise _store_error(self.path, error) from error

    def _close(self) -> None:
        fds, self._folder, self._fd = (self._folder, self._fd), None, None
        for fd in fds:
            if fd is not None:
                os.close(fd)


class FileSystemStore:
    """Safe for use by several threads and processes on one root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        try:
            root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _store_error(root, error) from error
        self.begin("").discard()  # a root that cannot be written to is known now, not after the first download

    def begin(self, relative_dir: str) -> PartFile:
        """A new part in the folder of its target, which is created when it is not there yet."""
        relative_path = "/".join(filter(None, (relative_dir, PART_PREFIX + secrets.token_hex(12))))
        with self._at(relative_path, create=True) as (folder, name):
            fd = os.open(name, _NEW_FILE, 0o666, dir_fd=folder)
            return PartFile(self.root / relative_path, os.dup(folder), fd)

    def commit(self, part: PartFile, relative_path: str) -> Stored:
        """Give the part its final name. When this returns, the file survives a loss of power; before, there is none.

        What had the name before is replaced; a symbolic link is replaced too, not followed.
        """
        try:
            with self._at(relative_path, create=True) as (folder, name):
                part.move_to(folder, name)
        finally:
            part.discard()
        return Stored(relative_path, part.bytes_written)

    def open_read(self, relative_path: str) -> BufferedReader:
        """FileNotFoundError when it is not there."""
        with self._at(relative_path) as (folder, name):
            return os.fdopen(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder), "rb")

    def exists(self, relative_path: str) -> bool:
        """Whether a regular file is there; a symbolic link is none."""
        try:
            with self._at(relative_path) as (folder, name):
                return stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
        except FileNotFoundError:
            return False

    def sha256_of(self, relative_path: str) -> tuple[str, int]:
        """Hash and size of the file as it is now on the disk. FileNotFoundError when it is not there."""
        with self.open_read(relative_path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest(), file.tell()

    def delete(self, relative_path: str) -> bool:
        """Whether there was something to delete."""
        try:
            with self._at(relative_path) as (folder, name):
                os.unlink(name, dir_fd=folder)
                os.fsync(folder)
        except FileNotFoundError:
            return False
        return True

    def iter_files(self, under: str = "") -> Iterator[str]:
        """The relative paths of all files in a folder and below, without parts and symbolic links."""
        return (path for path, _ in self._walk(under, parts=False))

    def stale_parts(self, older_than_s: float, under: str = "") -> list[str]:
        """Parts that nobody has written to for a while: whoever wrote them was killed. They may be deleted."""
        before = time.time() - older_than_s
        return [path for path, written_at in self._walk(under, parts=True) if written_at < before]

    def _walk(self, under: str, parts: bool) -> Iterator[tuple[str, float]]:
        """Regular files with the time of their last change, only parts or only others. The name is looked at before the file:
        parts are few among very many. What vanishes meanwhile is passed over."""
        if under:
            _names(under)
        for folder, subfolders, files in os.walk(self.root / under):
            subfolders.sort()
            for path in (Path(folder, name) for name in sorted(files) if _is_part(name) is parts):
                with suppress(FileNotFoundError):
                    status = path.lstat()
                    if stat.S_ISREG(status.st_mode):
                        yield path.relative_to(self.root).as_posix(), status.st_mtime

    @contextmanager
    def _at(self, relative_path: str, *, create: bool = False) -> Iterator[tuple[int, str]]:
        """The folder of a path, opened, and the last name on it. What goes wrong inside leaves as a StoreError;
        FileNotFoundError stays what it is, unless the folder was to be created."""
        *folders, name = _names(relative_path)
        try:
            folder = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                for step in folders:
                    parent, folder = folder, _step_into(folder, step, create)
                    os.close(parent)
                yield folder, name
            finally:
                os.close(folder)
        except OSError as error:
            if isinstance(error, FileNotFoundError) and not create:
                raise
            raise _store_error(self.root / relative_path, error) from error


def _step_into(parent: int, name: str, create: bool) -> int:
    """The folder `name` in `parent`, made durable when it is new."""
    try:
        return os.open(name, _FOLDER, dir_fd=parent)
    except FileNotFoundError:
        if not create:
            raise
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=parent)
        os.fsync(parent)
    return os.open(name, _FOLDER, dir_fd=parent)


def _is_part(path: str) -> bool:
    return path.rpartition("/")[2].startswith(PART_PREFIX)


def _names(relative_path: str) -> list[str]:
    """The names on the way; refuses what is not a plain path downwards."""
    names = relative_path.split("/")
    if any(name in ("", ".", "..") or "\0" in name for name in names):
        raise StoreError(f"{relative_path!r} is not a path inside the artifact store")
    return names


def _store_error(path: Path, error: OSError) -> StoreError:
    cause = f"the artifact store cannot use {path}: {error.strerror}."
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreFull(f"{cause} Free some space, then run the same command again.")
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return StoreError(f"{cause} A symbolic link or a file is in its place; links are not followed. Move it away.")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return StoreError(f"{cause} Give this user the right to write there, or choose another root.")
    return StoreError(f"{cause} Check the disk and the path.")
