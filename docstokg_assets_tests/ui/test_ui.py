"""What an operator does in the Dagster UI, done in a real browser: launch a year, watch it, end it, go on, backfill, read the
checks and the metrics. `SCREENSHOTS=docs/images` keeps what was seen."""

from __future__ import annotations

import os
import re
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Page, expect

if TYPE_CHECKING:
    from docstokg_assets_tests.support.dagster_ui import Dagster

GROUP = "locations/docstokg_assets.definitions/asset-groups/content_download/lineage"
ASSETS = ("openalex_works", "resolver_plans", "downloaded_artifacts", "manifest_parquet", "run_metrics")


def keep(page: Page, name: str) -> None:
    """The picture, where somebody wants it; animations have come to rest."""
    if folder := os.environ.get("SCREENSHOTS"):
        page.wait_for_timeout(1500)
        page.screenshot(path=Path(folder) / f"{name}.png")


def launch(page: Page, dagster: Dagster, partitions: str) -> None:
    page.goto(f"{dagster.url}/{GROUP}")
    page.get_by_role("button", name="Materialize all").click()
    dialog = page.get_by_role("dialog")
    field = dialog.get_by_placeholder(re.compile("^ex:"))
    field.fill(partitions)
    field.press("Enter")
    dialog.get_by_role("button", name=re.compile(r"^Launch")).last.click()
    dialog.wait_for(state="hidden")


def finished(dagster: Dagster, year: int) -> int:
    try:
        with closing(sqlite3.connect(dagster.data_root / "catalog.sqlite3", timeout=30)) as catalog:
            done = catalog.execute("SELECT count(*) FROM queue WHERE year = ? AND state = 'done'", (year,)).fetchone()
            return int(done[0])
    except sqlite3.OperationalError:
        return 0


def origins_of(dagster: Dagster, asset: str, column: str) -> list[str]:
    """The lineage of a column as the server tells it to whoever draws it."""
    dependencies = "lineage { columnName columnDeps { assetKey { path } columnName } }"
    entries = f"metadataEntries {{ ... on TableColumnLineageMetadataEntry {{ {dependencies} }} }}"
    found = dagster.ask(f'{{ assetNodes(assetKeys: [{{path: ["{asset}"]}}]) {{ {entries} }} }}')
    (lineage,) = [entry["lineage"] for entry in found["assetNodes"][0]["metadataEntries"] if "lineage" in entry]
    deps = next(each["columnDeps"] for each in lineage if each["columnName"] == column)
    return [f"{dep['assetKey']['path'][0]} {dep['columnName']}" for dep in deps]


@pytest.mark.timeout(420)
@pytest.mark.requirement("ORC-1")
@pytest.mark.requirement("ORC-2")
@pytest.mark.requirement("ORC-5")
def test_an_operator_launches_watches_ends_and_backfills_years(page: Page, dagster: Dagster) -> None:
    page.goto(f"{dagster.url}/{GROUP}")
    for name in ASSETS:
        expect(page.get_by_text(name, exact=True).first).to_be_visible()

    # One year, slowly enough to be seen and ended.
    dagster.box.add_fault(host="*.example", delay=1.0)
    began = time.monotonic()
    launch(page, dagster, "2024")
    dagster.wait_for(lambda: finished(dagster, 2024) >= 5, "the first downloads")
    first_download = time.monotonic() - began
    (run,) = dagster.runs()
    assert run["status"] == "STARTED" and run["dagster/partition"] == "2024"
    page.goto(f"{dagster.url}/runs/{run['id']}")
    expect(page.get_by_text("downloaded_artifacts").first).to_be_visible()
    expect(page.get_by_text(re.compile(r"works finished, \d+ with full text")).first).to_be_visible()
    keep(page, "run-in-progress")

    page.get_by_role("button", name="Terminate").click()
    page.get_by_role("dialog").get_by_role("button", name="Terminate").click()
    asked = time.monotonic()
    dagster.wait_for(lambda: dagster.runs()[0]["status"] == "CANCELED", "the end of the run", 30)
    print(f"first download after {first_download:.1f} s, ended {time.monotonic() - asked:.1f} s after it was asked to")
    before = finished(dagster, 2024)
    with closing(sqlite3.connect(dagster.data_root / "catalog.sqlite3", timeout=30)) as catalog:
        states = dict(catalog.execute("SELECT state, count(*) FROM queue GROUP BY state").fetchall())
    assert states.keys() <= {"done", "queued", "retry"} and sum(states.values()) >= 50, (
        "nothing is held, nothing is lost"
    )

    # The same year again goes on from there; then the others with it.
    dagster.box.clear_faults()
    launch(page, dagster, "2024")
    dagster.wait_for(lambda: dagster.runs()[0]["status"] == "SUCCESS", "the second run of the year")
    assert finished(dagster, 2024) > before
    launch(page, dagster, "[2023...2025]")
    three = ("2023", "2024", "2025")
    dagster.wait_for(
        lambda: sorted(r["dagster/partition"] for r in dagster.runs()[:3] if r["status"] == "SUCCESS") == list(three),
        "the backfill",
        180,
    )
    backfill = dagster.runs()[0]["dagster/backfill"]
    page.goto(f"{dagster.url}/runs/b/{backfill}")
    expect(page.get_by_text(backfill).first).to_be_visible()
    keep(page, "backfill")

    page.goto(f"{dagster.url}/{GROUP}")
    expect(page.get_by_text("Passed").first).to_be_visible()
    keep(page, "asset-graph")

    page.goto(f"{dagster.url}/assets/downloaded_artifacts?view=checks")
    expect(page.get_by_text("no_corruption").first).to_be_visible()
    page.goto(f"{dagster.url}/assets/run_metrics?view=checks")
    expect(page.get_by_text("ttfp_p95_s").first).to_be_visible()
    keep(page, "checks")

    # What a column means, and where its asset is defined.
    page.goto(f"{dagster.url}/assets/resolver_plans?view=overview")
    expect(page.get_by_text("changes when there is something new to try").first).to_be_visible()
    expect(page.get_by_text("resolver_plans.py").first).to_be_visible()
    keep(page, "columns")
    assert origins_of(dagster, "manifest_parquet", "outcomes.title") == ["openalex_works title"]

    page.set_viewport_size({"width": 1600, "height": 1500})
    page.goto(f"{dagster.url}/assets/run_metrics?view=partitions&partition=2024")
    expect(page.get_by_text("yield_reachable").first).to_be_visible()
    keep(page, "run-metrics")
    page.get_by_role("row", name=re.compile("^in a picture")).get_by_text("Show Markdown").click()
    picture = page.get_by_role("img", name=re.compile("How the works ended"))
    expect(picture).to_be_visible()
    assert picture.evaluate("image => image.naturalWidth") > 500
    keep(page, "picture-of-a-year")
