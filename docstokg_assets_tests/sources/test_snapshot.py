"""Works from a snapshot: its layout on disk and in S3, both formats, what cannot be read, and where a reading goes on."""

from __future__ import annotations

import datetime as dt
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import numpy as np
import orjson
import pytest
from moto.server import ThreadedMotoServer

from docstokg_assets.sandbox.mix import Mix
from docstokg_assets.sandbox.snapshot import Format, write_snapshot
from docstokg_assets.sandbox.universe import Universe
from docstokg_assets.sources import SourceError
from docstokg_assets.sources.listing import Collected, works_of_snapshot
from docstokg_assets.sources.local_filter import LocalFilter
from docstokg_assets.sources.snapshot import Snapshot
from resources.folders import FolderError, ReadFolder
from resources.settings import SettingsError

UNIVERSE = Universe(7, 60, (2023, 2024), Mix.load("default", None))
ALL = LocalFilter("")


def taken(folder: ReadFolder, since: dt.date | None = None, keep: LocalFilter = ALL) -> tuple[set[str], Collected]:
    collected = Collected()
    works = works_of_snapshot(Snapshot(folder), 2024, since, keep, collected)
    return {work.work_id for work in works}, collected


def of_2024(without: str | None = None) -> set[str]:
    return {work.id for work in UNIVERSE.works(2024) if work.strange is None or work.strange != without}


@pytest.mark.requirement("SRC-2")
@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_a_year_is_read_out_of_the_whole_snapshot(tmp_path: Path, format: Format) -> None:
    write_snapshot(tmp_path, UNIVERSE, (2023, 2024), format, per_part=3)
    works, collected = taken(ReadFolder(str(tmp_path)))
    assert works == of_2024(without="non_string" if format == "parquet" else None)
    assert not collected.set_aside and collected.through == max(
        p.updated for p in Snapshot(ReadFolder(str(tmp_path))).parts()
    )


@pytest.mark.requirement("SRC-2")
def test_both_formats_make_the_same_works(tmp_path: Path) -> None:
    made = {}
    for format in ("jsonl", "parquet"):
        folder = write_snapshot(tmp_path, UNIVERSE, (2024,), format)  # type: ignore[arg-type]
        works = works_of_snapshot(Snapshot(ReadFolder(str(folder))), 2024, None, ALL, Collected())
        made[format] = {work.work_id: work for work in works}
    odd = {work.id for work in UNIVERSE.works(2024) if work.strange}
    assert {k: w for k, w in made["jsonl"].items() if k not in odd} == {
        k: w for k, w in made["parquet"].items() if k not in odd
    }


@pytest.mark.requirement("SRC-2", "SRC-3")
def test_only_folders_after_a_day_are_read_again(tmp_path: Path) -> None:
    write_snapshot(tmp_path, UNIVERSE, (2024,))
    days = sorted({part.updated for part in Snapshot(ReadFolder(str(tmp_path))).parts()})
    works, collected = taken(ReadFolder(str(tmp_path)), since=days[-3])
    read = [part for part in Snapshot(ReadFolder(str(tmp_path))).parts() if part.updated in days[-2:]]
    assert collected.pages == len(read) and len(works) == sum(part.records for part in read)


@pytest.mark.requirement("SRC-3")
def test_fault_48_a_record_that_cannot_be_read_is_set_aside_and_the_file_goes_on(tmp_path: Path) -> None:
    folder = write_snapshot(tmp_path, UNIVERSE, (2024,))
    part = next(folder.glob("updated_date=*/part_0000.gz"))
    good = gzip.decompress(part.read_bytes())
    nameless = json.dumps({"id": None, "publication_year": 2024}).encode()
    part.write_bytes(gzip.compress(b'{"publication_year":2024,\n' + nameless + b"\n\n" + good))
    works, collected = taken(ReadFolder(str(folder)))
    assert works == of_2024()
    assert [aside.where.rpartition(" ")[2] for aside in collected.set_aside] == ["1", "2"]
    assert "not JSON" in collected.set_aside[0].reason and "no OpenAlex work id" in collected.set_aside[1].reason


@pytest.mark.requirement("SRC-3")
@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_a_file_that_breaks_off_is_told_and_its_folder_is_read_again_next_time(tmp_path: Path, format: Format) -> None:
    folder = write_snapshot(tmp_path, UNIVERSE, (2024,), format)
    days = sorted(folder.glob("updated_date=*"))
    broken = next(days[5].iterdir())
    whole = broken.read_bytes()
    broken.write_bytes(whole[: len(whole) // 2])
    collected, works = Collected(), []
    with pytest.raises(SourceError, match=f"{days[5].name}.*breaks off.*Copy the file again"):
        works += works_of_snapshot(Snapshot(ReadFolder(str(folder))), 2024, None, ALL, collected)
    assert f"updated_date={collected.through}" == days[4].name
    assert [aside.where for aside in collected.set_aside] == [f"{days[5].name}/{broken.name}"]
    broken.write_bytes(whole)
    rest, _ = taken(ReadFolder(str(folder)), since=collected.through)
    assert len(rest) == sum(p.records for p in Snapshot(ReadFolder(str(folder))).parts(since=collected.through))


LIST = (
    "work_id,deleted_date\r\n"
    "https://openalex.org/W7,2026-08-14\r\nW9,2026-08-15\nhttps://openalex.org/W10,2026-08-16\n"
    "https://openalex.org/W8\nhttps://openalex.org/A5,2026-08-14\n\nnonsense,2026-08-14\nw11,2026-08-17,more\n"
)


@pytest.mark.requirement("SRC-2", "SRC-3")
@pytest.mark.parametrize("name", ["deleted_ids.csv", "deleted_ids.csv.gz", None])
def test_ours_are_found_in_the_list_of_deleted_works_whatever_else_is_in_it(tmp_path: Path, name: str | None) -> None:
    folder = write_snapshot(tmp_path, UNIVERSE, (2024,))
    (folder / "deleted_ids.csv").unlink()
    if name is not None:
        (folder / name).write_bytes(gzip.compress(LIST.encode()) if name.endswith(".gz") else LIST.encode())
    ours = np.array([1, 7, 8, 9, 11, 12], np.int64)
    found = dict(Snapshot(ReadFolder(str(tmp_path))).deleted_among(ours))
    assert found == ({"W7": "2026-08-14", "W9": "2026-08-15"} if name else {})
    assert not dict(Snapshot(ReadFolder(str(tmp_path))).deleted_among(np.array([], np.int64)))


@pytest.mark.requirement("SRC-3")
@pytest.mark.parametrize(
    "content", [gzip.compress(b"work_id,deleted_date\nW1,2026-01-01\n" * 999)[:-20], b"", b"id\nW1\n"]
)
def test_a_list_of_deleted_works_that_cannot_be_read_is_told(tmp_path: Path, content: bytes) -> None:
    folder = write_snapshot(tmp_path, UNIVERSE, (2024,))
    (folder / "deleted_ids.csv").unlink()
    (folder / "deleted_ids.csv.gz").write_bytes(content)
    with pytest.raises(SourceError, match=r"deleted_ids\.csv\.gz cannot be read: .*Copy the file again"):
        dict(Snapshot(ReadFolder(str(tmp_path))).deleted_among(np.array([1], np.int64)))


@pytest.mark.requirement("SRC-2")
def test_a_copy_without_its_manifest_is_refused(tmp_path: Path) -> None:
    (write_snapshot(tmp_path, UNIVERSE, (2024,)) / "manifest.json").unlink()
    with pytest.raises(SourceError, match="wait until the copy is complete"):
        Snapshot(ReadFolder(str(tmp_path)))


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.mark.requirement("SRC-2")
@pytest.mark.parametrize("signed", [False, True])
def test_a_snapshot_is_read_from_s3_with_and_without_credentials(
    tmp_path: Path, s3: str, signed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    bucket = f"openalex-{signed}".lower()
    client = boto3.client("s3", endpoint_url=s3, region_name="us-east-1")
    client.create_bucket(Bucket=bucket)
    for file in write_snapshot(tmp_path, UNIVERSE, (2024,)).rglob("*.*"):
        key, who = str(file.relative_to(tmp_path)), "private" if signed else "public-read"
        client.put_object(Bucket=bucket, Key=key, Body=file.read_bytes(), ACL=who)
    works, _ = taken(ReadFolder(f"s3://{bucket}", endpoint=s3, signed=signed))
    assert works == of_2024()
    with pytest.raises(FolderError, match=r"s3://no-such-bucket/.*cannot be read"):
        ReadFolder("s3://no-such-bucket", endpoint=s3).read("manifest.json")


@pytest.mark.requirement("SRC-1", "SRC-2")
@pytest.mark.parametrize(
    ("works_filter", "selected"),
    [
        ("open_access.is_oa:true,type:article", True),
        ("is_oa:false", False),
        ("topics.id:T10102|T10555", True),
        ("topics.id:!T10102", False),
        ("primary_location.source.id:s1", True),
        ("from_publication_date:2024-03-01,to_publication_date:2024-03-31", True),
        ("from_publication_date:2024-03-18", False),
        ("doi:https://doi.org/10.5555/A", True),
        ("doi:10.5555/A", True),
        ("doi:10.5555/b|10.5555/a", True),
        ("doi:10.5555/b", False),
        ("best_oa_location.license:null", True),
    ],
)
def test_a_filter_is_applied_to_records_as_the_api_would(works_filter: str, selected: bool) -> None:
    record: dict[str, Any] = {
        "id": "https://openalex.org/W1", "doi": "https://doi.org/10.5555/a", "type": "article", "publication_date": "2024-03-17",
        "open_access": {"is_oa": True}, "topics": [{"id": "https://openalex.org/T10102"}, {"id": "https://openalex.org/T9"}],
        "primary_location": {"source": {"id": "https://openalex.org/S1"}}, "best_oa_location": None,
    }  # fmt: skip
    assert LocalFilter(works_filter)(orjson.loads(orjson.dumps(record))) is selected


@pytest.mark.requirement("SRC-1", "CFG-1")
@pytest.mark.parametrize(
    "works_filter",
    [
        "title.search:ice",
        "cited_by_count:>10",
        "publication_year:2020-2024",
        "from_updated_date:2024-01-01",
        "locations.source.has_issn:true",  # a name of the API that no record holds
    ],
)
def test_a_filter_that_cannot_be_applied_to_records_is_refused_with_the_remedy(works_filter: str) -> None:
    with pytest.raises(SettingsError, match=r"set openalex\.source to api"):
        LocalFilter(works_filter)
