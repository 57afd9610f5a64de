"""The interface of artifact stores, their errors with remedies, and the two layouts. A store knows bytes and relative paths; the
domain decides what a file is called.

Two layouts: `readable` takes the path as it is given; `cas` keeps a file under the hash of its bytes, the same bytes once, and
leaves the given name to the catalog. Either leaves what is in quarantine under the name that it has there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Protocol

from resources.errors import ExplainedError

if TYPE_CHECKING:
    from resources.artifacts.file_system import PartFile

CAS = "cas"
QUARANTINE = "quarantine"  # the folder of files that are not what they say


class StoreError(ExplainedError):
    """The store cannot do what was asked; the message names the path and the remedy."""


class StoreFull(StoreError):
    """There is no room left on the disk of the store."""

    out_of_space = True


class NameTaken(StoreError):
    """A file has this name already. Nothing was changed, and the part can be committed under another name."""

    def __init__(self, place: object) -> None:
        super().__init__(f"{place} exists already. Choose another name.")


class Unreadable(StoreError):
    """The bytes of one file can no longer be read from its disk."""


class Stored(NamedTuple):
    """A file that is durable under its final name. `path` is relative to the root of the store. `own`: this commit made the name,
    so that the process may remove the file as long as no row names it."""

    path: str
    bytes: int
    own: bool = False


class Creator(NamedTuple):
    """The process that made a name, as given to `commit`, and when (epoch seconds)."""

    name: str
    at: float


class Found(NamedTuple):
    """A file, or a part of one, that lies in the store. `changed_at` is in epoch seconds."""

    path: str
    bytes: int
    changed_at: float


class ArtifactStore(Protocol):
    """Safe for use by several threads, processes and, where its medium is shared, machines."""

    layout: str

    def begin(self, folder: str) -> PartFile:
        """A new part in this folder, which is created when it is missing."""

    def commit(
        self, part: PartFile, path: str, sha256: str, note: bytes = b"", by: str = "", *, durable: bool = True
    ) -> Stored:
        """Give the part, whose bytes have this hash, its final name: `path`, or in layout `cas` the one made of the hash. When
        this returns, the file survives a loss of power; before, there is none. Not `durable`: its bytes do, its name only after
        `sync`, which serves many files at once. A name is made and never replaced, whatever
        happens between two steps of this (NameTaken); only a file that is named by its hash replaces what was there, which
        had the same bytes or was damaged. The note is kept with the file where that costs next to nothing, else it is
        dropped, and always for a name by hash, which may be of several works; `by` is the process that made the name."""
        try:
            place = final_path(self.layout, path, sha256)
            by_hash = self.layout == CAS or names_of(path)[0] == QUARANTINE
            note, by = (b"", "") if by_hash else (note, by)
            self._keep(part, place, sha256, note, by, replace=by_hash, durable=durable)
        except NameTaken:
            raise
        except BaseException:
            part.discard()
            raise
        return Stored(place, part.bytes_written, own=not by_hash)

    def _keep(
        self, part: PartFile, place: str, sha256: str, note: bytes, by: str, *, replace: bool, durable: bool
    ) -> None:
        """Store the part under this name. Without `replace` a name that is taken raises NameTaken."""

    def sync(self, paths: Iterable[str]) -> None:
        """Make the names of committed files durable, where `commit` left that to be done."""
        return None

    def note_of(self, path: str) -> bytes | None:
        """The note of a file; None when there is no file, or it has none."""

    def creator_of(self, path: str) -> Creator | None:
        """None when there is no file, or the store does not know."""

    def settled(self, path: str) -> tuple[str, int] | None:
        """Hash and size of the file, hashed again and durable from now on; None when it cannot be read."""

    def open_read(self, path: str) -> BinaryIO:
        """FileNotFoundError when it is not there."""

    def exists(self, path: str) -> bool: ...

    def sha256_of(self, path: str) -> tuple[str, int]:
        """Hash and size of the bytes as they are now. FileNotFoundError when it is not there, Unreadable when its disk fails."""

    def set_aside(self, path: str, to: str) -> bool:
        """Rename a file, without reading it, to a name that must be free (NameTaken). Returns whether there was one."""

    def delete(self, path: str) -> bool:
        """Delete a file, or what `stale_parts` found, and return whether there was one."""

    def iter_files(self, under: str) -> Iterator[Found]:
        """All files in a folder and below, by name, without parts."""

    def stale_parts(self, older_than_s: float, folder: str) -> list[Found]:
        """Parts begun in this folder that have not been written to for a while: their writers were killed."""

    def place(self, folder: str = "") -> str:
        """The folder as people name it."""


def final_path(layout: str, path: str, sha256: str) -> str:
    """The name that a file gets. Names by hash are spread over 65,536 folders, so that none has too many files."""
    names = names_of(path)
    if layout != CAS or names[0] == QUARANTINE:
        return path
    name = names[-1]
    return f"{CAS}/{sha256[:2]}/{sha256[2:4]}/{sha256}{name[name.rfind('.') :] if '.' in name else ''}"


def names_of(path: str) -> list[str]:
    """The names in a relative path; StoreError for one that is not a plain path downwards."""
    names = path.split("/")
    if any(name in ("", ".", "..") or "\0" in name for name in names):
        raise StoreError(f"{path!r} is not a path inside the artifact store")
    return names
