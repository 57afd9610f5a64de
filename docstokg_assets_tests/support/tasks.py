"""Build the parts of the engine without a catalog, a network or each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from typing import Any, cast

from docstokg_assets.domain.works import Work
from docstokg_assets.engine.request_queues import Task
from docstokg_assets.engine.search_state import SearchState
from resources.catalog.rows import QueueItem
from resources.clock import SystemClock
from resources.http.attempts import AttemptLog
from resources.http.exchange import Send
from resources.http.messages import Request, Role
from resources.rate_limit.limiter import Allowance, Limiter
from resources.rate_limit.settings import Rate
from resources.records import AttemptRecord


class SettableClock(SystemClock):
    """Stands still until it is moved."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def monotonic(self) -> float:
        return self.now


class FakeLimiter:
    """Each host is a group of its own; `answers` says what `enter` returns or raises for it, 0.0 otherwise."""

    def __init__(self, per_second: float = 10.0) -> None:
        self.per_second = per_second
        self.answers: dict[str, Any] = {}
        self.left: Counter[str] = Counter()

    def policy_for(self, host: str, role: str, resolver: str | None = None, interval: float | None = None) -> Allowance:
        return Allowance(host, ((host, Rate(self.per_second, 1)),), None)

    def enter(self, allowance: Allowance) -> float | None:
        answer = self.answers.get(allowance.group, 0.0)
        if isinstance(answer, Exception):
            raise answer
        return cast("float | None", answer)

    def leave(self, allowance: Allowance) -> None:
        self.left[allowance.group] += 1

    def as_limiter(self) -> Limiter:
        return cast("Limiter", self)


def send_to(host: str) -> Send:
    url = f"https://{host}/"
    return Send(Request(url, Role.METADATA), url, host, {}, cast("Any", {}), {}, 1000)


def task(
    work_id: str = "W1",
    search: Generator[Any, Any, Any] | None = None,
    *,
    request: Request | None = None,
    emit: Callable[[AttemptRecord], None] = lambda record: None,
) -> Task:
    item = QueueItem(work_id, 2024, 0, {}, "plan", None, None, 0)
    log = AttemptLog(emit, SystemClock(), "run", "worker", lambda: 1, work_id, 2024)
    made = Task(item, Work(work_id), SearchState(), search or cast("Any", (_ for _ in ())), log)
    made.batchable = request
    return made
