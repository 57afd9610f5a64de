"""The report on a run or a year: results, speed, reasons of failures, and where the files are. Computes no indicators.

`build_report` collects the data; the renderers show the same tables as Markdown, JSON or on a terminal.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.text import Text

from docstokg_assets.lake.views import open_lake, views_file
from docstokg_assets.reporting.metrics import (
    SLOS,
    Share,
    Slis,
    Verdict,
    compute_slis,
    evaluate,
    format_value,
    run_summary,
)
from docstokg_assets.reporting.reasons import REASON_TEXT
from docstokg_assets.reporting.rendering import (
    bar,
    format_bytes,
    format_time,
    iso,
    json_text,
    plural,
    printable,
    rich_table,
)
from resources.catalog.rows import Entry, ParkedGroup, QueueCounts
from resources.records import Ending, Reason

if TYPE_CHECKING:
    from resources.catalog.catalog import Catalog
    from resources.lake.files import LakeFiles
    from resources.scope import WorkScope

TITLE = "Content download report"
TOP_HOSTS = 12

QUERIES: tuple[tuple[str, str], ...] = (
    (
        "Which hosts refused requests, and with which status?",
        "SELECT host, http_status, count(*) AS n FROM attempts WHERE http_status >= 400 GROUP BY ALL ORDER BY n DESC",
    ),
    (
        "How many files of each kind, and how large?",
        "SELECT kind, count(*) AS files, round(sum(bytes) / 1e6, 1) AS mb FROM artifacts GROUP BY kind",
    ),
    (
        "Which works have no full text yet?",
        "SELECT work_id, title, reason, retry_at FROM outcomes WHERE classification <> 'success' ORDER BY reason",
    ),
)


@dataclass(frozen=True, slots=True)
class Report:
    scope: WorkScope
    generated_at: datetime
    slis: Slis
    verdicts: Sequence[Verdict]
    queue: QueueCounts
    with_full_text: int  # works of the scope, whichever run downloaded it
    waiting: Sequence[ParkedGroup]  # works that wait for a host
    data_root: Path
    files: Sequence[tuple[str, str]]
    summary: dict[str, object]


@dataclass(frozen=True, slots=True)
class Table:
    """Cells are text; columns named in `right` hold numbers."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    right: frozenset[str] = frozenset()


def build_report(
    lake: LakeFiles,
    data_root: Path,
    scope: WorkScope,
    catalog: Catalog,
    now: datetime,
    artifact_root: Path | str | None = None,
) -> Report:
    """Read indicators from the lake and waiting works from the queue. Call `lake.export_manifest` first to update the lake."""
    with open_lake(lake, years=scope.years) as con:
        slis = compute_slis(con, scope)
        to_retry = f"SELECT work_id FROM outcomes WHERE {scope.condition} AND retry_at > $now"
        retried = [work_id for (work_id,) in con.execute(to_retry, {**scope.parameters, "now": now}).fetchall()]
        summary = run_summary(con, scope)
    waiting = [*catalog.parked(scope.year, scope.run_id), *_to_retry(catalog.entries_of(retried))]
    waiting.sort(key=lambda group: (-group.count, group.group or ""))
    queue = catalog.queue_counts(scope.year, scope.run_id)
    ended = catalog.outcome_counts(scope.year, scope.run_id)
    with_full_text = sum(n.count for n in ended if n.reason in (Reason.OK, Reason.NOT_MODIFIED))
    files = _files(lake, data_root, artifact_root or data_root, scope, catalog)
    return Report(scope, now, slis, evaluate(slis), queue, with_full_text, waiting, data_root, files, summary)


def _to_retry(entries: Iterable[Entry]) -> Iterator[ParkedGroup]:
    """Works whose search failed and will be repeated, unlike `parked` works, whose search is not finished.

    The reason of an outcome is that of the best candidate; the work waits for the first candidate that may succeed next time.
    """
    due: dict[tuple[str | None, str], list[float]] = {}
    for entry in entries:
        failures = [{"reason": entry.reason, "url": entry.url}, *entry.meta.get("others", ())]
        retryable = (failure for failure in failures if Reason(failure["reason"]).ending is Ending.RETRYABLE)
        failure = next(retryable, failures[0])
        host = urlsplit(failure["url"] or "").hostname
        due.setdefault((host, str(failure["reason"])), []).append(entry.retry_at or 0.0)
    for (host, reason), times in due.items():
        yield ParkedGroup(host, len(times), min(times), max(times), reason)


def _files(
    lake: LakeFiles, data_root: Path, artifact_root: Path | str, scope: WorkScope, catalog: Catalog
) -> list[tuple[str, str]]:
    elsewhere = [("Files", artifact_root)] if isinstance(artifact_root, str) else []
    places = [("Files", Path(artifact_root, kind)) for kind in ("PDF", "HTML", "XML", "cas") if not elsewhere]
    if scope.run_id:
        places.append(("Run folder", data_root / scope.run_id))
    file = Path(catalog.name)
    elsewhere += [] if file.exists() else [("Catalog", catalog.name)]
    places.append(("Catalog", file))
    if (views := views_file(lake)) is None:
        elsewhere.append(("Parquet", lake.place))
    else:
        places += [("Parquet", Path(lake.place)), ("DuckDB views", views)]
    return elsewhere + [(label, str(path.resolve())) for label, path in places if path.exists()]


# -- the tables, the same for every format ---------------------------------------------------------------------------


def headline(report: Report) -> str:
    """The results of the scope; for a run that continued earlier ones also the state of all its works."""
    if not report.scope.run_id or report.queue.done <= report.slis.finished:
        return _results(report)
    queue = report.queue
    later = f", {queue.waiting:,} waiting" if queue.waiting else ""
    share = format_value(report.with_full_text / queue.total, "share")
    return f"{_results(report)}\nAll {queue.total:,} works: {report.with_full_text:,} with full text ({share}){later}."


def _results(report: Report) -> str:
    slis, queue, waiting = report.slis, report.queue, sum(wait.count for wait in report.waiting)
    if slis.yield_ is None and queue.done:
        return f"No new works finished: {queue.done:,} were already finished, {queue.total - queue.done:,} are left."
    if slis.yield_ is None and report.scope.run_id and not queue.total:
        return "No new works finished; the retried works are unchanged."
    if slis.yield_ is None:
        return f"No works finished yet; {queue.total:,} are in the queue."
    parts = [
        f"{plural(slis.finished, 'work')} finished",
        f"{slis.saved:,} with full text ({format_value(slis.yield_, 'share')})",
    ]
    parts += [f"{slis.html_only:,} as HTML only"] if slis.html_only else []
    parts += [f"{waiting:,} waiting"] if waiting else []
    parts += [f"{queue.to_do:,} still to do"] if queue.to_do else []
    return ", ".join(parts) + f"; {format_bytes(slis.bytes)} stored."


def tables(report: Report) -> Iterator[Table]:
    """The tables in reading order, without empty ones."""
    slis = report.slis
    every = (
        Table("At a glance", ("Indicator", "Value"), _glance(slis), frozenset({"Value"})),
        Table("Objectives", ("", "Objective", "Goal", "Value", "Why"), list(_objectives(report.verdicts))),
        Table("How works ended", ("Reason", "Works", "Share", "", "Ends", "Meaning"), _endings(slis), _COUNTS),
        Table("Waiting", ("Host", "Works", "From (UTC)", "Until (UTC)", "Reason"), _waiting(report.waiting), _COUNTS),
        _share_table("By tier", "Tier", slis.by_tier),
        _share_table("By resolver", "Resolver", slis.by_resolver),
        _share_table("By host", "Host", slis.by_host[:TOP_HOSTS]),
        Table("Attempts per request", ("Attempt", "Requests", "Share", ""), _retries(slis), _COUNTS),
        Table("Files and folders", ("What", "Where"), list(report.files)),
    )
    return (table for table in every if table.rows)


_LONG = frozenset({"By host", "Attempts per request"})  # not shown on a terminal
_MULTILINE = frozenset({"Why", "Meaning", "Where", "Host"})  # columns that may take several lines on a narrow terminal
_COUNTS = frozenset({"Works", "Share", "Tried", "Saved", "Size", "Requests", "Attempt"})


def _glance(slis: Slis) -> list[tuple[str, str]]:
    per_saved, per_second = slis.requests_per_success, slis.works_per_s
    return [
        ("Yield (PDF or XML)", format_value(slis.yield_, "share")),
        ("Yield with HTML", format_value(slis.yield_with_html, "share")),
        ("Yield of works with a known copy", format_value(slis.yield_reachable, "share")),
        ("Time to full text per work, median", format_value(slis.ttfp_p50_s, "s")),
        ("Time to full text per work, p95", format_value(slis.ttfp_p95_s, "s")),
        ("Requests sent", format_value(slis.requests, "count")),
        ("Responses with status 429", format_value(slis.ratio_429, "share")),
        ("Cache hits", format_value(slis.cache_hit_ratio, "share")),
        ("Delay by rate limits, p95", format_value(slis.rate_delay_p95_s, "s")),
        ("Circuit breakers opened", format_value(slis.breaker_opens, "count")),
        ("Requests per saved work", "–" if per_saved is None else f"{per_saved:.1f}"),
        ("Works per second", "–" if per_second is None else f"{per_second:.3g}"),
    ]


def _objectives(verdicts: Sequence[Verdict]) -> Iterator[tuple[str, ...]]:
    marks = {True: "✓", False: "✗", None: "–"}
    for slo, verdict in zip(SLOS, verdicts, strict=True):
        why = verdict.sentence.partition(": ")[2] if verdict.ok is None else slo.why
        yield marks[verdict.ok], slo.title, slo.goal, format_value(verdict.value, slo.unit), why


def _endings(slis: Slis) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for token, count in slis.reasons.items():
        ending, (meaning, remedy), share = Reason(token).ending, REASON_TEXT[Reason(token)], count / slis.finished
        words = meaning if ending is Ending.SUCCESS else f"{meaning} → {remedy}"
        rows.append((token, f"{count:,}", format_value(share, "share"), bar(share), str(ending), words))
    return rows


def _waiting(waiting: Sequence[ParkedGroup]) -> list[tuple[str, ...]]:
    return [
        (wait.group or "unknown", f"{wait.count:,}", *map(format_time, (wait.earliest, wait.latest)), wait.reason or "")
        for wait in waiting
    ]


def _share_table(title: str, column: str, shares: Sequence[Share]) -> Table:
    rows = []
    for one in shares:
        share = (format_value(one.rate, "share"), bar(one.rate))
        rows.append((one.name, f"{one.tried:,}", f"{one.saved:,}", *share, format_bytes(one.bytes)))
    return Table(title, (column, "Tried", "Saved", "Share", "", "Size"), rows, _COUNTS)


def _retries(slis: Slis) -> list[tuple[str, ...]]:
    total = sum(slis.retries.values())
    return [
        (f"{n}", f"{count:,}", format_value(count / total, "share"), bar(count / total))
        for n, count in slis.retries.items()
    ]


# -- formats -----------------------------------------------------------------------------------------------------------


def to_markdown(report: Report) -> str:
    lines = [
        f"# {TITLE}",
        "",
        f"*{report.scope} · {format_time(report.generated_at)} UTC*",
        "",
        "  \n".join(f"**{line}**" for line in headline(report).splitlines()),
        "",
    ]
    for table in tables(report):
        rule = ("--:" if column in table.right else "--" for column in table.columns)
        lines += [f"## {table.title}", "", _markdown_row(table.columns), "|" + "|".join(rule) + "|"]
        lines += [*map(_markdown_row, table.rows), ""]
    lines += ["## Example queries", ""]
    for question, sql in QUERIES:
        lines += [question, "", "```sql", sql, "```", ""]
    return "\n".join(lines)


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(printable(cell).replace("|", "\\|") for cell in cells) + " |"


def to_json(report: Report) -> str:
    slis = report.slis
    document = {
        "title": TITLE,
        "scope": {"year": report.scope.year, "run_id": report.scope.run_id},
        "generated_at": iso(report.generated_at),
        "headline": headline(report),
        "indicators": slis.values(),
        "retries": {str(n): count for n, count in slis.retries.items()},
        "objectives": report.verdicts,
        "reasons": [
            {"reason": token, "works": count, "ends": Reason(token).ending, **REASON_TEXT[Reason(token)]._asdict()}
            for token, count in slis.reasons.items()
        ],
        "by_tier": slis.by_tier,
        "by_resolver": slis.by_resolver,
        "by_host": slis.by_host,
        "queue": report.queue._asdict(),
        "waiting": [
            {
                "host": host,
                "works": wait.count,
                "earliest": iso(wait.earliest),
                "latest": iso(wait.latest),
                "reason": why,
            }
            for wait, (host, *_, why) in zip(report.waiting, _waiting(report.waiting), strict=True)
        ],
        "summary": report.summary,
        "files": [{"what": label, "where": where} for label, where in report.files],
    }
    return json_text(document) + "\n"


def example_queries(data_root: Path | str, command: str) -> str:
    """Shell commands to copy; `command` is how the reader calls this program."""
    lines = (f'# {question}\n{command} query --out {data_root} "{sql}"' for question, sql in QUERIES)
    return "\n".join(("Example queries:", *lines))


def to_terminal(report: Report, only: Collection[str] = ()) -> RenderableType:
    """A renderable for `rich.console.Console.print`. `only` names the tables of a short report."""
    time = (f"{format_time(report.generated_at)} UTC", "dim")
    head = Text.assemble((headline(report), "bold"), f"\n{bar(report.slis.yield_, 60)}\n", time)
    parts: list[RenderableType] = [Panel(head, title=f"{TITLE} · {report.scope}", border_style="cyan")]
    for table in (table for table in tables(report) if (table.title in only if only else table.title not in _LONG)):
        rows = [tuple(map(_coloured, row)) for row in table.rows]
        kept, look = set(table.columns) - _MULTILINE, box.SIMPLE_HEAD
        parts.append(rich_table(table.columns, rows, title=table.title, right=table.right, one_line=kept, box=look))
    return Group(*parts)


_STYLES = {
    "✓": "green",
    "✗": "bold red",
    Ending.SUCCESS: "green",
    Ending.RETRYABLE: "yellow",
    Ending.TERMINAL: "red",
    Ending.NEVER: "magenta",
}


def _coloured(cell: str) -> Text:
    return Text(printable(cell), style="cyan" if cell.startswith(("█", "░")) else _STYLES.get(cell, ""))
