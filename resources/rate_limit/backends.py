"""Open the configured limiter backend, and make sure that a process that counts in memory is alone on its data root."""

from __future__ import annotations

from pathlib import Path

from resources.errors import translate_errors
from resources.mounts import refuse_network_filesystem
from resources.rate_limit.advance import TokensInAdvance
from resources.rate_limit.root_lock import RootLock
from resources.rate_limit.settings import RateLimitSettings
from resources.rate_limit.stores import LimiterUnavailable, LimitStore, MemoryLimits

_ALONE_REFUSED = (
    "rate_limit.backend is memory, which counts for one process, and another one works on {root}: together they would send too "
    "many requests. Wait for it to end, or set rate_limit.backend to sqlite for both."
)
_SHARED_REFUSED = (
    "another process works on {root} with rate_limit.backend memory, which counts for that one alone: together they would send "
    "too many requests. Wait for it to end, or set rate_limit.backend to sqlite there."
)


def open_limits(settings: RateLimitSettings, path: Path) -> tuple[LimitStore, RootLock]:
    """The configured store and the process's lock on the data root, both to be closed by the caller. `path` is the limiter's
    file in the data root; other backends keep their files beside it."""
    lock = _lock(settings, path.with_suffix(".lock"))
    try:
        return _open(settings, path), lock
    except BaseException:
        lock.close()
        raise


def _open(settings: RateLimitSettings, path: Path) -> LimitStore:
    if settings.backend == "memory":
        return MemoryLimits()
    return TokensInAdvance(_shared(settings, path))


def _shared(settings: RateLimitSettings, path: Path) -> LimitStore:
    # Imported on use, so that a server's client library is loaded only where it is needed.
    if settings.backend == "redis":
        from resources.rate_limit.redis_limits import RedisLimits

        assert settings.redis_url is not None
        return RedisLimits(settings.redis_url)
    if settings.backend == "postgres":
        from resources.rate_limit.postgres_limits import PostgresLimits

        assert settings.connection_string is not None
        return PostgresLimits(settings.connection_string)
    refuse_network_filesystem(path)  # machines that share a folder share no clock
    if settings.backend == "multiprocess":
        from resources.rate_limit.file_limits import FileLimits

        return FileLimits(path.with_suffix(".d"))
    from resources.rate_limit.sqlite_limits import SqliteLimits

    return SqliteLimits(path)


def _lock(settings: RateLimitSettings, path: Path) -> RootLock:
    alone = settings.backend == "memory"

    def unavailable(error: OSError) -> LimiterUnavailable:
        if not isinstance(error, BlockingIOError):
            problem, remedy = error.strerror or error, "No request goes out until it can be read and written."
            return LimiterUnavailable(f"the lock {path} cannot be used: {problem}. {remedy}")
        message = _ALONE_REFUSED if alone else _SHARED_REFUSED
        return LimiterUnavailable(message.format(root=path.parent))

    with translate_errors(OSError, unavailable):
        return RootLock(path, exclusive=alone)
