"""What a dry run prints: the URLs that would be tried, from the outcomes in its temporary catalog."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit

from rich.console import Console

from docstokg_assets.cli.output import RowFormat, print_message, print_rows, stderr_console
from docstokg_assets.config import ContentDownloadConfig
from docstokg_assets.domain.naming import file_path
from docstokg_assets.domain.works import Work
from docstokg_assets.reporting.rendering import format_bytes, plural
from docstokg_assets.resolvers.registry import lacks_key, load_resolvers
from resources.catalog.catalog import Catalog
from resources.catalog.rows import Entry
from resources.records import Answer

_FIRST = 10
_COLUMNS = ("work_id", "title", "resolver", "tier", "url")
Row = tuple[str | None, ...]


def format_duration(seconds: int) -> str:
    """`40 s`, `12 min`, `3.5 h`"""
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def names_of(catalog: Catalog, run_id: str, template: str) -> dict[str, str]:
    """The file name that each of the first works would get."""
    works = [entry.work_id for entry in islice(catalog.entries(settled_by=run_id), _FIRST)]
    records = ((i, Work.from_json(record)) for i, record in catalog.records_of(works))
    return {work_id: file_path(work, "PDF", ".pdf", 1, template) for work_id, work in records}


def print_estimate(console: Console, config: ContentDownloadConfig, works: Sequence[Work], total: int) -> None:
    """What a run over these works would take. `works`: a sample of `total` works; `config`: of the real data folder."""
    from docstokg_assets.runs.estimate import OTHER, estimate, rates_of

    location = config.catalog_location
    with ExitStack() as stack:
        there = not isinstance(location, Path) or location.is_file()
        catalog = stack.enter_context(Catalog.open(location)) if there else None
        done = catalog.done_among(work.work_id for work in works) if catalog is not None else set()
        guess = estimate(works, done, rates_of(catalog, location if there else None), config, total)
    hosts = [f"{host} {number:,}" for host, number in guess.by_host.items() if host != OTHER]
    more = f"; {OTHER} {guess.by_host[OTHER]:,}" if OTHER in guess.by_host else ""
    low, high = (format_duration(seconds) for seconds in guess.seconds)
    lines = [
        f"Estimate for {plural(guess.works, 'work')}: {guess.there:,} already there, {guess.to_fetch:,} to fetch.",
        f"  requests  about {guess.requests:,}, and {guess.listing_requests:,} to list the works",
        f"  by host   {', '.join(hosts[:_FIRST])}{' …' if len(hosts) > _FIRST else ''}{more}",
        f"  time      {low} to {high}; the slowest limit is that of {guess.slowest}",
        f"  result    about {guess.full_texts:,} full texts, {format_bytes(guess.bytes)}",
        f"  OpenAlex  {plural(guess.listing_requests, 'credit')} for the list; `content quota` shows what is left",
        f"  rates     {guess.source}",
    ]
    settings = config.resolvers.by_name()
    keyless = [name for name, cls in load_resolvers().items() if name in settings and lacks_key(cls, settings[name])]
    if keyless and guess.to_fetch:
        lines.append(f"  keys      not asked without a key: {', '.join(keyless)}")
    for line in lines:
        print_message(console, line)


def print_candidates(entries: Iterable[Entry], format: RowFormat, names: Mapping[str, str]) -> None:
    """`names`: the file names to show, by work."""
    rows: list[Row] = []
    for entry in entries:
        found = entry.meta.get("candidates") or [{}]  # a work without a known copy has a row, too
        rows += [(entry.work_id, entry.title, *(one.get(name) for name in _COLUMNS[2:])) for one in found]
    candidates, works = [row for row in rows if row[4]], list(dict.fromkeys(row[:2] for row in rows))
    if format is RowFormat.TABLE:
        _print_first(candidates, works, names)
    else:
        print_rows(Answer(_COLUMNS, tuple(rows), False), format)
    totals = f"{plural(len(works), 'work')}, {plural(len(candidates), 'candidate URL')}"
    print_message(stderr_console(), f"{totals}; dry run: nothing was downloaded or written.")


def _print_first(candidates: list[Row], works: list[Row], names: Mapping[str, str]) -> None:
    """The first works with their candidates, then the number of URLs by resolver and by host."""
    console = Console()
    for work in works[:_FIRST]:
        print_message(console, f"{work[0]}  {work[1] or ''}".rstrip())
        urls = [f"    {resolver:<10} {url}" for *known, resolver, _, url in candidates if tuple(known) == work]
        for line in urls or ["    no known copy"]:
            print_message(console, line, verbatim=True)
        if urls and (name := names.get(work[0] or "")):
            print_message(console, f"    as         {name}", verbatim=True)
    if len(works) > _FIRST:
        print_message(console, f"… and {plural(len(works) - _FIRST, 'more work')}; --format csv or json shows all")
    resolvers = Counter((resolver, tier) for _, _, resolver, tier, _ in candidates)
    by_resolver = tuple((*who, count) for who, count in resolvers.most_common())
    print_rows(Answer(("resolver", "tier", "URLs"), by_resolver, False), RowFormat.TABLE)
    hosts = Counter(urlsplit(row[4] or "").hostname for row in candidates)
    print_rows(Answer(("host", "URLs"), tuple(hosts.most_common(_FIRST)), len(hosts) > _FIRST), RowFormat.TABLE)
