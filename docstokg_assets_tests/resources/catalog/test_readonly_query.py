"""Questions in SQL: what is answered, what is denied, what takes too long, on both databases."""

from __future__ import annotations

import re
import sqlite3
from datetime import datetime
from pathlib import Path

import psycopg
import pytest
from pydantic import SecretStr

from docstokg_assets_tests.support.servers import Postgres
from resources.catalog.catalog import Catalog
from resources.catalog.database import Location
from resources.catalog.errors import CatalogError
from resources.catalog.readonly_query import QueryRefused, run_readonly_query
from resources.catalog.rows import NewItem
from resources.records import Answer

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


@pytest.fixture(autouse=True)
def filled(request: pytest.FixtureRequest) -> None:
    if "location" not in request.fixturenames:
        return
    location: Location = request.getfixturevalue("location")
    with Catalog.open(location) as catalog:
        catalog.enqueue([NewItem(f"W{n}", 2024, 2024, {}, "p") for n in range(5)])


def asked(location: Location, sql: str, timeout_s: float = 10, max_rows: int = 10) -> Answer:
    return run_readonly_query(location, sql, timeout_s=timeout_s, max_rows=max_rows)


@pytest.mark.requirement("CLI-1")
def test_a_select_is_answered_up_to_the_limit_of_rows(location: Location) -> None:
    sql = "SELECT work_id, year, 1.5 AS half FROM queue WHERE work_id LIKE 'W%' ORDER BY work_id"
    assert asked(location, sql) == Answer(
        ("work_id", "year", "half"), tuple((f"W{n}", 2024, 1.5) for n in range(5)), False
    )
    assert asked(location, sql, max_rows=2) == Answer(
        ("work_id", "year", "half"), (("W0", 2024, 1.5), ("W1", 2024, 1.5)), True
    )
    assert asked(location, "WITH a AS (SELECT 1 AS b) SELECT b FROM a;").rows == ((1,),)


@pytest.mark.requirement("CLI-1")
@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM queue",
        "UPDATE queue SET year = 1",
        "INSERT INTO meta VALUES ('a', 1)",
        "DROP TABLE queue",
        "CREATE TABLE t (a int)",
        "CREATE TEMP TABLE t AS SELECT 1",
        "SELECT 1; DELETE FROM queue",
        "SELECT 1; COMMIT; DELETE FROM queue",
        "WITH gone AS (DELETE FROM queue RETURNING *) SELECT * FROM gone",
        "ATTACH DATABASE '{folder}/made.sqlite3' AS made",
        "VACUUM INTO '{folder}/made.sqlite3'",
        "VACUUM",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA query_only = OFF",
        "PRAGMA user_version = 7",
        "SELECT load_extension('x')",
        "COPY queue TO '{folder}/made.csv'",
        "COPY (SELECT 1) TO PROGRAM 'touch {folder}/made'",
        "DO $$ BEGIN DELETE FROM queue; END $$",
        "SET default_transaction_read_only = off",
        "SELECT set_config('transaction_read_only', 'off', false)",
        "SELECT nextval('attempts_id_seq')",
        "SELECT * FROM queue FOR UPDATE",
        "BEGIN",
        "",
        "SELECT nonsense FROM nowhere",
    ],
)
def test_what_is_not_a_reading_of_the_catalog_is_denied(location: Location, tmp_path: Path, sql: str) -> None:
    folder = tmp_path / "made"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    with pytest.raises(QueryRefused):
        asked(location, sql.format(folder=folder))
    assert list(folder.iterdir()) == []
    assert asked(location, "SELECT count(*) FROM queue").rows == ((5,),)


FILES = [
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT pg_read_binary_file('/etc/passwd')",
    "SELECT pg_ls_dir('/')",
    "SELECT * FROM pg_stat_file('/etc/passwd')",
    "SELECT lo_import('/etc/passwd')",
    "SELECT lo_export(1, '/tmp/made')",
    "COPY (SELECT 1) TO PROGRAM 'id'",
    "SELECT query_to_xml('COPY (SELECT 1) TO PROGRAM ''id''', true, true, '')",
    "SELECT query_to_xml('SELECT pg_read_file(''/etc/passwd'')', true, true, '')",
    "SELECT * FROM dblink('dbname=postgres', 'SELECT 1') AS t(a int)",
    "SELECT set_config('role', 'tester', true), query_to_xml('SELECT pg_read_file(''/etc/passwd'')', true, true, '')",
    "SELECT set_config('session_authorization', 'tester', false)",
    "SELECT set_config('transaction_read_only', 'off', false)",
    "SELECT query_to_xml('CREATE TABLE t (a int)', true, true, '')",
]


@pytest.mark.requirement("CLI-1", "TRU-8")
@pytest.mark.parametrize("sql", FILES)
def test_no_file_or_program_of_the_server_is_reached_as_a_superuser(postgres_catalog: SecretStr, sql: str) -> None:
    with psycopg.connect(postgres_catalog.get_secret_value()) as connection:
        assert connection.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone() == (True,)
    with pytest.raises(QueryRefused) as refused:
        asked(postgres_catalog, sql)
    assert "root:" not in str(refused.value)


@pytest.mark.requirement("CLI-1", "TRU-8")
def test_asking_as_a_superuser_leaves_nothing_behind_and_keeps_names_and_types(postgres_catalog: SecretStr) -> None:
    with Catalog.open(postgres_catalog) as catalog:
        catalog.enqueue([NewItem(f"W{n}", 2024, 2024, {}, "p") for n in range(5)])
    sql = 'SELECT work_id AS a, work_id AS a, now() AS "A b", 1.25::numeric(8, 2), NULL FROM queue; -- all of them'
    answer = asked(postgres_catalog, sql, max_rows=2)
    assert answer.columns == ("a", "a", "A b", "numeric", "?column?") and answer.more and len(answer.rows) == 2
    assert isinstance(answer.rows[0][2], datetime) and answer.rows[0][3:] == (1.25, None)
    with psycopg.connect(postgres_catalog.get_secret_value()) as connection:
        assert connection.execute("SELECT count(*) FROM pg_proc WHERE proname = 'answer'").fetchone() == (0,)


@pytest.mark.requirement("CLI-1", "TRU-8")
def test_a_user_with_few_rights_asks_and_one_who_reaches_files_is_refused(postgres_catalog: SecretStr) -> None:
    Catalog.open(postgres_catalog).close()
    with psycopg.connect(postgres_catalog.get_secret_value(), autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS plain")
        connection.execute("CREATE ROLE plain LOGIN PASSWORD 'plain' IN ROLE pg_read_all_data")
        as_plain = SecretStr(re.sub(r"//[^@]+@", "//plain:plain@", postgres_catalog.get_secret_value()))
        assert asked(as_plain, "SELECT count(*) FROM queue").rows == ((0,),)
        with pytest.raises(QueryRefused, match="permission denied"):
            asked(as_plain, "SELECT pg_read_file('/etc/passwd')")
        connection.execute("GRANT pg_read_server_files TO plain")
        with pytest.raises(QueryRefused, match=r"may reach files of the server .*Ask as another user"):
            asked(as_plain, "SELECT 1")
        connection.execute("DROP ROLE plain")


@pytest.mark.requirement("CLI-1")
def test_an_endless_question_is_given_up(location: Location) -> None:
    with pytest.raises(QueryRefused, match=r"longer than 0\.3 s\. Ask for less, or allow more time with --timeout"):
        asked(location, ENDLESS, timeout_s=0.3)


@pytest.mark.requirement("CLI-1")
def test_one_value_cannot_fill_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "small.sqlite3"
    Catalog.open(path).close()
    with pytest.raises(QueryRefused, match="too big"):
        asked(path, "SELECT zeroblob(500000000)")


@pytest.mark.requirement("CLI-1")
def test_asking_changes_no_older_catalog_and_needs_no_right_to_write(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite3"
    with sqlite3.connect(path) as raw:
        raw.execute("CREATE TABLE songs (name)")
    before = path.read_bytes()
    assert asked(path, "SELECT count(*) FROM songs").rows == ((0,),)
    assert asked(path, "PRAGMA table_info(songs)").rows[0][1] == "name"
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith("old")] == ["old.sqlite3"]


@pytest.mark.requirement("CLI-1")
def test_what_cannot_be_asked_is_named_without_its_password(postgres: Postgres, tmp_path: Path) -> None:
    wrong = SecretStr(postgres.url.replace(postgres.password, "canary-of-a-wrong-one"))
    with pytest.raises(CatalogError, match=r"postgresql://127\.0\.0\.1:\d+/postgres cannot be queried") as caught:
        asked(wrong, "SELECT 1")
    assert "canary" not in str(caught.value)
    text = tmp_path / "text"
    text.write_text("hello " * 1000)
    with pytest.raises(QueryRefused, match="not a database"):
        asked(text, "SELECT 1 FROM sqlite_master")
