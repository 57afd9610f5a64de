"""One entry of a user's list, as it was given, with what it names. Joined with the outcome later, so nothing is dropped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from docstokg_assets.domain.identifiers import Identifier
from docstokg_assets.domain.works import Work
from docstokg_assets.sources import SetAside


@dataclass(frozen=True, slots=True)
class Input:
    """An entry names an identifier, or a work by its URL, or has the `reason` why it is set aside. A line with several
    identifiers is several inputs with the same line."""

    file: str  # name of the file, `-` for standard input, `arguments` for the command line
    line: int  # first line of the entry; row of a sheet; position of an argument
    text: str  # as given, shortened
    identifier: Identifier | None = None
    work: Work | None = None
    reason: str | None = None
    key: str | None = None  # citation key or id of the entry in its file
    title: str | None = None  # as given
    year: int | None = None

    def as_set_aside(self) -> SetAside:
        return SetAside(f"line {self.line}", self.reason or "", self.text, self.line)


@dataclass(frozen=True, slots=True)
class References:
    """A list that was read: its format in words, and its entries in order."""

    format: str
    entries: int
    inputs: tuple[Input, ...]


def unique_identifiers(inputs: Iterable[Input]) -> Iterator[Identifier]:
    """Each identifier once, in order; DOIs that differ in case only are one."""
    seen: set[tuple[str, str]] = set()
    for one in inputs:
        if one.identifier is not None and (key := key_of(one.identifier)) not in seen:
            seen.add(key)
            yield one.identifier


def key_of(identifier: Identifier) -> tuple[str, str]:
    return identifier.kind, identifier.value.lower()
