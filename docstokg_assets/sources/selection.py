"""Filters as people name them (type, year, topic, language, licence), as an OpenAlex filter or as a check of works."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from docstokg_assets.domain.works import Work

_CC = ("cc-by", "cc-by-sa", "cc-by-nc", "cc-by-nd", "cc-by-nc-sa", "cc-by-nc-nd")
_LICENSES = (*_CC, "cc0", "public-domain", "other-oa", "publisher-specific-oa", "mit", "gpl-v3")
_YEARS = re.compile(r"(?P<from>[12][0-9]{3})?(?P<range>-)?(?P<to>[12][0-9]{3})?")


class SelectionError(ValueError):
    """An option with a value that cannot be used; the message names both."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The filter options as given; alternatives are separated by commas."""

    types: tuple[str, ...] = ()
    years: tuple[tuple[int | None, int | None], ...] = ()  # first and last, either open
    topics: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    is_oa: bool | None = None
    licenses: tuple[str, ...] = ()

    @classmethod
    def parse(
        cls,
        types: str | None,
        years: str | None,
        topics: str | None,
        languages: str | None,
        is_oa: bool | None,
        licenses: str | None,
    ) -> Selection:
        """Raises SelectionError."""
        topic_ids = tuple(re.sub(r"(?i)^https?://openalex\.org/(?:topics/)?", "", one) for one in _parts(topics))
        for one in topic_ids:
            if not re.fullmatch(r"[Tt][0-9]+", one):
                raise SelectionError(f"--topic {one!r}: give an OpenAlex topic id such as T10102 (openalex.org/topics)")
        return cls(
            tuple(_parts(types)),
            tuple(map(_years, _parts(years))),
            tuple(one.upper() for one in topic_ids),
            tuple(one.lower() for one in _parts(languages)),
            is_oa,
            license_names(licenses),
        )

    def as_filter(self) -> str:
        """The parts of an OpenAlex filter. A licence pattern becomes the licences that match it."""
        parts = {
            "type": "|".join(self.types),
            "publication_year": "|".join(_span(first, last) for first, last in self.years),
            "topics.id": "|".join(self.topics),
            "language": "|".join(self.languages),
            "open_access.is_oa": "" if self.is_oa is None else str(self.is_oa).lower(),
            "best_oa_location.license": "|".join(self._known_licenses()),
        }
        return ",".join(f"{name}:{value}" for name, value in parts.items() if value)

    def _known_licenses(self) -> Sequence[str]:
        from fnmatch import fnmatchcase

        if "unknown" in self.licenses:  # OpenAlex cannot be asked for those
            return ()
        found = [name for name in _LICENSES if any(fnmatchcase(name, pattern) for pattern in self.licenses)]
        plain = [one for one in self.licenses if "*" not in one and one not in found]
        return (*found, *plain)


@dataclass(frozen=True, slots=True)
class WorkFilter:
    """Decides on works of a list, whose OpenAlex records are looked up one by one."""

    selection: Selection

    def excludes(self, work: Work) -> str | None:
        """Why the work is not wanted. A value that is not known does not match."""
        wanted = self.selection
        if wanted.types and work.type not in wanted.types:
            return f"left out by --type: its type is {work.type or 'unknown'}"
        if wanted.years and not any(_within(work.year, *span) for span in wanted.years):
            return f"left out by --year: its year is {work.year or 'unknown'}"
        if wanted.languages and work.language not in wanted.languages:
            return f"left out by --language: its language is {work.language or 'unknown'}"
        if wanted.is_oa is not None and bool(work.is_oa) is not wanted.is_oa:
            return f"left out by --{'oa' if wanted.is_oa else 'no-oa'}: OpenAlex lists it as {'open' if work.is_oa else 'closed'}"
        return None

    @property
    def empty(self) -> bool:
        wanted = self.selection
        return not (wanted.types or wanted.years or wanted.languages or wanted.is_oa is not None)


def license_names(given: str | None) -> tuple[str, ...]:
    """`CC BY 4.0` and `cc_by` as OpenAlex writes them; patterns such as `cc-by*` stay."""
    names = (re.sub(r"[\s_]+", "-", one.lower()) for one in _parts(given))
    return tuple(re.sub(r"-v?[0-9]\.[0-9]$", "", name) if name.startswith("cc") else name for name in names)


def _parts(given: str | None) -> list[str]:
    return [part for one in (given or "").split(",") if (part := one.strip())]


def _years(given: str) -> tuple[int | None, int | None]:
    match = _YEARS.fullmatch(given.replace("–", "-").replace(" ", ""))
    if match is None or not (match["from"] or match["to"]) or (match["to"] and not match["range"]):
        raise SelectionError(f"--year {given!r}: give a year or a range, such as 2024, 2020-2024, 2020- or -2019")
    first = int(match["from"]) if match["from"] else None
    last = int(match["to"]) if match["to"] else None if match["range"] else first
    if first and last and first > last:
        raise SelectionError(f"--year {given!r}: the range ends before it begins")
    return first, last


def _span(first: int | None, last: int | None) -> str:
    return str(first) if first == last else f"{first or ''}-{last or ''}"


def _within(year: int | None, first: int | None, last: int | None) -> bool:
    return year is not None and (first is None or year >= first) and (last is None or year <= last)
