"""Where the catalog is kept. What is in it is the catalog's business."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from resources.settings import Section


class StorageSettings(Section):
    backend: Literal["sqlite"] = Field("sqlite", description="which database")
    path: Path | None = Field(None, description="the database file; `catalog.sqlite3` in the data root when not set")
