"""List works from the OpenAlex API, its snapshot, a list of references or a file of URLs, for the CLI and for Dagster.

A listing counts what came, knows how far it got so that it can be continued, collects the records that cannot become works,
and keeps what came before its source failed. Pages, parts and lines are read by the modules beside this one.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import threading
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, islice
from typing import Literal, TypeVar

from docstokg_assets.domain.identifiers import Identifier
from docstokg_assets.domain.works import Work
from docstokg_assets.sources import RequestRefused, SetAside, SourceError
from docstokg_assets.sources import openalex_api as oa
from docstokg_assets.sources.delta import Way
from docstokg_assets.sources.files import read_urls
from docstokg_assets.sources.inputs import Input, References, key_of, unique_identifiers
from docstokg_assets.sources.local_filter import LocalFilter
from docstokg_assets.sources.pmids import convert_pmids
from docstokg_assets.sources.references import read_references
from docstokg_assets.sources.selection import WorkFilter
from docstokg_assets.sources.settings import OpenAlexSettings
from docstokg_assets.sources.snapshot import Snapshot
from resources.catalog import rows as catalog_rows
from resources.catalog.catalog import Catalog
from resources.catalog.checked import Listing
from resources.folders import FolderError, ReadFolder, decode_text, read_bytes, text_lines
from resources.http.attempts import AttemptLog
from resources.http.client import HttpClient
from resources.http.errors import HttpError, Interrupted
from resources.http.messages import Request, Response
from resources.settings import SettingsError

_BATCH = 2_000  # works from a provider: at most these are requested again after a crash
_LARGE_BATCH = 10_000  # works from the local disk: fewer and larger parts of the lake
_DAY = dt.timedelta(days=1)
T = TypeVar("T")


class BlockingDriver:
    """Sends the requests of a source in the calling thread, one after the other. `log` receives the attempts."""

    def __init__(self, client: HttpClient, log: AttemptLog, stop: threading.Event) -> None:
        self._client, self._log, self._stop = client, log, stop

    def ask(self, conversation: Generator[Request, Response, T]) -> T:
        """Run a generator that yields Requests and receives Responses, and return its result. Raises Interrupted when `stop` is
        set before the answer has come."""
        try:
            request = next(conversation)
            while True:
                if self._stop.is_set():
                    raise Interrupted("the run is being ended", url=request.url)
                response = self._client.request_with_retries(request, self._log, stopped=self._stop.is_set)
                request = conversation.send(response)
        except StopIteration as done:
            result: T = done.value
            return result


@dataclass(frozen=True, slots=True)
class Source:
    """Where works are listed from. `value` is the filter of a query, else the place of the snapshot or the file."""

    kind: Literal["query", "snapshot", "ids", "urls"]
    value: str
    identifiers: Sequence[Identifier] = ()
    works: Sequence[Work] = ()
    inputs: Sequence[Input] = ()  # the entries of the list, as given
    format: str = ""  # of the list, in words
    keep: WorkFilter | None = None  # which of the works of a list are wanted

    @classmethod
    def from_list(cls, kind: Literal["ids", "urls"], name: str, *lists: References) -> Source:
        """The works that the entries of one or more lists name, each once."""
        inputs = tuple(one for each in lists for one in each.inputs)
        works = {one.work.work_id: one.work for one in reversed(inputs) if one.work is not None}
        format = ", ".join(dict.fromkeys(each.format for each in lists))
        return cls(kind, name, tuple(unique_identifiers(inputs)), tuple(reversed(works.values())), inputs, format)

    @property
    def set_aside(self) -> list[SetAside]:
        return [one.as_set_aside() for one in self.inputs if one.reason is not None]

    @classmethod
    def configured(cls, settings: OpenAlexSettings) -> Source:
        """The source that the configuration names. Raises SettingsError or FolderError with the remedy."""
        if settings.source == "api":
            if settings.filter:
                return cls("query", settings.filter)
            remedy = "say which works, e.g. DTKG_OPENALEX__FILTER='topics.id:T10102', or name a configuration file in DTKG_CONFIG"
            raise SettingsError([f"openalex.filter is not set; {remedy}"])
        if settings.source == "snapshot":
            return cls("snapshot", str(settings.snapshot))
        file = settings.ids_file if settings.source == "ids" else settings.urls_file
        assert file is not None  # validated by the settings
        try:
            return cls.from_list(settings.source, str(file), read_list(settings.source, str(file), read_bytes(file)))
        except OSError as error:
            remedy = f"Correct openalex.{settings.source}_file."
            raise FolderError(f"{file} cannot be read: {error.strerror}. {remedy}") from None


def read_list(kind: Literal["ids", "urls"], name: str, data: bytes, column: str | None = None) -> References:
    """The entries of a file. Raises SourceError where it is no list."""
    if kind == "urls":
        return read_urls(text_lines(decode_text(data)), name)
    return read_references(data, name, column)


@dataclass(frozen=True, slots=True)
class ChangedSince:
    """Only works that were updated, or published, since a day. A snapshot knows only updates."""

    way: Way
    since: dt.date


@dataclass(slots=True)
class Collected:
    """What a listing brought so far. `announced` is the number of works that the source said there would be.

    A listing that broke off can be continued: a query from the page `cursor`, a listing by days (of publication in a
    year's list, of update in a snapshot) after the day `through`, up to which all works were handed on. `error` is the
    failure that ended it early. `work_ids` and `left_out` say what became of the identifiers of a list.
    """

    works: int = 0
    announced: int = 0
    pages: int = 0
    cursor: str | None = None
    through: dt.date | None = None
    works_through: int = 0  # works up to `through`
    set_aside: list[SetAside] = field(default_factory=list)
    error: SourceError | HttpError | None = None
    work_ids: dict[tuple[str, str], str] = field(default_factory=dict)  # by `inputs.key_of`
    left_out: dict[tuple[str, str], str] = field(default_factory=dict)  # the reason


def list_works(
    source: Source,
    settings: OpenAlexSettings,
    driver: BlockingDriver,
    collected: Collected,
    *,
    year: int | None = None,
    changed: ChangedSince | None = None,
    with_unknown: bool = False,
    contact: str | None = None,
) -> Iterator[Work]:
    """Yield the works of a source, of one year or of all, continuing where `collected` says.

    A failure of the source ends the listing and is kept in `collected.error`: store what came, then report it.
    `with_unknown`: also yield works of which no year is known, where the source has such.
    """
    collected.set_aside += source.set_aside
    queried, works = source.kind in ("query", "snapshot"), iter(source.works)  # a file has works of all years
    try:
        match source.kind:
            case "query":
                works = _works_of_query(source.value, settings, driver, collected, year, changed)
            case "snapshot":
                since = changed.since - _DAY if changed else collected.through
                keep = LocalFilter(settings.with_types(settings.filter))
                works = works_of_snapshot(open_snapshot(settings), year, since, keep, collected)
            case "ids":
                works = works_of_ids(driver, openalex_api(settings), source, collected, contact)
        for work in works:
            if queried and settings.max_works is not None and collected.works >= settings.max_works:
                collected.cursor = None
                return
            collected.works += 1
            if queried or year is None or work.year == year or (with_unknown and work.year is None):
                yield work
            elif with_unknown and work.year is not None and work.year < settings.first_year:
                reason = f"its year {work.year} has no partition; lower openalex.first_year"
                collected.set_aside.append(SetAside(work.work_id, reason))
    except (SourceError, HttpError) as error:
        collected.error = error


def openalex_api(settings: OpenAlexSettings) -> oa.OpenAlexApi:
    key = settings.api_key
    return oa.OpenAlexApi(key.get_secret_value() if key is not None else None, settings.per_page)


def open_snapshot(settings: OpenAlexSettings) -> Snapshot:
    assert settings.snapshot is not None  # validated by the settings
    return Snapshot(ReadFolder(settings.snapshot, endpoint=settings.snapshot_endpoint, signed=settings.snapshot_signed))


def _works_of_query(
    works_filter: str,
    settings: OpenAlexSettings,
    driver: BlockingDriver,
    collected: Collected,
    year: int | None,
    changed: ChangedSince | None,
) -> Iterator[Work]:
    """Yield all works of a filter. A year is listed slice by slice, because cursors are short-lived; a large slice is split. A
    cursor from an earlier run may have expired; then the list begins again."""
    slices: Sequence[oa.DateSlice | None] = (None,)
    if year is not None and changed is not None and changed.way == "updated":
        works_filter = f"{works_filter},from_updated_date:{changed.since}"
        slices = (oa.DateSlice(dt.date(year, 1, 1), dt.date(year, 12, 31)),)
    elif year is not None:
        after = collected.through + _DAY if collected.through else None
        slices = oa.date_slices(year, since=changed.since if changed else after)
    api, works_filter = openalex_api(settings), settings.with_types(works_filter)
    remaining, continued = deque(slices), collected.cursor is not None
    while remaining:
        dates, announced = remaining.popleft(), False
        collected.cursor = collected.cursor or oa.FIRST_CURSOR
        while collected.cursor is not None:
            try:
                page = driver.ask(api.page(works_filter, dates, collected.cursor))
            except RequestRefused:
                if not continued:
                    raise
                remaining, continued, dates, collected.cursor = deque(slices), False, None, None
                break
            collected.pages += 1
            if dates and not announced and (page.count or 0) > oa.LARGE_SLICE and (smaller := dates.smaller()):
                remaining.extendleft(reversed(smaller))
                dates = collected.cursor = None
                break
            collected.announced += 0 if announced else page.count or 0
            announced = True
            collected.set_aside.extend(page.set_aside)
            yield from page.works
            collected.cursor = page.next_cursor
        if dates is not None:
            collected.through, collected.works_through = dates.last, collected.works


def works_of_snapshot(
    snapshot: Snapshot, year: int | None, since: dt.date | None, keep: LocalFilter, collected: Collected
) -> Iterator[Work]:
    """Yield the works of a year from a snapshot's folders after `since`. Raises SourceError at the end if a file broke off."""
    broken: SourceError | None = None
    parts = snapshot.parts(since)
    collected.announced = sum(part.records for part in parts)
    for day, of_day in groupby(parts, key=lambda part: part.updated):
        for part in of_day:
            collected.pages += 1
            try:
                yield from snapshot.works(part, year, keep, collected.set_aside)
            except SourceError as error:
                broken = broken or error
        if broken is None:
            collected.through, collected.works_through = day, collected.works
    if broken is not None:
        raise broken


def works_of_ids(
    driver: BlockingDriver, api: oa.OpenAlexApi, source: Source, collected: Collected, contact: str | None = None
) -> Iterator[Work]:
    """Yield the works behind identifiers, then those of URLs. One that OpenAlex does not know is made from the identifier, and
    what its entry says about it. `collected` learns what each identifier became."""
    given = {key_of(one.identifier): one for one in reversed(source.inputs) if one.identifier is not None}
    asked: dict[Identifier, list[Identifier]] = {}
    for identifier, known in convert_pmids(driver.ask, source.identifiers, contact):
        asked.setdefault(known, []).append(identifier)
    seen: set[str] = set()
    for batch in oa.id_batches(asked):
        collected.pages += 1
        for known, work in zip(batch, driver.ask(api.by_ids(batch)), strict=True):
            if work is not None and work.title is None and (entry := given.get(key_of(asked[known][0]))) is not None:
                work = replace(work, title=entry.title, year=work.year or entry.year)
            if _note_found(asked[known], work, source, given, collected) and work and work.work_id not in seen:
                seen.add(work.work_id)
                yield work
    yield from (work for work in source.works if work.work_id not in seen)


def _note_found(
    identifiers: Sequence[Identifier],
    work: Work | None,
    source: Source,
    given: Mapping[tuple[str, str], Input],
    collected: Collected,
) -> bool:
    """Record which work the identifiers name; returns whether it is wanted. If not, their entries are set aside."""
    reason: str | None = "neither PubMed Central's id converter nor OpenAlex knows this PMID"
    if work is not None:
        reason = source.keep.excludes(work) if source.keep is not None else None
    for identifier in identifiers:
        key = key_of(identifier)
        if reason is None and work is not None:
            collected.work_ids[key] = work.work_id
        else:
            entry = given.get(key)
            collected.left_out[key] = reason or ""
            where, shown = (f"line {entry.line}", entry.text) if entry else (identifier.value, identifier.value)
            collected.set_aside.append(SetAside(where, reason or "", shown, entry.line if entry else None))
    return reason is None


def in_batches(works: Iterable[Work], *, local: bool = False) -> Iterator[list[Work]]:
    """Split works into batches, larger ones where the works are `local`: on our disk, not at a provider."""
    remaining = iter(works)
    while batch := list(islice(remaining, _LARGE_BATCH if local else _BATCH)):
        yield batch


# -- position and set-aside records in the catalog ---------------------------------------------------------------------


class YearPosition:
    """The day up to which a year was listed, kept in the catalog under a name that changes with the source."""

    def __init__(
        self, catalog: Catalog, settings: OpenAlexSettings, year: int, changed: ChangedSince | None = None
    ) -> None:
        selected = f"{settings.description} {settings.with_types(settings.filter)}"
        self._catalog = catalog
        self._name = f"works.{year}.{hashlib.sha256(selected.encode()).hexdigest()[:12]}"
        # A year of which only a part is wanted is listed from its beginning every time.
        self._kept = settings.max_works is None and changed is None
        self._permanent = settings.source == "snapshot"  # a folder that was read never changes
        days = catalog.export_position(self._name) if self._kept else 0
        self.through = dt.date.fromordinal(days) if days else None

    def save(self, collected: Collected) -> None:
        if self._kept and collected.through:
            self._catalog.set_export_position(self._name, collected.through.toordinal())

    def finish(self, collected: Collected) -> None:
        """Save the position; reset it after a complete list, which may have grown by the next time."""
        self.save(collected)
        if self._kept and collected.error is None and not self._permanent:
            self._catalog.set_export_position(self._name, 0)


class ListingRecord:
    """Records in the catalog what a listing of a year brings. A continued one counts the works of the part before it."""

    def __init__(
        self,
        catalog: Catalog,
        settings: OpenAlexSettings,
        run_id: str,
        year: int,
        changed: ChangedSince | None,
        *,
        continued: bool,
    ) -> None:
        most = "" if settings.max_works is None else f" (at most {settings.max_works} works)"
        since = None if changed is None else f"{changed.way} {changed.since}"
        selected = f"{settings.with_types(settings.filter)}{most}"
        self._catalog = catalog
        self._row = Listing(run_id, year, settings.description, selected, since, 0, complete=False)
        before = (each for each in catalog.listings_of(year) if each[2:5] == self._row[2:5])
        self._works_before = next((each.works for each in before), 0) if continued else 0

    def save(self, works: int, *, complete: bool = False) -> None:
        """Save the number of works so far: of an incomplete listing those up to where it can be continued."""
        self._catalog.save_listing(self._row._replace(works=self._works_before + works, complete=complete))


def continue_query(catalog: Catalog, scope: Mapping[str, str]) -> tuple[str | None, Collected]:
    """The run to continue and where its list broke off, if the last listing of the same scope did; else a new run."""
    last = next((run for run in catalog.runs() if run.scope == scope), None)
    cursor = (last.progress or {}).get("cursor") if last is not None else None
    if last is None or last.finished_at is None or not isinstance(cursor, str):
        return None, Collected()
    return last.run_id, Collected(works=catalog.queue_counts(run_id=last.run_id).total, cursor=cursor)


def record_set_aside(catalog: Catalog, run_id: str, source: str, collected: Collected) -> list[catalog_rows.SetAside]:
    """Write the records that cannot become works to the catalog; returns the rows."""
    rows = [
        catalog_rows.SetAside(run_id, source, f"{aside.where}: {aside.text}".rstrip(": "), aside.reason)
        for aside in collected.set_aside
    ]
    catalog.add_set_aside(rows)
    return rows
