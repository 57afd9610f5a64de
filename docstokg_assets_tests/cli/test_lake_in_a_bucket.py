"""A lake in a bucket of a real S3 server: filled by a pull, asked from elsewhere, made again; refused in plain words."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from docstokg_assets_tests.support.servers import SeaweedFs, free_port, s3_bucket

if TYPE_CHECKING:
    from docstokg_assets_tests.support.program import Ended, Place

WORKS_PER_YEAR = 12
Content = Callable[..., "Ended"]


@pytest.fixture
def telemetry(seaweedfs: SeaweedFs, aws_credentials: None, tmp_path: Path) -> dict[str, Any]:
    return {"lake": f"s3://papers/{tmp_path.name}/lake/", "lake_endpoint_url": seaweedfs.url}


def parts(server: SeaweedFs, prefix: str) -> set[str]:
    listed = s3_bucket(server.url, server.user, server.password).list_objects_v2(Bucket="papers", Prefix=prefix)
    return {item["Key"] for item in listed.get("Contents", ())}


@pytest.mark.requirement("TEL-6", "ORC-6")
def test_a_pull_fills_it_and_every_command_asks_it_from_any_data_root(
    place: Place, content: Content, telemetry: dict[str, Any], seaweedfs: SeaweedFs, tmp_path: Path
) -> None:
    place.write(telemetry=telemetry)
    ended = content(*place.arguments("--query", "publication_year:2024"))
    assert ended.code == 0 and f"s3://papers/{tmp_path.name}/lake" in ended.out, ended.err
    assert not (place.out / "lake").exists() and not (place.out / "telemetry.duckdb").exists()
    assert not list((place.out / "spool").iterdir())
    known = place.rows("SELECT work_id, reason FROM catalog_entries ORDER BY 1")

    def asked(sql: str, out: Path) -> list[tuple[Any, ...]]:
        answer = content("query", "--config", str(place.config), "--out", str(out), "--format", "json", sql)
        assert answer.code == 0, answer.err
        return [tuple(row.values()) for row in json.loads(answer.out)]

    outcomes = "SELECT work_id, reason FROM outcomes WHERE year = 2024 ORDER BY 1"
    assert asked(outcomes, place.out) == asked(outcomes, tmp_path / "elsewhere") == known
    assert asked("SELECT count(DISTINCT work_id) FROM plans", tmp_path / "elsewhere") > [(0,)]

    config = ("--config", str(place.config))
    reported = content("report", *config, "--out", str(place.out), "--format", "json")
    assert json.loads(reported.out)["indicators"]["finished"] == len(known)
    file = tmp_path / "outcomes.parquet"
    exported = content(
        "telemetry", "export", *config, "--data-root", str(place.out), "--table", "outcomes", "--out", str(file)
    )
    assert exported.code == 0 and sorted(pq.read_table(file)["work_id"].to_pylist()) == [work for work, _ in known]

    before = parts(seaweedfs, f"{tmp_path.name}/lake/outcomes/")
    rebuilt = content("telemetry", "rebuild", *config, "--out", str(place.out))
    after = parts(seaweedfs, f"{tmp_path.name}/lake/outcomes/")
    assert rebuilt.code == 0 and before and after and not before & after
    assert asked(outcomes, place.out) == known
    assert SeaweedFs.password not in ended.out + ended.err + place.config.read_text()


@pytest.mark.requirement("CLI-1", "TEL-6")
@pytest.mark.parametrize(
    ("changes", "secret", "told"),
    [
        ({"lake": "s3://nobodys-bucket/lake"}, None, "Create the bucket, or correct telemetry.lake."),
        ({"lake_endpoint_url": "nobody"}, None, "Check the network and telemetry.lake_endpoint_url."),
        ({}, "wrong", "Give these credentials the right to list, read and write there."),
    ],
    ids=["bucket", "endpoint", "secret"],
)
def test_one_that_cannot_be_used_is_named_before_anything_is_done(
    place: Place,
    content: Content,
    telemetry: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, str],
    secret: str | None,
    told: str,
) -> None:
    if "lake_endpoint_url" in changes:
        changes = {"lake_endpoint_url": f"http://127.0.0.1:{free_port()}"}
    if secret is not None:
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    place.write(telemetry=telemetry | changes)
    for command in (
        place.arguments("--query", "publication_year:2024"),
        ["query", "--config", str(place.config), "FROM works"],
    ):
        ended = content(*command)
        assert ended.code == 2 and "the lake cannot use s3://" in ended.err and told in ended.err
    assert not place.done()


def test_an_empty_one_says_how_it_is_filled(place: Place, content: Content, telemetry: dict[str, Any]) -> None:
    place.write(telemetry=telemetry)
    ended = content("query", "--config", str(place.config), "FROM works")
    assert ended.code == 2 and f"there is no telemetry in {telemetry['lake']}" in ended.err
