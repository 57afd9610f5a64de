"""`content ingest`: save the file behind a URL or DOI, load requests, run them, show status and results, retry."""

from __future__ import annotations

import csv
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
import typer

from docstokg_assets.cli.data_folder import open_catalog
from docstokg_assets.cli.exits import INCOMPLETE, INTERRUPTED, fail
from docstokg_assets.cli.options import Load, with_settings
from docstokg_assets.cli.output import print_message, stderr_console
from docstokg_assets.cli.run_session import disk_errors, load_with_contact
from docstokg_assets.cli.signals import INTERRUPTED_MESSAGE, StopSignals
from docstokg_assets.config import ContentDownloadConfig
from docstokg_assets.engine.progress import PassResult, Progress, waiting_text
from docstokg_assets.ingest.loading import Rejected, read_requests
from docstokg_assets.ingest.records import FileIngestResult, InvalidRequest, request_for
from docstokg_assets.ingest.run import IngestRun
from docstokg_assets.ingest.service import IngestService, Submitted
from docstokg_assets.ingest.statuses import STATUSES, rule_of
from docstokg_assets.reporting.rendering import format_time, plural
from docstokg_assets.runs.services import Services, open_services
from resources.catalog.catalog import Catalog
from resources.catalog.rows import SetAside
from resources.scope import ALL_LANES, Lane

app = typer.Typer(name="ingest", no_args_is_help=True, help="Save the file behind a URL; load and run ingest requests.")

TypeOption = Annotated[str, typer.Option("--type", help="What is wanted: pdf, xml or html.")]
LaneOption = Annotated[Literal["priority", "daily", "bulk"], typer.Option("--queue", help="The queue of the requests.")]


@app.command()
@with_settings("out")
def one(
    load: Load,
    what: Annotated[list[str], typer.Argument(metavar="URL|DOI ...", help="URLs, DOIs, arXiv ids or PMCIDs.")],
    type: TypeOption = "pdf",
    force: Annotated[bool, typer.Option("--force", help="Fetch again; use no capture and no earlier result.")] = False,
    max_age_days: Annotated[
        float | None, typer.Option(min=0, help="Accept captures and results up to this age.")
    ] = None,
    timeout: Annotated[float, typer.Option(min=1, metavar="SECONDS", help="Give up watching after this time.")] = 300.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print each result as a line of JSON.")] = False,
) -> None:
    """Save the file behind each URL or DOI, and print what became of it.

    Exit code 0: all files were saved; 3: some were not.
    """
    config = load_with_contact(load)
    fields: dict[str, Any] = {"ingest_type": type, "ingest_request_source": "command-line"}
    fields |= {"force_recrawl": True} if force else {}
    fields |= {"max_age_days": max_age_days} if max_age_days is not None else {}
    signals = StopSignals(stderr_console())
    with disk_errors(config), open_services(config) as services, signals.handled():
        service = IngestService(services.catalog, config)
        try:
            requests = [service.validate(request_for(each, **fields)) for each in what]
        except InvalidRequest as error:
            fail(str(error))
        began = services.catalog.now()
        submitted = [service.submit(request) for request in requests]
        results = _watch(services, service, submitted, began, timeout, signals)
    for result in results:
        typer.echo(_json(result) if as_json else _told(result, config))
    if signals.requested:
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(0 if all(result.hit for result in results) else INCOMPLETE)


def _watch(
    services: Services,
    service: IngestService,
    submitted: list[Submitted],
    began: float,
    timeout: float,
    signals: StopSignals,
) -> list[FileIngestResult]:
    """Run the engine here until all have an answer; another process may answer them as well."""
    results: list[FileIngestResult] = []
    with _engine(services, (Lane.PRIORITY,)) as (run, failed):
        stop = threading.Event()
        for each in submitted:
            after = began if each.reopened else None
            for state in service.watch(each.id, timeout, stop, after):
                result = state
                if signals.requested or failed:
                    stop.set()
            results.append(result)
        run.stop.set()
    if failed:
        raise failed[0]
    return results


@contextmanager
def _engine(services: Services, lanes: tuple[Lane, ...]) -> Iterator[tuple[IngestRun, list[BaseException]]]:
    """A run in a thread that goes on until its `stop` is set."""
    failed: list[BaseException] = []
    with IngestRun(services, kind="ingest") as run:

        def work() -> None:
            try:
                run.drain_lanes(lanes, keep_on=True)
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=work, name="ingest", daemon=True)
        thread.start()
        try:
            yield run, failed
        finally:
            run.stop.set()
            thread.join()


@app.command("load")
@with_settings("out")
def load_file(
    load: Load,
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="JSON lines, TSV or ids; `-` is standard input.")],
    queue: LaneOption = "bulk",
    type: Annotated[str | None, typer.Option("--type", help="The type of requests that name none.")] = None,
    source: Annotated[str | None, typer.Option(help="The ingest_request_source of requests that name none.")] = None,
) -> None:
    """Store requests: JSON lines of requests, Unpaywall or DOAJ records, TSV of url, link_source and id, or plain ids.

    Lines that make no request are set aside with their number. Exit code 3: there were some.
    """
    config, rejected = load().value, Rejected()
    with disk_errors(config), Catalog.open(config.catalog_location) as catalog, _opened(file) as lines:
        service = IngestService(catalog, config)
        requests = read_requests(lines, rejected, config.http, source, type)
        counts = service.submit_many(requests, Lane[queue.upper()])
        catalog.add_set_aside(SetAside(None, f"{file} line {n}", item, why) for n, why, item in rejected.first)
    console = stderr_console()
    print_message(
        console,
        f"{plural(counts.requests, 'request')} read, {counts.new:,} new, {plural(counts.items, 'URL')} queued, "
        f"{counts.reopened:,} to be fetched again.",
    )
    for number, why, item in rejected.first[:20]:
        print_message(console, f"line {number}: {why}: {item[:100]}")
    if rejected.count:
        print_message(console, f"{plural(rejected.count, 'line')} set aside; the catalog's table set_aside lists them.")
        raise typer.Exit(INCOMPLETE)


@contextmanager
def _opened(file: str) -> Iterator[Any]:
    if file == "-":
        yield sys.stdin.buffer
        return
    path = Path(file)
    if not path.is_file():
        fail(f"there is no file {file}.")
    if path.suffix == ".gz":
        import gzip

        with gzip.open(path, "rb") as packed:
            yield packed
        return
    with path.open("rb") as plain:
        yield plain


@app.command("run")
@with_settings("out")
def run_requests(
    load: Load,
    priority: Annotated[bool, typer.Option("--priority", help="Only interactive requests.")] = False,
    daily: Annotated[bool, typer.Option("--daily", help="Only daily requests.")] = False,
    bulk: Annotated[bool, typer.Option("--bulk", help="Only bulk requests.")] = False,
    deadline: Annotated[float | None, typer.Option(min=1, metavar="SECONDS", help="End after this time.")] = None,
    max_items: Annotated[int | None, typer.Option(min=1, help="Maximum number of URLs.")] = None,
    keep_on: Annotated[bool, typer.Option("--keep-on", help="Wait for more requests; end with Ctrl-C.")] = False,
) -> None:
    """Fetch what is due, in order of priority. Any number of processes and machines can run at the same time."""
    config = load_with_contact(load)
    chosen = {Lane.PRIORITY: priority, Lane.DAILY: daily, Lane.BULK: bulk}
    lanes = tuple(lane for lane in ALL_LANES if chosen[lane]) or ALL_LANES
    signals, console = StopSignals(stderr_console()), stderr_console()
    with disk_errors(config), open_services(config) as services, signals.handled():
        with IngestRun(services, kind="ingest", stop=signals.stop) as run:
            result = run.drain_lanes(
                lanes, deadline_s=deadline, max_items=max_items, on_progress=_Lines(console).show, keep_on=keep_on
            )
        print_message(console, _pass_line(result))
    if signals.requested:
        print_message(console, INTERRUPTED_MESSAGE)
        raise typer.Exit(INTERRUPTED)
    if result.ended != "drained":
        raise typer.Exit(INCOMPLETE)


class _Lines:
    """A line of progress every ten seconds."""

    def __init__(self, console: Any) -> None:
        self._console, self._ticks = console, 0

    def show(self, progress: Progress) -> None:
        self._ticks += 1
        if self._ticks % 20 == 0:
            waiting = waiting_text(progress.waiting)
            line = f"{progress.finished:,} answered, {progress.saved:,} saved, {progress.open:,} in progress"
            print_message(self._console, line + (f"; waiting for {waiting}" if waiting else ""))


def _pass_line(result: PassResult) -> str:
    return (
        f"{plural(result.finished - result.to_retry, 'URL')} answered, {result.saved:,} saved, "
        f"{result.to_retry + result.parked:,} to be tried again; {result.requests:,} requests in {result.elapsed_s:.0f} s."
    )


@app.command()
@with_settings("out")
def status(
    load: Load,
    id: Annotated[str | None, typer.Argument(help="The id of a request; default: all, counted.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show how many requests there are by status and link source, or what is known of one."""
    config = load().value
    with open_catalog(config) as catalog:
        service = IngestService(catalog, config)
        if id is not None:
            if (result := service.result(id)) is None:
                fail(f"there is no ingest request {id} in this data folder.")
            typer.echo(_json(result) if as_json else _told(result, config))
            return
        counts, items = service.counts(), catalog.ingest_items()
    if as_json:
        typer.echo(orjson.dumps([count._asdict() for count in counts]).decode())
        return
    for count in counts:
        ending = rule_of(count.status).ending if count.status is not None else "open"
        line = f"{count.requests:>12,}  {count.status or 'pending':<32} {ending:<10}"
        typer.echo(f"{line} {count.ingest_type:<5} {count.link_source}")
    for (lane, state), number in sorted(items.items(), reverse=True):
        typer.echo(f"{number:>12,}  URLs {state} in the {lane.name.lower()} queue")
    if not counts:
        typer.echo("No ingest requests. `content ingest load` or `content ingest one` adds some.")


@app.command()
@with_settings("out")
def results(
    load: Load,
    format: Annotated[Literal["jsonl", "csv", "parquet"], typer.Option(help="How results are written.")] = "jsonl",
    to: Annotated[
        Path | None, typer.Option("--to", help="The file; default: standard output (not for Parquet).")
    ] = None,
    status: Annotated[list[str] | None, typer.Option(help="Only results with this status; may be repeated.")] = None,
    after: Annotated[int, typer.Option(min=0, help="Only results recorded after this revision.")] = 0,
) -> None:
    """Write the results, one for each request, in the order in which they were recorded."""
    config = load().value
    with open_catalog(config) as catalog:
        rows = IngestService(catalog, config).results(after, statuses=tuple(status or ()))
        if format == "parquet":
            if to is None:
                fail("Parquet needs a file: --to results.parquet")
            _write_parquet(rows, to)
        elif to is None:
            _write(rows, format, sys.stdout)
        else:
            with to.open("w", newline="", encoding="utf-8") as file:
                _write(rows, format, file)


_COLUMNS = (
    *("id", "status", "hit", "ingest_type", "base_url", "link_source", "link_source_id", "terminal_url", "terminal_dt"),
    *("terminal_status_code", "terminal_sha1hex", "size_bytes", "mimetype", "sha256hex", "md5hex", "route", "tries"),
    *("error_message", "path", "archive_url", "updated", "revision"),
)
_NUMBERS = frozenset({"terminal_status_code", "size_bytes", "tries", "revision"})


def _flat(revision: int, result: FileIngestResult) -> dict[str, Any]:
    known = {**result.model_dump(exclude={"request", "hops", "cdx", "revisit_cdx"}), "revision": revision}
    for nested in ("terminal", "file_meta"):
        known |= known.pop(nested) or {}
    known |= {name: result.request.get(name) for name in ("ingest_type", "base_url", "link_source", "link_source_id")}
    return {name: known.get(name) for name in _COLUMNS}


def _write(rows: Iterator[tuple[int, FileIngestResult]], format: str, file: Any) -> None:
    if format == "jsonl":
        for revision, result in rows:
            file.write(orjson.dumps({**result.model_dump(), "revision": revision}).decode() + "\n")
        return
    table = csv.DictWriter(file, _COLUMNS)
    table.writeheader()
    table.writerows(_flat(*row) for row in rows)


def _write_parquet(rows: Iterator[tuple[int, FileIngestResult]], path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {"hit": pa.bool_(), "updated": pa.float64(), **dict.fromkeys(_NUMBERS, pa.int64())}
    schema = pa.schema([(name, types.get(name, pa.string())) for name in _COLUMNS])
    with pq.ParquetWriter(path, schema) as writer:
        page: list[dict[str, Any]] = []
        for row in rows:
            page.append(_flat(*row))
            if len(page) == 10_000:
                writer.write_table(pa.Table.from_pylist(page, schema))
                page = []
        writer.write_table(pa.Table.from_pylist(page, schema))


@app.command()
@with_settings("out")
def retry(
    load: Load,
    status: Annotated[list[str], typer.Option(help="A status, or its beginning and `*`: spn2-*; may be repeated.")],
    older_than: Annotated[float, typer.Option(min=0, metavar="HOURS", help="Only results older than this.")] = 8.0,
    limit: Annotated[int | None, typer.Option(min=1, help="Maximum number of URLs; the oldest first.")] = None,
) -> None:
    """Make URLs due again whose result has one of these statuses. Saved files are never fetched again by this."""
    config = load().value
    unknown = [
        each
        for each in status
        if not any(s == each or (each[-1:] == "*" and s.startswith(each[:-1])) for s in STATUSES)
    ]
    if unknown:
        fail(f"there is no status {unknown[0]}; docs/ingest.md lists them.")
    with open_catalog(config) as catalog:
        reopened = catalog.retry_ingest(older_than * 3600, status, limit)
    print_message(stderr_console(), f"{plural(reopened, 'URL')} will be fetched again by `content ingest run`.")


def _json(result: FileIngestResult) -> str:
    return orjson.dumps(result.model_dump()).decode()


def _told(result: FileIngestResult, config: ContentDownloadConfig) -> str:
    """A result in words."""
    lines = [f"{result.request.get('base_url')}: {result.status}"]
    if result.path is not None:
        size = result.file_meta.size_bytes if result.file_meta is not None else 0
        lines.append(f"  saved as {config.artifact_root}/{result.path} ({size:,} bytes, from the {result.route} route)")
    if result.archive_url is not None:
        lines.append(f"  archive link: {result.archive_url}")
    if result.flags:
        lines.append(f"  noticed: {', '.join(result.flags)}")
    if not result.hit:
        meaning = STATUSES[result.status].meaning if result.status in STATUSES else "No answer yet."
        lines.append(f"  {meaning} {result.error_message or ''}".rstrip())
    if result.next_try is not None:
        lines.append(f"  tried again after {format_time(result.next_try)} UTC by `content ingest run`")
    lines.append(f"  id: {result.id}")
    return "\n".join(lines)
