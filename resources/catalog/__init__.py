"""The catalog of all that is known and done, with its queue of works. Other rooms need only the names given here."""

from resources.catalog.catalog import Catalog, CatalogConnector
from resources.catalog.database import Location
from resources.catalog.errors import CatalogError, CatalogFull
from resources.catalog.readonly_query import QueryRefused, run_readonly_query
from resources.catalog.rows import (
    Artifact,
    Batch,
    Committed,
    DueWorks,
    Enqueued,
    Entry,
    Finished,
    NewItem,
    OutcomeCount,
    Parked,
    ParkedGroup,
    QueueCounts,
    QueueItem,
    RobotsRow,
    Run,
    SetAside,
    StoredAttempt,
)

__all__ = [
    "Artifact",
    "Batch",
    "Catalog",
    "CatalogConnector",
    "CatalogError",
    "CatalogFull",
    "Committed",
    "DueWorks",
    "Enqueued",
    "Entry",
    "Finished",
    "Location",
    "NewItem",
    "OutcomeCount",
    "Parked",
    "ParkedGroup",
    "QueryRefused",
    "QueueCounts",
    "QueueItem",
    "RobotsRow",
    "Run",
    "SetAside",
    "StoredAttempt",
    "run_readonly_query",
]
