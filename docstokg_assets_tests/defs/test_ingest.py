"""Ingest in Dagster: the two assets, the check, and the sensor that starts a pass."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from docstokg_assets.config import load_config
from docstokg_assets.definitions import defs
from docstokg_assets.defs.assets.ingest import ingest_due
from docstokg_assets.ingest.service import IngestService
from docstokg_assets.sandbox import Sandbox
from resources.catalog.catalog import Catalog
from resources.dagster_resources import CatalogResource

URL = "https://journal.press.org/1.pdf"


@pytest.mark.requirement("ING-4")
def test_a_pass_answers_what_is_due_and_the_sensor_sees_it(
    sandbox: Sandbox, write_config: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox.place({"url": URL, "pdf": 1})
    path = write_config(tmp_path)
    monkeypatch.setenv("DTKG_CONFIG", str(path))
    config = load_config(path, {}).value
    with dg.DagsterInstance.ephemeral() as instance:
        assert _evaluated(instance) == []
        with Catalog.open(config.catalog_location) as catalog:
            service = IngestService(catalog, config)
            submitted = service.submit(service.validate({"base_url": URL}))
        (request,) = _evaluated(instance)
        assert request.tags["docstokg/due"] == "1 priority"
        result = defs.resolve_job_def("ingest_pass").execute_in_process(instance=instance)
        assert result.success
        metadata = {
            event.asset_key.path[-1]: event.step_materialization_data.materialization.metadata
            for event in result.get_asset_materialization_events()
            if event.asset_key is not None
        }
        assert metadata["ingest_requests"]["dagster/row_count"].value == 1
        assert metadata["ingest_results"]["saved in this pass"].value == 1
        (check,) = result.get_asset_check_evaluations()
        assert (check.check_name, check.passed) == ("every_request_is_answered", True)
        assert _evaluated(instance) == []
    with Catalog.open(config.catalog_location) as catalog:
        found = IngestService(catalog, config).result(submitted.id)
        assert found is not None
        assert found.hit
        with catalog._write() as connection:  # a request that was lost, as no code of ours leaves one
            connection.exec_driver_sql("DELETE FROM ingest_file_result")
            connection.exec_driver_sql("UPDATE ingest_request SET created = created - 100000")
        assert catalog.unanswered_ingest(86_400) == 1


def _evaluated(instance: dg.DagsterInstance) -> Any:
    context = dg.build_sensor_context(instance=instance, resources={"catalog": CatalogResource()})
    result = ingest_due(context)
    assert isinstance(result, dg.SensorResult)
    return list(result.run_requests or [])
