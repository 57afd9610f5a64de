"""Whether a run's worker is still there, asked of a real broker and a real Celery worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.launcher import WorkerStatus
from dagster_celery.tags import DAGSTER_CELERY_TASK_ID_TAG

from docstokg_assets.defs.instance import celery_launcher
from docstokg_assets.defs.instance.celery_launcher import WatchedCeleryRunLauncher
from docstokg_assets_tests.support.servers import Valkey

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"


@pytest.mark.requirement("ORC-6")
def test_a_run_whose_worker_was_killed_is_told_from_one_that_works(
    valkey: Valkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, backend = f"redis://127.0.0.1:{valkey.port}/0", f"redis://127.0.0.1:{valkey.port}/1"
    launcher = WatchedCeleryRunLauncher(default_queue="dagster", broker=broker, backend=backend)
    worker = subprocess.Popen(
        [
            Path(sys.executable).with_name("celery"),
            "-A",
            "dagster_celery.app",
            "worker",
            "--concurrency=1",
            "-n",
            "w@here",
        ],
        env={**os.environ, "PYTHONPATH": str(DEPLOY), "CELERY_BROKER_URL": broker, "CELERY_RESULT_BACKEND": backend},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        while not launcher.celery.control.ping(destination=["w@here"], timeout=1):
            assert worker.poll() is None, "the worker does not start"
        run = dg.DagsterRun("a job", tags={DAGSTER_CELERY_TASK_ID_TAG: "a task"})
        launcher.celery.backend.store_result("a task", {"pid": worker.pid, "hostname": "w@here"}, "STARTED")
        assert launcher.check_run_worker_health(run).status is WorkerStatus.RUNNING
        with monkeypatch.context() as impatient:
            impatient.setattr(celery_launcher, "_ANSWERS_WITHIN_S", 2.0)
            os.kill(worker.pid, signal.SIGSTOP)
            threading.Timer(3.0, os.kill, (worker.pid, signal.SIGCONT)).start()
            assert launcher.check_run_worker_health(run).status is WorkerStatus.RUNNING, "one that stalls is not gone"
    finally:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait(10)
    gone = launcher.check_run_worker_health(run)
    assert gone.status is WorkerStatus.FAILED and "w@here does not answer" in (gone.msg or "")
    launcher.celery.backend.store_result("a task", 0, "SUCCESS")
    assert launcher.check_run_worker_health(run).status is WorkerStatus.SUCCESS
