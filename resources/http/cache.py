"""The cache of answers of APIs and of landing pages, private to its user, by the rules of RFC 9111, which hishel decides.

The client looks an answer up before it sends a request and stores the answer afterwards. Whether a landing page is worth
storing is decided by the caller that reads it: a wall or a page without links may be different the next time. What is kept
holds no credentials: neither the URL nor request headers but those that Vary names, no header that could carry a key, and no
answer that repeats one. While the store is unavailable, every lookup is a miss. Files are never cached.
"""

from __future__ import annotations

import hashlib
import logging
import re
import time
import uuid
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import orjson

from resources.http.cache_stores import CacheUnavailable, RedisStore, SqliteStore, Store
from resources.http.headers import headers_cache_key
from resources.http.messages import REDIRECTS, Request, ResponseHead, Role, parse_http_date
from resources.http.redact import carries_credentials
from resources.http.settings import CacheTtlSettings, HttpSettings
from resources.mounts import refuse_network_filesystem
from resources.on_use import ModuleOnUse

if TYPE_CHECKING:
    import hishel
else:
    hishel = ModuleOnUse("hishel", without=("redis",))

log = logging.getLogger(__name__)

T = TypeVar("T")

_GONE = frozenset({404, 410})
_KEPT = frozenset({200, 203, 300}) | REDIRECTS | _GONE
_BY_DEFAULT = _KEPT - {302, 303, 307}  # these change too easily to be kept unasked (RFC 9110, 15.1)
_SAYS_HOW_LONG = re.compile(r"(?i)\b(max-age|s-maxage|no-cache|no-store)\b")
_SECRET_HEADER = re.compile(r"(?i)cookie|auth|token|secret|api-?key|session|signature|credential")
_CONDITIONS = ("if-none-match", "if-modified-since")
_FORM = "2"  # of the entries; those of another form are not found. 1 had walls among them
_LEAST_SECRET = 8  # letters; what is shorter may stand in any page by chance
_LARGEST = 8 * 1024 * 1024
_REST_S = 30.0


@dataclass(frozen=True, slots=True)
class Answer:
    head: ResponseHead
    body: bytes


@dataclass(frozen=True, slots=True)
class Visit:
    """One question to the cache: what it knows (`answer`), or on which conditions the host may be asked (`conditions`)."""

    key: str
    role: Role
    secrets: tuple[str, ...] = field(repr=False)
    request: hishel.Request
    state: hishel.AnyState
    bodies: Mapping[uuid.UUID, bytes] = field(repr=False)
    answer: Answer | None
    conditions: Mapping[str, str]


@cache
def _options() -> hishel.CacheOptions:
    return hishel.CacheOptions(shared=False, supported_methods=["GET"], allow_stale=False)


class HttpCache:
    """Thread-safe, and shared by all processes that use the same store."""

    def __init__(self, store: Store, ttl: CacheTtlSettings) -> None:
        self._store, self.ttl = store, ttl
        self._rests_until = 0.0

    @classmethod
    def open(cls, settings: HttpSettings, data_root: Path) -> HttpCache | None:
        """None when it is switched off. SettingsError when the file would lie on a network."""
        if not settings.cache_enabled:
            return None
        if settings.cache_backend == "redis":
            assert settings.cache_url is not None
            return cls(RedisStore(settings.cache_url.get_secret_value()), settings.cache_ttl)
        path = (settings.cache_dir or data_root) / "http-cache.sqlite3"
        refuse_network_filesystem(path, "http.cache_dir")
        return cls(SqliteStore(path, settings.cache_max_bytes), settings.cache_ttl)

    def close(self) -> None:
        self._store.close()

    def visit(
        self, request: Request, url: str, headers: Mapping[str, str], secrets: Mapping[str, str], *, fresh: bool = False
    ) -> Visit | None:
        """What is known about `url`; None for what the cache has nothing to do with. `secrets` are the parameters and headers
        that the host is shown besides; only that they are there makes a difference. `fresh`: the host is to be asked as if
        nothing was known; its answer replaces what is."""
        if not _cacheable(request, url):
            return None
        asked = hishel.Request("GET", url, hishel.Headers(dict(headers)))
        key = _digest(f"{_FORM} {request.role}", url, headers.get("Accept", ""), *sorted(secrets))
        entries, bodies = [], {}
        stored = None if fresh else self._if_usable(lambda: self._store.read(key))
        for variant, packed in (stored or {}).items():
            with suppress(ValueError, zlib.error):  # of another version, or damaged: as if it was not there
                entry, body = _unpacked(variant, packed, url)
                entries.append(entry)
                bodies[entry.id] = body
        state = hishel.IdleClient(options=_options()).next(asked, entries)
        answer, conditions = None, {}
        if isinstance(state, hishel.FromCache):
            answer = _answer(state.entry, bodies)
        elif isinstance(state, hishel.NeedRevalidation):
            conditions = {name: value for name in _CONDITIONS if (value := state.request.headers.get(name))}
        return Visit(key, request.role, tuple(secrets.values()), asked, state, bodies, answer, conditions)

    def settle(self, visit: Visit, head: ResponseHead, body: bytes) -> None:
        """Keep what the host answered, where that is allowed."""
        if _may_keep(visit, head, body):
            headers = self._with_lifetime(visit.role, head.status, _dated(_clean(head.headers)))
            response = hishel.Response(head.status, hishel.Headers(headers))
            decided = hishel.CacheMiss(options=_options(), request=visit.request).next(response)
            if isinstance(decided, hishel.StoreAndUse):
                self._keep(visit, head.status, _plain(decided.response.headers), body)

    def confirmed(self, visit: Visit, head: ResponseHead) -> Answer | None:
        """The stored answer, when the host says that it is still good."""
        if head.status != 304 or not isinstance(visit.state, hishel.NeedRevalidation):
            return None
        state: Any = visit.state.next(hishel.Response(304, hishel.Headers(_dated(_clean(head.headers)))))
        if isinstance(state, hishel.InvalidateEntries):
            state = state.next()
        if not isinstance(state, hishel.NeedToBeUpdated):
            return None
        entry = state.updating_entries[0]
        status = entry.response.status_code
        headers = self._with_lifetime(visit.role, status, _plain(entry.response.headers))
        if not _repeats(visit.secrets, head.headers, b""):
            self._keep(visit, status, headers, visit.bodies[entry.id])
        return Answer(ResponseHead(status, visit.request.url, headers), visit.bodies[entry.id])

    def _with_lifetime(self, role: Role, status: int, headers: Mapping[str, str]) -> dict[str, str]:
        """Where the host does not say how long its answer counts, we do."""
        rules = headers.get("cache-control", "")
        if status not in _BY_DEFAULT or "expires" in headers or _SAYS_HOW_LONG.search(rules):
            return dict(headers)
        usual = self.ttl.metadata_s if role is Role.METADATA else self.ttl.landing_s
        seconds = int(min(usual, self.ttl.negative_s) if status in _GONE else usual)
        return {**headers, "cache-control": f"{rules}, max-age={seconds}".lstrip(", ")}

    def _keep(self, visit: Visit, status: int, headers: Mapping[str, str], body: bytes) -> None:
        names = {name.strip() for name in headers.get("vary", "").split(",")} - {""}
        varying = {n: v for n in names if (v := visit.request.headers.get(n)) and not _SECRET_HEADER.search(n)}
        chosen = headers_cache_key(varying)
        meta = orjson.dumps([status, dict(chosen), dict(headers)])
        packed = zlib.compress(meta + b"\n" + body, 1)
        variant = _digest(*(f"{name}: {value}" for name, value in chosen))[:32]
        self._if_usable(lambda: self._store.write(visit.key, variant, packed))

    def _if_usable(self, use: Callable[[], T]) -> T | None:
        """Use the store; None, and no further try for a while, when it is unavailable."""
        if time.monotonic() < self._rests_until:
            return None
        try:
            return use()
        except CacheUnavailable as error:
            self._rests_until = time.monotonic() + _REST_S
            log.warning("the HTTP cache cannot be used (%s); it is left alone for %.0f s", error, _REST_S)
            return None


def _cacheable(request: Request, url: str) -> bool:
    page = request.role is not Role.ARTIFACT and request.verb == "GET" and request.sink is None
    return page and request.cache and not request.beginning_only and not carries_credentials(url)


def _may_keep(visit: Visit, head: ResponseHead, body: bytes) -> bool:
    if head.status not in _KEPT or len(body) > _LARGEST or _repeats(visit.secrets, head.headers, body):
        return False
    if head.status in REDIRECTS:  # where it leads may need the cookie, or hold a key
        return "set-cookie" not in head.headers and not carries_credentials(head.headers.get("location", ""))
    if visit.role is Role.LANDING:
        return head.status not in _GONE
    # an API's answer that is broken may be whole the next time, and a page or a line of text in its place is a wall or a refusal
    kind = head.content_type or ""
    read_as_json = "json" in kind or (kind.startswith("text/") and "xml" not in kind)
    return head.status in _GONE or not read_as_json or _is_json(body)


def _repeats(secrets: tuple[str, ...], headers: Mapping[str, str], body: bytes) -> bool:
    """Whether the answer repeats a secret that the request had."""
    shown = "\n".join(_clean(headers).values()).encode("utf-8", "replace")
    told = {form.encode() for s in secrets if len(s) >= _LEAST_SECRET for form in (s, quote(s, safe=""))}
    return any(secret in shown or secret in body for secret in told)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _unpacked(variant: str, packed: bytes, url: str) -> tuple[hishel.Entry, bytes]:
    meta, _, body = zlib.decompress(packed).partition(b"\n")
    status, chosen, headers = orjson.loads(meta)
    request = hishel.Request("GET", url, hishel.Headers(chosen))
    return hishel.Entry(uuid.UUID(hex=variant), request, hishel.Response(status, hishel.Headers(headers))), body


def _answer(entry: hishel.Entry, bodies: Mapping[uuid.UUID, bytes]) -> Answer:
    head = ResponseHead(entry.response.status_code, entry.request.url, _plain(entry.response.headers))
    return Answer(head, bodies[entry.id])


def _plain(headers: hishel.Headers) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _clean(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if not _SECRET_HEADER.search(name)}


def _dated(headers: Mapping[str, str]) -> dict[str, str]:
    """With a Date from which the age can be told by subtraction, which is all that hishel does (RFC 9111, 4.2.3)."""
    now = time.time()
    age = headers.get("age", "")
    seconds = float(age) if age.isascii() and age.isdigit() and len(age) < 10 else 0.0
    date = parse_http_date(headers.get("date", ""))
    seconds = seconds if date is None else max(seconds, now - date)
    kept = {name: value for name, value in headers.items() if name != "age"}
    return kept | {"date": formatdate(max(0.0, now - max(0.0, seconds)), usegmt=True)}


def _is_json(body: bytes) -> bool:
    try:
        orjson.loads(body)
    except ValueError:
        return False
    return True
