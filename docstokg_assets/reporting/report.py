"""The report on a run or a year: what came out, how fast, why not the rest, where it is. Formats; measures nothing.

`build_report` gathers; the renderers show the same tables as Markdown, JSON or on a terminal.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

import orjson

from docstokg_assets.domain.scope import WorkScope
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
from docstokg_assets.reporting.rendering import iso, printable, utc
from resources.catalog import ParkedGroup, QueueCounts
from resources.catalog.queue import Years
from resources.catalog.rows import Entry, OutcomeCount
from resources.lake.files import LakeFiles
from resources.records import ENDINGS, Ending, Reason

if TYPE_CHECKING:
    from rich.console import JustifyMethod, RenderableType
    from rich.text import Text

TITLE = "Content download report"
TOP_HOSTS = 12

QUERIES: tuple[tuple[str, str], ...] = (
    (
        "Which hosts turned us away, and how?",
        "SELECT host, http_status, count(*) AS n FROM attempts WHERE http_status >= 400 GROUP BY ALL ORDER BY n DESC",
    ),
    (
        "What did we get, and how much of it?",
        "SELECT kind, count(*) AS files, round(sum(bytes) / 1e6, 1) AS mb FROM artifacts GROUP BY kind",
    ),
    (
        "Which works have no full text yet?",
        "SELECT work_id, title, reason, retry_at FROM outcomes WHERE classification <> 'success' ORDER BY reason",
    ),
)


class Waits(Protocol):
    """What the report asks the catalog for; `resources.catalog.Catalog` has it."""

    def queue_counts(self, year: Years | None = None, run_id: str | None = None) -> QueueCounts: ...
    @property
    def name(self) -> str: ...
    def parked(self, year: Years | None = None, run_id: str | None = None) -> list[ParkedGroup]: ...
    def outcome_counts(self, year: Years | None = None, *, of_run: str | None = None) -> list[OutcomeCount]: ...
    def entries_of(self, work_ids: Iterable[str]) -> Iterable[Entry]: ...


@dataclass(frozen=True, slots=True)
class Waiting:
    """Works that wait for a host, with the first and the last moment at which one of them comes due."""

    host: str
    works: int
    earliest: datetime
    latest: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class Report:
    scope: WorkScope
    generated_at: datetime
    slis: Slis
    verdicts: Sequence[Verdict]
    queue: QueueCounts
    held: int  # of the works of a run, those with full text, whichever run brought it
    waiting: Sequence[Waiting]
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
    catalog: Waits,
    now: datetime,
    artifact_root: Path | str | None = None,
) -> Report:
    """From the lake, and from the queue who waits. `lake.export_manifest` first brings the lake up to date."""
    with open_lake(lake) as con:
        slis = compute_slis(con, scope)
        again = f"SELECT work_id FROM outcomes WHERE {scope.condition} AND retry_at > $now"
        retried = [work_id for (work_id,) in con.execute(again, {**scope.parameters, "now": now}).fetchall()]
        summary = run_summary(con, scope)
    groups = [*catalog.parked(scope.year, scope.run_id), *_between_tries(catalog.entries_of(retried))]
    waiting = [
        Waiting(group.group or "unknown", group.count, utc(group.earliest), utc(group.latest), group.reason or "")
        for group in sorted(groups, key=lambda group: (-group.count, group.group or ""))
    ]
    queue = catalog.queue_counts(scope.year, scope.run_id)
    ended = catalog.outcome_counts(scope.year, of_run=scope.run_id)
    return Report(
        scope,
        now,
        slis,
        evaluate(slis),
        queue,
        sum(n.count for n in ended if n.reason in (Reason.OK, Reason.NOT_MODIFIED)),
        waiting,
        data_root,
        _files(lake, data_root, artifact_root or data_root, scope, catalog),
        summary,
    )


def _between_tries(entries: Iterable[Entry]) -> Iterator[ParkedGroup]:
    """Works that ended a try and wait for the next one; the queue's `parked` are those put aside in the middle of one.

    The reason of an outcome is that of the most promising copy; what is waited for is the first that may go otherwise next time.
    """
    moments: dict[tuple[str | None, str], list[float]] = {}
    for entry in entries:
        failures = [{"reason": entry.reason, "url": entry.url}, *entry.meta.get("others", ())]
        worth = (failure for failure in failures if ENDINGS[Reason(failure["reason"])] is Ending.RETRYABLE)
        why = next(worth, failures[0])
        host = urlsplit(why["url"] or "").hostname
        moments.setdefault((host, str(why["reason"])), []).append(entry.retry_at or 0.0)
    for (host, reason), times in moments.items():
        yield ParkedGroup(host, len(times), min(times), max(times), reason)


def _files(
    lake: LakeFiles, data_root: Path, artifact_root: Path | str, scope: WorkScope, catalog: Waits
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
    """What the scope brought; for a run that went on with works of earlier ones also how all its works stand."""
    if not report.scope.run_id or report.queue.done <= report.slis.finished:
        return _brought(report)
    queue = report.queue
    later = f", {queue.parked + queue.retry:,} waiting" if queue.parked + queue.retry else ""
    share = format_value(report.held / queue.total, "share")
    return f"{_brought(report)}\nAll {queue.total:,} works: {report.held:,} with full text ({share}){later}."


def _brought(report: Report) -> str:
    slis, waiting = report.slis, sum(wait.works for wait in report.waiting)
    if slis.yield_ is None and report.queue.done:
        left = report.queue.total - report.queue.done
        return f"Nothing was finished here: {report.queue.done:,} works had been before, {left:,} are left."
    if slis.yield_ is None and report.scope.run_id and not report.queue.total:
        return "Nothing was finished here: what works were taken up are as they were."
    if slis.yield_ is None:
        return f"No work is finished yet; {report.queue.total:,} are in the queue."
    finished = f"{slis.finished:,} {'work' if slis.finished == 1 else 'works'} finished"
    parts = [finished, f"{slis.saved:,} with full text ({format_value(slis.yield_, 'share')})"]
    parts += [f"{slis.html_only:,} as HTML only"] if slis.html_only else []
    parts += [f"{waiting:,} waiting"] if waiting else []
    parts += [f"{report.queue.queued_due:,} still to do"] if report.queue.queued_due else []
    return ", ".join(parts) + f"; {size(slis.bytes)} stored."


def tables(report: Report) -> Iterator[Table]:
    """In reading order; one without rows is left out."""
    slis = report.slis
    every = (
        Table("At a glance", ("Indicator", "Value"), list(_glance(slis)), frozenset({"Value"})),
        Table("Objectives", ("", "Objective", "Goal", "Value", "Why"), list(_objectives(report.verdicts))),
        Table(
            "How works ended",
            ("Reason", "Works", "Share", "", "Ends", "In words"),
            _endings(slis),
            _COUNTS,
        ),
        Table(
            "Waiting", ("Host", "Works", "From (UTC)", "Until (UTC)", "Reason"), list(_waiting(report.waiting)), _COUNTS
        ),
        _share_table("By tier", "Tier", slis.by_tier),
        _share_table("By resolver", "Resolver", slis.by_resolver),
        _share_table("By host", "Host", slis.by_host[:TOP_HOSTS]),
        Table("Tries per request", ("Try", "Requests", "Share", ""), _retries(slis), _COUNTS),
        Table("Where everything is", ("What", "Where"), list(report.files)),
    )
    return (table for table in every if table.rows)


_LONG = frozenset({"By host", "Tries per request"})  # for those who read the file
_PROSE = frozenset({"Why", "In words", "Where", "Host"})  # may take several lines on a narrow terminal
_COUNTS = frozenset({"Works", "Share", "Tried", "Saved", "Size", "Requests", "Try"})


def _glance(slis: Slis) -> Iterator[tuple[str, str]]:
    units = {
        "Yield (PDF or XML)": (slis.yield_, "share"),
        "Yield with HTML": (slis.yield_with_html, "share"),
        "Yield where a copy is known": (slis.yield_reachable, "share"),
        "Time to full text per work, median": (slis.ttfp_p50_s, "s"),
        "Time to full text per work, p95": (slis.ttfp_p95_s, "s"),
        "Requests sent": (slis.requests, "count"),
        "Answers 429": (slis.ratio_429, "share"),
        "Cache hits": (slis.cache_hit_ratio, "share"),
        "Wait for a rate limit, p95": (slis.rate_delay_p95_s, "s"),
        "Circuit breakers opened": (slis.breaker_opens, "count"),
    }
    for name, (value, unit) in units.items():
        yield name, _or_dash(value, unit)
    yield "Requests per saved work", "–" if slis.requests_per_success is None else f"{slis.requests_per_success:.1f}"
    yield "Works per second", "–" if slis.works_per_s is None else f"{slis.works_per_s:.3g}"


def _objectives(verdicts: Sequence[Verdict]) -> Iterator[tuple[str, ...]]:
    marks = {True: "✓", False: "✗", None: "–"}
    for slo, verdict in zip(SLOS, verdicts, strict=True):
        goal = f"{slo.comparison} {format_value(slo.target, slo.unit)}"
        why = verdict.sentence.partition(": ")[2] if verdict.ok is None else slo.why
        yield marks[verdict.ok], slo.title, goal, _or_dash(verdict.value, slo.unit), why


def _endings(slis: Slis) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for token, count in slis.reasons.items():
        ending, (meaning, remedy), share = ENDINGS[Reason(token)], REASON_TEXT[Reason(token)], count / slis.finished
        words = meaning if ending is Ending.SUCCESS else f"{meaning} → {remedy}"
        rows.append((token, f"{count:,}", format_value(share, "share"), bar(share), str(ending), words))
    return rows


def _waiting(waiting: Sequence[Waiting]) -> Iterator[tuple[str, ...]]:
    for wait in waiting:
        yield wait.host, f"{wait.works:,}", moment(wait.earliest), moment(wait.latest), wait.reason


def _share_table(title: str, column: str, shares: Sequence[Share]) -> Table:
    rows = [
        (
            share.name,
            f"{share.tried:,}",
            f"{share.saved:,}",
            _or_dash(share.rate, "share"),
            bar(share.rate),
            size(share.bytes),
        )
        for share in shares
    ]
    return Table(title, (column, "Tried", "Saved", "Share", "", "Size"), rows, _COUNTS)


def _retries(slis: Slis) -> list[tuple[str, ...]]:
    total = sum(slis.retries.values())
    return [
        (f"{n}", f"{count:,}", format_value(count / total, "share"), bar(count / total))
        for n, count in slis.retries.items()
    ]


def _or_dash(value: float | None, unit: str) -> str:
    return "–" if value is None else format_value(value, unit)


def bar(share: float | None, width: int = 10) -> str:
    filled = max(round((share or 0) * width), 1 if share else 0)  # what is there is seen
    return "█" * filled + "░" * (width - filled)


def size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def moment(time: datetime) -> str:
    return f"{utc(time):%Y-%m-%d %H:%M}"


# -- formats -----------------------------------------------------------------------------------------------------------


def to_markdown(report: Report) -> str:
    lines = [
        f"# {TITLE}",
        "",
        f"*{report.scope} · {moment(report.generated_at)} UTC*",
        "",
        "  \n".join(f"**{line}**" for line in headline(report).splitlines()),
        "",
    ]
    for table in tables(report):
        rule = ("--:" if column in table.right else "--" for column in table.columns)
        lines += [f"## {table.title}", "", _markdown_row(table.columns), "|" + "|".join(rule) + "|"]
        lines += [*map(_markdown_row, table.rows), ""]
    lines += ["## Ask it yourself", ""]
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
        "objectives": [asdict(verdict) for verdict in report.verdicts],
        "reasons": [
            {"reason": token, "works": count, "ends": ENDINGS[Reason(token)], **REASON_TEXT[Reason(token)]._asdict()}
            for token, count in slis.reasons.items()
        ],
        "by_tier": [asdict(share) for share in slis.by_tier],
        "by_resolver": [asdict(share) for share in slis.by_resolver],
        "by_host": [asdict(share) for share in slis.by_host],
        "queue": report.queue._asdict(),
        "waiting": [
            {**asdict(wait), "earliest": iso(wait.earliest), "latest": iso(wait.latest)} for wait in report.waiting
        ],
        "summary": report.summary,
        "files": [{"what": label, "where": where} for label, where in report.files],
    }
    return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n"


def questions(data_root: Path | str, command: str) -> str:
    """Commands to copy, as `command` is called where the reader is."""
    asked = (f'# {question}\n{command} query --out {data_root} "{sql}"' for question, sql in QUERIES)
    return "\n".join(("Ask it yourself:", *asked))


def to_terminal(report: Report, only: Collection[str] = ()) -> RenderableType:
    """A rich renderable; print it on a `rich.console.Console`. `only` names the tables for those who want it short."""
    from rich import box
    from rich.console import Group
    from rich.panel import Panel
    from rich.table import Table as RichTable
    from rich.text import Text

    head = Text.assemble(
        (headline(report), "bold"), f"\n{bar(report.slis.yield_, 60)}\n", (f"{moment(report.generated_at)} UTC", "dim")
    )
    parts: list[RenderableType] = [Panel(head, title=f"{TITLE} · {report.scope}", border_style="cyan")]
    for table in (table for table in tables(report) if (table.title in only if only else table.title not in _LONG)):
        grid = RichTable(title=table.title, title_justify="left", title_style="bold cyan", box=box.SIMPLE_HEAD)
        for column in table.columns:
            justify: JustifyMethod = "right" if column in table.right else "left"
            grid.add_column(column, justify=justify, overflow="fold", no_wrap=column not in _PROSE)
        for row in table.rows:
            grid.add_row(*map(_coloured, row))
        parts.append(grid)
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
    from rich.text import Text

    return Text(printable(cell), style="cyan" if cell.startswith(("█", "░")) else _STYLES.get(cell, ""))
