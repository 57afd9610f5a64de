"""A run over ingest items: the engine's run with the resolvers and the pipeline of ingest."""

from __future__ import annotations

from collections.abc import Callable

from docstokg_assets.config import ContentDownloadConfig
from docstokg_assets.domain.pdf_match import Verdict
from docstokg_assets.engine.progress import PassResult, Progress
from docstokg_assets.ingest.search import IngestPipeline
from docstokg_assets.resolvers.registry import Resolver, build_resolvers, key_of
from docstokg_assets.runs.run import DownloadRun
from resources.clock import SystemClock
from resources.scope import ALL_LANES, Lane, WorkScope


class IngestRun(DownloadRun):
    """One run over ingest items. Use it as a context manager, then call `drain_lanes`; `stop.set()` ends it."""

    def _resolvers_of(self, config: ContentDownloadConfig) -> tuple[Resolver, ...]:
        """Those whose settings apply to the routes of ingest, whether they take part in searches for works or not."""
        settings = config.resolvers.by_name()
        chosen = {name: settings[name].model_copy(update={"enabled": True}) for name in ("wayback", "landing")}
        return build_resolvers(tuple(chosen), chosen)

    def _pipeline(self) -> IngestPipeline:
        made = super()._pipeline()
        shared = {name: getattr(made, name) for name in _SHARED}
        key = key_of(self.config.resolvers.by_name()["wayback"])
        if (check := made.validator) is not None:
            shared["validator"] = lambda work, url, path: _only_flags(check(work, url, path))
        return IngestPipeline(**shared, key=key, now=SystemClock().wall)

    def drain_lanes(
        self,
        lanes: tuple[Lane, ...] = ALL_LANES,
        *,
        deadline_s: float | None = None,
        max_items: int | None = None,
        on_progress: Callable[[Progress], None] = lambda progress: None,
        keep_on: bool = False,
    ) -> PassResult:
        """Make one pass over the due items of these lanes. `keep_on`: wait for more when nothing is due, until `stop` is set."""
        scope = WorkScope(lanes=lanes)
        return self.drain(scope, deadline_s=deadline_s, max_works=max_items, on_progress=on_progress, keep_on=keep_on)


def _only_flags(verdict: Verdict) -> Verdict:
    """A file of the wanted type is a hit, whatever it is about: flags are noted, nothing is rejected."""
    return Verdict(verdict.flags, verdict.evidence)


_SHARED = (
    *("resolvers", "store", "settings", "max_page_bytes", "context", "validator", "recorded", "owner", "dry_run"),
    *("taken_urls", "max_depth"),
)
