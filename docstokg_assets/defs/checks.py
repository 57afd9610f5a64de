"""Asset checks: the objectives of TEL-7, as `run_metrics` computed them, and the integrity of what is stored.

A missed objective warns; a stored file that is not what the catalog says is an error, and blocks everything downstream.
"""

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice

import dagster as dg
import duckdb

from docstokg_assets.defs.assets.downloaded_artifacts import downloaded_artifacts
from docstokg_assets.defs.assets.manifest_parquet import manifest_parquet
from docstokg_assets.defs.assets.run_metrics import run_metrics
from docstokg_assets.defs.metadata import ui_table
from docstokg_assets.defs.steps import configuration, handle_step_errors
from docstokg_assets.lake.views import open_lake
from docstokg_assets.lake.writer import LakeWriter
from docstokg_assets.reporting.metrics import SLOS, Verdict, compute_slis, evaluate, stored_verdicts
from docstokg_assets.reporting.run_files import lines_are_missing
from resources.artifacts.store import ArtifactStore
from resources.catalog.catalog import Catalog
from resources.catalog.rows import Entry
from resources.dagster_resources import ArtifactStoreResource, CatalogResource
from resources.records import Classification, Kind
from resources.scope import WorkScope

SAMPLE = 200  # files of a year that are hashed again: enough to detect a bug, and cheap enough for every run

_OBJECTIVES = tuple(slo for slo in SLOS if slo.name != "corruption")


@dg.multi_asset_check(
    specs=[
        dg.AssetCheckSpec(
            slo.name, asset=run_metrics, description=f"{slo.title} {slo.comparison} {slo.target:g}: {slo.why}."
        )
        for slo in _OBJECTIVES
    ]
)
def objectives(context: dg.AssetCheckExecutionContext, catalog: CatalogResource) -> Iterator[dg.AssetCheckResult]:
    """Whether the year meets its objectives; a missed one only warns. Reads what `run_metrics` stored, and computes the
    indicators only where it stored none: it measures years, and a check that is started by itself covers all works."""
    scope = WorkScope(_year(context))
    with handle_step_errors(context), open_lake(configuration(catalog).lake_files()) as lake:
        verdicts = stored_verdicts(lake, scope) or evaluate(compute_slis(lake, scope))
    yield from (_as_check(verdict) for verdict in verdicts if verdict.name != "corruption")


def _as_check(verdict: Verdict) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        check_name=verdict.name,
        asset_key=run_metrics.key,
        passed=verdict.ok is not False,  # nothing to compare is no fault
        severity=dg.AssetCheckSeverity.WARN,
        description=verdict.sentence,
        metadata={"goal": verdict.target} | ({} if verdict.value is None else {"value": verdict.value}),
    )


@dg.asset_check(asset=downloaded_artifacts, blocking=True)
def no_corruption(
    context: dg.AssetCheckExecutionContext, catalog: CatalogResource, artifact_store: ArtifactStoreResource
) -> dg.AssetCheckResult:
    """No bad file is kept: none is known as corrupt, and a sample of the year's files still has the hash it was stored with."""
    files, sample, bad = 0, list[Entry](), list[Entry]()
    with handle_step_errors(context), _stored(context, catalog, artifact_store) as (store, entries):
        for files, entry in enumerate(entries, start=1):
            if entry.kind is Kind.PDF_CORRUPT or not entry.sha256:
                bad.append(entry)
            elif len(sample) < SAMPLE:
                sample.append(entry)
            elif (place := random.randrange(files)) < SAMPLE:
                sample[place] = entry
        bad += [entry for entry in sample if not _is_sound(store, entry)]
    return dg.AssetCheckResult(
        passed=not bad,
        severity=dg.AssetCheckSeverity.ERROR,
        description=f"{len(bad)} bad files; {len(sample)} of {files} were read again.",
        metadata={"files": files, "read again": len(sample), "bad": len(bad), "bad files": _files(bad)},
    )


@dg.asset_check(asset=downloaded_artifacts)
def files_are_there(
    context: dg.AssetCheckExecutionContext, catalog: CatalogResource, artifact_store: ArtifactStoreResource
) -> dg.AssetCheckResult:
    """Catalog and disk agree: every file that the catalog names for the year is in the store."""
    files, missing = 0, list[Entry]()
    with (
        handle_step_errors(context),
        _stored(context, catalog, artifact_store) as (store, entries),
        ThreadPoolExecutor(32) as asks,
    ):
        while some := list(islice(entries, 1000)):  # a bucket takes its time for each, but answers many at once
            files += len(some)
            there = asks.map(lambda entry: store.exists(entry.path or ""), some)
            missing += [entry for entry, is_there in zip(some, there, strict=True) if not is_there]
    return dg.AssetCheckResult(
        passed=not missing,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"{files - len(missing)} of {files} files are there.",
        metadata={"in the catalog": files, "missing": len(missing), "missing files": _files(missing)},
    )


@dg.asset_check(asset=manifest_parquet)
def manifest_agrees(context: dg.AssetCheckExecutionContext, catalog: CatalogResource) -> dg.AssetCheckResult:
    """Catalog, Parquet and the run's own manifest agree: no row of the year is missing, and none is there that the catalog does
    not have."""
    year, faults = _year(context), list[str]()
    with handle_step_errors(context):
        config = configuration(catalog)
        with Catalog.open(config.catalog_location) as opened, open_lake(config.lake_files()) as lake:
            # in this order: others may be at work on the year, and may export meanwhile
            positions = (opened.export_position("lake.attempts"), opened.export_position("lake.outcomes"))
            in_lake = _rows_in_lake(lake, WorkScope(year))
            attempts, outcomes = opened.counted_up_to(year, *positions)
            if lines_are_missing(opened, config.data_root / context.run.run_id, context.run.run_id):
                faults.append("the manifest of this run lacks lines; `content telemetry rebuild` writes it again")
    for name, kept in (("attempts", attempts), ("outcomes", outcomes)):
        if not kept.some <= in_lake[name] <= kept.all:
            faults.append(
                f"{in_lake[name]} {name} in Parquet, {kept.all} in the catalog; `content telemetry rebuild` repairs it"
            )
    return dg.AssetCheckResult(
        passed=not faults,
        severity=dg.AssetCheckSeverity.WARN,
        description="; ".join(faults)
        or f"{attempts.all} attempts and {outcomes.all} outcomes, the same in catalog and Parquet.",
        metadata={"attempts": attempts.all, "outcomes": outcomes.all},
    )


def _rows_in_lake(lake: duckdb.DuckDBPyConnection, scope: WorkScope) -> dict[str, int]:
    tables = ("attempts", "outcomes")
    counts = [f"SELECT '{name}', count(*) FROM {name} WHERE {scope.condition}" for name in tables]
    return dict(lake.execute(" UNION ALL ".join(counts)).fetchall())


@dg.asset_check(asset=manifest_parquet)
def schema_is_stable(context: dg.AssetCheckExecutionContext, catalog: CatalogResource) -> dg.AssetCheckResult:
    """Every Parquet part of the year has the columns of this version; older parts are read all the same, with blanks."""
    with handle_step_errors(context):
        drifted = LakeWriter(configuration(catalog).lake_files()).drifted(_year(context))
    return dg.AssetCheckResult(
        passed=not drifted,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"{len(drifted)} parts with other columns; `content telemetry rebuild` makes them again."
        if drifted
        else "All parts have the columns of this version.",
        metadata={"parts with other columns": ui_table({"part": "path", "columns": "string"}, drifted[:100])},
    )


def _year(context: dg.AssetCheckExecutionContext) -> int | None:
    """The year of the run; a check that is started by itself covers all works."""
    return int(context.partition_key) if context.has_partition_key else None


@contextmanager
def _stored(
    context: dg.AssetCheckExecutionContext, catalog: CatalogResource, artifact_store: ArtifactStoreResource
) -> Iterator[tuple[ArtifactStore, Iterator[Entry]]]:
    """The store, and the outcomes that name a file in it."""
    config = configuration(catalog, artifact_store)
    with Catalog.open(config.catalog_location) as opened:
        entries = opened.entries(year=_year(context), classification=Classification.SUCCESS)
        yield config.artifacts.open(config.data_root), (entry for entry in entries if entry.path)


def _is_sound(store: ArtifactStore, entry: Entry) -> bool:
    """Whether a file has the hash of its entry. A missing file counts as sound; `files_are_there` reports it."""
    try:
        return store.sha256_of(entry.path or "")[0] == entry.sha256
    except FileNotFoundError:
        return True


def _files(entries: list[Entry]) -> dg.TableMetadataValue:
    return ui_table({"work": "string", "file": "path"}, [(entry.work_id, entry.path) for entry in entries[:100]])
