"""Where publishers keep their files, as far as the copies found in this run tell: a page need not be read to find the next one.

Most publishers build the address of a file from the DOI. What such addresses have in common besides the part that the DOI gives
is a pattern; where most files of a family of DOIs keep to one, it is worth a guess before anybody is asked about another, and
before the way through doi.org and the article's page is taken. A guess that fails speaks against the pattern, and one that the
host minds ends it. Trying a guess, and judging whether the file is the right paper, is the pipeline's.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from resources.http.redact import carries_credentials

_ENOUGH = 3  # times that a pattern must have shown, and as often for each time that it did not
_MOST_FAMILIES = 10_000
_MOST_ADDRESSES = 20  # of one family
_WORD = re.compile(r"[0-9a-z]{4,}")
_DIGITS = 3  # a word with so many of them is a number of an article

_Parts = tuple[str, ...]  # what stands around the part that the DOI gives


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
        self._families: dict[_Parts, _Family] = {}  # by what their DOIs have in common
        self._lock = threading.Lock()

    def learn(self, doi: str, url: str) -> None:
        """A file of this work was found here."""
        part = next((part for part in _parts_of(doi) if part in url), None)
        if part is None or carries_credentials(url):
            return
        with self._lock:
            known = tuple(doi.lower().split(part))
            family = self._families.pop(known, None) or _Family()
            if len(self._families) >= _MOST_FAMILIES:
                self._families.pop(next(iter(self._families)))  # the one of which nothing was found for longest
            self._families[known] = family
            family.found += 1
            family.addresses[tuple(url.split(part))] += 1
            if len(family.addresses) > _MOST_ADDRESSES:
                family.addresses = Counter(dict(family.addresses.most_common(_MOST_ADDRESSES // 2)))

    def guess(self, doi: str) -> str | None:
        """Where the file of a work should be, if its publisher keeps to its pattern."""
        with self._lock:
            for part in _parts_of(doi):
                family = self._families.get(tuple(doi.lower().split(part)))
                if family is not None and (address := family.pattern()) is not None:
                    return part.join(address)
        return None

    def record_failure(self, doi: str, url: str, *, unwelcome: bool = False) -> None:
        """The guess was wrong; where it was `unwelcome`, there is no other one in this run."""
        with self._lock:
            for part in _parts_of(doi):
                family = self._families.get(tuple(doi.lower().split(part)))
                if family is not None and tuple(url.split(part)) in family.addresses:
                    family.failed += 1
                    family.unwelcome = family.unwelcome or unwelcome


def _parts_of(doi: str) -> Iterator[str]:
    """What of a DOI may stand in the address of its file: all behind the prefix, or a number in it, the longest first."""
    suffix = doi.lower().partition("/")[2]
    if suffix:
        yield suffix
        numbers = {word for word in _WORD.findall(suffix) if sum(letter.isdigit() for letter in word) >= _DIGITS}
        yield from sorted(numbers - {suffix}, key=lambda part: (-len(part), part))
