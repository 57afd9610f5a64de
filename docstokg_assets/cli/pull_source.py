"""Where `content pull` takes its works from: arguments, `--ids`, `--urls`, `--query`, filter options, or the configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from rich.console import Console

from docstokg_assets.cli.exits import fail
from docstokg_assets.cli.options import Load
from docstokg_assets.cli.output import print_message, stderr_console
from docstokg_assets.config import ContentDownloadConfig
from docstokg_assets.reporting.rendering import plural
from docstokg_assets.sources import SetAside, SourceError
from docstokg_assets.sources.inputs import References
from docstokg_assets.sources.listing import Source, read_list
from docstokg_assets.sources.references import read_arguments
from docstokg_assets.sources.selection import Selection, SelectionError, WorkFilter
from docstokg_assets.sources.settings import filter_string
from resources.folders import read_bytes

_MAX_SKIPPED = 20  # lines that are shown
_EXAMPLE = "content pull 10.1038/s41586-020-2649-2, --ids FILE, --urls FILE or --query 'topics.id:T10102'"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line says about the works."""

    arguments: Sequence[str] = ()
    query: str | None = None
    ids: str | None = None
    urls: str | None = None
    column: str | None = None
    selection: Selection = field(default_factory=Selection)


def selection_of(**options: str | bool | None) -> Selection:
    try:
        return Selection.parse(**options)  # type: ignore[arg-type]
    except SelectionError as error:
        fail(str(error))


def source_of(wanted: Wanted, config: ContentDownloadConfig) -> Source:
    """The source that the command line names, else the configured one. Ends the command where there is none or more than one."""
    listed = bool(wanted.arguments) or wanted.ids is not None
    given = [name for name, there in (("--query", wanted.query), ("--urls", wanted.urls)) if there is not None]
    given += ["identifiers"] if listed else []
    if len(given) > 1:
        fail(f"give one of --query, --ids and --urls, not {' and '.join(given)} together")
    if wanted.column is not None and wanted.ids is None:
        fail("--column names a column of the table that --ids FILE gives")
    if wanted.query is not None and ":" not in wanted.query:
        if not Path(wanted.query).is_file():
            fail(f"--query {wanted.query!r} is neither an OpenAlex filter (name:value,name:value) nor a file of ids")
        wanted, listed = replace(wanted, query=None, ids=wanted.query), True
    if listed or wanted.urls is not None:
        return _of_lists(wanted)
    return _of_query_or_config(wanted, config)


def _of_query_or_config(wanted: Wanted, config: ContentDownloadConfig) -> Source:
    openalex, extra = config.openalex, wanted.selection.as_filter()
    query = wanted.query
    if query is None and openalex.source == "api":
        query = openalex.filter or None
    elif query is None and openalex.source != "snapshot":
        by_ids = openalex.source == "ids"
        ids, urls = (str(openalex.ids_file), None) if by_ids else (None, str(openalex.urls_file))
        return _of_lists(replace(wanted, ids=ids, urls=urls))
    elif query is None and not extra:
        years = "openalex.source is snapshot, which goes by years: `make materialize YEAR=2024`"
        fail(f"{years}, or give --query, --ids or --urls")
    if not (query or extra):
        fail(f"say which works: {_EXAMPLE}")
    try:  # in one spelling, so that the same query in other words continues where the last one stopped
        combined = filter_string(",".join(filter(None, (filter_string(query or ""), extra))))
    except ValueError as error:
        fail(f"--query {query!r}: {error}")
    if extra:
        print_message(stderr_console(), f"OpenAlex filter: {combined}")
    return Source("query", combined)


def _of_lists(wanted: Wanted) -> Source:
    """The source for arguments and files. A file may also be given as an argument."""
    if wanted.selection.topics:
        fail("--topic goes with a query: the works of a list are named already")
    kind: Literal["ids", "urls"] = "urls" if wanted.urls is not None else "ids"
    files = [wanted.urls] if wanted.urls is not None else [wanted.ids] if wanted.ids is not None else []
    plain = [one for one in wanted.arguments if not _is_file(one)]
    files += [one for one in wanted.arguments if one not in plain]
    try:
        lists = [read_list(kind, name, _read(name), wanted.column) for name in files]
    except SourceError as error:
        fail(str(error))
    lists = [read_arguments(plain), *lists] if plain else lists
    names = [*files, *plain]
    name = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
    source = Source.from_list(kind, name, *lists)
    if not source.works and not source.identifiers:
        _fail_empty(name, kind, lists, source)
    _print_read(files, lists[1:] if plain else lists, source)
    keep = WorkFilter(wanted.selection)
    return source if keep.empty else replace(source, keep=keep)


def _is_file(argument: str) -> bool:
    """Whether an argument without an identifier in it names a file."""
    known = read_arguments([argument]).inputs[0]
    try:
        return known.reason is not None and Path(argument).is_file()
    except (OSError, ValueError):
        return False


def _fail_empty(name: str, kind: str, lists: Sequence[References], source: Source) -> None:
    print_skipped(stderr_console(), source.set_aside)
    what = "a URL" if kind == "urls" else "a DOI, OpenAlex id, arXiv id, PMID, PMCID or URL"
    entries = sum(each.entries for each in lists)
    shape = f"none of the {plural(entries, 'entry', 'entries')}" if entries else "there is no entry"
    format = source.format if source.format not in ("", "arguments") else "list"
    fail(f"{shape} of {name} (read as {format}) has {what}" if entries else f"{name} is empty: {shape}. Give {what}")


def _print_read(files: Sequence[str], lists: Sequence[References], source: Source) -> None:
    """Name each file, what it was read as, and how many entries are usable."""
    console = stderr_console()
    for name, each in zip(files, lists, strict=True):
        if each.format in ("list of URLs", "text") and not any(one.reason for one in each.inputs):
            continue
        aside = sum(one.reason is not None for one in each.inputs)
        left = f", {aside:,} of them set aside" if aside else ""
        print_message(console, f"{name}: {each.format}, {plural(each.entries, 'entry', 'entries')}{left}.")


def _read(name: str) -> bytes:
    try:
        return read_bytes(0 if name == "-" else Path(name))
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        why = (
            f"{name} cannot be read: {error.strerror}"
            if isinstance(error, OSError)
            else f"{name!r} cannot be read: {error}"
        )
        fail(f"{why}. Give a file with one entry per line, or - for standard input.")


def print_skipped(console: Console, set_aside: Sequence[SetAside], file: Path | None = None) -> None:
    for aside in set_aside[:_MAX_SKIPPED]:
        print_message(console, f"skipped: {aside.where}: {aside.reason}: {aside.text!r}")
    if len(set_aside) > _MAX_SKIPPED:
        print_message(console, f"… and {len(set_aside) - _MAX_SKIPPED:,} more")
    if set_aside and file is not None:
        print_message(console, f"{plural(len(set_aside), 'entry', 'entries')} set aside: {file}")


def print_policy(load: Load) -> None:
    """Say which settings the options for copies became."""
    policy = {key: load.given[name] for name, key in (("license", "licenses"), ("copy_version", "versions"))}
    shown = "; ".join(f"download.{key} = {value}" for key, value in policy.items() if value)
    if shown:
        print_message(stderr_console(), f"only copies with {shown}")
