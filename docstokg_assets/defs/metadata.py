"""Metadata for the Dagster UI: tables, column schemas, paths, times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import dagster as dg

from docstokg_assets.lake.writer import SCHEMAS
from docstokg_assets.reporting.reasons import REASON_TEXT
from resources.catalog.rows import OutcomeCount
from resources.records import Reason
from resources.tables import LAKE_TABLES, YEAR, Into

Cell = str | int | float | bool | None

_TABLES_OF = {
    "openalex_works": ("works",),
    "resolver_plans": ("plans",),
    "manifest_parquet": ("attempts", "outcomes"),
    "run_metrics": ("metrics",),
}
_ASSET_OF = {table: asset for asset, tables in _TABLES_OF.items() for table in tables}


def ui_table(columns: Mapping[str, str], rows: Iterable[Sequence[Cell]]) -> dg.TableMetadataValue:
    """A table for the UI. `columns`: name → Dagster's name of its type. An empty table is shown too."""
    schema = dg.TableSchema([dg.TableColumn(name, kind) for name, kind in columns.items()])
    return dg.MetadataValue.table([dg.TableRecord(dict(zip(columns, row, strict=True))) for row in rows], schema)


def ui_text_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> dg.TableMetadataValue:
    """A table of cells that are formatted already; a column without a heading gets a blank one."""
    return ui_table({name or " " * (place + 1): "string" for place, name in enumerate(columns)}, rows)


def column_metadata(asset: str) -> dict[str, dg.TableSchema | dg.TableColumnLineage]:
    """The columns of an asset's tables in the lake, and where they come from, under the keys that Dagster knows."""
    schema, deps = list[dg.TableColumn](), dict[str, list[dg.TableColumnDep]]()
    for table in _TABLES_OF[asset]:
        schema.append(dg.TableColumn(_column(f"{table}.year"), "int16", YEAR))
        for column in LAKE_TABLES[table].columns_in(Into.LAKE):
            name, kind = _column(f"{table}.{column.name}"), str(SCHEMAS[table].field(column.name).type)
            schema.append(dg.TableColumn(name, kind, column.meaning))
            if column.origins:
                origins = [(_ASSET_OF[each.partition(".")[0]], _column(each)) for each in column.origins]
                deps[name] = [dg.TableColumnDep(dg.AssetKey(asset), origin) for asset, origin in origins]
    found: dict[str, dg.TableSchema | dg.TableColumnLineage] = {"dagster/column_schema": dg.TableSchema(schema)}
    return {**found, "dagster/column_lineage": dg.TableColumnLineage(deps)} if deps else found


def _column(column: str) -> str:
    """As the UI shows it: with its table only where the asset has several."""
    table, _, name = column.partition(".")
    return name if _TABLES_OF[_ASSET_OF[table]] == (table,) else column


def ui_path(path: Path | str) -> dg.MetadataValue[str | None]:
    """A path for the UI. `path` is text where it may be in a bucket."""
    return dg.MetadataValue.path(path if isinstance(path, str) else str(path.resolve()))


def outcome_table(outcomes: Iterable[OutcomeCount]) -> dg.TableMetadataValue:
    """How works ended, with what it means and what helps."""
    works = Counter[Reason]()
    for outcome in outcomes:
        works[outcome.reason] += outcome.count
    return ui_table(
        {"works": "int", "reason": "string", "in words": "string", "ends": "string", "what to do": "string"},
        [
            (count, str(reason), REASON_TEXT[reason].meaning, str(reason.ending), REASON_TEXT[reason].remedy)
            for reason, count in works.most_common()
        ],
    )
