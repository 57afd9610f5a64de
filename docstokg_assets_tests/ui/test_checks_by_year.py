"""The checks of a year in a real browser: a bad file stays red for its year, and a person checks that year again."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Page, expect

from docstokg_assets_tests.ui.test_ui import keep, launch

if TYPE_CHECKING:
    from docstokg_assets_tests.support.dagster_ui import Dagster


@pytest.mark.timeout(420)
@pytest.mark.requirement("ORC-5")
def test_a_bad_file_of_one_year_is_red_until_that_year_is_checked_again(page: Page, dagster: Dagster) -> None:
    launch(page, dagster, "[2023...2024]")
    dagster.wait_for(lambda: [run["status"] for run in dagster.runs()] == ["SUCCESS"] * 2, "two years", 180)
    with closing(sqlite3.connect(dagster.data_root / "catalog.sqlite3", timeout=30)) as catalog:
        found = "SELECT path FROM catalog_entries WHERE year = 2023 AND reason = 'ok' ORDER BY work_id LIMIT 1"
        (path,) = catalog.execute(found).fetchone()
    whole = (dagster.data_root / path).read_bytes()
    (dagster.data_root / path).write_bytes(b"%PDF-1.4 not what was stored")
    dagster.launch_run(dagster.name, "check_year", partition="2023")
    dagster.wait_for(lambda: dagster.runs()[0]["status"] == "FAILURE", "the check of 2023")
    dagster.launch_run(dagster.name, "check_year", partition="2024")
    dagster.wait_for(lambda: dagster.runs()[0]["status"] == "SUCCESS", "the check of 2024")

    page.goto(f"{dagster.url}/assets/downloaded_artifacts?view=checks")
    page.get_by_text("no_corruption").first.click()
    expect(page.get_by_text(re.compile("bad file")).first).to_be_visible()
    keep(page, "checks-by-year")
    page.get_by_text("Partitions").last.click()
    expect(page.get_by_text("Failed (1)", exact=True)).to_be_visible()
    expect(page.get_by_text("Passed (1)", exact=True)).to_be_visible()
    keep(page, "check-partitions")

    (dagster.data_root / path).write_bytes(whole)
    dagster.launch_run(dagster.name, "check_year", partition="2023")
    dagster.wait_for(lambda: dagster.runs()[0]["status"] == "SUCCESS", "the check of 2023 after the repair")
    page.reload()
    expect(page.get_by_text("Passed (2)", exact=True)).to_be_visible()
