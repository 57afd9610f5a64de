"""A source that fails for a while fails the run, and Dagster starts it again; a wrong configuration needs a person."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest

from docstokg_assets.definitions import defs
from docstokg_assets.defs.assets.openalex_works import RETRY_RUN
from docstokg_assets.sandbox import Sandbox


@pytest.mark.requirement("ORC-2")
@pytest.mark.parametrize(("fault", "again"), [({"status": 503}, True), ({"status": 401}, False)])
def test_only_a_transient_failure_of_the_source_lets_dagster_start_the_run_again(
    sandbox: Sandbox,
    tmp_path: Path,
    write_config: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    fault: dict[str, int],
    again: bool,
) -> None:
    monkeypatch.setenv("DTKG_CONFIG", str(write_config(tmp_path)))
    sandbox.add_fault(host="api.openalex.org", **fault)
    try:
        with dg.DagsterInstance.ephemeral() as instance:
            job = defs.resolve_job_def("collect_year")
            result = job.execute_in_process(partition_key="2024", instance=instance, raise_on_error=False)
            run = instance.get_run_by_id(result.run_id)
    finally:
        sandbox.clear_faults()
    assert not result.success and run is not None
    assert (RETRY_RUN.items() <= run.tags.items()) is again
