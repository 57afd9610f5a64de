"""`content resume` as a person uses it: what it takes up again, what it leaves alone, and what it says."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from docstokg_assets.sandbox import Sandbox
from docstokg_assets_tests.support.audit import audit

if TYPE_CHECKING:
    from docstokg_assets_tests.support.program import Ended, Place

WORKS_PER_YEAR = 20
QUERY = ("--query", "publication_year:2024")
Content = Callable[..., "Ended"]


def resume(place: Place, *arguments: str) -> list[str]:
    return ["resume", "--config", str(place.config), "--out", str(place.out), *arguments]


def entries(place: Place) -> dict[str, tuple[Any, ...]]:
    columns = "work_id, reason, path, sha256, run_id, finished_at, revision, meta"
    return {row[0]: row[1:] for row in place.rows(f"SELECT {columns} FROM catalog_entries")}


def stored(place: Place) -> list[tuple[str, Path, str]]:
    """(work, file, hash) of all PDF files, by work."""
    rows = place.rows("SELECT work_id, path, sha256 FROM catalog_entries WHERE kind = 'pdf' ORDER BY work_id")
    return [(work_id, place.out / path, sha256) for work_id, path, sha256 in rows]


def runs(place: Place) -> list[str]:
    return [run_id for (run_id,) in place.rows("SELECT run_id FROM runs ORDER BY started_at")]


@pytest.fixture
def pulled(place: Place, content: Content, box: Sandbox) -> Place:
    assert content(*place.arguments(*QUERY)).code == 0
    box.control("DELETE", "arrivals")
    return place


@pytest.mark.requirement("CAT-3", "CLI-1")
def test_what_is_done_is_not_asked_for_again(pulled: Place, content: Content, box: Sandbox) -> None:
    before = entries(pulled)
    ended = content(*resume(pulled))
    assert (ended.code, box.arrivals(), entries(pulled)) == (0, [], before)
    assert "20 of 20 works already finished; nothing was downloaded again." in ended.err


@pytest.mark.requirement("CAT-3", "CLI-1")
def test_a_run_that_was_cut_off_is_finished_under_its_own_name(place: Place, content: Content, box: Sandbox) -> None:
    box.add_fault(delay=0.06)
    process = place.start(*QUERY)
    place.wait_for(lambda: 3 <= place.done() < WORKS_PER_YEAR, process)
    process.kill()
    process.wait()
    (run_id,) = runs(place)
    manifest = place.out / run_id / "manifest.jsonl"
    manifest.write_bytes(manifest.read_bytes()[:-30])
    box.clear_faults()

    ended = content(*resume(place, "--run", str(place.out / run_id)))
    assert (ended.code, runs(place), place.done()) == (0, [run_id], WORKS_PER_YEAR), ended.err
    lines = [json.loads(line) for line in manifest.read_bytes().splitlines()]
    found = {(row["worker_id"], row["seq"]) for row in lines if row["record_type"] == "attempt"}
    assert found == set(place.rows("SELECT worker_id, seq FROM attempts")), "what the kill tore is there again"
    assert {row["work_id"] for row in lines if row["record_type"] == "outcome"} == set(entries(place))


@pytest.mark.requirement("CAT-3")
def test_retryable_outcomes_are_retried_when_their_time_has_come_and_terminal_ones_not(
    place: Place, content: Content, box: Sandbox
) -> None:
    box.add_fault(path="*.pdf", status=503)
    assert content(*place.arguments(*QUERY)).code == 3
    ends = entries(place)
    waiting = [work_id for (work_id,) in place.rows("SELECT work_id FROM queue WHERE state = 'retry'")]
    assert waiting and {ends[work_id][0] for work_id in waiting} <= {"http-5xx", "breaker-open"}
    box.clear_faults()
    box.control("DELETE", "arrivals")
    early = content(*resume(place))
    assert (early.code, box.arrivals(), entries(place)) == (3, [], ends)
    left = f"not finished yet ({len(waiting)} waiting); run the same command again after {datetime.now(UTC):%Y}"
    assert left in early.err

    with sqlite3.connect(place.out / "catalog.sqlite3") as database:
        database.execute("UPDATE queue SET not_before = 1 WHERE state = 'retry'")  # as if the hour were over
        database.execute("DELETE FROM hosts")
    in_time = content(*resume(place))
    after = entries(place)
    assert in_time.code == 0, in_time.err
    assert "ok" in {after[work_id][0] for work_id in waiting}
    assert {after[work_id][3] for work_id in waiting} == {runs(place)[-1]}, "all of them were tried again"
    assert {i: row for i, row in after.items() if i not in waiting} == {
        i: row for i, row in ends.items() if i not in waiting
    }


@pytest.mark.requirement("CAT-3", "CLI-1")
@pytest.mark.parametrize(
    ("filters", "chosen"),
    [
        (["status=failed"], lambda reason, resolver: reason != "ok"),
        (["reason=redirect-loop", "reason=no-pdf-link"], lambda r, _: r in ("redirect-loop", "no-pdf-link")),
        (["status=success", "resolver=arxiv"], lambda r, resolver: r == "ok" and resolver == "arxiv"),
        (["year=2023"], lambda r, resolver: False),
    ],
)
def test_force_takes_up_exactly_what_the_filter_selects(
    pulled: Place, content: Content, filters: list[str], chosen: Callable[[str, str], bool]
) -> None:
    known = pulled.rows("SELECT work_id, reason, resolver FROM catalog_entries")
    wanted = {work_id for work_id, reason, resolver in known if chosen(reason, resolver)}
    ended = content(*resume(pulled, "--force", *(part for text in filters for part in ("--filter", text))))
    (run_id,) = runs(pulled)[1:]
    assert {work_id for work_id, row in entries(pulled).items() if row[3] == run_id} == wanted
    assert ended.code == 0 and re.search(rf"^{len(wanted)} works? to search for again", ended.err, re.MULTILINE)


@pytest.mark.requirement("CAT-3", "CLI-1")
def test_a_run_of_a_partition_stands_for_the_works_of_its_year(pulled: Place, content: Content) -> None:
    failed = {work_id for work_id, row in entries(pulled).items() if row[0] != "ok"}
    with sqlite3.connect(pulled.out / "catalog.sqlite3") as database:
        for name, year in (("of-2023", 2023), ("of-2024", 2024)):
            values = (name, "dagster", 1.0, "sha256:0", f'{{"year": {year}}}')
            database.execute(
                "INSERT INTO runs (run_id, kind, started_at, config_hash, scope) VALUES (?, ?, ?, ?, ?)", values
            )
    for name, settled in (("of-2023", set[str]()), ("of-2024", failed)):
        assert content(*resume(pulled, "--run", name, "--force", "--filter", "status=failed")).code == 0
        assert {work_id for work_id, row in entries(pulled).items() if row[3] == name} == settled


@pytest.mark.requirement("CAT-3")
def test_fault_37_a_flipped_bit_and_a_missing_file_are_found_and_fetched_again(
    pulled: Place, content: Content, box: Sandbox
) -> None:
    (flipped, file, sha256), (missing, gone, _), *others = stored(pulled)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    gone.unlink()
    untouched = {path: path.stat().st_mtime_ns for _, path, _ in others}

    ended = content(*resume(pulled, "--verify"))
    assert ended.code == 0, ended.err
    assert re.search(r"^\d+ files checked: 1 missing, 1 damaged\.$", ended.err, re.MULTILINE)
    assert "2 of 2 lost files fetched again." in ended.err
    assert hashlib.sha256(file.read_bytes()).hexdigest() == sha256 and gone.exists()
    told = json.loads(entries(pulled)[flipped][6])["replaces"]
    assert told == {"path": f"PDF/{file.name}", "sha256": sha256, "found": hashlib.sha256(data).hexdigest()}
    assert json.loads(entries(pulled)[missing][6])["replaces"]["found"] is None
    assert {path: path.stat().st_mtime_ns for path in untouched} == untouched
    again = content(*resume(pulled, "--verify"))
    assert again.code == 0 and "all intact" in again.err


@pytest.mark.requirement("CAT-3")
def test_a_file_that_its_disk_cannot_read_is_damaged_and_the_others_are_checked(
    pulled: Place, content: Content, monkeypatch: pytest.MonkeyPatch
) -> None:
    (work_id, file, sha256), *_ = stored(pulled)
    real, bad = hashlib.file_digest, file.stat().st_ino

    def file_digest(opened: Any, name: str) -> Any:
        if os.fstat(opened.fileno()).st_ino == bad:
            raise OSError(errno.EIO, "Input/output error")
        return real(opened, name)

    monkeypatch.setattr(hashlib, "file_digest", file_digest)
    ended = content(*resume(pulled, "--verify"))
    assert ended.code == 0 and re.search(r"^1\d files checked: 0 missing, 1 damaged\.$", ended.err, re.MULTILINE)
    assert hashlib.sha256(file.read_bytes()).hexdigest() == sha256
    assert json.loads(entries(pulled)[work_id][6])["replaces"]["found"] == "unreadable"


@pytest.mark.requirement("CAT-3")
def test_a_damaged_file_that_cannot_be_had_again_does_not_stay(pulled: Place, content: Content, box: Sandbox) -> None:
    (work_id, file, _), *_ = stored(pulled)
    file.write_bytes(b"%PDF-1.4 broken")
    box.add_fault(status=404)
    ended = content(*resume(pulled, "--verify"))
    assert ended.code == 3 and f"0 of 1 lost file fetched again; still missing: {work_id}." in ended.err
    assert not file.exists() and entries(pulled)[work_id][0] == "http-4xx"
    assert (pulled.out / "quarantine/PDF" / file.name).read_bytes() == b"%PDF-1.4 broken"  # it may be all there is


@pytest.mark.requirement("TRU-2")
def test_fault_54_a_file_that_reads_well_again_is_put_back_when_nobody_has_another(
    pulled: Place, content: Content, box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    (work_id, file, sha256), *_ = stored(pulled)
    before = entries(pulled)[work_id]
    real, bad, errors = hashlib.file_digest, file.stat().st_ino, iter((errno.EIO, errno.EIO))

    def file_digest(opened: Any, name: str) -> Any:
        if os.fstat(opened.fileno()).st_ino == bad and (number := next(errors, None)) is not None:
            raise OSError(number, os.strerror(number))
        return real(opened, name)

    monkeypatch.setattr(hashlib, "file_digest", file_digest)
    box.add_fault(status=404)
    ended = content(*resume(pulled, "--verify"))
    assert ended.code == 0 and "1 damaged" in ended.err, ended.err
    assert hashlib.sha256(file.read_bytes()).hexdigest() == sha256 and entries(pulled)[work_id] == before
    assert not list((pulled.out / "quarantine").rglob("*.pdf")) and pulled.done() == WORKS_PER_YEAR


@pytest.mark.requirement("TRU-2")
def test_fault_54_one_error_in_reading_is_no_damage(
    pulled: Place, content: Content, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, errors = hashlib.file_digest, iter((errno.EIO,))

    def file_digest(opened: Any, name: str) -> Any:
        if (number := next(errors, None)) is not None:
            raise OSError(number, os.strerror(number))
        return real(opened, name)

    monkeypatch.setattr(hashlib, "file_digest", file_digest)
    ended = content(*resume(pulled, "--verify"))
    assert ended.code == 0 and "all intact" in ended.err


@pytest.mark.requirement("TRU-2")
def test_verify_stops_where_the_quarantine_has_no_room(pulled: Place, content: Content) -> None:
    (work_id, file, _), *_ = stored(pulled)
    before = entries(pulled)[work_id]
    file.write_bytes(b"%PDF-1.4 broken")
    sections = yaml.safe_load(pulled.config.read_text())
    sections.setdefault("download", {})["quarantine_bytes"] = 10
    pulled.config.write_text(yaml.safe_dump(sections))
    ended = content(*resume(pulled, "--verify"))
    assert ended.code == 3 and f"Stopped at PDF/{file.name}: it is damaged, and the quarantine has no room" in ended.err
    assert file.read_bytes() == b"%PDF-1.4 broken" and entries(pulled)[work_id] == before
    assert pulled.done() == WORKS_PER_YEAR


@pytest.mark.requirement("TRU-2")
def test_fault_53_a_forced_search_that_fails_leaves_what_was_good(
    pulled: Place, content: Content, box: Sandbox
) -> None:
    (work_id, file, sha256), *_ = stored(pulled)
    before, attempts = entries(pulled), pulled.rows("SELECT count(*) FROM attempts")[0][0]
    good = {i: row for i, row in before.items() if row[0] == "ok"}
    box.add_fault(status=404)
    ended = content(*resume(pulled, "--force", "--filter", "status=success"))
    assert ended.code == 0, ended.err
    assert {i: row for i, row in entries(pulled).items() if i in good} == good
    assert hashlib.sha256(file.read_bytes()).hexdigest() == sha256 and pulled.done() == WORKS_PER_YEAR
    assert pulled.rows("SELECT count(*) FROM attempts")[0][0] > attempts
    told = content("why", work_id, "--config", str(pulled.config), "--out", str(pulled.out))
    assert f"Full text downloaded: PDF/{file.name}" in told.out
    assert "A later search brought nothing better" in told.out and "http-4xx" in told.out


@pytest.mark.requirement("TRU-2")
def test_a_forced_search_with_other_bytes_gets_a_later_name_and_the_old_file_goes(
    pulled: Place, content: Content, box: Sandbox
) -> None:
    (work_id, file, _), *_ = stored(pulled)
    ((resolver, url),) = pulled.rows(f"SELECT resolver, url FROM catalog_entries WHERE work_id = '{work_id}'")
    new = b"%PDF-1.7\n" + b"1 0 obj << >> endobj\n" * 200 + b"trailer\n%%EOF\n"
    host, _, path = url.partition("//")[2].partition("/")
    box.add_fault(host=host, path=f"/{path}", status=200, body=new.decode(), type="application/pdf")
    for _ in range(2):  # the second time the bytes are the same, and keep their name
        assert content(*resume(pulled, "--force", "--filter", f"resolver={resolver}")).code == 0
        later = file.with_name(f"{file.stem}~2.pdf")
        assert later.read_bytes() == new and not file.exists()
        assert pulled.rows(f"SELECT path FROM catalog_entries WHERE work_id = '{work_id}'") == [(f"PDF/{later.name}",)]
    assert audit(pulled.out, None).findings == []


@pytest.mark.requirement("CAT-3", "TEL-1")
def test_revalidation_takes_304_as_kept_and_a_new_version_as_a_new_artifact(
    pulled: Place, content: Content, box: Sandbox
) -> None:
    (changed, file, old), (kept, same, _), *_ = stored(pulled)
    before, written = entries(pulled), same.stat().st_mtime_ns
    new = b"%PDF-1.7\n" + b"1 0 obj << >> endobj\n" * 200 + b"trailer\n%%EOF\n"
    ((url,),) = pulled.rows(f"SELECT url FROM catalog_entries WHERE work_id = '{changed}'")
    host, _, path = url.partition("//")[2].partition("/")
    box.add_fault(host=host, path=f"/{path}", status=200, body=new.decode(), type="application/pdf")

    ended = content(*resume(pulled, "--revalidate"))
    assert ended.code == 0, ended.err
    asked = len(stored(pulled)) + len(pulled.rows("SELECT 1 FROM catalog_entries WHERE kind = 'xml'"))
    assert f"{asked} files to revalidate." in ended.err
    assert f"{asked - 1} files unchanged, 1 in a new version." in ended.err
    later = file.with_name(f"{file.stem}~2.pdf")
    assert later.read_bytes() == new and not file.exists() and same.stat().st_mtime_ns == written
    hashes = pulled.rows(f"SELECT sha256 FROM artifacts WHERE work_id = '{changed}' ORDER BY id")
    assert hashes == [(old,), (hashlib.sha256(new).hexdigest(),)]
    after = entries(pulled)
    assert {i: row for i, row in after.items() if i != changed} == {i: r for i, r in before.items() if i != changed}
    run_id = runs(pulled)[-1]
    told = pulled.rows(f"SELECT status, reason FROM attempts WHERE run_id = '{run_id}' AND work_id = '{kept}'")
    assert told[-1] == ("http-304", "not-modified")
    metrics = json.loads((pulled.out / run_id / "manifest.metrics.json").read_text())
    assert (metrics["processed"], metrics["saved"], metrics["skipped"]) == (asked, 1, asked - 1)


@pytest.mark.requirement("CAT-3")
def test_a_host_that_fails_when_asked_again_costs_us_nothing(pulled: Place, content: Content, box: Sandbox) -> None:
    before, files = entries(pulled), {path: path.read_bytes() for _, path, _ in stored(pulled)}
    box.add_fault(status=404)
    ended = content(*resume(pulled, "--revalidate"))
    assert ended.code == 0 and "0 files unchanged, 0 in a new version." in ended.err
    assert entries(pulled) == before and {path: path.read_bytes() for path in files} == files
    assert pulled.done() == WORKS_PER_YEAR


@pytest.mark.requirement("CAT-3", "CLI-1")
def test_failed_ids_are_a_file_that_pull_reads_again(pulled: Place, content: Content, tmp_path: Path) -> None:
    failed = {work_id for work_id, row in entries(pulled).items() if row[0] != "ok"}
    file = tmp_path / "failed.txt"
    ended = content(*resume(pulled, "--failed-ids", str(file)))
    assert ended.code == 0 and f"{len(failed)} works without full text: ids in {file}" in ended.err
    assert {line for line in file.read_text().splitlines() if not line.startswith("#")} == failed
    elsewhere = tmp_path / "elsewhere"
    again = content("pull", "--config", str(pulled.config), "--out", str(elsewhere), "--ids", str(file))
    assert again.code == 0, again.err
    assert f"{len(failed)} of {len(failed)} works to do" in again.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--force",), "--force needs --filter to select works: --filter status=failed"),
        (("--filter", "status=failed"), "give --force with it"),
        (("--force", "--filter", "colour=red"), "--filter 'colour=red': give status=…, reason=…, resolver=…, year=…"),
        (("--force", "--filter", "status=bad"), "there is no status 'bad'; there are failed, success, skip, error"),
        (("--force", "--filter", "reason=rain"), "there is no reason 'rain'; there are ok, not-modified"),
        (("--force", "--filter", "year=soon"), "a year is a number"),
        (("--run", "01NEVER"), "there is no run 01NEVER in "),
        (("--failed-ids", "/no/such/folder/x"), "there is no folder /no/such/folder"),
    ],
)
@pytest.mark.requirement("CLI-1")
def test_what_cannot_be_meant_is_said_before_anything_starts(
    pulled: Place, content: Content, arguments: tuple[str, ...], told: str
) -> None:
    ended = content(*resume(pulled, *arguments))
    assert ended.code == 2 and told in ended.err and len(runs(pulled)) == 1


@pytest.mark.requirement("CLI-1")
def test_without_a_catalog_nothing_is_made(place: Place, content: Content) -> None:
    ended = content(*resume(place))
    assert ended.code == 2 and "there is no catalog at" in ended.err and not place.out.exists()
