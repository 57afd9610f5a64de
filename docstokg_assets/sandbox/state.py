"""State shared by all simulated hosts: the universe, the files, the rate-limit windows.

One instance, created at start and passed to the hosts; there is no other shared state.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from functools import lru_cache

from .files import FileMaker, jats
from .limits import Windows
from .placed import PlacedResources
from .scenario import Scenario
from .universe import Universe, Work
from .wire import Response

_PDFS_KEPT = 256  # about 10 MB on average


@dataclass
class SandboxState:
    universe: Universe
    windows: Windows
    files: FileMaker = field(init=False)
    placed: PlacedResources = field(default_factory=PlacedResources)

    def __post_init__(self) -> None:
        self.files = FileMaker(self.universe.seed)
        self.pdf_bytes = lru_cache(maxsize=_PDFS_KEPT)(self.files.pdf)
        self.bench_pdf = lru_cache(maxsize=_PDFS_KEPT)(self.files.bench_pdf)

    def scenario_for(self, work: Work) -> Scenario:
        return self.universe.scenario(work)

    def pdf(self, work: Work, kind: str = "application/pdf") -> Response:
        """Return the PDF of a work with the headers for conditional and range requests."""
        return Response(200, self.pdf_bytes(work), kind, etag=self.files.etag(work), modified=_modified(work))

    def jats(self, work: Work) -> Response:
        return Response(200, jats(work), "application/xml", etag=self.files.etag(work, "xml"), modified=_modified(work))


def _modified(work: Work) -> dt.datetime:
    return dt.datetime.combine(work.date, dt.time(9, 30))
