"""The section `ingest` of the configuration: how the URLs of ingest requests are fetched."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from resources.scope import Lane
from resources.settings import Section

Route = Literal["archive", "live", "save"]
_ORDER = "ways to fetch a URL, in this order: archive (a capture), live, save (Save Page Now, needs resolvers.wayback.api_key)"


class LaneRoutes(Section):
    priority: tuple[Route, ...] = Field(("archive", "live"), min_length=1, description=_ORDER)
    daily: tuple[Route, ...] = Field(("archive", "live"), min_length=1, description=_ORDER)
    bulk: tuple[Route, ...] = Field(("archive", "live"), min_length=1, description=_ORDER)


class IngestSettings(Section):
    routes: LaneRoutes = LaneRoutes()
    max_open: int = Field(
        50_000_000, ge=1, description="open ingest items; further requests are refused until there is room"
    )

    def routes_of(self, lane: Lane, *, force_recrawl: bool = False) -> tuple[Route, ...]:
        """The routes of a request. A forced one uses no earlier capture."""
        chosen: tuple[Route, ...] = getattr(self.routes, lane.name.lower())
        if not force_recrawl:
            return chosen
        return tuple(route for route in chosen if route != "archive") or ("live",)
