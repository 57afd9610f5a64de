"""The work: one scholarly record as the rest of the package uses it, and its conversion from OpenAlex. No I/O.

Identifiers are normalised in `identifiers.py`; what may be fetched is decided in `plans.py` and the resolvers.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from itertools import islice
from operator import attrgetter
from typing import Any

from docstokg_assets.domain import identifiers as ids
from docstokg_assets.domain.json_access import items, mapping, objects, text
from resources.http.redact import without_credentials

MAX_LOCATIONS = 200
MAX_TITLE_LENGTH = 1000
MAX_AUTHORS = 20  # that are kept, the first ones
# Known tags only, and attributes only with values: `a<b and c>d` is a title too.
_MARKUP = re.compile(
    r"(?i)</?(?:(?:jats|mml|m):[a-z-]+|math|m(?:i|n|o|s|row|sub|sup|subsup|frac|sqrt|text|over|under|space|style|table|tr|td)"
    r"|semantics|annotation|i|b|u|a|p|em|tt|sc|br|sub|sup|inf|span|div|font|strong|italic|bold|title|scp)"
    r"(?:\s[\w:.-]+\s?=[^<>]*)?\s?/?>"
)
_AGENCIES = ("crossref", "datacite")
_YEAR = re.compile(r"[12][0-9]{3}(?:\.0)?")
_DATE = re.compile(r"([0-9]{4})-[0-9]{2}-[0-9]{2}")


@dataclass(frozen=True, slots=True)
class Location:
    """One place where OpenAlex knows a copy, or a page about one."""

    landing_url: str | None = None
    pdf_url: str | None = None
    is_oa: bool = False
    version: str | None = None  # publishedVersion | acceptedVersion | submittedVersion
    license: str | None = None
    source: str | None = None
    source_type: str | None = None  # journal | repository | …


@dataclass(frozen=True, slots=True)
class FetchOrder:
    """How the URL of an ingest item is fetched: the one wanted type, and the routes for each URL, in order."""

    type: str  # pdf | xml | html
    routes: tuple[str, ...] = ("archive", "live")  # archive, live, save
    max_age_days: float | None = None  # captures older than this do not count


@dataclass(frozen=True, slots=True)
class Work:
    """`work_id` is the OpenAlex id (`W…`) when there is one, else a name made from the identifier that was given."""

    work_id: str
    title: str | None = None
    year: int | None = None
    publication_date: str | None = None
    doi: str | None = None
    arxiv_id: str | None = None
    pmid: str | None = None
    pmcid: str | None = None
    type: str | None = None
    language: str | None = None
    is_oa: bool | None = None
    oa_status: str | None = None
    agency: str | None = None  # who registered the DOI: crossref | datacite, where that is known
    has_content: bool = False  # OpenAlex itself sells a copy
    locations: tuple[Location, ...] = ()
    urls: tuple[str, ...] = ()  # given by the user, where the source is a list of URLs
    updated_date: str | None = None
    authors: tuple[str, ...] = ()  # names in their order, the first ones only
    ingest: FetchOrder | None = None  # set for an ingest item: only its URL is searched, in this way
    deleted: str | None = None  # the day since which OpenAlex no longer lists it; final

    @property
    def has_open_location(self) -> bool:
        return any(location.is_oa for location in self.locations)

    def to_json(self) -> dict[str, Any]:
        """Compact and stable: absent values are left out."""
        given = _given(WORK_FIELDS, _work_values(self))
        if self.ingest is not None:
            given["ingest"] = asdict(self.ingest)
        if self.is_oa is False:
            given["is_oa"] = False
        if self.locations:
            given["locations"] = [_given(LOCATION_FIELDS, _location_values(place)) for place in self.locations]
        return given

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Work:
        given = dict(raw)
        given["locations"] = tuple(Location(**loc) for loc in given.get("locations", ()))
        given["urls"] = tuple(given.get("urls", ()))
        given["authors"] = tuple(given.get("authors", ()))
        if order := given.get("ingest"):
            given["ingest"] = FetchOrder(order["type"], tuple(order["routes"]), order.get("max_age_days"))
        return cls(**given)


WORK_FIELDS = tuple(field.name for field in fields(Work))
LOCATION_FIELDS = tuple(field.name for field in fields(Location))
_work_values, _location_values = attrgetter(*WORK_FIELDS), attrgetter(*LOCATION_FIELDS)


def _given(names: tuple[str, ...], values: tuple[Any, ...]) -> dict[str, Any]:
    """The values other than None, False and an empty tuple. `asdict` copies deeply, which costs ten times as much."""
    pairs = zip(names, values, strict=True)
    return {name: value for name, value in pairs if value is not None and value is not False and value != ()}


class UnreadableRecord(ValueError):
    """A record that cannot become a work; the message is the reason."""


def work_from_openalex(record: Any) -> Work:
    """The work that an OpenAlex record describes. An invalid field counts as absent; only a missing id is fatal."""
    raw = mapping(record)
    known = mapping(raw.get("ids"))
    work_id = ids.normalize_openalex_id(raw.get("id")) or ids.normalize_openalex_id(known.get("openalex"))
    if work_id is None:
        raise UnreadableRecord(f"no OpenAlex work id: {text(repr(raw.get('id') if raw else record), 80)}")
    doi = ids.normalize_doi(raw.get("doi")) or ids.normalize_doi(known.get("doi"))
    open_access = mapping(raw.get("open_access"))
    is_oa = open_access.get("is_oa")
    # the best location first; OpenAlex repeats it, and the primary one, in `locations`
    best, primary = mapping(raw.get("best_oa_location")), mapping(raw.get("primary_location"))
    places = [best, *objects(raw.get("locations")), primary]
    date = text(raw.get("publication_date"), 10) or ""
    date = date if _DATE.fullmatch(date) else ""
    return Work(
        work_id=work_id,
        title=plain_title(raw.get("title")) or plain_title(raw.get("display_name")),
        authors=_authors(raw.get("authorships")),
        year=_year(raw.get("publication_year")) or _year(date[:4]),
        publication_date=date or None,
        doi=doi,
        arxiv_id=ids.normalize_arxiv(known.get("arxiv")) or ids.normalize_arxiv(doi) or _arxiv_id_among(places),
        pmid=ids.normalize_pmid(known.get("pmid")),
        pmcid=ids.normalize_pmcid(known.get("pmcid"))
        or next(filter(None, (ids.normalize_pmcid(p.get("id")) for p in places)), None),
        type=text(raw.get("type"), 64),
        language=text(raw.get("language"), 16),
        is_oa=is_oa if isinstance(is_oa, bool) else None,
        oa_status=text(open_access.get("oa_status"), 32),
        agency=next((name for name in _AGENCIES if name in items(raw.get("indexed_in"))), None),
        has_content=mapping(raw.get("has_content")).get("pdf") is True,
        locations=_locations(places),
        updated_date=text(raw.get("updated_date"), 40),
    )


def plain_title(value: Any) -> str | None:
    """A title as one line of plain text: entities resolved, HTML and MathML tags taken out, very long ones cut."""
    if not isinstance(value, str):
        return None
    return text(_MARKUP.sub("", html.unescape(value[: 8 * MAX_TITLE_LENGTH])), MAX_TITLE_LENGTH)


def _authors(authorships: Any) -> tuple[str, ...]:
    names = (text(mapping(one.get("author")).get("display_name"), 100) for one in objects(authorships))
    return tuple(islice(filter(None, names), MAX_AUTHORS))


def kept_url(value: Any) -> str | None:
    """A URL from a source, without the credentials in it, because works are stored."""
    url = ids.normalize_url(value)
    return None if url is None else without_credentials(url)


def _year(value: Any) -> int | None:
    return int(float(value)) if isinstance(value, int | str | float) and _YEAR.fullmatch(str(value)) else None


def _locations(places: list[Mapping[str, Any]]) -> tuple[Location, ...]:
    """Each place once, the open ones first, at most MAX_LOCATIONS."""
    found: dict[tuple[str | None, str | None], Location] = {}
    read: set[tuple[str, str]] = set()
    for place in places:
        spelt = (str(place.get("pdf_url")), str(place.get("landing_page_url")))
        if spelt in read:  # repeated word for word
            continue
        read.add(spelt)
        landing_url, pdf_url = kept_url(place.get("landing_page_url")), kept_url(place.get("pdf_url"))
        if (pdf_url, landing_url) in found or not (pdf_url or landing_url):
            continue
        source, version = mapping(place.get("source")), text(place.get("version"), 32)
        name, kind = text(source.get("display_name")), text(source.get("type"), 32)
        rights = (place.get("is_oa") is True, version, text(place.get("license"), 64))
        found[pdf_url, landing_url] = Location(landing_url, pdf_url, *rights, name, kind)
    return tuple(sorted(found.values(), key=lambda location: not location.is_oa)[:MAX_LOCATIONS])


def _arxiv_id_among(places: list[Mapping[str, Any]]) -> str | None:
    """The newest version is wanted, so a version in a location's address is dropped."""
    for place in places:
        for name in (place.get("id"), place.get("landing_page_url"), place.get("pdf_url")):
            # Of a URL or an OAI name only: a bare number in these fields says nothing about arXiv.
            if not isinstance(name, str) or "arxiv" not in name.lower():
                continue
            if found := ids.normalize_arxiv(name.removeprefix("pmh:")):
                return ids.arxiv_without_version(found)
    return None
