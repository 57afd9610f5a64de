"""The OpenAlex API as a source of works: pages of a filter in short slices of publication dates, lookups by identifier.

Generators that yield a Request and receive its Response, like resolvers. The caller remembers the position: a slice and the
cursor of its next page are all that is needed to continue.
"""

from __future__ import annotations

import calendar
import datetime as dt
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from docstokg_assets.domain.identifiers import Identifier, arxiv_without_version
from docstokg_assets.domain.json_access import dig, mapping, objects, text
from docstokg_assets.domain.works import UnreadableRecord, Work, work_from_openalex
from docstokg_assets.sources import PlanRequired, RequestRefused, SetAside, SourceError
from docstokg_assets.sources.files import work_from_identifier
from resources.http.messages import Request, Response, Role

HOST = "api.openalex.org"
MAX_PER_PAGE = 100
MAX_OR_VALUES = 100
MAX_FILTER_BYTES = 6000  # of the 8190 that a request line may have
LARGE_SLICE = 10_000  # works of a slice above which it is cut into smaller ones
FIRST_CURSOR = "*"
SELECT = (
    "id,doi,ids,title,display_name,publication_year,publication_date,type,language,open_access,best_oa_location,"
    "primary_location,locations,updated_date,indexed_in,has_content"
)
_KEY_REMEDY = "Set DOCSTOKG_CONTENT_API_KEY_OPENALEX to a valid key; https://openalex.org/users gives one for free."
_FILTER_REMEDY = "Correct the OpenAlex filter (--query, or openalex.filter in the configuration)."
_LATER_REMEDY = "Start the same command again later; what has come is kept."
_BUDGET_REMEDY = f"It is renewed at midnight UTC. {_LATER_REMEDY} A key of your own has ten times the budget."


@dataclass(frozen=True, slots=True)
class DateSlice:
    """Publication dates from `first` to `last`, both included."""

    first: dt.date
    last: dt.date

    def smaller(self) -> tuple[DateSlice, ...]:
        """Its months, or the days of one month; nothing for a single day."""
        if self.first == self.last:
            return ()
        if (self.first.year, self.first.month) != (self.last.year, self.last.month):
            return date_slices(self.first.year, self.first, self.last)
        days = (self.first + dt.timedelta(n) for n in range((self.last - self.first).days + 1))
        return tuple(DateSlice(day, day) for day in days)


@dataclass(frozen=True, slots=True)
class WorksPage:
    works: tuple[Work, ...]
    set_aside: tuple[SetAside, ...]
    next_cursor: str | None  # None: this was the last page of the slice
    count: int | None  # works of the whole slice, as OpenAlex counts them
    raw_count: int  # records on this page


def date_slices(year: int, since: dt.date | None = None, until: dt.date | None = None) -> tuple[DateSlice, ...]:
    """The months of a year, cut to `since` and `until`: a cursor lives only as long as a month's pages take."""
    months = ((dt.date(year, m, 1), dt.date(year, m, calendar.monthrange(year, m)[1])) for m in range(1, 13))
    cut = ((max(first, since or first), min(last, until or last)) for first, last in months)
    return tuple(DateSlice(first, last) for first, last in cut if first <= last)


class OpenAlexApi:
    """Asks api.openalex.org. The key travels apart from the URL, so that no record of the URL can show it."""

    def __init__(
        self, api_key: str | None = None, per_page: int = MAX_PER_PAGE, clock: Callable[[], float] = time.time
    ) -> None:
        self._api_key, self._per_page, self._clock = api_key, per_page, clock

    def page(
        self, works_filter: str, dates: DateSlice | None = None, cursor: str = FIRST_CURSOR
    ) -> Generator[Request, Response, WorksPage]:
        """One page of the works that a filter and a slice select, from `cursor` on."""
        parts = [works_filter] if works_filter else []
        if dates:
            parts += [f"from_publication_date:{dates.first}", f"to_publication_date:{dates.last}"]
        url = f"{_list_url(','.join(parts), self._per_page)}&cursor={quote(cursor, safe='*')}"
        # not from the cache: new works are wanted
        response = yield replace(self._request(url), cache=False)
        page = self._read_page(response)
        # A slice that fits on its first page needs no second request to learn that nothing follows.
        whole = cursor == FIRST_CURSOR and page.count == page.raw_count
        return replace(page, next_cursor=None) if whole else page

    def counts_by_year(self, works_filter: str) -> Generator[Request, Response, dict[int, int]]:
        """How many works of each publication year a filter selects, for the price of one page."""
        url = f"https://{HOST}/works?filter={quote(works_filter, safe=':,/')}&group_by=publication_year"
        body = self._read_json((yield replace(self._request(url), cache=False)))
        groups = objects(dig(body, "group_by"))
        return {int(g["key"]): int(g["count"]) for g in groups if str(g.get("key")).isdigit() and g.get("count")}

    def singleton(self, identifier: Identifier) -> Generator[Request, Response, Work | None]:
        """One work by its identifier, which costs nothing; None when OpenAlex does not know it."""
        field, value = _lookup(identifier)
        name = value if identifier.kind == "openalex" else f"{field.rpartition('.')[2]}:{quote(value, safe='/:();')}"
        response = yield self._request(f"https://{HOST}/works/{name}?select={SELECT}")
        if response.status == 404:
            return None
        try:
            return _as_asked(work_from_openalex(self._read_json(response)), identifier)
        except UnreadableRecord:
            return None

    def by_ids(self, batch: Sequence[Identifier]) -> Generator[Request, Response, tuple[Work | None, ...]]:
        """The works of one batch of `id_batches`, in its order; what OpenAlex does not know is made from the id, except for a
        PMID, from which nothing can be found: None."""
        known: dict[str, Work] = {}
        if len(batch) == 1:
            work = yield from self.singleton(batch[0])
            return (work or work_from_identifier(batch[0]),)
        field = _lookup(batch[0])[0]
        url = _list_url(f"{field}:{'|'.join(_lookup(identifier)[1] for identifier in batch)}", MAX_PER_PAGE)
        # Now and then two records share an identifier, so there may be more records than values.
        for number in range(1, 4):
            page = self._read_page((yield self._request(f"{url}&page={number}")))
            for work in page.works:
                for value in (work.work_id, work.doi, work.pmcid, work.pmid):
                    known.setdefault((value or "").lower(), work)
            if page.raw_count < MAX_PER_PAGE:
                break
        found = ((identifier, known.get(_lookup(identifier)[1].lower())) for identifier in batch)
        return tuple(_as_asked(work, given) if work else work_from_identifier(given) for given, work in found)

    def _request(self, url: str) -> Request:
        secret = {"api_key": self._api_key} if self._api_key else {}
        return Request(url, Role.METADATA, secret_params=secret, obey_robots=False, final=is_final)

    def _read_page(self, response: Response) -> WorksPage:
        body = mapping(self._read_json(response))
        meta = mapping(body.get("meta"))
        if not isinstance(body.get("results"), list) or not meta:
            raise SourceError("OpenAlex answered with something that is not a page of works.", _LATER_REMEDY)
        works, aside = list[Work](), list[SetAside]()
        for position, record in enumerate(body["results"]):
            try:
                works.append(work_from_openalex(record))
            except UnreadableRecord as error:
                aside.append(SetAside(f"record {position} of the page", str(error)))
        cursor = text(meta.get("next_cursor"), 4096) if body["results"] else None
        count = meta["count"] if isinstance(meta.get("count"), int) else None
        return WorksPage(tuple(works), tuple(aside), cursor, count, len(body["results"]))

    def _read_json(self, response: Response) -> Any:
        if not response.ok:
            raise self._error(response)
        try:
            return response.json()
        except ValueError:
            kind = response.content_type or "no type"
            raise SourceError(f"OpenAlex answered with something that is not JSON ({kind}).", _LATER_REMEDY) from None

    def _error(self, response: Response) -> SourceError:
        body = _json_object(response.body)
        said = text(body.get("message"), 300) or text(body.get("error"), 300) or ""
        match response.status:
            case 401:
                return SourceError(f"OpenAlex did not accept the API key ({said}).", _KEY_REMEDY)
            case 400:
                return RequestRefused(f"OpenAlex refused the request ({said}).", _FILTER_REMEDY)
            case 429 if _is_plan_gated(body):
                remedy = "Leave that filter or sort order out, or use a key with such a plan."
                return PlanRequired(f"OpenAlex wants another plan for this request: {said}", remedy)
            case 429:
                waits = (
                    response.headers.get("retry-after"),
                    body.get("retryAfter"),
                    response.headers.get("x-ratelimit-reset"),
                )
                retry_at = self._clock() + next((float(wait) for wait in map(str, waits) if wait.isdigit()), 60.0)
                if not _is_budget_spent(body):
                    return SourceError(f"OpenAlex asks to slow down: {said}", _LATER_REMEDY, retry_at)
                return SourceError(f"The daily OpenAlex budget is spent: {said}", _BUDGET_REMEDY, retry_at)
        return SourceError(f"OpenAlex answered with HTTP {response.status} {said}".strip() + ".", _LATER_REMEDY)


def id_batches(identifiers: Iterable[Identifier]) -> Iterator[tuple[Identifier, ...]]:
    """Identifiers in batches that one request can carry: of one kind, at most 100, not too long. Odd ones go alone."""
    open_batches: dict[str, list[Identifier]] = {}
    sizes: dict[str, int] = {}
    for identifier in identifiers:
        field, value = _lookup(identifier)
        size = len(quote(value)) + len("%7C")
        if set(value) & set(",|!+") or size > MAX_FILTER_BYTES:  # these mean something inside a filter
            yield (identifier,)
            continue
        batch = open_batches.setdefault(field, [])
        if batch and (len(batch) == MAX_OR_VALUES or sizes[field] + size > MAX_FILTER_BYTES):
            yield tuple(batch)
            batch.clear()
        sizes[field] = size + (sizes[field] if batch else 0)
        batch.append(identifier)
    yield from (tuple(batch) for batch in open_batches.values() if batch)


def is_final(status: int, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether asking again changes nothing: the plan does not cover the request, or the budget is spent."""
    raw = _json_object(body) if status == 429 else {}
    return _is_plan_gated(raw) or _is_budget_spent(raw)


def _lookup(identifier: Identifier) -> tuple[str, str]:
    """The filter field and the value under which OpenAlex knows an identifier."""
    if identifier.kind == "arxiv":  # DataCite, and so OpenAlex, knows a paper of arXiv by this DOI
        return "doi", f"10.48550/arxiv.{arxiv_without_version(identifier.value)}"
    return {"pmcid": "ids.pmcid", "pmid": "ids.pmid"}.get(identifier.kind, identifier.kind), identifier.value


def _as_asked(work: Work, identifier: Identifier) -> Work:
    """The work with the version of an arXiv paper that the identifier names, if it names one."""
    versioned = identifier.kind == "arxiv" and identifier.value != arxiv_without_version(identifier.value)
    return replace(work, arxiv_id=identifier.value) if versioned else work


def _list_url(works_filter: str, per_page: int) -> str:
    return f"https://{HOST}/works?filter={quote(works_filter, safe=':,/')}&select={SELECT}&per_page={per_page}"


def _json_object(body: bytes) -> Mapping[str, Any]:
    try:
        return mapping(Response(0, "", {}, body).json())
    except ValueError:
        return {}


def _is_plan_gated(body: Mapping[str, Any]) -> bool:
    return "plan upgrade" in str(body.get("error")).lower()


def _is_budget_spent(body: Mapping[str, Any]) -> bool:
    return "insufficient budget" in str(body.get("message")).lower()
