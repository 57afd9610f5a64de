"""Make a Dagster instance ready: `python -m docstokg_assets.defs.instance.first_start`, once, before anything else starts.

Dagster makes its tables, and the rows of a pool, when they are first needed, and does not expect two processes to need them
at the same moment: a new SQLite file is damaged, a run on PostgreSQL fails. Limits that somebody has set are left as they are.
"""

import fcntl
import os
import sys
from pathlib import Path

import dagster as dg

_OPENALEX_AT_ONCE = 1  # its budget of a day is one


def make_ready(home: Path) -> None:
    """Safe for several processes of a machine: one does it, the others wait."""
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
