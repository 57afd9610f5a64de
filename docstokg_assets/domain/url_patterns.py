"""Learn URL patterns of publishers' files from the copies found in this run, and guess URLs of further files.

Most publishers build the URL of a file from the DOI. The rest of such a URL is a pattern; when most files of a family of DOIs
follow one pattern, the next URL is guessed before any provider is queried and before the article's page is read. A failed
guess counts against the pattern, and one that the host rejects ends it. The search requests the guess and validates the file.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from resources.http.redact import carries_credentials

_ENOUGH = 3  # hits that a pattern needs, for each miss if there are several
_MOST_FAMILIES = 10_000
_MOST_ADDRESSES = 20  # of one family
_WORD = re.compile(r"[0-9a-z]{4,}")
_DIGITS = 3  # digits that a word must have to be taken for the number of an article

_Parts = tuple[str, ...]  # a URL or a DOI, split at the part that they share


@dataclass(slots=True)
class _Family:
    addresses: Counter[_Parts] = field(default_factory=Counter)
    found: int = 0
    failed: int = 0
    unwelcome: bool = False

    def pattern(self) -> _Parts | None:
        if self.unwelcome:
            return None
        address, times = self.addresses.most_common(1)[0]
        return address if times >= _ENOUGH * max(1, self.found - times + self.failed) else None


class UrlPatternCache:
    """Shared by all works of a run. Thread-safe."""

    def __init__(self) -> None:
        self._families: dict[_Parts, _Family] = {}  # by the parts that their DOIs have in common
        self._lock = threading.Lock()

    def learn(self, doi: str, url: str) -> None:
        """Record that a file of this work was found at `url`."""
        part = next((part for part in _parts_of(doi) if part in url), None)
        if part is None or carries_credentials(url):
            return
        with self._lock:
            known = tuple(doi.lower().split(part))
            family = self._families.pop(known, None) or _Family()
            if len(self._families) >= _MOST_FAMILIES:
                self._families.pop(next(iter(self._families)))  # the one with the oldest find
            self._families[known] = family
            family.found += 1
            family.addresses[tuple(url.split(part))] += 1
            if len(family.addresses) > _MOST_ADDRESSES:
                family.addresses = Counter(dict(family.addresses.most_common(_MOST_ADDRESSES // 2)))

    def guess(self, doi: str) -> str | None:
        """The URL at which the file should be if its publisher follows a learnt pattern, else None."""
        with self._lock:
            for part in _parts_of(doi):
                family = self._families.get(tuple(doi.lower().split(part)))
                if family is not None and (address := family.pattern()) is not None:
                    return part.join(address)
        return None

    def record_failure(self, doi: str, url: str, *, unwelcome: bool = False) -> None:
        """Record that a guess failed. After an `unwelcome` one, this family gets no further guesses in this run."""
        with self._lock:
            for part in _parts_of(doi):
                family = self._families.get(tuple(doi.lower().split(part)))
                if family is not None and tuple(url.split(part)) in family.addresses:
                    family.failed += 1
                    family.unwelcome = family.unwelcome or unwelcome


def _parts_of(doi: str) -> Iterator[str]:
    """Parts of a DOI that may occur in the URL of its file: the suffix, then the numbers in it, the longest first."""
    suffix = doi.lower().partition("/")[2]
    if suffix:
        yield suffix
        numbers = {word for word in _WORD.findall(suffix) if sum(letter.isdigit() for letter in word) >= _DIGITS}
        yield from sorted(numbers - {suffix}, key=lambda part: (-len(part), part))
