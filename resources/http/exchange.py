"""The vocabulary of an exchange: the generator that leads from a Request to its Response, and the steps it yields.

An exchange yields steps (`Send` this, `Pause` that long) and is sent the Reply, or None after a Pause and for a Send that did not
leave because its host was closed meanwhile. It never waits, opens no connection and holds no thread. Its drivers are
`HttpClient.request_with_retries`, which blocks, and the dispatcher, which does not. `client.py` makes exchanges.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from resources.http.attempts import AttemptLog
from resources.http.messages import Request, Response, ResponseHead, Role, Unfinished
from resources.http.settings import RetrySettings
from resources.records import Reason

if TYPE_CHECKING:
    from resources.http.cookies import Jar


@dataclass(frozen=True, slots=True)
class Send:
    """Put one hop of a request on the wire. The driver takes a permit and a token for (host, role) first."""

    request: Request
    url: str
    host: str
    headers: Mapping[str, str]
    jar: Jar
    secret_params: Mapping[str, str]
    max_bytes: int
    min_interval_s: float | None = None  # crawl-delay
    timeouts: tuple[float, float] | None = None
    unfinished: Unfinished | None = None  # a body of which only the rest is requested

    @property
    def role(self) -> Role:
        return self.request.role

    @property
    def resolver(self) -> str | None:
        return self.request.resolver


@dataclass(frozen=True, slots=True)
class Pause:
    """Continue after so many seconds. `host` and `reason` tell people what is waited for, and why. `untried`: nothing has been
    sent yet, so that a driver with many exchanges may drop this one and begin it again later."""

    seconds: float
    host: str
    reason: Reason
    untried: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to one Send."""

    head: ResponseHead
    body: bytes
    payload: Any
    bytes_read: int
    elapsed_ms: int
    waited_ms: int = 0
    went_on_at: int = 0  # bytes that an earlier try had received


Step = Send | Pause
Exchange = Generator[Step, Reply | None, Response]


@dataclass(frozen=True, slots=True)
class RequestPolicy:
    """Settings of a resolver that replace the general ones for its requests."""

    retry: RetrySettings | None = None
    timeouts: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """What stays the same through all hops and tries of one exchange. Not `patient`: do not wait for a host whose breaker is
    open, because there is other work. `fresh`: the cache is not asked, only told."""

    request: Request
    log: AttemptLog
    retry: RetrySettings
    timeouts: tuple[float, float] | None
    patient: bool
    fresh: bool = False


def reason_of_status(status: int) -> Reason:
    """The reason token of a final HTTP status."""
    if status == 429:
        return Reason.RATE_LIMITED
    if status == 408:
        return Reason.TIMEOUT
    if status >= 500:
        return Reason.HTTP_5XX
    return Reason.HTTP_4XX if status >= 400 else Reason.OK
