"""Prepare a Dagster instance: `python -m docstokg_assets.defs.instance.first_start`, before anything else starts, and again after
a change of dagster.yaml or an upgrade.

Dagster creates its tables, and the rows of a pool, on first use, and does not expect two processes to do so at the same moment:
a new SQLite file is damaged, a run on PostgreSQL fails. A limit that changed in dagster.yaml is applied. One that a person has
set since (in the UI, or with `dagster instance concurrency set`) stays until dagster.yaml changes.
"""

import fcntl
import json
import os
import sys
from pathlib import Path

import dagster as dg

from docstokg_assets.defs.instance.run_queue import NewestYearFirst

_BY_DEFAULT = "downloads"  # the pool with the limit `default_limit`
_APPLIED = "content_download/pool_limits"  # the limits of dagster.yaml that were applied last


def make_ready(home: Path) -> None:
    """Create tables and pools under a lock, so that several processes of a machine may call this at once."""
    with (home / ".ready.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with dg.DagsterInstance.get() as instance:
            instance.upgrade()
            _apply_limits(instance)


def _apply_limits(instance: dg.DagsterInstance) -> None:
    pools, memory = instance.event_log_storage, instance.daemon_cursor_storage
    wanted = _configured(instance)
    applied: dict[str, int] = json.loads(memory.get_cursor_values({_APPLIED}).get(_APPLIED) or "{}")
    known = {pool.name for pool in pools.get_pool_limits()}
    for name, limit in wanted.items():
        if name not in known or applied.get(name) != limit:
            if name == _BY_DEFAULT:
                pools.initialize_concurrency_limit_to_default(name)  # the daemon follows its changes, too
            else:
                pools.set_concurrency_slots(name, limit)
    memory.set_cursor_values({_APPLIED: json.dumps(wanted)})


def _configured(instance: dg.DagsterInstance) -> dict[str, int]:
    """The limits of dagster.yaml by pool."""
    coordinator = instance.run_coordinator
    limits = dict(coordinator.pool_limits) if isinstance(coordinator, NewestYearFirst) else {}
    default = instance.get_concurrency_config().pool_config.default_pool_limit
    return limits if default is None else {_BY_DEFAULT: default, **limits}


if __name__ == "__main__":
    home = os.environ.get("DAGSTER_HOME")
    if not home or not (Path(home) / "dagster.yaml").is_file():
        sys.exit("DAGSTER_HOME must name a folder with a dagster.yaml; `make instance` makes one in .dagster.")
    make_ready(Path(home))
