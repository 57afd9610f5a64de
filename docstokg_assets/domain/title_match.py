"""Decide whether two descriptions are of the same work, without identifiers: by title, first author and year. Pure.

A wrong match is worse than none, so all three must be known and agree: the whole title word for word, the author's family name
and initial, and the year. Notices about a work (errata, replies) and parts of a series have other words in their titles; a
version of another type is another record.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from docstokg_assets.domain.works import plain_title

_SHORTEST_TITLE, _FEWEST_WORDS = 20, 3  # letters and words; shorter titles are shared by many works
_WORD = re.compile(r"\w+")
_DENSE = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af]")
_PARTICLES = frozenset(
    (
        "van",
        "von",
        "de",
        "der",
        "den",
        "del",
        "della",
        "di",
        "da",
        "dos",
        "du",
        "la",
        "le",
        "el",
        "al",
        "bin",
        "ter",
        "zu",
    )
)
# Types in the words of OpenAlex, Crossref and BibTeX, by what they describe.
_FAMILIES = (
    ("article", "journal-article", "review", "letter", "editorial"),
    ("preprint", "posted-content", "unpublished", "submittedversion"),
    ("proceedings-article", "conference", "inproceedings", "conference-paper"),
    ("book-chapter", "incollection", "inbook", "book-section", "book-part"),
    ("book", "monograph", "edited-book", "reference-book"),
    ("dissertation", "phdthesis", "mastersthesis", "thesis"),
    ("report", "techreport", "report-component"),
    ("erratum", "retraction", "correction"),
    ("peer-review",),
    ("dataset",),
    ("component", "paratext", "supplementary-materials", "grant", "journal", "journal-issue"),
)
_VERSIONS = (_FAMILIES[1], *_FAMILIES[7:10])  # must be asked for
_NO_WORKS = frozenset(_FAMILIES[-1])


@dataclass(frozen=True, slots=True)
class Citation:
    """What is known of a work without identifiers. `author` is the first one, as `Family, Given` or `Given Family`."""

    title: str | None
    author: str | None = None
    year: int | None = None
    type: str | None = None


def same_work(wanted: Citation, found: Citation) -> bool:
    """Whether both are the same work beyond doubt."""
    if wanted.year is None or wanted.year != found.year:
        return False
    if not _same_title(wanted.title, found.title) or not _same_author(wanted.author, found.author):
        return False
    return _same_type(wanted.type, found.type)


def only_match(wanted: Citation, found: Iterable[tuple[str, Citation]]) -> str | None:
    """The identifier of the one description that matches; None when none or several different ones do."""
    matches = {identifier.lower(): identifier for identifier, citation in found if same_work(wanted, citation)}
    return next(iter(matches.values())) if len(matches) == 1 else None


def is_searchable(citation: Citation) -> bool:
    """Whether the title is long enough for a match."""
    words = _words(citation.title)
    enough = sum(map(len, words)) >= _SHORTEST_TITLE and len(words) >= _FEWEST_WORDS
    dense = sum(len(word) for word in words if _DENSE.search(word)) >= _SHORTEST_TITLE // 2
    return enough or dense


def _words(title: str | None) -> list[str]:
    plain = unicodedata.normalize("NFKD", plain_title(title) or "")
    return _WORD.findall("".join(c for c in plain if not unicodedata.combining(c)).casefold().replace("_", " "))


def _same_title(one: str | None, other: str | None) -> bool:
    first, second = _words(one), _words(other)
    return bool(first) and "".join(first) == "".join(second)


def _same_author(one: str | None, other: str | None) -> bool:
    """The same family name, and the same initial where both have one."""
    (family, initial), (other_family, other_initial) = _name(one), _name(other)
    return bool(family) and family == other_family and (not initial or not other_initial or initial == other_initial)


def _name(author: str | None) -> tuple[str, str]:
    """Family name without particles, and the initial of the given name."""
    last, comma, given = (author or "").partition(",")
    words = _words(last)
    if not comma:  # Given Family
        given = words[0] if len(words) > 1 else ""
        words = words[-1:]
    words = [word for word in words if word not in _PARTICLES] or words
    return "".join(words), "".join(_words(given))[:1]


def _same_type(one: str | None, other: str | None) -> bool:
    """Types that are not known, or not stated, do not contradict; but a component is never the work."""
    if other is not None and other.lower() in _NO_WORKS:
        return False
    wanted, found = (next((f for f in _FAMILIES if str(kind).lower() in f), None) for kind in (one, other))
    return wanted == found or found is None or (wanted is None and found not in _VERSIONS)
