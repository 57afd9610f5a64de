"""Asset checks by year: integrity of what is stored, coverage, connectivity, listings, and the objectives of TEL-7.

Each check has a verdict for each year, which stays until that year is checked again; the newest year includes the works without a
known year. Only a stored file that is not what the catalog says blocks what is downstream.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import Any

import dagster as dg
import duckdb

from docstokg_assets.defs.assets.downloaded_artifacts import downloaded_artifacts
from docstokg_assets.defs.assets.manifest_parquet import manifest_parquet
from docstokg_assets.defs.assets.openalex_works import openalex_works
from docstokg_assets.defs.assets.run_metrics import run_metrics
from docstokg_assets.defs.metadata import ui_table
from docstokg_assets.defs.partitions import years
from docstokg_assets.defs.steps import configuration, handle_step_errors, years_of
from docstokg_assets.lake.views import open_lake
from docstokg_assets.lake.writer import LakeWriter
from docstokg_assets.reporting.metrics import SLOS, Verdict, compute_slis, evaluate, stored_verdicts
from docstokg_assets.reporting.rendering import format_time
from docstokg_assets.reporting.run_files import lines_are_missing
from docstokg_assets.reporting.year_checks import Judgement, Level, judge_contacts, judge_coverage, judge_listing
from docstokg_assets.runs.audit import Audit, audit_files
from resources.artifacts.store import ArtifactStore
from resources.catalog.catalog import Catalog
from resources.catalog.rows import Entry
from resources.dagster_resources import ArtifactStoreResource, CatalogResource
from resources.records import Classification
from resources.scope import WorkScope, Years

_OBJECTIVES = tuple(slo for slo in SLOS if slo.name != "corruption")
_REPAIR = "`content resume --verify` sets bad and missing files aside and downloads them again"


@contextmanager
def _partitioned_checks() -> Iterator[None]:
    """Partitions of checks are a preview in this version of Dagster; one warning for each check would bury other messages."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.PreviewWarning)
        yield


def _year_check(
    asset: dg.AssetsDefinition, *, blocking: bool = False
) -> Callable[[Callable[..., dg.AssetCheckResult]], dg.AssetChecksDefinition]:
    def define(function: Callable[..., dg.AssetCheckResult]) -> dg.AssetChecksDefinition:
        with _partitioned_checks():
            return dg.asset_check(asset=asset, blocking=blocking, partitions_def=years)(function)

    return define


def _objective_specs() -> list[dg.AssetCheckSpec]:
    with _partitioned_checks():
        return [
            dg.AssetCheckSpec(
                slo.name,
                asset=run_metrics,
                description=f"{slo.title} {slo.comparison} {slo.target:g}: {slo.why}.",
                partitions_def=years,
            )
            for slo in _OBJECTIVES
        ]


@dg.multi_asset_check(specs=_objective_specs())
def objectives(context: dg.AssetCheckExecutionContext, catalog: CatalogResource) -> Iterator[dg.AssetCheckResult]:
    """Whether the year meets its objectives; a missed one only warns. Reads what `run_metrics` stored, and computes the
    indicators where it stored none."""
    scope = WorkScope(_years(context))
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


@_year_check(downloaded_artifacts, blocking=True)
def no_corruption(
    context: dg.AssetCheckExecutionContext, catalog: CatalogResource, artifact_store: ArtifactStoreResource
) -> dg.AssetCheckResult:
    """No bad file is stored. Files that were bad before are read first, then those not read for the longest time, up to
    `checks.audit_bytes` bytes; so over time every file is read again."""
    with handle_step_errors(context):
        config = configuration(catalog, artifact_store)
        with Catalog.open(config.catalog_location) as opened:
            store = config.artifacts.open(config.data_root)
            audit = audit_files(opened, store, _years(context), config.checks.audit_bytes)
    return dg.AssetCheckResult(
        passed=not audit.bad,
        severity=dg.AssetCheckSeverity.ERROR,
        description=_audit_sentence(audit),
        metadata=_audit_metadata(audit),
    )


def _audit_sentence(audit: Audit) -> str:
    state = audit.state
    read = f"{state.read:,} of {state.files:,} files were read since they were stored"
    if audit.bad:
        names = ", ".join(path for _, path in audit.bad[:3]) + (", …" if len(audit.bad) > 3 else "")
        return f"{len(audit.bad)} bad files: {names}. {_REPAIR}. {read}."
    since = "" if state.oldest is None else f"; no file was last looked at before {format_time(state.oldest)} UTC"
    return f"No bad file is known. {read}{since}."


def _audit_metadata(audit: Audit) -> Mapping[str, Any]:
    state = audit.state
    known: dict[str, Any] = {
        "files": state.files,
        "read in this check": audit.read,
        "bytes read in this check": audit.bytes,
        "read since stored": state.read,
        "audit coverage": round(state.read / state.files, 4) if state.files else 1.0,
        "bad": len(audit.bad),
        "bad files": ui_table({"work": "string", "file": "path"}, audit.bad[:100]),
    }
    return (
        known if state.oldest is None else {**known, "longest without a look": dg.MetadataValue.timestamp(state.oldest)}
    )


@_year_check(downloaded_artifacts)
def files_are_there(
    context: dg.AssetCheckExecutionContext, catalog: CatalogResource, artifact_store: ArtifactStoreResource
) -> dg.AssetCheckResult:
    """Every file that the catalog names for the year is in the store."""
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
        description=f"{files - len(missing)} of {files} files are there." + (f" {_REPAIR}." if missing else ""),
        metadata={"in the catalog": files, "missing": len(missing), "missing files": _files(missing)},
    )


@_year_check(downloaded_artifacts)
def coverage(context: dg.AssetCheckExecutionContext, catalog: CatalogResource) -> dg.AssetCheckResult:
    """Enough of the year's known works are finished (`checks.coverage_…`), and the year was listed in full."""
    with _open_catalog(context, catalog) as opened:
        counts, listed = opened.queue_counts(_years(context)), opened.listings_of(_listed_year(context))
    judged = judge_coverage(counts, listed, configuration(catalog).checks)
    return _judged(judged, {"known": counts.total, "finished": counts.done, "waiting": counts.parked + counts.retry})


@_year_check(downloaded_artifacts)
def connectivity(context: dg.AssetCheckExecutionContext, catalog: CatalogResource) -> dg.AssetCheckResult:
    """Hosts answered the last pass of the year: the share of requests without an answer is small (`checks.unanswered_…`)."""
    with _open_catalog(context, catalog) as opened:
        contacts = opened.last_contacts(_years(context))
    columns = {"host": "string", "requests": "int", "unanswered": "int", "not sent (breaker)": "int"}
    hosts = sorted(contacts, key=lambda each: -each.unanswered)[:100]
    return _judged(
        judge_contacts(contacts, configuration(catalog).checks),
        {"hosts": ui_table(columns, [tuple(each) for each in hosts]), "requests": sum(each.sent for each in contacts)},
    )


@_year_check(openalex_works)
def listing_size(context: dg.AssetCheckExecutionContext, catalog: CatalogResource) -> dg.AssetCheckResult:
    """The last full listing of the year is neither empty nor far smaller than the one before (`checks.listing_…`)."""
    with _open_catalog(context, catalog) as opened:
        listed = opened.listings_of(_listed_year(context))
    columns = {"at": "string", "works": "int", "complete": "bool", "selection": "string", "only": "string"}
    rows = [
        (f"{format_time(each.at)} UTC", each.works, each.complete, each.filter or each.source, each.changed_since or "")
        for each in listed[:20]
    ]
    return _judged(judge_listing(listed, configuration(catalog).checks), {"listings": ui_table(columns, rows)})


def _judged(judged: Judgement, metadata: Mapping[str, Any]) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        passed=judged.level is Level.OK,
        severity=dg.AssetCheckSeverity.ERROR if judged.level is Level.FAIL else dg.AssetCheckSeverity.WARN,
        description=judged.sentence,
        metadata={**metadata, **({} if judged.share is None else {"share": round(judged.share, 4)})},
    )


@_year_check(manifest_parquet)
def manifest_agrees(context: dg.AssetCheckExecutionContext, catalog: CatalogResource) -> dg.AssetCheckResult:
    """Catalog, Parquet and the run's own manifest agree: no row of the year is missing, and none is there that the catalog does
    not have."""
    faults, rows = list[str](), dict.fromkeys(("attempts", "outcomes"), 0)
    with handle_step_errors(context):
        config = configuration(catalog)
        with Catalog.open(config.catalog_location) as opened, open_lake(config.lake_files()) as lake:
            for year in _each_year(context):
                # in this order: others may be at work on the year, and may export meanwhile
                positions = (opened.export_position("lake.attempts"), opened.export_position("lake.outcomes"))
                in_lake = _rows_in_lake(lake, WorkScope(year))
                counted = opened.counted_up_to(year, *positions)
                for name, kept in zip(rows, counted, strict=True):
                    rows[name] += kept.all
                    if not kept.some <= in_lake[name] <= kept.all:
                        faults.append(
                            f"{in_lake[name]} {name} in Parquet, {kept.all} in the catalog; "
                            "`content telemetry rebuild` restores them"
                        )
            if lines_are_missing(opened, config.data_root / context.run.run_id, context.run.run_id):
                faults.append("the manifest of this run lacks lines; `content telemetry rebuild` writes it again")
    return dg.AssetCheckResult(
        passed=not faults,
        severity=dg.AssetCheckSeverity.WARN,
        description="; ".join(faults)
        or f"{rows['attempts']} attempts and {rows['outcomes']} outcomes, the same in catalog and Parquet.",
        metadata=rows,
    )


def _rows_in_lake(lake: duckdb.DuckDBPyConnection, scope: WorkScope) -> dict[str, int]:
    tables = ("attempts", "outcomes")
    counts = [f"SELECT '{name}', count(*) FROM {name} WHERE {scope.condition}" for name in tables]
    return dict(lake.execute(" UNION ALL ".join(counts)).fetchall())


@_year_check(manifest_parquet)
def schema_is_stable(context: dg.AssetCheckExecutionContext, catalog: CatalogResource) -> dg.AssetCheckResult:
    """Every Parquet part of the year has the columns of this version; older parts are read all the same, with blanks."""
    with handle_step_errors(context):
        writer = LakeWriter(configuration(catalog).lake_files())
        drifted = [part for year in _each_year(context) for part in writer.drifted(year)]
    return dg.AssetCheckResult(
        passed=not drifted,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"{len(drifted)} parts with other columns; `content telemetry rebuild` makes them again."
        if drifted
        else "All parts have the columns of this version.",
        metadata={"parts with other columns": ui_table({"part": "path", "columns": "string"}, drifted[:100])},
    )


def _years(context: dg.AssetCheckExecutionContext) -> Years | None:
    """The years that a check covers. Without a partition it covers all works."""
    return years_of(int(context.partition_key)) if context.has_partition_key else None


def _each_year(context: dg.AssetCheckExecutionContext) -> tuple[int | None, ...]:
    return years_of(int(context.partition_key)) if context.has_partition_key else (None,)


def _listed_year(context: dg.AssetCheckExecutionContext) -> int:
    return int(context.partition_key) if context.has_partition_key else 0


@contextmanager
def _open_catalog(context: dg.AssetCheckExecutionContext, catalog: CatalogResource) -> Iterator[Catalog]:
    with handle_step_errors(context), Catalog.open(configuration(catalog).catalog_location) as opened:
        yield opened


@contextmanager
def _stored(
    context: dg.AssetCheckExecutionContext, catalog: CatalogResource, artifact_store: ArtifactStoreResource
) -> Iterator[tuple[ArtifactStore, Iterator[Entry]]]:
    """The store, and the outcomes that name a file in it."""
    config = configuration(catalog, artifact_store)
    with Catalog.open(config.catalog_location) as opened:
        entries = opened.entries(year=_years(context), classification=Classification.SUCCESS)
        yield config.artifacts.open(config.data_root), (entry for entry in entries if entry.path)


def _files(entries: list[Entry]) -> dg.TableMetadataValue:
    return ui_table({"work": "string", "file": "path"}, [(entry.work_id, entry.path) for entry in entries[:100]])


ALL = (
    no_corruption,
    files_are_there,
    coverage,
    connectivity,
    listing_size,
    manifest_agrees,
    schema_is_stable,
    objectives,
)
