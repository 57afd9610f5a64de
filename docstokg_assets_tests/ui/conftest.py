"""`dagster dev` as an operator starts it, over a small scholarly web, and a real browser in front of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml
from playwright.sync_api import Browser, Page, expect, sync_playwright

from docstokg_assets.sandbox import Sandbox
from docstokg_assets_tests.support.dagster_ui import FLAGS, Dagster, chromium, config_for_ui


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = chromium()
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield running
        running.close()


@pytest.fixture(scope="module")
def dagster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dagster]:
    folder = tmp_path_factory.mktemp("dagster")
    with Sandbox.start(folder / "box", works_per_year=60, years=(2023, 2025), enforce_limits=False) as box:
        config = folder / "content.yaml"
        config.write_text(yaml.safe_dump(config_for_ui(folder / "data", box)))
        running = Dagster(folder, config, box=box)
        running.set_up()
        try:
            running.start_all()
            yield running
        finally:
            running.end()


@pytest.fixture
def page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    opened = browser.new_page(viewport={"width": 1600, "height": 900})
    opened.set_default_timeout(45_000)
    expect.set_options(timeout=45_000)
    yield opened
    opened.close()
