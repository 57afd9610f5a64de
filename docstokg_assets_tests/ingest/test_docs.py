"""The published schemas and the table of statuses are those of the program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import BaseModel

from docstokg_assets.ingest.records import FileIngestResult, IngestRequest
from docstokg_assets.ingest.statuses import STATUSES, statuses_markdown

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.requirement("ING-1")
@pytest.mark.parametrize(("name", "model"), [("ingest-request", IngestRequest), ("ingest-result", FileIngestResult)])
def test_the_published_schema_is_that_of_the_model(name: str, model: type[BaseModel]) -> None:
    # make it again with: json.dumps(model.model_json_schema(), indent=2)
    assert json.loads((DOCS / f"{name}.schema.json").read_text()) == model.model_json_schema()


@pytest.mark.requirement("ING-6")
def test_the_documentation_lists_every_status() -> None:
    # make it again with: python -c "from docstokg_assets.ingest.statuses import *; print(statuses_markdown())"
    text = (DOCS / "ingest.md").read_text()
    assert statuses_markdown() in text
    assert all(f"`{status}`" in text for status in STATUSES)
