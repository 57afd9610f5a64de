"""Translate the errors of sockets, TLS, urllib3 and requests into the tree of `errors.py`."""

from __future__ import annotations

import http.client
import ssl
import sys
from collections.abc import Iterator
from typing import NamedTuple

import requests
import urllib3

from resources.http import errors
from resources.http.watchdog import Watched

_LIBRARY_ERRORS = (OSError, ValueError, http.client.HTTPException, urllib3.exceptions.HTTPError)
_TLS_ERRORS = (ssl.SSLError, urllib3.exceptions.SSLError, requests.exceptions.SSLError)
_INVALID = (http.client.HTTPException, requests.exceptions.InvalidHeader, ValueError)


class _Row(NamedTuple):
    """An error becomes `error` when it, or one of the errors that caused it, is one of `kinds`. `{kind}` in the text is the name
    of the first cause; its message may contain secrets."""

    kinds: tuple[type[BaseException], ...]
    error: type[errors.HttpError]
    text: str
    outermost: bool = False  # its causes do not count


_TABLE = (  # the first row that fits counts
    _Row(
        (TimeoutError,), errors.DeadlineExceeded, "no answer in time: {kind}"
    ),  # urllib3's own includes refused connections
    _Row((ssl.SSLEOFError, ssl.SSLZeroReturnError), errors.ConnectionFailed, "connection closed: {kind}"),
    _Row(_TLS_ERRORS, errors.TlsFailed, "TLS failed: {kind}"),
    _Row((urllib3.exceptions.IncompleteRead,), errors.BodyTooShort, "the body is shorter than its Content-Length"),
    _Row((ConnectionError,), errors.ConnectionFailed, "connection failed: {kind}"),
    _Row((http.client.IncompleteRead,), errors.BodyTruncated, "the body ended early: {kind}"),
    _Row((urllib3.exceptions.ProtocolError,), errors.BodyTruncated, "the body ended early: {kind}", outermost=True),
    _Row(_INVALID, errors.ProtocolViolation, "the answer cannot be understood: {kind}"),
    _Row((BaseException,), errors.ConnectionFailed, "connection failed: {kind}"),
)


class translate_wire_errors:  # a context manager, used like a function; a class, because it is faster
    """Raise library errors as HttpErrors. An error of a socket that the watchdog shut is raised as the watchdog's reason."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched

    def __enter__(self) -> None:
        self._outer = sys.exception()

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if not isinstance(error, Exception):
            return
        self._watched.check()
        if isinstance(error, errors.HttpError):
            error.url = error.url or self._watched.url
        elif isinstance(error, _LIBRARY_ERRORS):
            raise _translated(list(_causes(error, self._outer)), self._watched.url) from error


def _translated(causes: list[BaseException], url: str) -> errors.HttpError:
    for kinds, error, text, outermost in _TABLE:
        if any(isinstance(cause, kinds) for cause in (causes[:1] if outermost else causes)):
            return error(text.format(kind=type(causes[-1]).__name__), url=url)
    raise AssertionError("the last row fits every error")


def _causes(error: BaseException, outer: BaseException | None) -> Iterator[BaseException]:
    """The error, its cause, the cause of that, and so on, up to what was being handled before."""
    found: BaseException | None = error
    while found is not None and found is not outer:
        yield found
        found = found.__cause__ or found.__context__
