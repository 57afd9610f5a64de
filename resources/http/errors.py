"""Every way in which an exchange can fail, as one tree; each leaf carries the one reason token that it is recorded with.

    HttpError
    ├── RefusedError            nothing was sent
    │   ├── SchemeRefused       blocked-scheme      not https, or a URL or header that cannot be put on the wire
    │   ├── AddressRefused      blocked-address     a private, local or otherwise non-public address
    │   ├── RobotsRefused       robots              robots.txt forbids it
    │   └── RobotsUnavailable   robots-unavailable  robots.txt could not be read: forbidden for now
    ├── HostClosed              retry-after         the host asked for a pause longer than we hold a work for
    ├── BreakerOpen             breaker-open        the host failed again and again and is left alone
    ├── TransportError          something was sent, no whole answer came
    │   ├── ConnectionFailed    conn-error
    │   │   ├── KeptConnectionLost                  a connection kept from an earlier request, closed before any byte came
    │   │   └── NetworkDown                         the proxy, the network or the name server of this machine is gone
    │   ├── TlsFailed           tls-error
    │   ├── DeadlineExceeded    timeout
    │   ├── ProtocolViolation   protocol-error
    │   ├── BodyTooLarge        too-large
    │   ├── BodyTooShort        size-mismatch       fewer bytes than Content-Length said
    │   ├── BodyTruncated       truncated           the content coding or the chunks ended early
    │   ├── ChecksumMismatch    checksum-mismatch   other bytes than the server or a provider says that they are
    │   ├── ContentRefused      policy-type, policy-size, unexpected-ct   whoever takes the body does not want it
    │   └── Interrupted         interrupted         we are shutting down
    └── RedirectLoop            redirect-loop       a loop, or more than ten hops

A caller that knows only HttpError can record any of them: `error.reason` is the token, `str(error)` the sentence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from resources.errors import ExplainedError
from resources.records import Reason

if TYPE_CHECKING:
    from resources.http.messages import ResponseHead, Unfinished


class HttpError(ExplainedError):
    reason: Reason = Reason.CONN_ERROR

    def __init__(self, message: str, *, url: str = "", until: float | None = None) -> None:
        super().__init__(message)
        self.url = url
        self.until = until  # epoch seconds, where waiting would help
        # the beginning of a body that broke off, where its rest can be requested
        self.unfinished: Unfinished | None = None
        self.head: ResponseHead | None = None  # of the answer, where only its body failed


class RefusedError(HttpError):
    pass


class SchemeRefused(RefusedError):
    reason = Reason.BLOCKED_SCHEME


class AddressRefused(RefusedError):
    reason = Reason.BLOCKED_ADDRESS


class RobotsRefused(RefusedError):
    reason = Reason.ROBOTS


class RobotsUnavailable(RefusedError):
    reason = Reason.ROBOTS_UNAVAILABLE


class HostClosed(HttpError):
    reason = Reason.RETRY_AFTER


class BreakerOpen(HttpError):
    reason = Reason.BREAKER_OPEN

    def __init__(self, message: str, *, url: str = "", until: float | None = None, tried: bool = False) -> None:
        super().__init__(message, url=url, until=until)
        self.tried = tried  # the same request had failed before; else it has not been sent at all


class TransportError(HttpError):
    pass


class ConnectionFailed(TransportError):
    reason = Reason.CONN_ERROR


class KeptConnectionLost(ConnectionFailed):
    """Servers may close a kept connection at any time. It says nothing about the host or the request."""


class NetworkDown(ConnectionFailed):
    """This machine reached nobody: not its proxy, no network, no name server. It says nothing about the host."""


class TlsFailed(TransportError):
    reason = Reason.TLS_ERROR


class DeadlineExceeded(TransportError):
    reason = Reason.TIMEOUT


class ProtocolViolation(TransportError):
    reason = Reason.PROTOCOL_ERROR


class BodyTooLarge(TransportError):
    reason = Reason.TOO_LARGE


class BodyTooShort(TransportError):
    reason = Reason.SIZE_MISMATCH


class BodyTruncated(TransportError):
    reason = Reason.TRUNCATED


class ChecksumMismatch(TransportError):
    reason = Reason.CHECKSUM_MISMATCH


class ContentRefused(TransportError):
    """Raised by a sink. Its reason is the sink's, so it is given, not fixed."""

    reason = Reason.UNEXPECTED_CT

    def __init__(self, message: str, *, url: str = "", reason: Reason) -> None:
        super().__init__(message, url=url)
        self.reason = reason


class Interrupted(TransportError):
    reason = Reason.INTERRUPTED


class RedirectLoop(HttpError):
    reason = Reason.REDIRECT_LOOP


BROKEN_TRANSFERS = (ConnectionFailed, DeadlineExceeded, ProtocolViolation, BodyTooShort, BodyTruncated)
"""Errors of a transfer that may succeed when it is repeated."""
