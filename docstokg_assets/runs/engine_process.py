"""Further processes of a pass: `EngineProcesses` starts them, `main` is one of them.

Each process is a whole engine (catalog, limiter, client, recorder) that claims works of the same scope under the same run. What
they share is in the catalog, the limiter's store and the files of the run. Over a pipe the first process gets their progress,
results and log records, and sends them its stop and its configuration. A process ends when the pipe does, and so with the first
one; the works of a process that was killed are given back at once.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection, Pipe
from typing import Any

from docstokg_assets.config import ContentDownloadConfig
from docstokg_assets.engine.progress import PassResult, Progress, merge_progress, merge_results
from docstokg_assets.runs.signals import signal_handlers
from resources.catalog.catalog import Catalog
from resources.errors import ExplainedError
from resources.scope import WorkScope

log = logging.getLogger(__name__)

_MOST = 4
_LARGE = 5_000  # due works from which on a pass gets further processes
_TICK_S = 0.5
_END_S = 15.0  # how long a process without a parent may take to give its works back


@dataclass(frozen=True)
class Order:
    """What a process is to do."""

    values: Mapping[str, Any]  # of the configuration; its classes are made at run time, and cannot be sent
    run_id: str
    kind: str
    scope: WorkScope
    workers: int
    deadline_s: float | None
    max_works: int | None


@dataclass(frozen=True)
class NewSettings:
    """The configuration was reloaded."""

    values: Mapping[str, Any]


@dataclass(frozen=True)
class Started:
    owner: str


@dataclass(frozen=True)
class TakeUrl:
    """Asks which work has a URL (`download.global_url_dedupe`), and takes it for this one if none has."""

    number: int
    url: str
    work_id: str


@dataclass(frozen=True)
class UrlOwner:
    number: int
    work_id: str


@dataclass(frozen=True)
class LogLine:
    name: str
    level: int
    text: str


@dataclass(frozen=True)
class Joined:
    """What a process has of a run that another one leads: its share of the threads, and the URLs that were taken by any."""

    workers: int
    taken_urls: dict[str, str]


class Stop:
    """End the pass in order."""


def wanted_processes(config: ContentDownloadConfig, due: Callable[[], int]) -> int:
    """How many processes a pass gets. A limiter in memory counts for one process only."""
    if config.rate_limit.backend == "memory":
        return 1
    if config.processes is not None:
        return min(config.processes, config.workers)
    most = min(_MOST, os.cpu_count() or 1, config.workers)
    return most if most > 1 and due() >= _LARGE else 1


def shares(total: int, count: int) -> list[int]:
    """Split a number into `count` parts that differ by one at most."""
    return [total // count + (n < total % count) for n in range(count)]


class EngineProcesses:
    """The further processes of a pass, as a context manager: leaving it waits for their ends, or stops them after an error."""

    def __init__(
        self, orders: Sequence[Order], catalog: Catalog, stop: threading.Event, taken_urls: dict[str, str]
    ) -> None:
        self._orders, self._catalog, self._stop, self._taken_urls = orders, catalog, stop, taken_urls
        self._processes: list[_Process] = []
        self._ended = threading.Event()

    def __enter__(self) -> EngineProcesses:
        self._processes = [_Process(order, self._catalog, self._taken_urls) for order in self._orders]
        threading.Thread(target=self._forward_stop, name="engine-stop", daemon=True).start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self._tell(Stop())
        for process in self._processes:
            process.join()
        self._ended.set()

    def reload(self, config: ContentDownloadConfig) -> None:
        self._tell(NewSettings(config.model_dump()))

    def progress(self, own: Progress) -> Progress:
        """The progress of all processes."""
        return merge_progress([own, *(p.progress for p in self._processes if p.progress is not None)])

    def result(self, own: PassResult, on_progress: Callable[[Progress], None], last: Progress) -> PassResult:
        """Wait for the others, and join their results with that of the first process, whose last progress is `last`."""
        while any(process.thread.is_alive() for process in self._processes):
            for process in self._processes:
                process.thread.join(_TICK_S / len(self._processes))
            on_progress(self.progress(last))
        on_progress(self.progress(last))
        return merge_results([own, *(p.result for p in self._processes if p.result is not None)])

    def _tell(self, message: object) -> None:
        for process in self._processes:
            process.send(message)

    def _forward_stop(self) -> None:
        while not self._ended.wait(0.1):
            if self._stop.is_set():
                self._tell(Stop())
                return


class _Process:
    """One further process, and the thread that reads what it sends."""

    def __init__(self, order: Order, catalog: Catalog, taken_urls: dict[str, str]) -> None:
        self.progress: Progress | None = None
        self.result: PassResult | None = None
        self._owner: str | None = None
        self._catalog, self._taken_urls, self._lock = catalog, taken_urls, threading.Lock()
        self._pipe, theirs = Pipe()
        # -P: the working folder is the user's, and no module is taken from there
        command = [sys.executable, "-P", "-m", "docstokg_assets.runs.engine_process", str(theirs.fileno())]
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        theirs.close()
        self.send(order)
        self.thread = threading.Thread(target=self._read, name=f"engine-{self._process.pid}", daemon=True)
        self.thread.start()

    def send(self, message: object) -> None:
        with self._lock, suppress(OSError):  # it has ended
            self._pipe.send(message)

    def join(self) -> None:
        self.thread.join()

    def _read(self) -> None:
        try:
            while True:
                self._handle(self._pipe.recv())
        except (EOFError, OSError):
            pass
        code = self._process.wait()
        self._pipe.close()
        if self.result is None:
            self._give_back(code)

    def _handle(self, message: object) -> None:
        match message:
            case Started(owner):
                self._owner = owner
            case Progress():
                self.progress = message
            case PassResult():
                self.result = message
            case TakeUrl(number, url, work_id):
                self.send(UrlOwner(number, self._taken_urls.setdefault(url, work_id)))
            case LogLine(name, level, text):
                logging.getLogger(name).log(level, "%s", text)

    def _give_back(self, code: int) -> None:
        """Give back the works of a process that ended without a result; the other processes take them over."""
        try:
            works = self._catalog.release_owner(self._owner) if self._owner is not None else 0
            if self._owner is not None:
                self._catalog.free_groups(self._owner)
        except ExplainedError as error:
            log.warning("a process of this pass has ended (code %d); its works wait for their leases: %s", code, error)
            return
        log.warning("a process of this pass has ended (code %d); %d works go to the others", code, works)
        if self.progress is not None:
            self.progress = replace(self.progress, open=0, waiting=(), active_hosts=())


# -- the further process ----------------------------------------------------------------------------------------------


class _SharedUrls(dict[str, str]):
    """The URLs that were taken, by all processes: the first one keeps them."""

    def __init__(self, send: Callable[[object], None]) -> None:
        super().__init__()
        self._send, self._lock = send, threading.Lock()
        self._answers: dict[int, tuple[threading.Event, list[str]]] = {}

    def setdefault(self, url: str, work_id: str) -> str:
        came, answer = threading.Event(), list[str]()
        with self._lock:
            number = len(self._answers)
            while number in self._answers:
                number += 1
            self._answers[number] = came, answer
        self._send(TakeUrl(number, url, work_id))
        came.wait()
        with self._lock:
            del self._answers[number]
        return answer[0]

    def answered(self, number: int, work_id: str) -> None:
        came, answer = self._answers[number]
        answer.append(work_id)
        came.set()


class _Forward(logging.Handler):
    def __init__(self, send: Callable[[object], None]) -> None:
        super().__init__(logging.INFO)
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        self._send(LogLine(record.name, record.levelno, text))


def main(pipe: Connection) -> None:
    """Make one pass as ordered, and send its result."""
    from docstokg_assets.runs.run import DownloadRun
    from docstokg_assets.runs.services import open_services

    order: Order = pipe.recv()
    lock, stop, runs = threading.Lock(), threading.Event(), list[DownloadRun]()

    def send(message: object) -> None:
        with lock, suppress(OSError):  # the first process has ended, and this one is about to
            pipe.send(message)

    urls = _SharedUrls(send)

    def listen() -> None:
        try:
            while True:
                message: Any = pipe.recv()
                if isinstance(message, Stop):
                    stop.set()
                elif isinstance(message, UrlOwner):
                    urls.answered(message.number, message.work_id)
                elif isinstance(message, NewSettings) and runs:
                    runs[0].reload_with(partial(ContentDownloadConfig.model_validate, message.values))
        except (EOFError, OSError):
            stop.set()
            threading.Timer(_END_S, os._exit, (1,)).start()

    def on_stop(*_: object) -> None:
        if stop.is_set():
            os._exit(130)
        stop.set()

    for logger in (logging.getLogger(name) for name in ("docstokg_assets", "resources")):
        logger.setLevel(logging.INFO)
        logger.addHandler(_Forward(send))
        logger.propagate = False
    threading.Thread(target=listen, name="listen", daemon=True).start()
    with signal_handlers({signal.SIGTERM: on_stop, signal.SIGINT: on_stop, signal.SIGHUP: lambda *_: None}):
        with open_services(ContentDownloadConfig.model_validate(order.values)) as services:
            send(Started(services.owner))
            joined = Joined(order.workers, urls)
            with DownloadRun(services, order.run_id, kind=order.kind, stop=stop, joined=joined) as run:
                runs.append(run)
                limits: dict[str, Any] = {"deadline_s": order.deadline_s, "max_works": order.max_works}
                result = run.drain(order.scope, on_progress=send, **limits)
        send(result)


if __name__ == "__main__":
    # Under its own name the module is another one than the messages of the first process come from.
    from docstokg_assets.runs import engine_process

    try:
        engine_process.main(Connection(int(sys.argv[1])))
    except ExplainedError as error:
        logging.getLogger(engine_process.__name__).warning("%s", error)
        sys.exit(2)
