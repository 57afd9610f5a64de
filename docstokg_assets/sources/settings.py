"""The section `openalex` of the configuration: where works come from, and the filter that selects them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SecretStr, model_validator

from resources.settings import Section

MAX_ALTERNATIVES = 100  # OpenAlex refuses more in one filter


def filter_string(given: Any) -> str:
    """Normalise a filter, given as OpenAlex syntax or as a mapping, to one sorted spelling.

    `{"topics.id": ["T1", "T2"], "open_access.is_oa": True}` → `open_access.is_oa:true,topics.id:T1|T2`.
    """
    if isinstance(given, Mapping):
        parts = [f"{name}:{_value(name, value)}" for name, value in given.items()]
    elif isinstance(given, str):
        parts = [part.strip() for part in given.split(",") if part.strip()]
    else:
        raise ValueError("must be text in OpenAlex filter syntax or a mapping of filter names to values")
    for part in parts:
        name, colon, value = part.partition(":")
        if not (name.strip() and colon and value.strip()):
            raise ValueError(f"{part!r} is not a filter; write for example 'topics.id:T10102,open_access.is_oa:true'")
        if value.count("|") >= MAX_ALTERNATIVES:
            raise ValueError(f"{name}: OpenAlex takes at most {MAX_ALTERNATIVES} alternatives")
    return ",".join(sorted(parts))


def _value(name: str, value: Any) -> str:
    if isinstance(value, list | tuple):
        return "|".join(_value(name, item) for item in value)
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if "," in str(value):
        raise ValueError(f"{name}: a filter value cannot contain a comma")
    return str(value).strip()


class OpenAlexSettings(Section):
    source: Literal["api", "snapshot", "ids", "urls"] = Field(
        "api", description="where works come from: OpenAlex's API, its snapshot, or a file of yours"
    )
    filter: Annotated[str, BeforeValidator(filter_string)] = Field(
        "", description="which works: OpenAlex filter syntax, or a mapping name → value or list of values"
    )
    types: tuple[str, ...] = Field(
        (), description="only works of these OpenAlex types, unless the filter itself names types; all when empty"
    )
    api_key: SecretStr | None = Field(None, description="also read from DOCSTOKG_CONTENT_API_KEY_OPENALEX")
    per_page: int = Field(100, ge=1, le=100, description="works asked for at once")
    first_year: int = Field(2015, ge=1000, le=9999, description="first publication year that has a partition")
    max_works: int | None = Field(None, ge=1, description="most works of a year, or of a query; all when not set")
    ids_file: Path | None = Field(
        None,
        description="for source `ids`: a list of works (BibTeX, RIS, nbib, CSV, Excel, CSL-JSON, or text with ids)",
    )
    urls_file: Path | None = Field(None, description="for source `urls`: one URL a line")
    snapshot: str | None = Field(
        None, description="for source `snapshot`: a folder or s3://bucket/prefix in OpenAlex's layout (s3://openalex)"
    )
    snapshot_endpoint: str | None = Field(None, description="URL of the S3 service where that is not Amazon's")
    snapshot_signed: bool = Field(
        False,
        description="ask S3 with the credentials of the AWS variables or profile; OpenAlex's own bucket needs none",
    )
    nightly_hour: int = Field(
        3, ge=0, le=23, description="hour (UTC) from which the nightly sensor looks for new works"
    )

    @model_validator(mode="after")
    def _source_has_its_place(self) -> OpenAlexSettings:
        needed = {"ids": "ids_file", "urls": "urls_file", "snapshot": "snapshot"}
        if self.source in needed and getattr(self, needed[self.source]) is None:
            raise ValueError(f"source {self.source} needs {needed[self.source]}")
        return self

    @property
    def description(self) -> str:
        """The source in words: its kind, its snapshot or file, its filter."""
        place = {"snapshot": self.snapshot, "ids": self.ids_file, "urls": self.urls_file}.get(self.source)
        return " ".join(str(part) for part in (self.source, place, self.filter) if part)

    def with_types(self, works_filter: str) -> str:
        """Add the configured types to a filter, unless it names types itself."""
        if not self.types or re.search(r"(?:^|,)type:", works_filter):
            return works_filter
        return ",".join(filter(None, (works_filter, f"type:{'|'.join(self.types)}")))
