"""Runs as processes of one machine. Named in dagster.yaml.

Starting runs is the default launcher's: the code server starts a process for each, and tells when one dies. Here is what nobody
does once the code server is gone too (killed, or the machine was started anew): noticing that a run has no process any more, and
ending one that still has.
"""

import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

import dagster as dg
from dagster._config.config_schema import UserConfigSchema
from dagster._core.errors import DagsterUserCodeUnreachableError
from dagster._core.launcher import CheckRunHealthResult, DefaultRunLauncher, WorkerStatus
from dagster._serdes import ConfigurableClassData

from resources.processes import epoch_of, pid_unused, process_start_time, processes_since

_SLACK_S = 5.0  # between the clock of the run's events and that of the kernel


class _Told(NamedTuple):
    """The process of a run, and when the run has told it."""

    number: int
    at: float


class WatchedRunLauncher(DefaultRunLauncher):
    """The default launcher cannot tell whether a run is alive. Here its process is looked for, also of a run from a shell.

    A run is told as dead only when its process has been gone for `gone_after_seconds`: Dagster tries once to start it again, and
    fails if the code server is not back by then.
    """

    def __init__(self, gone_after_seconds: float, inst_data: ConfigurableClassData | None = None) -> None:
        super().__init__(inst_data)
        self._gone_after_s = gone_after_seconds
        self._gone_since: dict[str, float] = {}
        self._births: dict[str, tuple[int, float | None]] = {}  # of the processes of runs, with their numbers

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
        told = self._process_of(run.run_id)
        if told is not None and self._lives(run.run_id, told):
            return None
        record = self._instance.get_run_record_by_id(run.run_id)
        if record and record.start_time and record.start_time + _SLACK_S < processes_since():
            return "The machine (or container) of the run was started anew."
        return f"Process {told.number} of the run is gone, and nobody has told why." if told else None

    def _lives(self, run_id: str, told: _Told) -> bool:
        """Whether the process that has the number now is the run's. It is not when it began after the run has told of it; one
        that was seen to be the run's once is known by its birth, also when the clock is set or the machine paused."""
        if pid_unused(told.number):
            return False
        birth = process_start_time(told.number)
        if self._births.get(run_id) == (told.number, birth):
            return True
        if birth is not None and epoch_of(birth) > told.at + _SLACK_S:
            return False
        self._births[run_id] = (told.number, birth)
        return True

    def terminate(self, run_id: str) -> bool:
        ask_code_server: Callable[[str], bool] = super().terminate
        try:
            return ask_code_server(run_id)
        except DagsterUserCodeUnreachableError:
            told = self._process_of(run_id)
            if told is None or not self._lives(run_id, told) or not _is_of_a_code_server(told.number):
                raise
            os.kill(told.number, signal.SIGINT)  # as the code server does it
            return True

    def _process_of(self, run_id: str) -> _Told | None:
        """What the run itself has told last."""
        events = self._instance.all_logs(run_id, of_type=dg.DagsterEventType.ENGINE_EVENT)
        for event in reversed(list(events)):
            pid = event.get_dagster_event().engine_event_data.metadata.get("pid")
            if pid is not None:
                return _Told(int(str(pid.value)), event.timestamp)
        return None


def _is_of_a_code_server(number: int) -> bool:
    """Nobody else's process is to be ended because it was given the same number later."""
    try:
        return b"multiprocessing" in Path(f"/proc/{number}/cmdline").read_bytes()
    except OSError:
        return False
