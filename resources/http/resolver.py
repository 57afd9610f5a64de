"""Resolve host names within a deadline: the system's resolver has none, and a name server that hangs would hold every thread."""

from __future__ import annotations

import ipaddress
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

_MOST = 64  # lookups under way at once
_LOOK_S = 0.25  # interval at which a thread that waits checks whether its request was cut

Addresses = list[tuple[Any, ...]]  # as `socket.getaddrinfo` returns them


class _Lookup:
    """A lookup under way, in a thread of its own. Requests for the same name share it."""

    def __init__(self) -> None:
        self.result: Addresses | OSError | None = None


class NameResolver:
    """Thread-safe. A lookup whose requests have all given up goes on in its thread; it is not repeated meanwhile."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._lookups: dict[tuple[str, int], _Lookup] = {}

    def resolve(self, host: str, port: int, seconds: float, check: Callable[[], None]) -> Addresses:
        """The addresses of a name. OSError when there are none, TimeoutError after `seconds`. `check` raises when the request
        that needs them was cut."""
        if _is_address(host):
            return list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        key, end, lookup = (host, port), time.monotonic() + seconds, None
        with self._changed:
            while lookup is None or lookup.result is None:
                lookup = lookup or self._begin(key)
                if lookup is not None and lookup.result is not None:
                    break
                if (left := end - time.monotonic()) <= 0:
                    raise TimeoutError(f"no name server has answered for {host} in {seconds:.0f} s")
                self._changed.wait(min(left, _LOOK_S))
                check()
        if isinstance(lookup.result, OSError):
            raise lookup.result
        return lookup.result

    def _begin(self, key: tuple[str, int]) -> _Lookup | None:
        """The lookup of a name, started if it was not under way. None when there are too many."""
        if (known := self._lookups.get(key)) is not None:
            return known
        if len(self._lookups) >= _MOST:
            return None
        lookup = self._lookups[key] = _Lookup()
        threading.Thread(target=self._look_up, args=(key, lookup), name="name-lookup", daemon=True).start()
        return lookup

    def _look_up(self, key: tuple[str, int], lookup: _Lookup) -> None:
        result: Addresses | OSError
        try:
            result = list(socket.getaddrinfo(*key, type=socket.SOCK_STREAM))
        except OSError as error:
            result = error
        except ValueError as error:  # a name that cannot be encoded
            result = OSError(str(error))
        with self._changed:
            lookup.result = result
            del self._lookups[key]
            self._changed.notify_all()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
