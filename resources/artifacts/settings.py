"""Where artifacts are kept. How they are written is the store's business."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from resources.settings import Section


class ArtifactSettings(Section):
    root: Path | None = Field(None, description="folder of the artifacts; the data root when not set")
