"""`content telemetry`: the records of runs as one file for other tools; run folders and lake made again, or made compact.

Heavy imports stand inside the functions, so that other commands do not pay for them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from docstokg_assets.cli.ending import fail
from docstokg_assets.cli.options import ConfigOption, OutOption
from docstokg_assets.cli.report_commands import check_known, check_there, open_catalog, place, settings_of

if TYPE_CHECKING:
    from resources.catalog import Catalog, Run

app = typer.Typer(help="Records of runs: export them, join their parts, make them again.", no_args_is_help=True)

RunOption = Annotated[str | None, typer.Option(help="A run's folder or its id; all runs when left out.")]


@app.command()
def export(
    run: RunOption = None,
    format: Annotated[Literal["parquet", "csv", "jsonl"], typer.Option(help="Which kind of file.")] = "parquet",
    table: Annotated[
        Literal["attempts", "outcomes", "artifacts", "works", "plans", "metrics"], typer.Option(help="Which view.")
    ] = "attempts",
    year: Annotated[int | None, typer.Option(min=0, help="Only of this publication year; 0: unknown.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="The file; standard output for csv and jsonl.")
    ] = None,
    data_root: Annotated[
        Path | None, typer.Option("--data-root", metavar="FOLDER", help="The folder that holds it all.")
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Write attempts, or another view of the telemetry, as one file for other tools."""
    from docstokg_assets.domain.scope import WorkScope
    from docstokg_assets.lake.views import export_new_rows
    from docstokg_assets.reporting.export import ExportFormat, ExportTable, export_table
    from resources.whole_file import whole_file

    kind, view = ExportFormat(format), ExportTable(table)
    if kind is ExportFormat.PARQUET and out is None:
        fail("Parquet needs a file: --out analysis.parquet")
    if out is not None and not out.absolute().parent.is_dir():
        fail(f"--out {out}: there is no folder {out.parent}")
    run_id, data_root = place(run, data_root)
    if run_id is not None and not view.of_runs:
        fail(f"--run: {view} do not belong to runs; leave it out, or choose attempts, outcomes or artifacts")
    settings = settings_of(config, data_root)
    with open_catalog(settings) as catalog:
        check_known(catalog, run_id, settings.data_root)
        lake = settings.lake_files()
        export_new_rows(catalog, lake)
    scope = WorkScope(year, run_id)
    if out is None:
        export_table(lake, view, scope, kind, sys.stdout.buffer)
        return
    try:
        with whole_file(out) as temp, temp.open("wb") as file:
            rows = export_table(lake, view, scope, kind, file)
    except OSError as error:
        fail(f"{out} cannot be written: {error.strerror}. Give another file with --out.")
    typer.echo(f"{rows:,} {view} in {out}", err=True)


@app.command()
def rebuild(run: RunOption = None, out: OutOption = None, config: ConfigOption = None) -> None:
    """Make manifest.jsonl, attempts.csv and the other files of run folders, and the Parquet lake, again from the catalog.

    With --run only the folder of that run; the lake belongs to all runs.
    """
    from docstokg_assets.lake.views import write_telemetry_duckdb
    from docstokg_assets.lake.writer import LakeWriter, rebuild_manifest

    run_id, out = place(run, out)
    settings = settings_of(config, out)
    with open_catalog(settings) as catalog:
        known = check_known(catalog, run_id, settings.data_root)
        for each in [known] if known is not None else [run for run in catalog.runs() if run.kind != "sensor"]:
            _rebuild(catalog, each, settings.data_root / each.run_id, settings.telemetry.last_csv_rows)
        if known is None:
            lake = settings.lake_files()
            made = rebuild_manifest(catalog, LakeWriter(lake))
            write_telemetry_duckdb(lake)
            typer.echo(f"lake: {made.attempts:,} attempts, {made.outcomes:,} outcomes", err=True)


@app.command()
def compact(
    more_than: Annotated[
        int, typer.Option(min=1, metavar="PARTS", help="Only where a table has more parts of a year than these.")
    ] = 8,
    out: OutOption = None,
    config: ConfigOption = None,
) -> None:
    """Join the many small Parquet parts that nightly runs leave in the lake: the same rows, in one part for each year.

    Downloads may go on meanwhile. What is reading the lake at that moment (a query, the planning of a year) may find a part gone,
    says so, and is done again.
    """
    from docstokg_assets.cli.running import exit_with_message
    from docstokg_assets.lake.writer import SCHEMAS, LakeWriter

    settings = settings_of(config, out)
    check_there(settings.catalog_location)
    with exit_with_message(settings):
        lake = LakeWriter(settings.lake_files())
        for table in SCHEMAS:
            went, came = lake.compact(table, more_than)
            typer.echo(f"{table}: {went:,} parts became {came:,}" if went else f"{table}: nothing to join", err=True)


def _rebuild(catalog: Catalog, run: Run, folder: Path, last_rows: int) -> None:
    from docstokg_assets.reporting.run_files import rebuild_lines, write_account
    from docstokg_assets.runs.run import was_cut_off

    if run.finished_at is None and not was_cut_off(catalog, run):
        typer.echo(f"{run.run_id}: may still be going on, so its files are left as they are", err=True)
        return
    count = rebuild_lines(catalog, folder, run)
    if run.summary is not None:
        write_account(catalog, folder, run.run_id, run.summary, last_rows)
    typer.echo(f"{run.run_id}: {count:,} attempts in {folder}", err=True)
