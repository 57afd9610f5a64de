"""Builders for attempts and finished works, a small repeatable history, and the fixtures of the lake and the reports.

`conftest.py` loads this module as a pytest plugin.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from resources.catalog.catalog import Catalog
from resources.catalog.rows import Batch, Entry, Finished, NewItem, entry_of, entry_to_row
from resources.lake.bucket import LakeBucket
from resources.lake.files import LakeFiles, LakeFolder
from resources.records import AttemptRecord, Classification, DownloadOutcome, Kind, Reason, Status

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def attempt(**changes: Any) -> AttemptRecord:
    fields: dict[str, Any] = {
        "ts": START,
        "run_id": "run-1",
        "resolver": "arxiv",
        "url": "https://arxiv.org/pdf/2401.00001",
        "canonical_url": "https://arxiv.org/pdf/2401.00001",
        "verb": "GET",
        "status": Status.HTTP_200,
        "http_status": 200,
        "content_type": "application/pdf",
        "elapsed_ms": 812,
        "bytes_written": 3_441_123,
        "reason": Reason.OK,
        "work_id": "W12345",
        "year": 2024,
        "tier": "direct_oa",
        "role": "artifact",
        "host": "arxiv.org",
        "worker_id": "worker-01",
    }
    return AttemptRecord(**{**fields, **changes})


def finished(work_id: str, reason: Reason = Reason.OK, **changes: Any) -> Finished:
    ok = reason in (Reason.OK, Reason.HTML_ONLY)
    outcome: dict[str, Any] = {
        "ok": ok,
        "path": f"PDF/2024__a__{work_id}.pdf" if ok else None,
        "classification": Classification.SUCCESS if ok else Classification.ERROR,
        "reason": reason,
        "kind": (Kind.HTML if reason is Reason.HTML_ONLY else Kind.PDF) if ok else None,
        "url": f"https://arxiv.org/pdf/{work_id}",
        "resolver": "arxiv",
        "tier": "direct_oa",
        "sha256": "ab" * 32 if ok else None,
        "content_length": 1000 if ok else None,
        "fallback_chain": ("unpaywall", "arxiv"),
    }
    whole: dict[str, Any] = {
        "year": 2024,
        "title": "A title",
        "doi": None,
        "run_id": "run-1",
        "config_hash": "sha256:c0ffee",
    }
    whole |= {"owner": "w", "requests": 2, "ttfp_ms": 800 if reason is Reason.OK else None}
    for name, value in changes.items():
        (whole if name in Finished.__dataclass_fields__ else outcome)[name] = value
    return Finished(work_id=work_id, outcome=DownloadOutcome(**outcome), **whole)


def record(catalog: Catalog, *, attempts: list[AttemptRecord], works: list[Finished]) -> None:
    """Queue, claim and finish the works, as a run does."""
    catalog.enqueue([NewItem(work.work_id, work.year, 0, {}, "plan") for work in works])
    while catalog.claim("w", 1000, 60).items:
        pass
    assert catalog.commit(Batch(attempts=attempts, finished=works)).lost == []


def history(catalog: Catalog, works: int = 300, seed: int = 5) -> tuple[list[AttemptRecord], list[Finished]]:
    """Two runs over two years and an unknown one: walls, retries, 429s, cache hits, parked works."""
    dice = random.Random(seed)
    attempts: list[AttemptRecord] = []
    ends: list[Finished] = []
    hosts = {"arxiv": "arxiv.org", "unpaywall": "repo.example.org", "landing": "journal.example.com"}
    tiers = {"arxiv": "direct_oa", "unpaywall": "direct_oa", "landing": "landing_scrape"}
    reasons = [Reason.OK] * 12 + [Reason.HTML_ONLY, Reason.NO_CANDIDATE, Reason.HTTP_4XX, Reason.NOT_MODIFIED]
    for n in range(works):
        work, run = f"W{n}", f"run-{1 + n % 2}"
        where: dict[str, Any] = {"work_id": work, "run_id": run, "year": dice.choice([2023, 2024, None])}
        resolver = dice.choice(list(hosts))
        place = {"resolver": resolver, "tier": tiers[resolver], "host": hosts[resolver]}
        for tries in range(1, dice.choice([1, 1, 1, 2, 3]) + 1):
            api = f"https://api.example.org/{n % 40}"
            moment = START + timedelta(seconds=n, milliseconds=tries)
            asked = dict(ts=moment, url=api, canonical_url=api, role="metadata", attempt=tries, **where, **place)
            asked |= {"status": Status.HTTP_GET, "bytes_written": None, "cache_hit": dice.random() < 0.3}
            if dice.random() < 0.05:
                asked |= {"status": Status.RETRY, "http_status": 429, "reason": Reason.RETRY_AFTER, "cache_hit": False}
            attempts.append(attempt(seq=len(attempts), **asked))
        extra = {"sleep_ms": dice.randrange(5000)} if dice.random() < 0.5 else {}
        attempts.append(
            attempt(ts=START + timedelta(seconds=n, milliseconds=9), seq=len(attempts), extra=extra, **where, **place)
        )
        end: dict[str, Any] = {"run_id": run, "year": where["year"], "resolver": resolver, "tier": tiers[resolver]}
        end |= {
            "url": f"https://{hosts[resolver]}/{n}",
            "requests": dice.randrange(1, 6),
            "ttfp_ms": dice.randrange(200, 9000),
        }
        if dice.random() < 0.05:
            ends.append(finished(work, Reason.TIMEOUT, retry_at=4_000_000_000.0, **end))
        else:
            ends.append(finished(work, dice.choice(reasons), **end))
    attempts.append(attempt(seq=len(attempts), status=Status.BREAKER_OPEN, http_status=None))
    attempts.append(attempt(seq=len(attempts), status=Status.ROBOTS_DISALLOWED, http_status=None, reason=Reason.ROBOTS))
    for run in ("run-1", "run-2"):
        catalog.start_run(run, "pull", "sha256:c0ffee", {})
    record(catalog, attempts=attempts, works=ends)
    return attempts, ends


@pytest.fixture
def folder(data_root: Path) -> LakeFolder:
    return LakeFolder(data_root / "lake")


@pytest.fixture
def bucket(moto: str, aws_credentials: None, tmp_path: Path) -> Callable[[str], LakeBucket]:
    """The test's own prefix of a bucket, as the machine of that name opens it."""
    return lambda machine: LakeBucket("papers", f"lakes/{tmp_path.name}/", moto, None, tmp_path / machine / "spool")


@pytest.fixture(params=["folder", "bucket"])
def lake(request: pytest.FixtureRequest) -> LakeFiles:
    """Wherever it is, it must be the same."""
    made: Any = request.getfixturevalue(request.param)
    opened: LakeFiles = made("data") if request.param == "bucket" else made
    return opened


@pytest.fixture
def make_attempt() -> Callable[..., AttemptRecord]:
    return attempt


@pytest.fixture
def make_finished() -> Callable[..., Finished]:
    return finished


@pytest.fixture
def make_entry() -> Callable[..., Entry]:
    """The work's row of the catalog, settled at a moment."""
    return lambda work, at=0.0: Entry.from_row(entry_to_row(entry_of(work, at, 0)))


@pytest.fixture
def record_in() -> Callable[..., None]:
    return record


@pytest.fixture
def make_history() -> Callable[..., tuple[list[AttemptRecord], list[Finished]]]:
    return history
