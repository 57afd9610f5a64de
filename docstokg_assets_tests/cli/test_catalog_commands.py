"""`content catalog stats` and `content catalog query` over a pull, whose catalog is a file or on a PostgreSQL server."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from pydantic import SecretStr

from docstokg_assets.config import load_config
from docstokg_assets_tests.support.program import Ended, Place
from docstokg_assets_tests.support.servers import Postgres
from resources.catalog.catalog import Catalog
from resources.records import Classification

WORKS_PER_YEAR = 20

Content = Callable[..., Ended]


@pytest.fixture(params=["sqlite", "postgres"])
def pulled(request: pytest.FixtureRequest, place: Place, content: Content) -> Place:
    """A year has been pulled into the catalog that the configuration names."""
    if request.param == "postgres":
        url: SecretStr = request.getfixturevalue("postgres_catalog")
        place.write(storage={"backend": "postgres", "url": url.get_secret_value()})
    ended = content(*place.arguments("--query", "publication_year:2024"))
    assert ended.code in (0, 3), ended.err
    assert Postgres.password not in ended.out + ended.err
    assert (place.out / "catalog.sqlite3").exists() == (request.param == "sqlite")
    return place


def asked(place: Place, content: Content, command: str, *arguments: str) -> Ended:
    return content("catalog", command, "--config", str(place.config), "--out", str(place.out), *arguments)


def rows(ended: Ended) -> list[dict[str, Any]]:
    assert ended.code == 0, ended.err
    found: list[dict[str, Any]] = json.loads(ended.out)
    return found


@pytest.mark.requirement("CAT-1")
@pytest.mark.requirement("CLI-1")
@pytest.mark.requirement("CLI-2")
def test_figures_and_answers_are_those_of_the_pull(pulled: Place, content: Content) -> None:
    overview = {row["what"]: row["number"] for row in rows(asked(pulled, content, "stats", "--format", "json"))}
    assert overview["works known"] == WORKS_PER_YEAR
    assert 0 < overview["full texts"] <= overview["files"]
    assert overview["runs"] == 1
    by_reason = rows(asked(pulled, content, "stats", "--group-by", "reason", "--format", "json"))
    assert sum(row["works"] for row in by_reason) == sum(
        row["works"] for row in rows(asked(pulled, content, "stats", "--group-by", "year", "--format", "json"))
    )
    sql = "SELECT reason, count(*) AS works FROM catalog_entries GROUP BY reason ORDER BY works DESC, reason"
    answered = rows(asked(pulled, content, "query", "--sql", sql, "--format", "json"))
    assert answered == [{"reason": row["reason"], "works": row["works"]} for row in by_reason]
    # the slice of the run is the same in a file
    (run,) = pulled.out.glob("*/manifest.sqlite3")
    assert rows(asked(pulled, content, "query", "--sql", sql, "--format", "json", "--db-path", str(run))) == answered
    assert_a_second_pull_asks_for_nothing(pulled, content)
    assert_requests_are_counted_by(("tier", "resolver", "host"), pulled, content)


def assert_requests_are_counted_by(groups: tuple[str, ...], pulled: Place, content: Content) -> None:
    """Every group as counted by hand of what was sent and answered, which an answer from the cache was not; in the table too."""
    settings = load_config(pulled.config, {}, {"data_root": str(pulled.out)}).value
    with Catalog.open(settings.catalog_location) as catalog:
        failed = [end.work_id for end in catalog.entries() if end.classification is not Classification.SUCCESS]
        catalog.reopen((work_id, None) for work_id in failed)
    again = ("resume", "--config", str(pulled.config), "--out", str(pulled.out))
    assert content(*again).code in (0, 3)  # much of what was asked before comes from the cache
    columns = "tier, resolver, host, http_status, work_id"
    sql = f"SELECT {columns} FROM attempts WHERE http_status IS NOT NULL AND cache_hit = 0"
    sent = rows(asked(pulled, content, "query", "--sql", sql, "--format", "json", "--max-rows", "100000"))
    overview = {row["what"]: row["number"] for row in rows(asked(pulled, content, "stats", "--format", "json"))}
    assert len(sent) == overview["requests"] > 0
    cached = "SELECT count(*) AS n FROM attempts WHERE http_status IS NOT NULL AND cache_hit = 1"
    assert rows(asked(pulled, content, "query", "--sql", cached, "--format", "json"))[0]["n"] > 0
    for group in (*groups, "reason", "year"):
        told = rows(asked(pulled, content, "stats", "--group-by", group, "--format", "json"))
        table = asked(pulled, content, "stats", "--group-by", group).out
        for row in told:
            assert all(str(row[column]) in table for column in row), (group, row)
        if group in groups:
            counted = Counter(row[group] for row in sent if row[group] is not None)
            assert {row[group]: row["requests"] for row in told if row["requests"]} == counted
            errors = Counter(row[group] for row in sent if row["http_status"] >= 500)
            assert {row[group]: row["status_5xx"] for row in told if row["status_5xx"]} == errors


def assert_a_second_pull_asks_for_nothing(pulled: Place, content: Content) -> None:
    count = ["query", "--sql", "SELECT count(*) AS n FROM attempts WHERE role = 'artifact'", "--format", "json"]
    before = rows(asked(pulled, content, *count))
    content(*pulled.arguments("--query", "publication_year:2024"))
    assert rows(asked(pulled, content, *count)) == before


@pytest.mark.requirement("CLI-1")
def test_what_is_cut_off_or_denied_is_told_by_message_and_exit_code(pulled: Place, content: Content) -> None:
    cut = asked(pulled, content, "query", "--sql", "SELECT work_id FROM queue", "--format", "csv", "--max-rows", "3")
    assert cut.code == 3 and len(list(csv.reader(StringIO(cut.out)))) == 4
    assert "only the first 3 rows; --max-rows shows more" in cut.err
    denied = asked(pulled, content, "query", "--sql", "DELETE FROM queue")
    assert denied.code == 2 and denied.err.startswith("content: query failed: ")
    unknown = asked(pulled, content, "query", "--sql", "SELECT * FROM outcomes")
    assert unknown.code == 2 and "The tables are artifacts, attempts, catalog_entries, " in unknown.err
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    late = asked(pulled, content, "query", "--sql", endless, "--timeout", "0.5")
    assert late.code == 2 and "longer than 0.5 s" in late.err


@pytest.mark.requirement("CLI-1")
def test_a_catalog_that_is_not_there_is_not_made_by_asking(place: Place, content: Content) -> None:
    for command in (("stats",), ("query", "--sql", "SELECT 1")):
        ended = asked(place, content, *command)
        assert ended.code == 2 and "there is no catalog at" in ended.err and "--out" in ended.err
    assert not place.out.exists()


@pytest.mark.requirement("CFG-7")
@pytest.mark.requirement("CAT-1")
def test_a_dry_run_leaves_the_server_alone(place: Place, content: Content, postgres_catalog: SecretStr) -> None:
    place.write(storage={"backend": "postgres", "url": postgres_catalog.get_secret_value()})
    ended = content(*place.arguments("--query", "publication_year:2024", "--dry-run"))
    assert ended.code in (0, 3), ended.err
    with Catalog.open(postgres_catalog) as catalog:
        assert catalog.runs() == []


@pytest.mark.requirement("CFG-7")
@pytest.mark.requirement("CFG-8")
def test_the_address_of_the_server_is_a_secret(place: Place, content: Content, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DTKG_STORAGE__BACKEND", "postgres")
    monkeypatch.setenv("DTKG_STORAGE__URL", "postgresql://me:canary@db.example:5432/papers")
    for command in (("print-config",), ("explain",), ("validate-config",)):
        ended = content(*command, "--config", str(place.config))
        assert ended.code == 0 and "canary" not in ended.out + ended.err
    monkeypatch.setenv("DTKG_STORAGE__URL", "mysql://me:canary@db.example/papers")
    wrong = content("validate-config", "--config", str(place.config))
    assert wrong.code == 2 and "must be like postgresql://user:password@host:5432/database" in wrong.err
    assert "canary" not in wrong.err
    monkeypatch.delenv("DTKG_STORAGE__URL")
    missing = content("validate-config", "--config", str(place.config))
    assert missing.code == 2 and "backend postgres needs url" in missing.err
