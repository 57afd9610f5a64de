"""The data folder that a command reads: its catalog, and the run that `--run` names. Ends the command where one is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from docstokg_assets.cli.exits import fail

if TYPE_CHECKING:
    from docstokg_assets.config import ContentDownloadConfig
    from resources.catalog.catalog import Catalog
    from resources.catalog.database import Location
    from resources.catalog.rows import Run

DEMO = Path("data/demo")  # where `make demo` works


def run_and_root(run: str | None, out: Path | None) -> tuple[str | None, Path | None]:
    """Run id and data folder; a run that is given as a folder names both."""
    if run is None or (Path(run).name == run and (out is not None or not Path(run).is_dir())):
        return run, out
    folder = Path(run).resolve()
    return folder.name, out or folder.parent


@contextmanager
def open_catalog(config: ContentDownloadConfig) -> Iterator[Catalog]:
    """Open the catalog of a data folder that was used before."""
    from resources.catalog.catalog import Catalog

    require_catalog(config.catalog_location)
    with Catalog.open(config.catalog_location) as catalog:
        yield catalog


def require_catalog(location: Location) -> None:
    """End the command when there is no catalog file; reading must not create one. A server reports a missing catalog itself."""
    if isinstance(location, Path) and not location.is_file():
        demo = f" The demo has one: --out {DEMO}." if (DEMO / location.name).is_file() else ""
        fail(f"there is no catalog at {location}. Name the data folder with --out; `content pull` creates one.{demo}")


def require_run(catalog: Catalog, run_id: str | None, data_root: Path) -> Run | None:
    """The run with that id; end the command when there is none."""
    if run_id is None:
        return None
    if (found := catalog.run(run_id)) is not None:
        return found
    known = ", ".join(run.run_id for run in catalog.runs()[:5]) or "none yet"
    fail(f"there is no run {run_id} in {data_root}. The latest runs are: {known}.")
