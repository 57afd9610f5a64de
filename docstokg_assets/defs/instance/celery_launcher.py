"""Runs on the Celery workers of several machines. Named in deploy/dagster.yaml; needs the extra `celery`.

The launcher of dagster-celery starts and terminates runs. This one adds a check whether the worker's machine is gone.
"""

import dagster as dg
from dagster_celery.launcher import CeleryRunLauncher
from dagster_celery.tags import DAGSTER_CELERY_TASK_ID_TAG

from docstokg_assets.defs.instance.dagster_internals import CheckRunHealthResult, WorkerStatus

_ANSWERS_WITHIN_S = 5.0
_PINGS = 2  # a run that is declared dead by mistake goes on beside its replacement


class WatchedCeleryRunLauncher(CeleryRunLauncher):
    """Pings the worker of a run: Celery reports a task as started for ever, also when its worker was killed."""

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        health = super().check_run_worker_health(run)
        if health.status is not WorkerStatus.RUNNING:
            return health
        started = self.celery.AsyncResult(run.tags[DAGSTER_CELERY_TASK_ID_TAG]).info
        worker = started.get("hostname") if isinstance(started, dict) else None
        if worker is None or any(self._answers(worker) for _ in range(_PINGS)):
            return health
        message = f"The Celery worker {worker} does not answer; its machine or its process is gone."
        return CheckRunHealthResult(WorkerStatus.FAILED, message)

    def _answers(self, worker: str) -> bool:
        return bool(self.celery.control.ping(destination=[worker], timeout=_ANSWERS_WITHIN_S))
