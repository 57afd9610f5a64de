"""The section `ingest` of the configuration: how the URLs of ingest requests are fetched."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr

from resources.scope import Lane
from resources.settings import Section

Route = Literal["archive", "live", "save"]
_ORDER = "ways to fetch a URL, in this order: archive (a capture), live, save (Save Page Now, needs resolvers.wayback.api_key)"


class LaneRoutes(Section):
    priority: tuple[Route, ...] = Field(("archive", "live"), min_length=1, description=_ORDER)
    daily: tuple[Route, ...] = Field(("archive", "live"), min_length=1, description=_ORDER)
    bulk: tuple[Route, ...] = Field(("archive", "live"), min_length=1, description=_ORDER)


class KafkaSettings(Section):
    brokers: tuple[str, ...] = Field((), description="host:port of Kafka brokers; `content serve` uses Kafka when set")
    env: str = Field(
        "prod", pattern="^[a-z0-9-]{1,20}$", description="ENV in the names of topics and groups: prod, qa, dev"
    )
    options: dict[str, SecretStr] = Field(
        {}, description="further options of librdkafka, e.g. security.protocol, sasl.username, sasl.password"
    )


class IngestSettings(Section):
    routes: LaneRoutes = LaneRoutes()
    max_open: int = Field(
        50_000_000, ge=1, description="open ingest items; further requests are refused until there is room"
    )

    kafka: KafkaSettings = KafkaSettings()

    def routes_of(self, lane: Lane, *, force_recrawl: bool = False) -> tuple[Route, ...]:
        """The routes of a request. A forced one uses no earlier capture."""
        chosen: tuple[Route, ...] = getattr(self.routes, lane.name.lower())
        if not force_recrawl:
            return chosen
        return tuple(route for route in chosen if route != "archive") or ("live",)
