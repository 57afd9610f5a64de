"""Find out whether this machine can still reach the network, by opening connections without sending a request."""

from __future__ import annotations

import base64
import socket
from collections.abc import Iterable
from contextlib import closing
from urllib.parse import unquote, urlsplit

from resources.http.resolver import NameResolver
from resources.http.settings import HttpSettings

_PATIENCE_S = 3.0  # for each connection
_CREDENTIALS_WANTED = 407


def why_unreachable(settings: HttpSettings, hosts: Iterable[tuple[str, int]], none_left: bool) -> str | None:
    """Why neither the proxy nor any of `hosts` (name and port) can be reached, with the remedy; None when one of them can, or
    when it is not known. `none_left`: no request has left this machine."""
    known = list(hosts)
    if settings.proxy:
        return _behind_proxy(settings.proxy, known)
    if not known and none_left:
        return "no name can be resolved, or there is no route. Check the network and the name server."
    return _directly(known)


def _directly(hosts: list[tuple[str, int]]) -> str | None:
    failure: OSError | None = None
    for host, port in hosts:
        try:
            _connect(host, port).close()
            return None
        except OSError as error:
            failure = error
    if failure is None:
        return None
    names = ", ".join(host for host, _ in hosts)
    return f"hosts that answered before cannot be reached any more ({names}: {_name(failure)}). Check the network."


def _behind_proxy(proxy: str, hosts: list[tuple[str, int]]) -> str | None:
    parts = urlsplit(proxy)
    name, port = parts.hostname or "", parts.port or 80
    shown, failure = f"the proxy {name}:{port}", ""
    credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else None
    try:
        _connect(name, port).close()
    except OSError as error:
        return f"{shown} cannot be reached ({_name(error)}). Start it, or correct http.proxy."
    for host, target in hosts:
        try:
            status = _tunnel(name, port, f"{host}:{target}", credentials)
        except OSError as error:
            failure = f"{shown} does not answer ({_name(error)}). Restart it."
            continue
        if 200 <= status < 300:
            return None
        if status == _CREDENTIALS_WANTED:
            return f"{shown} refuses its user or password (status {status}). Correct http.proxy."
        failure = f"{shown} cannot reach {host}, which answered before (status {status}). Check its network."
    return failure or None


def _connect(host: str, port: int) -> socket.socket:
    """To the first address that accepts. The names are the proxy's and those of hosts that the guard has let through."""
    failure: OSError = OSError("the name has no address")
    for family, kind, protocol, _, address in NameResolver().resolve(host, port, _PATIENCE_S, lambda: None):
        sock = socket.socket(family, kind, protocol)
        sock.settimeout(_PATIENCE_S)
        try:
            sock.connect(address)
            return sock
        except OSError as error:
            failure = error
            sock.close()
    raise failure


def _tunnel(proxy: str, port: int, target: str, credentials: str | None) -> int:
    """The status with which the proxy answers to CONNECT; OSError when it does not."""
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if credentials is not None:
        lines.append(f"Proxy-Authorization: Basic {base64.b64encode(credentials.encode()).decode()}")
    with closing(_connect(proxy, port)) as sock:
        sock.sendall("\r\n".join((*lines, "", "")).encode())
        answer = sock.recv(64)
    words = answer.split(None, 2)
    if len(words) < 2 or not words[1].isdigit():
        raise OSError("no answer to CONNECT")
    return int(words[1])


def _name(error: OSError) -> str:
    return type(error).__name__
