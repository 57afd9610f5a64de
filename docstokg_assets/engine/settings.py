"""The section `download` of the configuration: which copies are wanted, how files are checked, and how a pass waits."""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import Field

from resources.settings import Section

Version = Literal["published", "accepted", "submitted", "unknown"]


class DownloadSettings(Section):
    chunk_size_bytes: int = Field(262_144, ge=1024, description="bytes read at once")
    atomic_write: Literal[True] = Field(
        True, description="a file appears under its name only when it is whole; always on"
    )
    verify_content_length: Literal[True] = Field(
        True, description="refuse a body that is not as long as its header says; always on"
    )
    max_bytes: int = Field(104_857_600, gt=0, description="a larger file is not kept")
    head_precheck: bool = Field(True, description="ask HEAD before GET where that tells something")
    max_concurrent_resolvers: int = Field(
        1, ge=1, le=16, description="resolvers of one tier that are asked side by side"
    )
    versions: tuple[Version, ...] = Field(
        get_args(Version), description="versions of a work that are wanted; `unknown` where nobody says"
    )
    licenses: tuple[str, ...] = Field(
        ("*",), description="licences that are wanted, as patterns: `cc-by*`, `cc0`, `unknown` where nobody says"
    )
    global_url_dedupe: bool = Field(False, description="do not fetch a URL for one work that was fetched for another")
    guess_files: bool = Field(
        True, description="try a file where others of its publisher lay, before its page is read; only with check_pdf"
    )
    check_pdf: bool = Field(True, description="look into each PDF whether it is the article; a few milliseconds each")
    on_suspect: Literal["reject", "keep"] = Field(
        "reject",
        description="a PDF that is plainly another paper or a supplement: try the next copy, or keep it flagged",
    )
    quarantine_bytes: int = Field(
        1_073_741_824,
        ge=0,
        description="room in `quarantine/` for PDFs that are something else as well; what comes then is not kept",
    )
    deadline_s: float | None = Field(
        None,
        gt=0,
        description="time budget of one pass; without one it waits for parked works too (Dagster: six hours)",
    )
    park_after_s: float = Field(60.0, gt=0, description="a work that must wait longer goes back to the queue")
    lease_s: float = Field(
        120.0, ge=10, description="a claimed work without a sign of life for so long is claimed again"
    )
