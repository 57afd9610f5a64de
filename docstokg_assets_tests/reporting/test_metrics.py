"""The indicators from SQL equal those counted by hand from the records, and the objectives judge them fairly."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from docstokg_assets.lake.views import open_lake
from docstokg_assets.lake.writer import LakeWriter, export_manifest
from docstokg_assets.reporting.manifest import metrics_summary
from docstokg_assets.reporting.metrics import (
    SLOS,
    Slis,
    compute_slis,
    evaluate,
    metric_rows,
    run_summary,
    stored_verdicts,
)
from docstokg_assets.reporting.run_files import summary_of_run
from resources.catalog.catalog import Catalog
from resources.catalog.rows import Finished, values_of
from resources.lake.files import LakeFolder
from resources.records import AttemptRecord, Kind, Reason, Status
from resources.scope import WorkScope

Make = Callable[..., Any]
NOT_SENT = (Status.SKIPPED, Status.ROBOTS_DISALLOWED, Status.BREAKER_OPEN)


def quantile(values: Sequence[float], q: float) -> float:
    """Linear interpolation between the neighbours."""
    ordered, place = sorted(values), q * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def in_scope(row: Any, scope: WorkScope) -> bool:
    return (scope.year is None or (row.year or 0) == scope.year) and scope.run_id in (None, row.run_id)


def by_hand(attempts: list[AttemptRecord], works: list[Finished], scope: WorkScope) -> dict[str, float | None]:
    asked: dict[str | None, tuple[datetime, str | None]] = {}
    metadata = [a for a in attempts if a.role == "metadata" and a.status is Status.HTTP_GET]
    for a in sorted(metadata, key=lambda a: a.ts):
        asked.setdefault(a.canonical_url, (a.ts, a.run_id))
    mine, ends = [a for a in attempts if in_scope(a, scope)], [w for w in works if in_scope(w, scope)]
    done = [w for w in ends if w.retry_at is None]
    saved = [w for w in done if w.outcome.reason in (Reason.OK, Reason.NOT_MODIFIED)]
    html = [w for w in done if w.outcome.reason is Reason.HTML_ONLY]
    known = [w for w in done if w.outcome.reason is not Reason.NO_CANDIDATE]
    sent = [a for a in mine if not a.cache_hit and a.status not in NOT_SENT]
    cacheable = [a for a in mine if a.role == "metadata" and a.status is Status.HTTP_GET]
    ttfp = [w.ttfp_ms / 1000 for w in saved if w.ttfp_ms is not None]
    waits = [a.extra.get("sleep_ms", 0) / 1000 for a in sent if a.status is not Status.RETRY]
    return {
        "yield": len(saved) / len(done),
        "yield_with_html": (len(saved) + len(html)) / len(done),
        "yield_reachable": len(saved) / len(known),
        "ttfp_p50_s": quantile(ttfp, 0.5),
        "ttfp_p95_s": quantile(ttfp, 0.95),
        "cache_hit_ratio": sum(a.cache_hit for a in cacheable) / len(cacheable),
        "ratio_429": sum(a.http_status == 429 for a in sent) / len(sent),
        "corruption": 0,
        "finished": len(done),
        "saved": len(saved),
        "html_only": len(html),
        "to_retry": len(ends) - len(done),
        "bytes": sum(w.outcome.content_length or 0 for w in saved + html),
        "requests": len(sent),
        "requests_per_success": sum(w.requests for w in ends) / len(saved),
        "rate_delay_p95_s": quantile(waits, 0.95),
        "breaker_opens": sum(a.status is Status.BREAKER_OPEN for a in mine),
        "asked_before": sum(
            a.ts > asked[a.canonical_url][0] and a.run_id != asked[a.canonical_url][1] for a in cacheable
        ),
    }


@pytest.fixture
def lake_and_history(
    data_root: Path, catalog: Catalog, make_history: Make
) -> tuple[Path, list[AttemptRecord], list[Finished]]:
    attempts, works = make_history(catalog)
    export_manifest(catalog, LakeWriter(LakeFolder(data_root / "lake")))
    return data_root, attempts, works


SCOPES = [WorkScope(), WorkScope(year=2024), WorkScope(year=0), WorkScope(run_id="run-2"), WorkScope(2023, "run-1")]


@pytest.mark.requirement("TEL-7")
@pytest.mark.parametrize("scope", SCOPES, ids=str)
def test_sql_and_a_count_by_hand_agree(lake_and_history: Any, scope: WorkScope) -> None:
    data_root, attempts, works = lake_and_history
    with open_lake(LakeFolder(data_root / "lake")) as con:
        slis = compute_slis(con, scope)
    expected = by_hand(attempts, works, scope)
    found = {**slis.values(), "asked_before": slis.asked_before}
    assert found.pop("works_per_s") is not None
    assert found == pytest.approx(expected)


@pytest.mark.requirement("TEL-7")
def test_breakdowns_agree_with_a_count_by_hand(lake_and_history: Any) -> None:
    data_root, attempts, works = lake_and_history
    with open_lake(LakeFolder(data_root / "lake")) as con:
        slis = compute_slis(con, WorkScope())
    done = [w for w in works if w.retry_at is None]
    assert slis.reasons == Counter(str(w.outcome.reason) for w in done)
    sent = [a for a in attempts if not a.cache_hit and a.status not in NOT_SENT]
    assert slis.retries == Counter(a.attempt for a in sent)
    asked = [a for a in attempts if a.status not in NOT_SENT]
    saved = [w.outcome for w in done if w.outcome.reason in (Reason.OK, Reason.NOT_MODIFIED)]
    for name, shares in (("tier", slis.by_tier), ("resolver", slis.by_resolver), ("host", slis.by_host)):
        tried: defaultdict[str, set[str | None]] = defaultdict(set)
        for a in asked:
            tried[getattr(a, name)].add(a.work_id)
        won = Counter(urlsplit(o.url).hostname if name == "host" else getattr(o, name) for o in saved)
        assert {share.name: share.tried for share in shares} == {key: len(ids) for key, ids in tried.items()}
        assert {share.name: share.saved for share in shares} == won


@pytest.mark.requirement("TEL-7")
@pytest.mark.parametrize("harm", [{"kind": Kind.PDF_CORRUPT}, {"sha256": None}])
def test_a_bad_file_that_was_kept_is_corruption(
    data_root: Path, catalog: Catalog, make_finished: Make, record_in: Make, harm: dict[str, Any]
) -> None:
    record_in(catalog, attempts=[], works=[make_finished("W1"), make_finished("W2", **harm)])
    export_manifest(catalog, LakeWriter(LakeFolder(data_root / "lake")))
    with open_lake(LakeFolder(data_root / "lake")) as con:
        slis = compute_slis(con, WorkScope())
    assert slis.corrupt == 1
    assert {v.name: v.ok for v in evaluate(slis)}["corruption"] is False


def test_a_dry_run_finishes_nothing(data_root: Path, catalog: Catalog, make_finished: Make, record_in: Make) -> None:
    record_in(catalog, attempts=[], works=[make_finished("W1", Reason.DRY_RUN)])
    export_manifest(catalog, LakeWriter(LakeFolder(data_root / "lake")))
    with open_lake(LakeFolder(data_root / "lake")) as con:
        assert compute_slis(con, WorkScope()).values()["finished"] == 0


@pytest.fixture
def empty_slis(data_root: Path) -> Slis:
    with open_lake(LakeFolder(data_root / "lake")) as con:
        return compute_slis(con, WorkScope())


@pytest.mark.requirement("TEL-7")
def test_an_empty_lake_is_not_judged_except_for_corruption(empty_slis: Slis) -> None:
    verdicts = {verdict.name: verdict.ok for verdict in evaluate(empty_slis)}
    assert verdicts.pop("corruption") is True
    assert set(verdicts.values()) == {None}


GOOD: dict[str, Any] = {
    "finished": 100,
    "saved": 85,
    "ttfp_p50_s": 3.0,
    "ttfp_p95_s": 10.0,
    "requests": 1000,
    "too_many": 9,
}
CACHED: dict[str, Any] = {"cacheable": 100, "cache_hits": 40, "asked_before": 90}


@pytest.mark.requirement("TEL-7")
@pytest.mark.parametrize(
    ("name", "miss"),
    [
        ("yield", {"saved": 84}),
        ("ttfp_p50_s", {"ttfp_p50_s": 3.01}),
        ("ttfp_p95_s", {"ttfp_p95_s": 10.01}),
        ("cache_hit_ratio", {"cache_hits": 39}),
        ("ratio_429", {"too_many": 10}),
        ("corruption", {"corrupt": 1}),
    ],
)
def test_each_objective_is_met_at_its_edge_and_missed_just_beyond(
    empty_slis: Slis, name: str, miss: dict[str, Any]
) -> None:
    good = replace(empty_slis, **GOOD, **CACHED)
    assert [verdict.ok for verdict in evaluate(good)] == [True] * len(SLOS)
    missed = [verdict for verdict in evaluate(replace(good, **miss)) if verdict.ok is False]
    assert [verdict.name for verdict in missed] == [name]
    assert "misses the goal" in missed[0].sentence


@pytest.mark.requirement("TEL-7")
def test_the_cache_is_judged_only_on_a_second_run(empty_slis: Slis) -> None:
    first = replace(empty_slis, **GOOD, **{**CACHED, "asked_before": 10})
    verdict = {v.name: v for v in evaluate(first)}["cache_hit_ratio"]
    assert verdict.ok is None and verdict.value == 0.4 and "first run" in verdict.sentence


def test_without_any_cache_hit_there_is_no_cache_to_measure(
    data_root: Path, catalog: Catalog, make_attempt: Make, record_in: Make
) -> None:
    record_in(catalog, attempts=[make_attempt(role="metadata", status=Status.HTTP_GET)], works=[])
    export_manifest(catalog, LakeWriter(LakeFolder(data_root / "lake")))
    with open_lake(LakeFolder(data_root / "lake")) as con:
        slis = compute_slis(con, WorkScope())
    assert slis.cacheable == 1 and slis.cache_hit_ratio is None


@pytest.mark.requirement("TEL-5")
@pytest.mark.parametrize("scope", SCOPES, ids=str)
def test_the_run_summary_from_the_lake_equals_that_from_the_rows(
    lake_and_history: Any, make_entry: Make, scope: WorkScope
) -> None:
    data_root, attempts, works = lake_and_history
    with open_lake(LakeFolder(data_root / "lake")) as con:
        found = run_summary(con, scope)
    rows = [values_of(a) for a in attempts if in_scope(a, scope)]
    assert found == metrics_summary(rows, [values_of(make_entry(w)) for w in works if in_scope(w, scope)])
    assert found["processed"] == found["saved"] + found["html_only"] + found["skipped"] > 0


@pytest.mark.requirement("TEL-5")
def test_the_database_counts_a_run_as_its_rows_do(lake_and_history: Any, catalog: Catalog, make_entry: Make) -> None:
    _, attempts, works = lake_and_history
    rows = [values_of(a) for a in attempts if a.run_id == "run-2"]
    ends = [values_of(make_entry(w)) for w in works if w.run_id == "run-2"]
    assert summary_of_run(catalog, "run-2", Counter()) == metrics_summary(rows, ends)
    assert summary_of_run(catalog, "run-2", Counter(otlp=3))["dropped"] == {"otlp": 3}


def test_metrics_become_rows_of_the_lake(lake_and_history: Any) -> None:
    data_root, *_ = lake_and_history
    now = datetime(2026, 3, 1, tzinfo=UTC)
    with open_lake(LakeFolder(data_root / "lake")) as con:
        slis = compute_slis(con, WorkScope(2024))
    for _ in range(2):  # a repeated export shows nowhere
        LakeWriter(LakeFolder(data_root / "lake")).append("metrics", metric_rows(slis, now))
    with open_lake(LakeFolder(data_root / "lake")) as con:
        rows = con.execute("SELECT year, scope, name, value, target FROM metrics WHERE name = 'yield'").fetchall()
    assert rows == [(2024, "year 2024", "yield", slis.yield_, 0.85)]


@pytest.mark.requirement("ORC-5", "TEL-7")
def test_the_verdicts_that_were_stored_last_are_those_of_the_evaluation(lake_and_history: Any) -> None:
    data_root, *_ = lake_and_history
    lake = LakeFolder(data_root / "lake")
    with open_lake(lake) as con:
        slis = compute_slis(con, WorkScope(2024))
        assert stored_verdicts(con, WorkScope(2024)) == []
    worse = replace(slis, saved=0)
    for day, measured in ((1, worse), (2, slis)):
        LakeWriter(lake).append("metrics", metric_rows(measured, datetime(2026, 3, day, tzinfo=UTC)))
    with open_lake(lake) as con:
        assert stored_verdicts(con, WorkScope(2024)) == evaluate(slis)
        assert stored_verdicts(con, WorkScope(2023)) == []
