"""What a dry run prints: the URLs that would be tried, from the outcomes in its temporary catalog."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from urllib.parse import urlsplit

from rich.console import Console

from docstokg_assets.cli.output import RowFormat, print_message, print_rows, stderr_console
from docstokg_assets.reporting.rendering import plural
from resources.catalog.rows import Entry
from resources.records import Answer

_FIRST = 10
_COLUMNS = ("work_id", "title", "resolver", "tier", "url")
Row = tuple[str | None, ...]


def print_candidates(entries: Iterable[Entry], format: RowFormat) -> None:
    rows: list[Row] = []
    for entry in entries:
        found = entry.meta.get("candidates") or [{}]  # a work without a known copy has a row, too
        rows += [(entry.work_id, entry.title, *(one.get(name) for name in _COLUMNS[2:])) for one in found]
    candidates, works = [row for row in rows if row[4]], list(dict.fromkeys(row[:2] for row in rows))
    if format is RowFormat.TABLE:
        _print_first(candidates, works)
    else:
        print_rows(Answer(_COLUMNS, tuple(rows), False), format)
    totals = f"{plural(len(works), 'work')}, {plural(len(candidates), 'candidate URL')}"
    print_message(stderr_console(), f"{totals}; dry run: nothing was downloaded or written.")


def _print_first(candidates: list[Row], works: list[Row]) -> None:
    """The first works with their candidates, then the number of URLs by resolver and by host."""
    console = Console()
    for work in works[:_FIRST]:
        print_message(console, f"{work[0]}  {work[1] or ''}".rstrip())
        urls = [f"    {resolver:<10} {url}" for *known, resolver, _, url in candidates if tuple(known) == work]
        for line in urls or ["    no known copy"]:
            print_message(console, line, verbatim=True)
    if len(works) > _FIRST:
        print_message(console, f"… and {plural(len(works) - _FIRST, 'more work')}; --format csv or json shows all")
    resolvers = Counter((resolver, tier) for _, _, resolver, tier, _ in candidates)
    by_resolver = tuple((*who, count) for who, count in resolvers.most_common())
    print_rows(Answer(("resolver", "tier", "URLs"), by_resolver, False), RowFormat.TABLE)
    hosts = Counter(urlsplit(row[4] or "").hostname for row in candidates)
    print_rows(Answer(("host", "URLs"), tuple(hosts.most_common(_FIRST)), len(hosts) > _FIRST), RowFormat.TABLE)
