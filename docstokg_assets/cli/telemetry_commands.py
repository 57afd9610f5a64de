"""`content telemetry`: export the records of runs for other tools; rebuild run folders and lake, or compact the lake."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from docstokg_assets.cli.data_folder import open_catalog, require_catalog, require_run, run_and_root
from docstokg_assets.cli.exits import fail
from docstokg_assets.cli.options import Load, RunOption, YearOption, with_settings
from docstokg_assets.cli.run_session import disk_errors
from docstokg_assets.config import resolvers_of
from docstokg_assets.lake.views import export_new_rows, write_telemetry_duckdb
from docstokg_assets.lake.writer import SCHEMAS, LakeWriter, rebuild_manifest
from docstokg_assets.reporting.export import ExportFormat, ExportTable, export_table
from docstokg_assets.reporting.run_files import rebuild_lines, write_account
from docstokg_assets.reporting.sinks import FileHeld
from docstokg_assets.runs.repair import repair_lake
from docstokg_assets.runs.run import was_cut_off
from resources.catalog.catalog import Catalog
from resources.catalog.rows import Run
from resources.scope import WorkScope
from resources.whole_file import whole_file

app = typer.Typer(name="telemetry", help="Records of runs: export, compact or rebuild them.", no_args_is_help=True)


@app.command()
@with_settings()
def export(
    load: Load,
    run: RunOption = None,
    format: Annotated[ExportFormat, typer.Option(help="File format.")] = ExportFormat.PARQUET,
    table: Annotated[ExportTable, typer.Option(help="Table to export.")] = ExportTable.ATTEMPTS,
    year: YearOption = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Output file; default for csv and jsonl: stdout.")
    ] = None,
    data_root: Annotated[
        Path | None, typer.Option("--data-root", metavar="FOLDER", help="Data folder (files, catalog, reports).")
    ] = None,
) -> None:
    """Write attempts, or another table of the telemetry, as one file for other tools."""
    if format is ExportFormat.PARQUET and out is None:
        fail("Parquet needs a file: --out analysis.parquet")
    if out is not None and not out.absolute().parent.is_dir():
        fail(f"--out {out}: there is no folder {out.parent}")
    run_id, data_root = run_and_root(run, data_root)
    if run_id is not None and not table.of_runs:
        fail(f"--run: {table} do not belong to runs; leave it out, or choose attempts, outcomes or artifacts")
    config = load(out=data_root).value
    with open_catalog(config) as catalog:
        require_run(catalog, run_id, config.data_root)
        lake = config.lake_files()
        export_new_rows(catalog, lake)
    scope = WorkScope(year, run_id)
    if out is None:
        export_table(lake, table, scope, format, sys.stdout.buffer)
        return
    try:
        with whole_file(out) as temp, temp.open("wb") as file:
            rows = export_table(lake, table, scope, format, file)
    except OSError as error:
        fail(f"{out} cannot be written: {error.strerror}. Give another file with --out.")
    typer.echo(f"{rows:,} {table} in {out}", err=True)


@app.command()
@with_settings("out")
def rebuild(load: Load, run: RunOption = None) -> None:
    """Rebuild manifest.jsonl, attempts.csv and the other files of run folders, and the Parquet lake, from the catalog.

    Damaged parts of the lake are set aside and replaced. Runs in progress are left alone.
    With --run only the folder of that run; the lake belongs to all runs.
    """
    run_id, out = run_and_root(run, load.given["out"])
    config = load(out=out).value
    with open_catalog(config) as catalog:
        known = require_run(catalog, run_id, config.data_root)
        for each in [known] if known is not None else [run for run in catalog.runs() if run.kind != "sensor"]:
            _rebuild(catalog, each, config.data_root / each.run_id, config.telemetry.last_csv_rows)
        if known is None:
            lake = config.lake_files()
            written = rebuild_manifest(catalog, LakeWriter(lake))
            for done in repair_lake(catalog, LakeWriter(lake), resolvers_of(config), datetime.now(UTC)):
                typer.echo(f"lake: {done}", err=True)
            write_telemetry_duckdb(lake)
            typer.echo(f"lake: {written.attempts:,} attempts, {written.outcomes:,} outcomes", err=True)


@app.command()
@with_settings("out")
def compact(
    load: Load,
    more_than: Annotated[
        int, typer.Option(min=1, metavar="PARTS", help="Only years of a table with more parts than this.")
    ] = 8,
) -> None:
    """Merge the many small Parquet parts that nightly runs leave in the lake: the same rows, in one part per year.

    Downloads may run meanwhile. A reader of the lake (a query, the planning of a year) may find a part gone; it reports that
    and can be run again.
    """
    config = load().value
    require_catalog(config.catalog_location)
    with disk_errors(config):
        lake = LakeWriter(config.lake_files())
        for table in SCHEMAS:
            before, after = lake.compact(table, more_than)
            text = f"{before:,} parts became {after:,}" if before else "nothing to merge"
            typer.echo(f"{table}: {text}", err=True)


def _rebuild(catalog: Catalog, run: Run, folder: Path, last_rows: int) -> None:
    living = f"{run.run_id}: may still be running, so its files are left unchanged"
    if run.finished_at is None and not was_cut_off(catalog, run):
        typer.echo(living, err=True)
        return
    try:
        count = rebuild_lines(catalog, folder, run)
    except FileHeld:  # by a process that holds no work at the moment
        typer.echo(living, err=True)
        return
    if run.summary is not None:
        write_account(catalog, folder, run.run_id, run.summary, last_rows)
    typer.echo(f"{run.run_id}: {count:,} attempts in {folder}", err=True)
