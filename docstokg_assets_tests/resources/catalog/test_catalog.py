"""What the catalog keeps: batches, outcomes, artifacts, runs, hosts, exports, slices; and when it refuses."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from resources.catalog.catalog import Catalog, CatalogConnector
from resources.catalog.database import Location
from resources.catalog.errors import CatalogError, CatalogFull
from resources.catalog.numbers import LastNumbers, begin_numbering, take_revisions
from resources.catalog.rows import Batch, Finished, NewItem, OutcomeCount, Parked, SetAside
from resources.records import AttemptRecord, Classification, DownloadOutcome, Kind, Reason, Status

PDF = DownloadOutcome(
    ok=True,
    path="PDF/x.pdf",
    classification=Classification.SUCCESS,
    reason=Reason.OK,
    kind=Kind.PDF,
    url="https://User:pw@A.org/x.pdf?utm_source=z&api_key=canary",
    resolver="openalex",
    tier="direct_oa",
    http_status=200,
    sha256="ab" * 32,
    content_length=1234,
    content_type="application/pdf",
    etag='"e"',
    last_modified="yesterday",
    license="cc-by",
    version="publishedVersion",
    html_paths=("HTML/x.html",),
    fallback_chain=("direct_oa:openalex",),
    meta={"others": [{"url": "https://b.org/?token=canary", "status": 404}]},
)
GONE = DownloadOutcome(False, None, Classification.ERROR, Reason.HTTP_4XX, http_status=404)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "root" / "catalog.sqlite3"


@pytest.fixture
def catalog(location: Location) -> Iterator[Catalog]:
    with Catalog.open(location) as opened:
        opened.start_run("run", "pull", "hash", {"years": [2024]})
        opened.enqueue([NewItem(f"W{n}", 2024, 2024, {}, "p") for n in range(1, 6)], "run")
        opened.claim("me", 5, 60)
        yield opened


def attempt(seq: int, **fields: object) -> AttemptRecord:
    record = AttemptRecord(
        ts=datetime(2026, 11, 17, 12, 0, 0, 250_000, UTC),
        run_id="run",
        resolver="openalex",
        url="https://a.org/x.pdf",
        verb="GET",
        status=Status.HTTP_200,
        reason=Reason.OK,
        extra={"sleep_ms": 12, "nested": {"a": [1]}},
        work_id="W1",
        year=2024,
        worker_id="w",
        seq=seq,
    )
    return replace(record, **fields)  # type: ignore[arg-type]


def finished(work_id: str, outcome: DownloadOutcome = PDF, owner: str = "me") -> Finished:
    return Finished(work_id, 2024, "A title", "10.1/x", outcome, "run", "hash", owner, ttfp_ms=350, requests=3)


@pytest.mark.requirement("CFG-5")
def test_the_connector_is_the_catalog() -> None:
    assert CatalogConnector is Catalog


@pytest.mark.requirement("CAT-1")
def test_an_outcome_is_kept_whole_and_without_secrets(catalog: Catalog) -> None:
    assert catalog.commit(Batch(finished=[finished("W1")])).lost == []
    entry = catalog.entry("W1")
    assert entry is not None
    assert (entry.title, entry.doi, entry.year, entry.ttfp_ms, entry.requests) == ("A title", "10.1/x", 2024, 350, 3)
    assert (entry.classification, entry.reason, entry.kind) == (Classification.SUCCESS, Reason.OK, Kind.PDF)
    assert (entry.path, entry.sha256, entry.bytes) == (PDF.path, PDF.sha256, 1234)
    assert (entry.html_paths, entry.fallback_chain) == (PDF.html_paths, PDF.fallback_chain)
    assert (entry.run_id, entry.config_hash, entry.retry_at) == ("run", "hash", None)
    assert entry.meta == {"others": [{"url": "https://b.org/?token=***", "status": 404}]}
    (artifact,) = catalog.artifacts_of("W1")
    assert artifact.url == "https://a.org/x.pdf?api_key=***"
    assert (artifact.etag, artifact.last_modified, artifact.kind) == ('"e"', "yesterday", Kind.PDF)
    assert "canary" not in f"{entry} {artifact}" and "pw" not in f"{entry} {artifact}"


@pytest.mark.requirement("CAT-1")
def test_a_commit_returns_the_outcomes_as_they_are_recorded(catalog: Catalog) -> None:
    meta = {"others": ({"url": "https://b.org/?token=canary"},), "flags": ("suspect-mismatch",)}
    unchanged = DownloadOutcome(True, None, Classification.SKIP, Reason.NOT_MODIFIED)
    ends = [finished("W1", replace(PDF, meta=meta)), finished("W2", GONE), finished("W3", unchanged)]
    committed = catalog.commit(Batch(finished=[*ends, finished("W4", owner="another")]))
    assert committed.entries == list(catalog.entries()) and len(committed.entries) == 2
    assert committed.lost == ["W4"]


@pytest.mark.requirement("CAT-1")
def test_an_attempt_comes_back_as_it_went_in(catalog: Catalog) -> None:
    plain = AttemptRecord(datetime(2026, 1, 1, tzinfo=UTC), None, None, "https://a.org", "HEAD", Status.RETRY, seq=9)
    catalog.commit(Batch(attempts=[attempt(1, cache_hit=True, retry_after_s=1.5), plain]))
    assert [stored.record for stored in catalog.attempts_after(0, 10)] == [
        attempt(1, cache_hit=True, retry_after_s=1.5),
        plain,
    ]


@pytest.mark.requirement("CAT-1")
def test_replayed_attempts_change_nothing(catalog: Catalog) -> None:
    catalog.commit(Batch(attempts=[attempt(1), attempt(2)]))
    catalog.commit(
        Batch(attempts=[attempt(2, http_status=500), attempt(3), attempt(1, run_id=None), attempt(1, run_id=None)])
    )
    stored = [(a.record.run_id, a.record.seq, a.record.http_status) for a in catalog.attempts_after(0, 10)]
    assert stored == [("run", 1, None), ("run", 2, None), ("run", 3, None), (None, 1, None)]


@pytest.mark.requirement("CAT-1")
def test_a_file_is_recorded_once_per_work_url_and_hash(catalog: Catalog) -> None:
    page = replace(PDF, url="https://A.org/x.html", sha256="cd" * 32, path="HTML/x.html", kind=Kind.HTML)
    catalog.commit(Batch(finished=[finished("W1", replace(PDF, beside=(page,)))]))
    catalog.reopen([("W1", None)])
    catalog.claim("me", 1, 60)
    other_bytes = replace(PDF, sha256="ef" * 32, path="PDF/y.pdf", beside=(page,))
    catalog.commit(Batch(finished=[finished("W1", other_bytes)]))
    catalog.reopen([("W1", None)])
    catalog.claim("me", 1, 60)
    catalog.commit(Batch(finished=[finished("W1")]))
    assert [a.path for a in catalog.artifacts_of("W1")] == ["PDF/x.pdf", "HTML/x.html", "PDF/y.pdf"]
    assert [a.path for a in catalog.artifacts_after(1, 10)] == ["HTML/x.html", "PDF/y.pdf"]


@pytest.mark.requirement("CAT-5")
def test_the_same_bytes_under_two_works_are_known_of_both(catalog: Catalog) -> None:
    capture = replace(
        PDF,
        url="https://web.archive.org/web/2023id_/https://a.org/x.pdf",
        tier="wayback",
        meta={
            "derivation": "archive-capture",
            "derived_from": "https://a.org/x.pdf?token=canary",
            "final_url": "https://web.archive.org/web/2022id_/https://a.org/x.pdf",
        },
    )
    catalog.commit(Batch(finished=[finished("W1"), finished("W2", capture)]))
    original, copy = catalog.works_with("ab" * 32)
    assert (original.work_id, original.derivation, original.final_url) == ("W1", None, None)
    assert (copy.work_id, copy.derivation, copy.tier) == ("W2", "archive-capture", "wayback")
    assert (copy.derived_from, copy.version) == ("https://a.org/x.pdf?token=***", "publishedVersion")
    assert copy.final_url == "https://web.archive.org/web/2022id_/https://a.org/x.pdf"
    assert catalog.works_with("00" * 32) == []


@pytest.mark.requirement("CAT-1")
def test_strange_and_long_values_do_not_stop_a_commit(catalog: Catalog) -> None:
    """No index takes 4,000 characters that cannot be compressed, and PostgreSQL's text no NUL."""
    noise = "".join(hashlib.sha256(str(n).encode()).hexdigest() for n in range(63))
    odd = replace(finished("W1", replace(PDF, url=f"https://a.org/{noise}")), title="a\0title \U0001f4da")
    assert catalog.commit(Batch(finished=[odd], attempts=[attempt(1, url=f"https://a.org/{noise}")])).lost == []
    entry = catalog.entry("W1")
    assert entry is not None and entry.title is not None and entry.title.endswith("title \U0001f4da")
    assert catalog.artifacts_of("W1")[0].url == f"https://a.org/{noise}"
    catalog.add_set_aside([SetAside("run", "ids.txt:3", "a\0b", "not an identifier")])
    assert len(catalog.set_aside()) == 1


@pytest.mark.requirement("CAT-2")
def test_who_lost_the_lease_records_no_outcome(catalog: Catalog) -> None:
    catalog.heartbeat("me", -1.0)
    assert len(catalog.claim("two", 1, 60).items) == 1  # W1; the others are ready again
    late = Batch(
        attempts=[attempt(1)],
        finished=[finished("W1", GONE), finished("W2")],
        parked=[Parked("W3", {}, "g", catalog.now() + 60, "pace", "me")],
    )
    assert catalog.commit(late).lost == ["W1", "W2", "W3"]
    assert list(catalog.entries()) == [] and catalog.artifacts_after(0, 10) == []
    assert len(catalog.attempts_after(0, 10)) == 1  # it did happen
    assert catalog.commit(Batch(finished=[finished("W1", owner="two")])).lost == []
    entry = catalog.entry("W1")
    assert entry is not None and entry.reason is Reason.OK


@pytest.mark.requirement("CAT-2")
def test_an_outcome_is_not_recorded_twice(catalog: Catalog) -> None:
    assert catalog.commit(Batch(finished=[finished("W1")])).lost == []
    assert catalog.commit(Batch(finished=[finished("W1", GONE)])).lost == ["W1"]
    assert [entry.reason for entry in catalog.entries()] == [Reason.OK]


@pytest.mark.requirement("CAT-1")
def test_a_batch_that_cannot_be_kept_leaves_nothing(catalog: Catalog) -> None:
    broken = attempt(2, verb=None)
    with pytest.raises(CatalogError, match=r"the catalog .* failed: .*(NOT NULL|not-null)"):
        catalog.commit(Batch(attempts=[attempt(1), broken], finished=[finished("W1")]))
    assert catalog.attempts_after(0, 10) == [] and catalog.entry("W1") is None
    assert catalog.commit(Batch(attempts=[attempt(1)], finished=[finished("W1")])).lost == []


@pytest.mark.requirement("CAT-1")
def test_every_change_of_an_outcome_gets_a_higher_revision(catalog: Catalog) -> None:
    catalog.commit(Batch(finished=[finished("W1", GONE), finished("W2")]))
    seen = catalog.entry_columns_after(0, 10)
    assert seen["work_id"] == ("W1", "W2")
    catalog.reopen([("W1", None)])
    catalog.claim("me", 1, 60)
    catalog.commit(Batch(finished=[finished("W1")]))
    changed = catalog.entry_columns_after(seen["revision"][-1], 10)
    assert (changed["work_id"], changed["reason"]) == (("W1",), ("ok",))
    assert catalog.entry_columns_after(changed["revision"][0], 10) == {}
    assert len(catalog.entry_columns_after(0, 1)["work_id"]) == 1


@pytest.mark.requirement("CAT-3")
def test_a_copy_that_is_still_current_settles_its_work_and_leaves_the_outcome_as_it_was(catalog: Catalog) -> None:
    catalog.commit(Batch(finished=[finished("W1")]))
    before = catalog.entry("W1")
    assert catalog.reopen([("W1", {"kept": {"etag": "a"}}), ("unknown", None)], only_done=True) == 1
    assert catalog.reopen([("W1", None)], only_done=True) == 0, "it is in the queue already"
    (item,) = catalog.claim("me", 1, 60).items
    assert item.progress == {"kept": {"etag": "a"}}
    unchanged = DownloadOutcome(True, None, Classification.SKIP, Reason.NOT_MODIFIED)
    assert catalog.commit(Batch(finished=[replace(finished("W1"), outcome=unchanged)])).lost == []
    assert catalog.entry("W1") == before and catalog.queue_counts().done == catalog.queue_counts().total - 4


@pytest.mark.requirement("CAT-3")
def test_outcomes_are_found_and_counted(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resources.catalog.database._PAGE", 2)
    catalog.commit(
        Batch(finished=[finished("W1"), finished("W2", GONE), finished("W3"), finished("W4"), finished("W5", GONE)])
    )
    assert [entry.work_id for entry in catalog.entries()] == ["W1", "W2", "W3", "W4", "W5"]
    failed = catalog.entries(year=2024, settled_by="run", classification=Classification.ERROR, reason=Reason.HTTP_4XX)
    assert [entry.work_id for entry in failed] == ["W2", "W5"]
    assert list(catalog.entries(year=0)) == [] and list(catalog.entries(settled_by="other")) == []
    expected = [
        OutcomeCount(Classification.SUCCESS, Reason.OK, Kind.PDF, 3),
        OutcomeCount(Classification.ERROR, Reason.HTTP_4XX, None, 2),
    ]
    assert (
        catalog.outcome_counts() == catalog.outcome_counts(2024) == catalog.outcome_counts(settled_by="run") == expected
    )
    assert catalog.outcome_counts(1999) == []


@pytest.mark.requirement("TEL-4")
def test_exports_follow_by_position(catalog: Catalog) -> None:
    catalog.commit(
        Batch(attempts=[attempt(1), attempt(2, year=2023), attempt(3, year=None), attempt(4, run_id="other")])
    )
    assert catalog.export_position("attempts") == 0
    first = catalog.attempts_after(0, 2)
    catalog.set_export_position("attempts", first[-1].position)
    rest = catalog.attempts_after(catalog.export_position("attempts"), 10)
    assert [a.record.seq for a in (*first, *rest)] == [1, 2, 3, 4]
    assert [a.record.seq for a in catalog.attempts_after(0, 10, year=2023)] == [2]
    assert [a.record.seq for a in catalog.attempts_after(0, 10, year=0)] == [3]
    assert [a.record.seq for a in catalog.attempts_after(0, 10, run_id="run")] == [1, 2, 3]


@pytest.mark.requirement("CAT-1")
def test_a_run_is_remembered_and_can_be_taken_up_again(catalog: Catalog) -> None:
    catalog.finish_run("run", {"saved": 3})
    run = catalog.run("run")
    assert run is not None and run.finished_at is not None and run.finished_at >= run.started_at
    assert (run.kind, run.config_hash, run.scope, run.summary) == ("pull", "hash", {"years": [2024]}, {"saved": 3})
    catalog.start_run("run", "pull", "hash2", {})
    again = catalog.run("run")
    assert again is not None and again.config_hash == "hash", "what is done under another one says so itself"
    assert again is not None and (again.started_at, again.finished_at, again.summary) == (run.started_at, None, None)
    catalog.start_run("later", "resume", "hash", {})
    assert [r.run_id for r in catalog.runs()] == ["later", "run"]
    assert catalog.run("unknown") is None
    with pytest.raises(CatalogError, match="knows no run unknown"):
        catalog.finish_run("unknown", {})


def test_others_can_see_where_a_run_is(catalog: Catalog) -> None:
    catalog.report_progress("run", {"done": 3})
    run = catalog.run("run")
    assert run is not None and run.progress == {"done": 3}


@pytest.mark.requirement("HTTP-13")
def test_robots_rules_are_shared(catalog: Catalog) -> None:
    assert catalog.robots("a.org") is None
    catalog.pause_host("a.org", catalog.now() + 60, "429")
    assert catalog.robots("a.org") is None
    catalog.save_robots("a.org", None, "")
    catalog.save_robots("a.org", 200, "User-agent: *")
    row = catalog.robots("a.org")
    assert row is not None and (row.status, row.body) == (200, "User-agent: *")
    assert row.fetched_at == pytest.approx(catalog.now(), abs=5)
    assert catalog.host_pause("a.org").closed_until is not None


@pytest.mark.requirement("HTTP-4")
def test_a_closed_host_opens_at_its_latest_time(catalog: Catalog) -> None:
    now = catalog.now()
    assert catalog.host_pause("a.org").closed_until is None
    catalog.pause_host("a.org", now + 600, "retry-after")
    catalog.pause_host("a.org", now + 60, "breaker")
    catalog.pause_host("b.org", now - 1, "over")
    assert catalog.host_pause("a.org").closed_until == now + 600
    assert catalog.host_pause("b.org").closed_until is None


@pytest.mark.requirement("SRC-3")
def test_what_could_not_be_read_is_set_aside(catalog: Catalog) -> None:
    rows = [SetAside("run", "ids.txt:3", "10.x", "not an identifier"), SetAside(None, "api", "{}", "no id")]
    catalog.add_set_aside(rows)
    assert catalog.set_aside() == rows
    assert catalog.set_aside("run") == rows[:1]


@pytest.mark.requirement("TEL-4")
def test_a_slice_holds_one_run_and_stands_alone(catalog: Catalog, tmp_path: Path) -> None:
    catalog.start_run("other", "pull", "hash", {})
    catalog.enqueue([NewItem("X1", 2024, 1, {}, "p")], "other")
    catalog.commit(
        Batch(attempts=[attempt(1), attempt(2, run_id="other")], finished=[finished("W1"), finished("W2", GONE)])
    )
    target = tmp_path / "run" / "manifest.sqlite3"
    for _ in range(2):  # an older slice is replaced
        catalog.slice_to(target, "run")
    assert [p.name for p in target.parent.iterdir()] == ["manifest.sqlite3"]
    with sqlite3.connect(f"file:{target}?mode=ro", uri=True) as raw:
        counts = {
            table: raw.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("runs", "run_works", "attempts", "artifacts", "catalog_entries", "queue")
        }
    assert counts == {"runs": 1, "run_works": 5, "attempts": 1, "artifacts": 1, "catalog_entries": 2, "queue": 0}
    with Catalog.open(target) as alone:
        assert list(alone.entries()) == list(catalog.entries())


@pytest.mark.requirement("TEL-4")
def test_a_slice_of_an_unknown_run_is_refused_and_leaves_no_file(catalog: Catalog, tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="knows no run nowhere"):
        catalog.slice_to(tmp_path / "x" / "manifest.sqlite3", "nowhere")
    assert not (tmp_path / "x").exists()


@pytest.mark.requirement("CAT-1")
def test_what_was_committed_is_there_when_opened_again(catalog: Catalog, location: Location) -> None:
    catalog.commit(Batch(finished=[finished("W1")]))
    catalog.close()
    with Catalog.open(location) as again:
        assert again.entry("W1") is not None


@pytest.mark.requirement("CAT-1")
def test_the_database_survives_loss_of_power_and_waits_for_others(path: Path) -> None:
    with Catalog.open(path) as catalog, catalog._read() as connection:
        settings = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "busy_timeout", "foreign_keys")
        }
    assert settings == {"journal_mode": "wal", "synchronous": 2, "busy_timeout": 30_000, "foreign_keys": 1}


def test_the_clock_is_the_databases(catalog: Catalog) -> None:
    assert catalog.now() == pytest.approx(time.time(), abs=2)


@pytest.mark.requirement("CAT-1")
def test_a_catalog_of_another_version_is_refused(path: Path) -> None:
    Catalog.open(path).close()
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE meta SET value = 3 WHERE key = 'schema_version'")
    with pytest.raises(
        CatalogError, match=r"catalog\.sqlite3 has schema version 3, this program needs 4\. Use the version"
    ):
        Catalog.open(path)


@pytest.mark.requirement("CAT-1")
def test_what_is_not_a_catalog_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("hello " * 1000)
    with pytest.raises(CatalogError, match=r"not a database.*Choose another data_root"):
        Catalog.open(text)
    foreign = tmp_path / "foreign.sqlite3"
    with sqlite3.connect(foreign) as raw:
        raw.execute("CREATE TABLE songs (name)")
    with pytest.raises(CatalogError, match="is a database, but not a catalog"):
        Catalog.open(foreign)
    with pytest.raises(CatalogError, match="Choose another data_root"):
        Catalog.open(text / "below" / "catalog.sqlite3")


@pytest.mark.requirement("CAT-1")
@pytest.mark.parametrize("location", ["sqlite"], indirect=True)
def test_a_full_disk_is_told_apart_and_nothing_partial_stays(catalog: Catalog) -> None:
    with catalog._read() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    # SQLite's own limit on the size of the file: the same error, from the same place, as a full disk.
    with catalog._engine.connect() as connection:
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + 2}")
    big = attempt(2, extra={"text": "x" * 100_000})
    with pytest.raises(CatalogFull, match=r"no room for the catalog .*Free some space"):
        catalog.commit(Batch(attempts=[attempt(1), big], finished=[finished("W1")]))
    assert catalog.attempts_after(0, 10) == [] and catalog.entry("W1") is None


@pytest.mark.requirement("CAT-1")
def test_a_commit_that_ends_late_is_not_passed_over_by_who_follows_the_numbers(catalog: Catalog) -> None:
    """One commit has taken its number and stands still. Others do not wait for it; who follows the numbers does."""
    if catalog._in_file:
        pytest.skip("one writer at a time")
    gone, found = DownloadOutcome(False, None, Classification.ERROR, Reason.HTTP_4XX), list[LastNumbers]()
    with catalog._write() as connection:
        begin_numbering(connection)
        (early,) = take_revisions(connection, 1)
        done = Finished("W1", 2024, None, None, gone, "run", "", "me")
        (entry,) = catalog.commit(Batch(finished=[done])).entries
        assert entry.revision > early
        follower = threading.Thread(target=lambda: found.append(catalog.last_numbers()))
        follower.start()
        follower.join(0.5)
        assert not found
    follower.join(30)
    assert found[0].revision >= entry.revision
