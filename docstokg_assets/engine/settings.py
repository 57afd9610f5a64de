"""The section `download` of the configuration: which copies are wanted, how files are checked, and how a pass waits."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field

from docstokg_assets.domain.naming import DEFAULT_TEMPLATE, check_template
from resources.settings import Section

Version = Literal["published", "accepted", "submitted", "unknown"]


class DownloadSettings(Section):
    chunk_size_bytes: int = Field(262_144, ge=1024, description="bytes read at once")
    atomic_write: Literal[True] = Field(True, description="only whole files get their final name; always on")
    verify_content_length: Literal[True] = Field(True, description="reject bodies of the wrong length; always on")
    max_bytes: int = Field(104_857_600, gt=0, description="maximum size of a file")
    head_precheck: bool = Field(True, description="send HEAD before GET where the answer is useful")
    max_concurrent_resolvers: int = Field(1, ge=1, le=16, description="resolvers of one tier to query at the same time")
    versions: tuple[Version, ...] = Field(get_args(Version), description="wanted versions; `unknown`: not stated")
    licenses: tuple[str, ...] = Field(
        ("*",), description="wanted licences, as patterns such as `cc-by*` and `cc0`; `unknown`: not stated"
    )
    file_name: Annotated[str, AfterValidator(check_template)] = Field(
        DEFAULT_TEMPLATE,
        description="name of a file, of the fields author, year, title, doi, source and id; without {id}, the id is added",
    )
    global_url_dedupe: bool = Field(False, description="do not fetch a URL for one work that was fetched for another")
    guess_files: bool = Field(
        True, description="try the publisher's usual PDF URL before reading a landing page; only with check_pdf"
    )
    check_pdf: bool = Field(True, description="check that each PDF is the article; takes a few milliseconds")
    on_suspect: Literal["reject", "keep"] = Field(
        "reject", description="a PDF of another paper or of a supplement: try the next copy, or keep it with a flag"
    )
    quarantine_bytes: int = Field(
        1_073_741_824, ge=0, description="maximum size of `quarantine/` (PDFs of two file types); more is not kept"
    )
    deadline_s: float | None = Field(
        None, gt=0, description="time budget of a pass; without one it waits for parked works too (Dagster: six hours)"
    )
    park_after_s: float = Field(60.0, gt=0, description="a work that must wait longer goes back to the queue")
    lease_s: float = Field(120.0, ge=10, description="a work whose lease is not renewed for so long is claimed again")

    def wants_license(self, license_: str) -> bool:
        """Whether copies under this licence, or under none that is stated (`unknown`), are wanted."""
        return any(fnmatchcase(license_, pattern.lower()) for pattern in self.licenses)
