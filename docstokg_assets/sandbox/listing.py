"""Lists of works for OpenAlex queries: filters, order and position, without a scan of the universe where possible.

Filters on year and date select whole days, whose works are computed; a page of a year with a million works costs one
page. Any other filter needs one pass over the selected days; the numbers found are kept for the following
pages.
"""

from __future__ import annotations

import datetime as dt
import re
from array import array
from bisect import bisect_right
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from . import records
from .universe import Universe, Work

Test = Callable[[Work], bool]
_KEPT_LISTS = 32
_GATED = ("from_updated_date", "to_updated_date", "from_created_date", "to_created_date")
_YEAR_ONE, _YEAR_LAST = dt.date(1, 1, 1), dt.date(9999, 12, 31)


class QueryError(Exception):
    """A query that OpenAlex answers with 400."""


class PlanRequired(Exception):
    """A filter that the plan of the caller's key does not include."""


class RawComma(Exception):
    """A comma inside a filter value, refused before the query is read."""


@dataclass
class Query:
    first: dt.date = _YEAR_ONE
    last: dt.date = _YEAR_LAST
    tests: list[Test] = field(default_factory=list)
    only: list[Work] | None = None  # works named one by one
    key: str = ""  # identifies the query in the cache
    descending: bool = True
    by: str = "publication_date"


# -- filters ---------------------------------------------------------------------------------------------------------


def _tail(value: str) -> str:
    return value.rsplit("/", 1)[-1].lower()


def _ids(getter: Callable[[Work], tuple[str, ...]]) -> Callable[[str], Test]:
    def make(value: str) -> Test:
        wanted = _tail(value)
        return lambda work: wanted in [one.lower() for one in getter(work)]

    return make


def _bool(getter: Callable[[Work], bool]) -> Callable[[str], Test]:
    def make(value: str) -> Test:
        if value.lower() not in ("true", "false"):
            raise QueryError(f"Value for a boolean filter must be true or false, not {value}.")
        wanted = value.lower() == "true"
        return lambda work: getter(work) is wanted

    return make


def _words(value: str) -> Test:
    words = [w.lower() for w in re.findall(r"[^\W_]+", value)]
    return lambda work: all(word in work.title.lower() for word in words)


def _lineage(work: Work) -> tuple[str, ...]:
    row = records.institution(work)
    return (row[0], row[3])


class Listing:
    """Answer queries over one universe."""

    def __init__(self, universe: Universe) -> None:
        self._universe = universe
        self._kept: OrderedDict[str, array[int]] = OrderedDict()
        self._filters: dict[str, Callable[[str], Test]] = {
            "topics.id": _ids(lambda w: (records.topic(w)[0], records.second_topic(w)[0])),
            "primary_topic.id": _ids(lambda w: (records.topic(w)[0],)),
            "authorships.institutions.id": _ids(lambda w: (records.institution(w)[0],)),
            "institutions.id": _ids(lambda w: (records.institution(w)[0],)),
            "authorships.institutions.lineage": _ids(_lineage),
            "primary_location.source.id": _ids(self._primary_source),
            "locations.source.id": _ids(self._sources),
            "type": _ids(lambda w: (records.work_type(w),)),
            "language": _ids(lambda w: (w.language,)),
            "open_access.is_oa": _bool(self._is_oa),
            "is_oa": _bool(self._is_oa),
            "open_access.oa_status": _ids(lambda w: (self._oa_status(w),)),
            "oa_status": _ids(lambda w: (self._oa_status(w),)),
            "best_oa_location.license": _ids(lambda w: (self._license(w),)),
            "has_doi": _bool(lambda w: w.doi is not None),
            "has_pmcid": _bool(lambda w: w.pmcid is not None),
            "has_content.pdf": _bool(lambda w: False),
            "is_retracted": _bool(lambda w: False),
            "is_paratext": _bool(lambda w: False),
            "title.search": lambda v: _words(v),
            "display_name.search": lambda v: _words(v),
            "default.search": lambda v: _words(v),
        }

    # -- attributes that need the scenario

    def _primary_source(self, work: Work) -> tuple[str, ...]:
        return (records.source_id(self._universe.scenario(work).locations[0].source),)

    def _sources(self, work: Work) -> tuple[str, ...]:
        return tuple(records.source_id(loc.source) for loc in self._universe.scenario(work).locations)

    def _is_oa(self, work: Work) -> bool:
        return any(loc.is_oa for loc in self._universe.scenario(work).locations)

    def _oa_status(self, work: Work) -> str:
        scenario = self._universe.scenario(work)
        return records.oa_status(scenario, records.best_location(scenario.locations))

    def _license(self, work: Work) -> str:
        best = records.best_location(self._universe.scenario(work).locations)
        return (best.license or "null") if best else "null"

    # -- reading a query

    def parse(self, filters: str, search: str, sort: str, paid: bool) -> Query:
        query = Query(key=f"{filters}|{search}|{sort}")
        for part in filters.split(",") if filters else []:
            name, colon, value = part.partition(":")
            if not colon:
                raise RawComma(part)
            self._add(query, name.strip(), value.strip(), paid)
        if search:
            query.tests.append(_words(search))
        self._order(query, sort, paid)
        return query

    def _add(self, query: Query, name: str, value: str, paid: bool) -> None:
        if name in _GATED and not paid:
            raise PlanRequired(f"{name}:{value}")
        values = value.split("|")
        if len(values) > 100:
            raise QueryError("Maximum number of values exceeded for OR filter: 100.")
        if name == "publication_year":
            self._add_years(query, values)
        elif name in ("from_publication_date", "to_publication_date"):
            day = _date(value)
            if name.startswith("from"):
                query.first = max(query.first, day)
            else:
                query.last = min(query.last, day)
        elif name == "publication_date":
            query.first, query.last = max(query.first, _date(value)), min(query.last, _date(value))
        elif name in _GATED:
            query.tests.append(_stamp_test(name, value))
        elif name in ("doi", "openalex", "ids.openalex", "openalex_id", "pmcid", "ids.pmcid", "pmid", "ids.pmid"):
            self._add_named(query, name, values)
        elif name in self._filters:
            negated = value.startswith("!")
            tests = [self._filters[name](v.lstrip("!")) for v in values]
            query.tests.append(lambda w: any(t(w) for t in tests) is not negated)
        else:
            raise QueryError(f"{name} is not a valid field. Valid fields are underscore or hyphenated versions of: "
                             f"{', '.join(sorted(self._filters))}.")  # fmt: skip

    def _add_years(self, query: Query, values: list[str]) -> None:
        spans = [_years(value) for value in values]
        query.first = max(query.first, dt.date(max(1, min(a for a, _ in spans)), 1, 1))
        query.last = min(query.last, dt.date(min(9999, max(b for _, b in spans)), 12, 31))
        if len(spans) > 1:
            query.tests.append(lambda w: any(a <= w.year <= b for a, b in spans))

    def _add_named(self, query: Query, name: str, values: list[str]) -> None:
        finder = {"doi": self._by_doi, "pmcid": self._universe.by_pmcid, "pmid": self._universe.by_pmcid}.get(
            name.removeprefix("ids."), self._universe.by_openalex)  # fmt: skip
        found = {w.id: w for w in map(finder, values) if w}
        query.only = [w for w in (query.only if query.only is not None else found.values()) if w.id in found]

    def _by_doi(self, value: str) -> Work | None:
        return self._universe.by_doi(
            re.sub(r"^(https?://)?(dx\.|www\.)?(doi\.org/|doi:)", "", value, flags=re.IGNORECASE)
        )

    def _order(self, query: Query, sort: str, paid: bool) -> None:
        name, _, direction = sort.partition(":")
        if name in ("updated_date", "created_date") and not paid:
            raise PlanRequired(f"sort={sort}")
        if sort and (name not in ("publication_date", "publication_year", "cited_by_count", "relevance_score",
                                  "updated_date", "created_date", "id")
                     or direction not in ("", "asc", "desc")):  # fmt: skip
            raise QueryError(f"Cannot sort by {sort}.")
        query.by = name or "publication_date"
        query.descending = direction == "desc" if sort else True

    # -- answering

    def page(self, query: Query, start: int, size: int) -> tuple[int, list[Work]]:
        """Return the number of matching works and the works from a position on."""
        if query.only is not None:
            chosen = [w for w in query.only if query.first <= w.date <= query.last and all(t(w) for t in query.tests)]
            return len(chosen), chosen[start : start + size]
        if not query.tests and query.by in ("publication_date", "publication_year", "relevance_score"):
            days = _Days(self._universe, query)
            return days.total, [self._universe.work(*spot) for spot in days.slice(start, size)]
        spots = self._scan(query)
        return len(spots), [self._universe.work(*divmod(n, 10_000_000)) for n in spots[start : start + size]]

    def years(self, query: Query) -> Counter[int]:
        """Return the number of matching works per year."""
        if query.only is not None:
            return Counter(work.year for work in self.page(query, 0, len(query.only))[1])
        if query.tests:
            return Counter(number // 10_000_000 for number in self._scan(query))
        return Counter(year for year, _ in _Days(self._universe, query).all())

    def _scan(self, query: Query) -> array[int]:
        if query.key in self._kept:
            self._kept.move_to_end(query.key)
            return self._kept[query.key]
        works = (self._universe.work(*spot) for spot in _Days(self._universe, query).all())
        found = [w for w in works if all(test(w) for test in query.tests)]
        key = {"cited_by_count": records.cited_by, "updated_date": records.updated, "created_date": records.created,
               "id": lambda w: w.number}.get(query.by)  # fmt: skip
        if key:
            found.sort(key=key, reverse=query.descending)
        self._kept[query.key] = array("Q", [w.year * 10_000_000 + w.index for w in found])
        if len(self._kept) > _KEPT_LISTS:
            self._kept.popitem(last=False)
        return self._kept[query.key]


class _Days:
    """The works of a span of days as one ordered sequence, computed rather than stored."""

    def __init__(self, universe: Universe, query: Query) -> None:
        self._universe = universe
        days = [
            (year, day)
            for year in range(max(universe.years[0], query.first.year), min(universe.years[1], query.last.year) + 1)
            for day in range(universe.days_in(year))
            if query.first <= dt.date(year, 1, 1) + dt.timedelta(day) <= query.last
        ]
        self._days = days[::-1] if query.descending else days
        self._ends: list[int] = []
        self.total = 0
        for year, day in self._days:
            self.total += universe.day_count(year, day)
            self._ends.append(self.total)

    def all(self) -> Iterator[tuple[int, int]]:
        return iter(self.slice(0, self.total))

    def slice(self, start: int, size: int) -> list[tuple[int, int]]:
        result: list[tuple[int, int]] = []
        at = bisect_right(self._ends, start)
        nth = start - (self._ends[at - 1] if at else 0)
        while len(result) < size and at < len(self._days):
            year, day = self._days[at]
            count = self._universe.day_count(year, day)
            while nth < count and len(result) < size:
                result.append((year, self._universe.of_day(year, day, nth)))
                nth += 1
            at, nth = at + 1, 0
        return result


def _date(value: str) -> dt.date:
    try:
        return dt.date.fromisoformat(value)
    except ValueError:
        raise QueryError(f"Value for a date filter must be in the format YYYY-MM-DD, not {value}.") from None


def _stamp_test(name: str, value: str) -> Test:
    try:
        moment = dt.datetime.fromisoformat(value.removesuffix("Z")).replace(tzinfo=None)
    except ValueError:
        raise QueryError(f"Value for a date filter must be in the format YYYY-MM-DD, not {value}.") from None
    getter = records.updated if "updated" in name else records.created
    if name.startswith("from"):
        return lambda w: getter(w) >= moment
    return lambda w: getter(w) < moment + dt.timedelta(days=1)


def _years(value: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{4})(?:-(\d{4}))?", value)
    if match:
        return int(match[1]), int(match[2] or match[1])
    match = re.fullmatch(r"([<>])(\d{4})", value)
    if match:
        return (int(match[2]) + 1, 9999) if match[1] == ">" else (1, int(match[2]) - 1)
    match = re.fullmatch(r"(\d{4})-|-(\d{4})", value)
    if match:
        return (int(match[1]), 9999) if match[1] else (1, int(match[2]))
    raise QueryError(f"Value for filter publication_year must be a year or a range of years, not {value}.")
