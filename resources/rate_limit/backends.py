"""Opens the backend that is configured, and sees to it that a process that counts alone is alone on its data root."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyrate_limiter import StateStore

from resources.mounts import refuse_network_filesystem
from resources.rate_limit.root_lock import RootLock
from resources.rate_limit.settings import RateLimitSettings
from resources.rate_limit.stores import LimiterUnavailable, MemoryStores, Stores


@dataclass(frozen=True, slots=True)
class OpenedStores:
    """A backend together with its place among the processes of the data root."""

    stores: Stores
    lock: RootLock

    def store(self, key: str) -> StateStore:
        return self.stores.store(key)

    def close(self) -> None:
        self.stores.close()
        self.lock.close()


def open_stores(settings: RateLimitSettings, path: Path) -> Stores:
    """`path` is the limiter's file in the data root; what other backends keep there lies beside it."""
    lock = _lock(settings, path.with_suffix(".lock"))
    try:
        return OpenedStores(_open(settings, path), lock)
    except BaseException:
        lock.close()
        raise


def _open(settings: RateLimitSettings, path: Path) -> Stores:
    # Imported when wanted: a server's client is not loaded by those who use none.
    if settings.backend == "memory":
        return MemoryStores()
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
    try:
        return RootLock(path, exclusive=alone)
    except BlockingIOError:
        raise LimiterUnavailable(_taken(path.parent, alone)) from None
    except OSError as error:
        raise LimiterUnavailable(
            f"the lock {path} cannot be used: {error.strerror or error}. No request goes out until it can be read and written."
        ) from error


def _taken(root: Path, alone: bool) -> str:
    if alone:
        return (
            f"rate_limit.backend is memory, which counts for one process, and another one works on {root}: together they would "
            "ask too often. Wait for it to end, or set rate_limit.backend to sqlite for both."
        )
    return (
        f"another process works on {root} with rate_limit.backend memory, which counts for that one alone: together they would "
        "ask too often. Wait for it to end, or set rate_limit.backend to sqlite there."
    )
