"""How a step ends when somebody or something ends its process."""

import os
import signal
import time

import dagster as dg
import pytest

from docstokg_assets.defs.steps import handle_step_errors


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
