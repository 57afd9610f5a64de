"""Catalogs of the previous version, frozen as SQL text, are brought to today's tables with all that is in them."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pydantic import SecretStr
from sqlalchemy import inspect, text

from resources.catalog.catalog import Catalog
from resources.catalog.database import Location
from resources.catalog.errors import CatalogError
from resources.catalog.migrations import HEAD

FROZEN = Path(__file__).parent / "frozen"
PROJECT = Path(__file__).resolve().parents[3]


def thaw(location: Location) -> None:
    """A catalog as the previous version left it."""
    if isinstance(location, Path):
        location.parent.mkdir(parents=True)
        with closing(sqlite3.connect(location)) as raw:
            raw.executescript((FROZEN / "v4.sqlite.sql").read_text())
        return
    with psycopg.connect(location.get_secret_value(), autocommit=True) as raw:
        raw.execute("CREATE SCHEMA docstokg")
        raw.execute("SET search_path = docstokg")
        raw.execute((FROZEN / "v4.postgres.sql").read_text())


def tables_of(location: Location) -> dict[str, Any]:
    """Columns, keys and indexes of every table, by name."""
    with Catalog.open(location) as catalog, catalog._read() as connection:
        seen = inspect(connection)
        schema = None if isinstance(location, Path) else "docstokg"
        columns = {
            table: [(c["name"], str(c["type"]), c["nullable"]) for c in seen.get_columns(table, schema)]
            for table in seen.get_table_names(schema)
        }
        listing = (
            "SELECT name, coalesce(sql, '') FROM sqlite_master WHERE type = 'index'"
            if schema is None
            else "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'docstokg'"
        )
        indexes = {name: " ".join(sql.split()) for name, sql in connection.execute(text(listing))}
    return {"columns": columns, "indexes": indexes}


@pytest.fixture
def another(location: Location, tmp_path: Path) -> Iterator[Location]:
    """A second, empty place on the same database."""
    if isinstance(location, Path):
        yield tmp_path / "another.sqlite3"
        return
    with psycopg.connect(location.get_secret_value(), autocommit=True) as raw:
        raw.execute("CREATE DATABASE another")
    yield SecretStr(location.get_secret_value().replace("/postgres", "/another"))
    with psycopg.connect(location.get_secret_value(), autocommit=True) as raw:
        raw.execute("DROP DATABASE another")


@pytest.mark.requirement("CAT-1")
def test_a_migrated_catalog_has_the_tables_of_a_new_one(location: Location, another: Location) -> None:
    thaw(location)
    assert tables_of(location) == tables_of(another)


@pytest.mark.requirement("CAT-1")
def test_a_migrated_catalog_keeps_all_that_was_in_it_and_works_on(location: Location) -> None:
    thaw(location)
    with Catalog.open(location) as catalog:
        (entry,) = catalog.entries()
        assert (entry.work_id, entry.title, entry.path, entry.revision) == ("W1", "It's; a title", "PDF/x.pdf", 1)
        (artifact,) = catalog.artifacts_of("W1")
        assert (artifact.sha256, artifact.bytes, artifact.final_url) == ("ab" * 32, 1234, None)
        assert [stored.record.url for stored in catalog.attempts_after(0, 10)] == ["https://a.org/x.pdf"]
        assert [run.run_id for run in catalog.runs()] == ["01RUN"]
        assert catalog.export_position("attempts") == 1
        counts = catalog.queue_counts(run_id="01RUN")
        assert (counts.done, counts.parked, counts.queued_due) == (1, 1, 1)
        assert [work.work_id for work in catalog.claim("me", 5, 60).items] == ["W3"]
    with Catalog.open(location) as again:
        assert again.entry("W1") == entry


@pytest.mark.requirement("CAT-1")
def test_a_new_catalog_and_a_migrated_one_are_marked_with_the_newest_revision(
    location: Location, another: Location
) -> None:
    thaw(location)
    newest = sorted(path.name for path in (PROJECT / "resources/catalog/migrations/versions").glob("r*.py"))[-1]
    assert newest.startswith(f"r{HEAD}_")
    for place in (location, another):
        with Catalog.open(place) as catalog, catalog._read() as connection:
            assert connection.scalar(text("SELECT version_num FROM alembic_version")) == HEAD


@pytest.mark.requirement("CAT-1")
def test_a_catalog_of_a_newer_program_is_refused_and_left_as_it_is(location: Location) -> None:
    with Catalog.open(location) as catalog, catalog._write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    for _ in range(2):
        with pytest.raises(CatalogError, match=r"changed by a newer version .*revision 9999.*Use that version"):
            Catalog.open(location)


@pytest.mark.requirement("CAT-1")
def test_processes_that_open_an_older_catalog_at_once_migrate_it_once(location: Location) -> None:
    thaw(location)
    script = (
        "import sys; from pathlib import Path; from pydantic import SecretStr\n"
        "from resources.catalog.catalog import Catalog\n"
        "sys.stdin.readline(); place = sys.argv[1]\n"
        "with Catalog.open(SecretStr(place) if '://' in place else Path(place)) as c: print(len(list(c.entries())))\n"
    )
    place = str(location) if isinstance(location, Path) else location.get_secret_value()
    command = [sys.executable, "-c", script, place]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, cwd=PROJECT, **pipes) for _ in range(3)]
    ended = [(*process.communicate("\n", timeout=60), process.returncode) for process in processes]
    assert [(out, code) for out, _, code in ended] == [("1\n", 0)] * 3, ended


@pytest.mark.requirement("CAT-1")
def test_the_migrations_are_in_the_wheel(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=PROJECT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    folder = "resources/catalog/migrations"
    assert {f"{folder}/env.py", f"{folder}/versions/r0001_provenance.py"} <= names
