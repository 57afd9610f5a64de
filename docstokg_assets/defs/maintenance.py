"""Jobs for upkeep, each one step with a launchpad that explains its fields: verify, retry, compact, gc, export.

They do what `content resume --verify`, `content resume --force`, `content telemetry compact`, `content gc` and `content telemetry
export` do from a shell.
"""

import threading
from pathlib import Path

import dagster as dg
from pydantic import Field

from docstokg_assets.defs.metadata import ui_table
from docstokg_assets.defs.steps import configuration, graceful_stop, handle_step_errors, years_of
from docstokg_assets.lake.views import export_new_rows
from docstokg_assets.lake.writer import SCHEMAS, LakeWriter
from docstokg_assets.reporting.export import ExportFormat, ExportTable, export_table
from docstokg_assets.reporting.rendering import format_bytes
from docstokg_assets.runs.orphans import delete_unnamed, find_orphans, find_quarantined, processes_at_work
from docstokg_assets.runs.resume import FilterError, Selection, force, verify
from resources.catalog.catalog import Catalog
from resources.dagster_resources import ArtifactStoreResource, CatalogResource
from resources.scope import WorkScope
from resources.whole_file import whole_file

_YEAR = "only works of this publication year; 0: works without a year; empty: all works"


def _scope(year: int | None) -> WorkScope:
    return WorkScope(years_of(year) if year else year)


class VerifyConfig(dg.Config):
    year: int | None = Field(None, description=_YEAR)


@dg.op
def verify_stored_files(
    context: dg.OpExecutionContext,
    config: VerifyConfig,
    catalog: CatalogResource,
    artifact_store: ArtifactStoreResource,
) -> None:
    """Hash every stored file; set bad ones aside in quarantine, and queue their works and those of missing files again."""
    stop = threading.Event()
    with handle_step_errors(context), graceful_stop(stop):
        settings = configuration(catalog, artifact_store)
        store = settings.artifacts.open(settings.data_root)
        with Catalog.open(settings.catalog_location) as opened:
            found = verify(
                opened,
                store,
                _scope(config.year),
                settings.workers,
                stop,
                lambda checked: context.log.info(f"{checked:,} files checked."),
                settings.download.quarantine_bytes,
            )
    if found.no_room_for is not None:
        raise dg.Failure(
            f"Stopped at {found.no_room_for}: it is damaged, and the quarantine has no room for it. Run the job gc with "
            "quarantine and delete, or raise download.quarantine_bytes.",
            allow_retries=False,
        )
    context.log.info(
        f"{found.checked:,} files checked: {len(found.missing):,} missing, {len(found.damaged):,} damaged. Their works are "
        "queued again; the sensor works_due or the job continue_year downloads them."
    )
    works = [(work, "missing") for work in found.missing] + [(work, "damaged") for work in found.damaged]
    context.add_output_metadata(
        {"checked": found.checked, "works queued again": ui_table({"work": "string", "file": "string"}, works[:100])}
    )


@dg.job(name="verify", description="Reads every stored file; queues works again whose files are missing or damaged.")
def verify_files() -> None:
    verify_stored_files()


class RetryConfig(dg.Config):
    reasons: list[str] = Field([], description="reasons of docs/reasons.md, for example http-4xx; empty: any reason")
    resolvers: list[str] = Field([], description="only works that ended with one of these resolvers; empty: any")
    year: int | None = Field(None, description=_YEAR)


@dg.op
def retry_failed_works(context: dg.OpExecutionContext, config: RetryConfig, catalog: CatalogResource) -> None:
    """Queue works without a full text again, to be searched for from the start."""
    with handle_step_errors(context):
        settings = configuration(catalog)
        filters = [f"reason={reason}" for reason in config.reasons] or ["status=failed"]
        filters += [f"resolver={name}" for name in config.resolvers]
        try:
            selection = Selection.parse(filters, settings.resolvers.names())
        except FilterError as error:
            raise dg.Failure(str(error).replace("--filter ", ""), allow_retries=False) from None
        with Catalog.open(settings.catalog_location) as opened:
            works = force(opened, _scope(config.year), selection)
    context.log.info(
        f"{works:,} works are queued again; the sensor works_due or the job continue_year searches for them."
    )
    context.add_output_metadata({"works queued again": works})


@dg.job(description="Queues works without a full text again, by reason, resolver or year.")
def retry() -> None:
    retry_failed_works()


class CompactConfig(dg.Config):
    more_than: int = Field(8, ge=1, description="only years of a table with more parts than this")


@dg.op
def compact_parts(context: dg.OpExecutionContext, config: CompactConfig, catalog: CatalogResource) -> None:
    """Merge the small Parquet parts of each table and year into one."""
    rows = list[tuple[str, int, int]]()
    with handle_step_errors(context):
        lake = LakeWriter(configuration(catalog).lake_files())
        for table in SCHEMAS:
            before, after = lake.compact(table, config.more_than)
            rows.append((table, before, after))
            context.log.info(
                f"{table}: {before:,} parts became {after:,}." if before else f"{table}: nothing to merge."
            )
    columns = {"table": "string", "merged parts": "int", "new parts": "int"}
    context.add_output_metadata({"tables": ui_table(columns, rows)})


@dg.job(description="Merges the small Parquet parts that nightly runs leave in the lake. Downloads may run meanwhile.")
def compact() -> None:
    compact_parts()


class GcConfig(dg.Config):
    delete: bool = Field(False, description="remove the listed files; by default they are only listed")
    quarantine: bool = Field(False, description="the files in quarantine instead of orphans and stale parts")
    older_than_hours: float = Field(24.0, ge=1, description="leave out files that changed since then")


@dg.op
def collect_garbage(
    context: dg.OpExecutionContext, config: GcConfig, catalog: CatalogResource, artifact_store: ArtifactStoreResource
) -> None:
    """List the files that belong to no work, or those in quarantine, and remove them on request."""
    with handle_step_errors(context):
        settings = configuration(catalog, artifact_store)
        store = settings.artifacts.open(settings.data_root)
        with Catalog.open(settings.catalog_location) as opened:
            if config.delete and (busy := processes_at_work(opened)):
                raise dg.Failure(
                    f"Runs are in progress ({', '.join(busy)}), and their files look like orphans. Launch gc when they have "
                    "ended.",
                    allow_retries=False,
                )
            mark, older = opened.names_mark(), config.older_than_hours * 3600
            if config.quarantine:
                files = [each.found for each in find_quarantined(opened, store, older)]
            else:
                left = find_orphans(opened, store, older)
                if config.delete and left.orphans and not left.named:
                    raise dg.Failure(
                        f"The catalog names no file, but there are some in {store.place()}: is this the right data folder? "
                        "Nothing was removed.",
                        allow_retries=False,
                    )
                files = [*left.orphans, *left.stale_parts]
            removed = delete_unnamed(opened, store, files, mark) if config.delete else []
    size = format_bytes(sum(file.bytes for file in files))
    done = f"{len(removed):,} removed" if config.delete else "nothing was removed; set `delete` to remove them"
    context.log.info(f"{len(files):,} files, {size}: {done}.")
    columns = {"file": "path", "bytes": "int"}
    listed = ui_table(columns, [(file.path, file.bytes) for file in files[:100]])
    context.add_output_metadata({"files": len(files), "removed": len(removed), "listed": listed})


@dg.job(
    description="Lists files of the store that belong to no work, or the quarantine; removes them only with `delete`."
)
def gc() -> None:
    collect_garbage()


class ExportConfig(dg.Config):
    file: str = Field(description="the file to write, on the machine of the run")
    table: str = Field("outcomes", description="attempts, outcomes, artifacts, works, plans or metrics")
    format: str = Field("parquet", description="parquet, csv or jsonl")
    year: int | None = Field(None, description=_YEAR)


@dg.op
def write_export(context: dg.OpExecutionContext, config: ExportConfig, catalog: CatalogResource) -> None:
    """Write a table of the lake as one file."""
    with handle_step_errors(context):
        try:
            table, form = ExportTable(config.table), ExportFormat(config.format)
        except ValueError as error:
            known = f"tables: {', '.join(ExportTable)}; formats: {', '.join(ExportFormat)}"
            raise dg.Failure(f"{error}. There are {known}.", allow_retries=False) from None
        settings, path = configuration(catalog), Path(config.file)
        lake = settings.lake_files()
        with Catalog.open(settings.catalog_location) as opened:
            export_new_rows(opened, lake)
        with whole_file(path) as temp, temp.open("wb") as file:
            rows = export_table(lake, table, WorkScope(config.year), form, file)
    context.log.info(f"{rows:,} {table} in {path.absolute()}.")
    context.add_output_metadata({"rows": rows, "file": dg.MetadataValue.path(str(path.absolute()))})


@dg.job(description="Writes a table (outcomes, attempts, works …) as one Parquet, CSV or JSON-lines file.")
def export() -> None:
    write_export()


JOBS = (verify_files, retry, compact, gc, export)
