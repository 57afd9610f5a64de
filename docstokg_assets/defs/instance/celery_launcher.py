"""Runs on the Celery workers of several machines. Named in deploy/dagster.yaml; needs the extra `celery`.

Starting and ending runs is the launcher's of dagster-celery. Here is only what it leaves out: noticing that a machine is gone.
"""

import dagster as dg
from dagster._core.launcher import CheckRunHealthResult, WorkerStatus
from dagster_celery.launcher import CeleryRunLauncher
from dagster_celery.tags import DAGSTER_CELERY_TASK_ID_TAG

_ANSWERS_WITHIN_S = 5.0
_TIMES = 2  # a run that is given up by mistake goes on beside the one that takes its place


class WatchedCeleryRunLauncher(CeleryRunLauncher):
    """Celery says "started" of a task for ever, also when its worker was killed. So the worker itself is asked."""

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        health = super().check_run_worker_health(run)
        if health.status is not WorkerStatus.RUNNING:
            return health
        started = self.celery.AsyncResult(run.tags[DAGSTER_CELERY_TASK_ID_TAG]).info
        worker = started.get("hostname") if isinstance(started, dict) else None
        if worker is None or any(self._answers(worker) for _ in range(_TIMES)):
            return health
        said = f"The Celery worker {worker} does not answer; its machine or its process is gone."
        return CheckRunHealthResult(WorkerStatus.FAILED, said)

    def _answers(self, worker: str) -> bool:
        return bool(self.celery.control.ping(destination=[worker], timeout=_ANSWERS_WITHIN_S))
