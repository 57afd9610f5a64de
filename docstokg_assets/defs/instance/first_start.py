"""Prepare a Dagster instance: `python -m docstokg_assets.defs.instance.first_start`, once, before anything else starts.

Dagster creates its tables, and the rows of a pool, on first use, and does not expect two processes to do so at the same moment:
a new SQLite file is damaged, a run on PostgreSQL fails. Limits that were set before are left unchanged.
"""

import fcntl
import os
import sys
from pathlib import Path

import dagster as dg

_OPENALEX_AT_ONCE = 1  # all runs share one daily budget


def make_ready(home: Path) -> None:
    """Create tables and pools under a lock, so that several processes of a machine may call this at once."""
    with (home / ".ready.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with dg.DagsterInstance.get() as instance:
            instance.upgrade()
            pools = instance.event_log_storage
            known = {pool.name for pool in pools.get_pool_limits()}
            limits = {
                "openalex": _OPENALEX_AT_ONCE,
                "downloads": instance.get_concurrency_config().pool_config.default_pool_limit,
            }
            for name, limit in limits.items():
                if name not in known and limit is not None:
                    pools.set_concurrency_slots(name, limit)


if __name__ == "__main__":
    home = os.environ.get("DAGSTER_HOME")
    if not home or not (Path(home) / "dagster.yaml").is_file():
        sys.exit("DAGSTER_HOME must name a folder with a dagster.yaml; `make instance` makes one in .dagster.")
    make_ready(Path(home))
