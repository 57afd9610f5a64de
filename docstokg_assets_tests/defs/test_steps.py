"""How a step gets its configuration, and how it ends when somebody or something ends its process."""

import os
import signal
import time
from pathlib import Path

import dagster as dg
import pytest

from docstokg_assets.defs.steps import configuration, handle_step_errors
from resources.dagster_resources import CatalogResource, HttpClientResource, RateLimiterResource
from resources.settings import SettingsError


@pytest.mark.requirement("ORC-2")
@pytest.mark.parametrize(
    ("ending", "status"), [(signal.SIGINT, dg.DagsterRunStatus.CANCELED), (signal.SIGTERM, dg.DagsterRunStatus.FAILURE)]
)
def test_ctrl_c_cancels_a_run_in_the_middle_of_any_step(ending: signal.Signals, status: dg.DagsterRunStatus) -> None:
    before = signal.getsignal(signal.SIGINT)

    @dg.op
    def listing(context: dg.OpExecutionContext) -> None:
        with handle_step_errors(context):
            os.kill(os.getpid(), ending)
            time.sleep(30)

    @dg.job
    def alone() -> None:
        listing()

    with dg.DagsterInstance.ephemeral() as instance:
        with pytest.raises(dg.DagsterExecutionInterruptedError):
            alone.execute_in_process(instance=instance)
        (run,) = instance.get_runs()
        assert run.status is status
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.requirement("CFG-1", "CFG-3")
def test_a_step_loads_one_file_and_each_resource_overrides_its_own_section(tmp_path: Path) -> None:
    file = tmp_path / "cd.yaml"
    file.write_text("workers: 3\nhttp: {timeout_read_s: 50}\n")
    config = configuration(
        CatalogResource(config_file=str(file)),
        RateLimiterResource(config_file=str(file), overrides={"backend": "memory"}),
        HttpClientResource(config_file=str(file), overrides={"timeout_read_s": 7.0}),
    )
    assert (config.workers, config.rate_limit.backend, config.http.timeout_read_s) == (3, "memory", 7.0)
    with pytest.raises(SettingsError, match=r"unknown key http\.colour"):
        configuration(HttpClientResource(config_file=str(file), overrides={"colour": "blue"}))
    with pytest.raises(SettingsError, match="different files"):
        configuration(CatalogResource(config_file=str(file)), HttpClientResource(config_file="other.yaml"))
