"""Artifacts as files under one folder. A file has its final name only when all its bytes are on the disk.

Each folder of a path is opened by itself and never through a symbolic link, so that no path leads out of the root, whatever is
put there meanwhile. Callers name new files and hash them.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import itertools
import os
import secrets
import stat
import time
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from io import BufferedReader
from pathlib import Path

from resources.artifacts.store import (
    CAS,
    ArtifactStore,
    Creator,
    Found,
    NameTaken,
    StoreError,
    StoreFull,
    Unreadable,
    names_of,
)
from resources.errors import translate_errors

PART_PREFIX = ".part-"
_NOTE, _BY = "user.docstokg", "user.docstokg.by"  # extended attributes
_KEEPS_NOTES = hasattr(os, "setxattr")  # Python has them on Linux only
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class PartFile:
    """A file that is being written, under a name that no reader uses: in the folder of its target, or on the same disk."""

    def __init__(self, path: Path, folder: int, fd: int, *, owns_folder: bool = True) -> None:
        self.path = path
        self.bytes_written = 0
        self._folder: int | None = folder  # held open, so that the part is found again whatever happens to the path
        self._owns_folder = owns_folder  # and closed with the part
        self._fd: int | None = fd

    def write(self, chunk: bytes | memoryview) -> None:
        """Write all of `chunk` at once, unbuffered. On failure nothing is left behind."""
        size = len(chunk)
        with self._opened() as (_, fd):
            written = os.write(fd, chunk)
            while written < size:
                written += os.write(fd, memoryview(chunk)[written:])
        self.bytes_written += size

    def move_to(
        self, folder: int, name: str, *, note: bytes = b"", by: str = "", replace: bool = False, sync: bool = True
    ) -> None:
        """Sync the bytes to the disk, rename, then sync the folder; the part is then closed. Without `replace` a name that is
        taken stays as it is (FileExistsError), and so does the part. Without `sync` the caller syncs the folder."""
        with self._opened() as (own_folder, fd):
            for attribute, value in ((_NOTE, note), (_BY, by.encode())):
                with suppress(OSError):  # not every file system keeps them, or as many bytes
                    if value and _KEEPS_NOTES:
                        os.setxattr(fd, attribute, value)
            os.fsync(fd)
            if replace:
                os.replace(self.path.name, name, src_dir_fd=own_folder, dst_dir_fd=folder)
            else:
                rename_new(self.path.name, name, own_folder, folder)
            if sync:
                os.fsync(folder)
        self._close()

    def reader(self) -> BufferedReader:
        """The bytes written so far, from the beginning, for a store that keeps them elsewhere."""
        with self._opened() as (folder, _):
            return os.fdopen(os.open(self.path.name, _READ, dir_fd=folder), "rb")

    def discard(self) -> None:
        """Remove the part. Safe at any time, also twice, also after the part was committed."""
        if self._folder is not None:
            with suppress(OSError):
                os.unlink(self.path.name, dir_fd=self._folder)
        self._close()

    @contextmanager
    def _opened(self) -> Iterator[tuple[int, int]]:
        """The descriptors of folder and part. An error discards the part."""
        if self._folder is None or self._fd is None:
            raise StoreError(f"{self.path} was already committed or discarded")
        try:
            yield self._folder, self._fd
        except FileExistsError:
            raise
        except OSError as error:
            self.discard()
            raise _store_error(self.path, error) from error

    def _close(self) -> None:
        folder, fd, self._folder, self._fd = self._folder, self._fd, None, None
        for opened in (fd, folder if self._owns_folder else None):
            if opened is not None:
                os.close(opened)


class FileSystemStore(ArtifactStore):
    """Safe for use by several threads and processes on one root."""

    def __init__(self, root: Path, layout: str = "readable") -> None:
        self.root, self.layout = root, layout
        self._kept_open = _KeptOpen(root)
        self._token, self._numbers = secrets.token_hex(12), itertools.count()  # together unique among all processes
        with translate_errors(OSError, partial(_store_error, root)):
            root.mkdir(parents=True, exist_ok=True)
        self.begin("").discard()  # a root that cannot be written to is known now, not after the first download

    def begin(self, folder: str) -> PartFile:
        name = f"{PART_PREFIX}{self._token}-{os.getpid()}-{next(self._numbers)}"
        relative_path = "/".join(filter(None, (CAS if self.layout == CAS else folder, name)))
        with self._at(relative_path, create=True) as (opened, name):
            fd = os.open(name, _NEW_FILE, 0o666, dir_fd=opened)
            owns = not self._kept_open.has(opened)
            return PartFile(self.root / relative_path, os.dup(opened) if owns else opened, fd, owns_folder=owns)

    def _keep(
        self, part: PartFile, place: str, sha256: str, note: bytes, by: str, *, replace: bool, durable: bool
    ) -> None:
        """A symbolic link that has the name is not followed: it takes the name as a file does."""
        with self._at(place, create=True) as (folder, name):
            try:
                part.move_to(folder, name, note=note, by=by, replace=replace, sync=durable)
            except FileExistsError as error:
                raise NameTaken(self.root / place) from error

    def sync(self, paths: Iterable[str]) -> None:
        for folder in {path.rpartition("/")[0] for path in paths}:
            with suppress(FileNotFoundError), self._at(f"{folder}/-" if folder else "-") as (opened, _):
                os.fsync(opened)

    def creator_of(self, path: str) -> Creator | None:
        with suppress(OSError, UnicodeDecodeError):
            if _KEEPS_NOTES:
                by = os.getxattr(self.root / path, _BY, follow_symlinks=False).decode()
                return Creator(by, os.lstat(self.root / path).st_mtime)
        return None

    def note_of(self, path: str) -> bytes | None:
        if not _KEEPS_NOTES:
            return None
        with suppress(OSError):
            return os.getxattr(self.root / path, _NOTE, follow_symlinks=False)  # one step where there is nothing
        return None

    def settled(self, path: str) -> tuple[str, int] | None:
        with suppress(OSError, StoreError):
            found = self.sha256_of(path)
            with self._at(path) as (folder, _):
                os.fsync(folder)  # the process that stored it may have been killed before that
            return found
        return None

    def open_read(self, relative_path: str) -> BufferedReader:
        with self._at(relative_path) as (folder, name):
            return os.fdopen(os.open(name, _READ, dir_fd=folder), "rb")

    def exists(self, relative_path: str) -> bool:
        """Whether a regular file is there; a symbolic link is none."""
        try:
            with self._at(relative_path) as (folder, name):
                return stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
        except FileNotFoundError:
            return False

    def sha256_of(self, relative_path: str) -> tuple[str, int]:
        translated = translate_errors(OSError, partial(_store_error, self.root / relative_path))
        with self.open_read(relative_path) as file, translated:
            return hashlib.file_digest(file, "sha256").hexdigest(), file.tell()

    def set_aside(self, path: str, to: str) -> bool:
        if not self.exists(path):
            return False
        with self._at(path) as (folder, name), self._at(to, create=True) as (other, new):
            try:
                rename_new(name, new, folder, other)
            except FileExistsError as error:
                raise NameTaken(self.root / to) from error
            except FileNotFoundError:  # another process was faster
                return False
            os.fsync(other)
            os.fsync(folder)
        return True

    def delete(self, relative_path: str) -> bool:
        try:
            with self._at(relative_path) as (folder, name):
                os.unlink(name, dir_fd=folder)
                os.fsync(folder)
        except FileNotFoundError:
            return False
        return True

    def iter_files(self, under: str = "") -> Iterator[Found]:
        """Symbolic links are no files."""
        if under:
            names_of(under)
        for folder, subfolders, files in os.walk(self.root / under):
            subfolders.sort()
            yield from self._found(Path(folder, name) for name in sorted(files) if not name.startswith(PART_PREFIX))

    def stale_parts(self, older_than_s: float, folder: str) -> list[Found]:
        """Parts are in the folder itself, so its subfolders, which may have very many files, are not read."""
        before = time.time() - older_than_s
        with suppress(FileNotFoundError, NotADirectoryError):
            names = sorted(os.listdir(self.root / folder))
            parts = self._found(self.root / folder / name for name in names if name.startswith(PART_PREFIX))
            return [part for part in parts if part.changed_at < before]
        return []

    def place(self, folder: str = "") -> str:
        return str((self.root / folder).resolve())

    def _found(self, paths: Iterable[Path]) -> Iterator[Found]:
        """The regular files among these paths; files that vanish meanwhile are skipped."""
        for path in paths:
            with suppress(FileNotFoundError):
                status = path.lstat()
                if stat.S_ISREG(status.st_mode):
                    yield Found(path.relative_to(self.root).as_posix(), status.st_size, status.st_mtime)

    @contextmanager
    def _at(self, relative_path: str, *, create: bool = False) -> Iterator[tuple[int, str]]:
        """The opened folder of a path, and the last name of the path. An OSError inside is raised as a StoreError;
        FileNotFoundError stays as it is, unless the folder was to be created."""
        *folders, name = names_of(relative_path)
        try:
            known = self._kept_open.find(folders[0]) if len(folders) == 1 else None
            if known is not None:
                yield known, name
                return
            folder = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                for step in folders:
                    parent, folder = folder, _step_into(folder, step, create)
                    os.close(parent)
                if create and len(folders) == 1:
                    self._kept_open.add(folders[0], folder)
                yield folder, name
            finally:
                if not self._kept_open.has(folder):
                    os.close(folder)
        except OSError as error:
            if isinstance(error, FileNotFoundError) and not create:
                raise
            raise _store_error(self.root / relative_path, error) from error


class _KeptOpen:
    """The folders right under the root that files are written to, opened once: to open them again for every file costs more than
    to write it. One that was moved away or replaced meanwhile is not found, and is opened anew."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._known: dict[str, tuple[int, int, int]] = {}  # name -> descriptor, device, inode
        self._fds: set[int] = set()
        weakref.finalize(self, _close_all, self._fds)

    def find(self, name: str) -> int | None:
        if (known := self._known.get(name)) is None:
            return None
        try:
            there = os.lstat(f"{self._root}/{name}")
        except OSError:
            return None
        return known[0] if (there.st_dev, there.st_ino) == known[1:] else None

    def add(self, name: str, fd: int) -> None:
        """Keep a folder. The one that had the name before stays open: another thread may be using it."""
        status = os.fstat(fd)
        self._fds.add(fd)
        self._known[name] = fd, status.st_dev, status.st_ino

    def has(self, fd: int) -> bool:
        return fd in self._fds


def _close_all(fds: set[int]) -> None:
    for fd in fds:
        os.close(fd)


_durable: set[tuple[int, int]] = set()  # folders whose entry in their parent this process has synced to the disk


def rename_new(name: str, new: str, folder: int, new_folder: int) -> None:
    """Rename in one step; FileExistsError where the new name is taken. Where the kernel or the file system has no such call, the
    file gets a second name, which fails in the same way, and loses the first."""
    if _RENAMEAT2 is not None:
        if _RENAMEAT2(folder, os.fsencode(name), new_folder, os.fsencode(new), _NO_REPLACE) == 0:
            return
        if (number := ctypes.get_errno()) not in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
            raise OSError(number, os.strerror(number), new)
    os.link(name, new, src_dir_fd=folder, dst_dir_fd=new_folder, follow_symlinks=False)
    os.unlink(name, dir_fd=folder)


_NO_REPLACE = 1
_RENAMEAT2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)  # Linux with glibc


def _step_into(parent: int, name: str, create: bool) -> int:
    """Open the folder `name` in `parent`. With `create` it is also made durable, even where another process has just created it
    and not synced it yet; each process syncs a folder once."""
    try:
        folder = os.open(name, _FOLDER, dir_fd=parent)
    except FileNotFoundError:
        if not create:
            raise
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=parent)
        folder = os.open(name, _FOLDER, dir_fd=parent)
    if create:
        status = os.fstat(folder)
        if (key := (status.st_dev, status.st_ino)) not in _durable:
            try:
                os.fsync(parent)
            except OSError:
                os.close(folder)
                raise
            _durable.add(key)
    return folder


def _store_error(path: Path, error: OSError) -> StoreError:
    cause = f"the artifact store cannot use {path}: {error.strerror}."
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreFull(f"{cause} Free some space, then run the same command again.")
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return StoreError(f"{cause} A symbolic link or a file is in its place; links are not followed. Move it away.")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return StoreError(f"{cause} Give this user the right to write there, or choose another root.")
    kind = Unreadable if error.errno == errno.EIO else StoreError
    return kind(f"{cause} Check the disk and the path.")
