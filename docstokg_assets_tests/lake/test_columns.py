"""What is said about the columns of the lake, held against the tables and against what really decides."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import SecretStr

from docstokg_assets.domain.plans import plan_columns
from docstokg_assets.domain.works import Work, work_from_openalex
from docstokg_assets.lake.writer import SCHEMAS
from docstokg_assets.reporting import metrics
from docstokg_assets.resolvers.registry import build_resolvers, load_resolvers, make_plan
from docstokg_assets.sandbox import records
from docstokg_assets.sandbox.mix import Mix
from docstokg_assets.sandbox.universe import Universe
from resources.tables import LAKE_TABLES, Into

UNIVERSE = Universe(7, 60, (2024, 2024), Mix.load("default", None))
OTHER: dict[str, Any] = {
    "work_id": "W0",
    "agency": "datacite",
    "oa_status": "closed",
    "urls": ("https://a.example/1.pdf",),
}
NOW = datetime.now(UTC)
COLUMNS = {f"{table}.{name}" for table, schema in SCHEMAS.items() for name in schema.names}
ORIGINS = {f"{t.name}.{c.name}": c.origins for t in LAKE_TABLES.values() for c in t.columns if c.origins}


@pytest.mark.requirement("TEL-6")
def test_every_column_has_a_meaning_and_comes_from_columns_that_exist() -> None:
    assert all(column.meaning for table in LAKE_TABLES.values() for column in table.columns)
    assert {name: list(table.names_in(Into.LAKE)) for name, table in LAKE_TABLES.items()} == {
        name: schema.names for name, schema in SCHEMAS.items()
    }
    assert ORIGINS.keys() <= COLUMNS and all(set(origins) <= COLUMNS for origins in ORIGINS.values())


@pytest.mark.requirement("TEL-6")
def test_a_plan_comes_from_the_columns_that_are_named_and_from_no_others() -> None:
    """Found out by changing one column of a work at a time and planning again."""
    registry = load_resolvers()
    keys = {name: resolver.Settings() for name, resolver in registry.items()}
    for settings in keys.values():
        settings.__dict__.update({name: SecretStr("key") for name in ("api_key",) if name in settings.__dict__})
        settings.__dict__["enabled"] = True
    resolvers = build_resolvers(tuple(registry), keys)
    works = [work_from_openalex(records.openalex(w, UNIVERSE.scenario(w))) for w in UNIVERSE.works(2024)]
    works.append(Work("W1", pmid="1234"))

    def planned(work: Work) -> Any:
        return {**plan_columns([(work, make_plan(work, resolvers))], NOW), "year": None}

    decide = set()
    for field in fields(Work):
        for work in works:
            now = getattr(work, field.name)
            other = OTHER.get(field.name, field.default)
            other = (not now if isinstance(now, bool) else field.default) if other == now else other
            if planned(replace(work, **{field.name: other})) != planned(work):
                decide.add(f"works.{field.name}")
                break
    named = {origin for column, origins in ORIGINS.items() if column.startswith("plans.") for origin in origins}
    assert named == decide


@pytest.mark.requirement("TEL-6", "TEL-7")
def test_the_indicators_come_from_the_columns_that_their_queries_name() -> None:
    outcomes, *attempts = metrics._HERE
    passed_on = {"work_id", "tier", "resolver", "host", "attempt"}  # for the tables of a report, which are no metrics
    words = {
        "outcomes": set(re.findall(r"\w+", outcomes + metrics._WORKS)) - {"ts", "run_id", "url"} - passed_on,
        "attempts": set(re.findall(r"\w+", " ".join(attempts) + metrics._REQUESTS)) - passed_on | {"ts", "run_id"},
    }
    used = {f"{table}.{name}" for table, said in words.items() for name in SCHEMAS[table].names if name in said}
    assert set(ORIGINS["metrics.value"]) == used
