"""Runs as processes of one machine. Named in dagster.yaml.

The default launcher starts runs: the code server starts a process for each, and reports when one dies. This launcher adds what is
missing once the code server is gone too (killed, or the machine was restarted): it detects that a run has no process any more,
and can terminate one that still has.
"""

import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

import dagster as dg

from docstokg_assets.defs.instance.dagster_internals import (
    CheckRunHealthResult,
    ConfigurableClassData,
    DagsterUserCodeUnreachableError,
    DefaultRunLauncher,
    UserConfigSchema,
    WorkerStatus,
)
from resources.processes import epoch_of, pid_unused, process_start_time, processes_since

_SLACK_S = 5.0  # between the clock of the run's events and that of the kernel


class _RunProcess(NamedTuple):
    """The process of a run, as the run's own event reported it."""

    pid: int
    reported_at: float


class WatchedRunLauncher(DefaultRunLauncher):
    """Default launcher with a health check: looks for the process of a run, also of a run from a shell.

    A run is reported as dead only when its process has been gone for `gone_after_seconds`: Dagster tries once to start it again,
    and fails if the code server is not back by then.
    """

    def __init__(self, gone_after_seconds: float, inst_data: ConfigurableClassData | None = None) -> None:
        super().__init__(inst_data)
        self._gone_after_s = gone_after_seconds
        self._gone_since: dict[str, float] = {}
        self._births: dict[str, tuple[int, float | None]] = {}  # run id → pid and start time of its process

    @classmethod
    def config_type(cls) -> UserConfigSchema:
        return {"gone_after_seconds": dg.Field(float)}

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData, config_value: Mapping[str, Any]) -> Self:
        return cls(inst_data=inst_data, **config_value)

    @property
    def supports_check_run_worker_health(self) -> bool:
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        why, now = self._why_gone(run), time.monotonic()
        if why is None:
            self._gone_since.pop(run.run_id, None)
        elif now - self._gone_since.setdefault(run.run_id, now) >= self._gone_after_s:
            kept = "What it has done is kept. It is started again, twice at most; after that launch it again."
            return CheckRunHealthResult(WorkerStatus.FAILED, f"{why} {kept}")
        return CheckRunHealthResult(WorkerStatus.RUNNING)

    def _why_gone(self, run: dg.DagsterRun) -> str | None:
        process = self._process_of(run.run_id)
        if process is not None and self._lives(run.run_id, process):
            return None
        record = self._instance.get_run_record_by_id(run.run_id)
        if record and record.start_time and record.start_time + _SLACK_S < processes_since():
            return "The machine (or container) of the run was started anew."
        return f"Process {process.pid} of the run is gone, and nothing says why." if process else None

    def _lives(self, run_id: str, process: _RunProcess) -> bool:
        """Whether the process with this pid is the run's. It is not when it started after the run reported its pid. Once seen, it
        is recognised by its start time, also when the clock is set or the machine was paused."""
        if pid_unused(process.pid):
            return False
        birth = process_start_time(process.pid)
        if self._births.get(run_id) == (process.pid, birth):
            return True
        if birth is not None and epoch_of(birth) > process.reported_at + _SLACK_S:
            return False
        self._births[run_id] = (process.pid, birth)
        return True

    def terminate(self, run_id: str) -> bool:
        ask_code_server: Callable[[str], bool] = super().terminate
        try:
            return ask_code_server(run_id)
        except DagsterUserCodeUnreachableError:
            process = self._process_of(run_id)
            if process is None or not self._lives(run_id, process) or not _is_of_a_code_server(process.pid):
                raise
            os.kill(process.pid, signal.SIGINT)  # as the code server does it
            return True

    def _process_of(self, run_id: str) -> _RunProcess | None:
        """The process that the run reported last."""
        events = self._instance.all_logs(run_id, of_type=dg.DagsterEventType.ENGINE_EVENT)
        for event in reversed(list(events)):
            pid = event.get_dagster_event().engine_event_data.metadata.get("pid")
            if pid is not None:
                return _RunProcess(int(str(pid.value)), event.timestamp)
        return None


def _is_of_a_code_server(pid: int) -> bool:
    """Whether the process is one that a code server started; another program may have been given the same pid since."""
    try:
        return b"multiprocessing" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
