"""The seeded universe of works: any work of any year, or by any of its identifiers, in constant time.

Work k of year y is a pure function of (seed, y, k, mix). No list of works is stored, so a year of a million works
costs nothing until it is queried. Identifiers contain year and number, so a DOI, an arXiv id or a URL path leads back
to its work. `scenario.py` defines where a work can be found on the web, `records.py` how services describe it.
"""

from __future__ import annotations

import datetime as dt
import re
import struct
from bisect import bisect_right
from calendar import isleap
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from itertools import accumulate

from . import deposits, titles
from . import scenario as scenarios
from .mix import ARCHETYPES, Mix
from .venues import JOURNALS, REPOSITORIES, SAD, Venue, pick

MAX_PER_YEAR = 1_000_000
_GOLDEN = 0x9E3779B97F4A7C15  # 2**64 / golden ratio: multiples of it fill the circle evenly
_SILVER = 0x6A09E667F3BCC909  # fractional part of sqrt(2), for a second, independent sequence
_MASK = (1 << 64) - 1
_STRIDE = 97  # coprime with 365 and 366: neighbours in number are not neighbours in date
_OPENALEX_BASE = 4_000_000_000
_NUMBER = 10_000_000

_CODE = re.compile(r"(?<!\d)((?:19|20)\d{2})(\d{7})(?!\d)")
_SICI = re.compile(r"\((\d{4})\)12:3<(\d{7})")
_ARXIV = re.compile(r"^(\d{2})(\d{2})\.(\d{5,6})(?:v\d+)?$")

STRANGE_KINDS = (
    "null_title",
    "no_publication_date",
    "null_year",
    "malformed_doi",
    "many_locations",
    "null_ids",
    "null_source",
    "non_string",
)
# Archetypes whose publisher is not one of the good journals.
_OWN_VENUE = {
    "unpaywall_only": "subscription", "crossref_link": "plain", "html_only": "plain", "jats_only": "plain",
    "wayback_only": "defunct", "loop_pdf": "roundabout", "loop_doi": "roundabout", "nothing_closed": "subscription",
    "nothing_404": "defunct", "bad_status": "brokenstack", "no_pdf_link": "subscription",
    "no_pdf_link_closed": "subscription",
    "wall": "gatehouse", "corrupt": "tatters", "repository": "subscription",
    **dict.fromkeys(deposits.BEHIND_KEYS, "subscription"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Work:
    """One generated work. `rolls` are sixteen independent 32-bit numbers for all further choices."""

    year: int
    index: int
    archetype: str
    strange: str | None
    publisher: Venue
    repository: Venue
    doi: str | None
    arxiv: str | None
    pmcid: str | None
    rolls: tuple[int, ...]
    day: int  # of the year, from 0
    huge: int = field(default=300, repr=False)

    @property
    def code(self) -> str:
        return f"{self.year}{self.index:07d}"

    @property
    def number(self) -> int:
        return _OPENALEX_BASE + (self.year - 1900) * _NUMBER + self.index

    @property
    def id(self) -> str:
        return f"W{self.number}"

    @property
    def date(self) -> dt.date:
        return dt.date(self.year, 1, 1) + dt.timedelta(days=self.day)

    @property
    def language(self) -> str:
        return titles.language(self.rolls[0])

    @property
    def title(self) -> str:
        return titles.title(self.language, self.rolls[1], self.code)

    @property
    def pmid(self) -> int | None:
        return int(self.pmcid[3:]) if self.pmcid else None

    @property
    def is_datacite(self) -> bool:
        return bool(self.doi and self.doi.startswith(deposits.DATACITE))


@dataclass(frozen=True, slots=True)
class Truth:
    """What a perfect collector would find for a work."""

    work_id: str
    archetype: str
    reachable: bool
    url: str | None  # the good copy, at the URL that a careful resolver requests first
    resolver: str  # the resolver that leads there ("" when none does)
    failure: str  # redirect-loop | nothing | bad-status | no-pdf-link | wall | corrupt | robots | ""
    kind: str  # pdf | html | xml | ""
    also: tuple[str, ...]  # other addresses of a good copy
    strange: str | None  # how its OpenAlex record is odd, if it is


class Universe:
    """All works of a range of years. Equal arguments give equal universes, on any machine."""

    def __init__(
        self, seed: int = 7, works_per_year: int = 200, years: tuple[int, int] = (2021, 2026), mix: Mix | None = None
    ) -> None:
        if not 0 <= works_per_year <= MAX_PER_YEAR:
            raise ValueError(f"works_per_year must be between 0 and {MAX_PER_YEAR}")
        if not 1991 <= years[0] <= years[1] <= 2089:
            raise ValueError("years must be an inclusive range within 1991 to 2089")
        self.seed, self.works_per_year, self.years = seed, works_per_year, years
        self.mix = mix or Mix()
        self._names = [name for name, _ in self.mix.weights()]
        self._bounds = list(accumulate(weight for _, weight in self.mix.weights()))
        self._offsets = {y: self._offset(y) for y in range(years[0], years[1] + 1)}
        self._cached_work = lru_cache(maxsize=16_384)(self._make)
        self._cached_scenario = lru_cache(maxsize=4_096)(scenarios.build)

    # -- works by number ---------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self.works_per_year * len(self._offsets)

    def works(self, year: int | None = None) -> Iterator[Work]:
        for y in [year] if year is not None else list(self._offsets):
            for index in range(self.works_per_year):
                yield self._make(y, index)

    def work(self, year: int, index: int) -> Work:
        if year not in self._offsets or not 0 <= index < self.works_per_year:
            raise KeyError(f"no work {index} in {year}")
        return self._cached_work(year, index)

    def scenario(self, work: Work) -> scenarios.Scenario:
        return self._cached_scenario(work)

    def truth(self, work_id: str) -> Truth:
        """Return the ground truth for an OpenAlex id, with or without `https://openalex.org/`."""
        work = self.by_openalex(work_id)
        if work is None:
            raise KeyError(work_id)
        scenario = self.scenario(work)
        failure, resolver = ARCHETYPES[work.archetype]
        return Truth(
            work.id, work.archetype, not failure, scenario.good_url, resolver, failure, scenario.good_kind, tuple(scenario.also),
            work.strange,
        )  # fmt: skip

    # -- days: works of a day and back, without looking at other works ---------------------------------------------

    def days_in(self, year: int) -> int:
        return 366 if isleap(year) else 365

    def day_count(self, year: int, day: int) -> int:
        first = self._first_of_day(year, day)
        if first >= self.works_per_year:
            return 0
        return (self.works_per_year - 1 - first) // self.days_in(year) + 1

    def of_day(self, year: int, day: int, nth: int) -> int:
        """Return the number of the nth work published on a day."""
        return self._first_of_day(year, day) + nth * self.days_in(year)

    def _first_of_day(self, year: int, day: int) -> int:
        days = self.days_in(year)
        return (day - self._offsets[year]) * pow(_STRIDE, -1, days) % days

    # -- works by identifier -----------------------------------------------------------------------------------------

    def by_openalex(self, text: str) -> Work | None:
        digits = text.rsplit("/", 1)[-1].lstrip("Ww")
        if not digits.isdigit() or len(digits) > 12:
            return None
        year, index = divmod(int(digits) - _OPENALEX_BASE, _NUMBER)
        return self._maybe(year + 1900, index)

    def by_doi(self, doi: str) -> Work | None:
        wanted = doi.lower()
        if wanted.startswith("10.48550/arxiv."):
            work = self.by_arxiv(wanted.removeprefix("10.48550/arxiv."))
        else:
            work = self.find(doi)
        return work if work and work.doi and work.doi.lower() == wanted else None

    def by_arxiv(self, arxiv: str) -> Work | None:
        match = _ARXIV.match(arxiv)
        if not match:
            return None
        yy, month, number = (int(part) for part in match.groups())
        work = self._maybe((1900 if yy >= 91 else 2000) + yy, number * 12 + month - 1)
        return work if work and work.arxiv and work.arxiv == arxiv.split("v")[0] else None

    def by_pmcid(self, pmcid: str) -> Work | None:
        digits = pmcid.upper().removeprefix("PMC")
        if not digits.isdigit() or len(digits) > 9:
            return None
        year, index = divmod(int(digits), MAX_PER_YEAR)
        work = self._maybe(year + 1990, index)
        return work if work and work.pmcid else None

    def find(self, text: str) -> Work | None:
        """Return the work whose number appears in a path or DOI."""
        match = _CODE.search(text) or _SICI.search(text)
        if match is None and (numbers := deposits.numbers_in(text)) is not None:
            return self._maybe(*numbers)
        return self._maybe(int(match[1]), int(match[2])) if match else None

    def _maybe(self, year: int, index: int) -> Work | None:
        if year not in self._offsets or not 0 <= index < self.works_per_year:
            return None
        return self._cached_work(year, index)

    # -- generation --------------------------------------------------------------------------------------------------------

    def _offset(self, year: int) -> int:
        return int.from_bytes(blake2b(b"%d|%d" % (self.seed, year), digest_size=8).digest(), "little")

    def _make(self, year: int, index: int) -> Work:
        offset = self._offsets[year]
        # A low-discrepancy sequence instead of random numbers: the proportions also hold in small universes.
        spot = ((offset + index * _GOLDEN) & _MASK) / 2**64 * self._bounds[-1]
        archetype = self._names[min(bisect_right(self._bounds, spot), len(self._names) - 1)]
        rolls = struct.unpack("<16I", blake2b(b"%d|%d|%d" % (self.seed, year, index), digest_size=64).digest())
        odd = ((offset ^ 0x5555) + index * _SILVER & _MASK) / 2**64 < self.mix.strange
        publisher = self._publisher(archetype, rolls)
        code = f"{year}{index:07d}"
        arxiv = self._arxiv(archetype, year, index, rolls)
        day = (index * _STRIDE + offset) % self.days_in(year)
        return Work(
            year=year, index=index, archetype=archetype,
            strange=STRANGE_KINDS[rolls[15] % len(STRANGE_KINDS)] if odd else None,
            publisher=publisher, repository=pick(REPOSITORIES, rolls[3]),
            doi=self._doi(archetype, publisher, code, arxiv, rolls, day), arxiv=arxiv,
            pmcid=f"PMC{(year - 1990) * MAX_PER_YEAR + index}" if archetype == "pmc" else None,
            rolls=rolls, day=day, huge=self.mix.huge_locations,
        )  # fmt: skip

    def _publisher(self, archetype: str, rolls: tuple[int, ...]) -> Venue:
        if archetype == "robots":
            return SAD["keepout" if rolls[11] % 2 else "mute"]
        return SAD[_OWN_VENUE[archetype]] if archetype in _OWN_VENUE else pick(JOURNALS, rolls[2])

    def _arxiv(self, archetype: str, year: int, index: int, rolls: tuple[int, ...]) -> str | None:
        extra = archetype in ("gold", "repository") and rolls[14] / 2**32 < self.mix.extra_arxiv
        if archetype != "arxiv_only" and not extra:
            return None
        return f"{year % 100:02d}{index % 12 + 1:02d}.{index // 12:05d}"

    def _doi(
        self, archetype: str, venue: Venue, code: str, arxiv: str | None, rolls: tuple[int, ...], day: int
    ) -> str | None:
        if deposit := deposits.DEPOSITS.get(archetype):
            date = dt.date(int(code[:4]), 1, 1) + dt.timedelta(days=day)
            return deposit.fill(deposit.doi, int(code[:4]), int(code[4:]), f"{date:%Y.%m.%d}")
        if archetype == "arxiv_only":
            return f"10.48550/arXiv.{arxiv}" if rolls[12] % 2 else None
        if archetype == "nothing_closed" and rolls[12] % 3 == 0:
            return None
        return f"{venue.prefix}/" + venue.doi.format(key=venue.key, code=code, year=code[:4], index=code[4:])
