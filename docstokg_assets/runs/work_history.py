"""Finds a work by any of its names and tells its history, for `content why` and `content serve`."""

from __future__ import annotations

from docstokg_assets.config import ContentDownloadConfig, resolvers_of
from docstokg_assets.config.explain import explain_resolvers
from docstokg_assets.domain.works import Work
from docstokg_assets.lake.attempts import attempts_of_work
from docstokg_assets.reporting import explain_work
from docstokg_assets.reporting.explain_work import WorkHistory
from resources.catalog.catalog import Catalog
from resources.catalog.rows import QueueItem
from resources.settings import Loaded

MOST_SEARCHED = 300_000  # works that are looked through for a title or a DOI; more take longer than anybody waits


class TooManyWorks(Exception):
    """The text is no id, and there are too many works to look through."""


def find_works(catalog: Catalog, wanted: str) -> list[QueueItem]:
    """The works that an id, a DOI, a file name or a part of the title names."""
    wanted = explain_work.without_file_name(wanted)
    if matching := catalog.queued(explain_work.as_work_id(wanted)):
        return matching
    if catalog.has_more_works(MOST_SEARCHED):
        raise TooManyWorks
    similar = catalog.queued_like(explain_work.search_terms(wanted))
    return [queued for queued in similar if explain_work.matches(wanted, Work.from_json(queued.record))]


def history_of(
    catalog: Catalog, loaded: Loaded[ContentDownloadConfig], queued: QueueItem, options: str = ""
) -> WorkHistory:
    """What happened to a work: every request, its answer, why it ended so, and what one can do. `options`: what a recommended
    command needs to find this collection."""
    entry = catalog.entry(queued.work_id)
    same = catalog.works_with(entry.sha256) if entry is not None and entry.sha256 else []
    off = [(row.name, str(row.state)) for row in explain_resolvers(loaded) if row.state.value != "enabled"]
    return explain_work.explain(
        queued,
        entry,
        attempts_of_work(catalog, loaded.value.lake_files, queued.work_id, queued.year),
        resolvers_of(loaded.value),
        off,
        catalog.now(),
        same_file=sorted({artifact.work_id for artifact in same} - {queued.work_id}),
        options=options,
    )
