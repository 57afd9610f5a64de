"""The plan of every statement on a hot path, as the database itself explains it: nothing is sorted, nothing is walked over that
grows with the queue. The statements are those that the catalog really sends, not copies of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text

from resources.catalog.catalog import Catalog
from resources.catalog.database import Location
from resources.catalog.rows import Batch, Finished, NewItem, Parked
from resources.records import Classification, DownloadOutcome, Reason
from resources.scope import ALL_WORKS, WorkScope

YEARS = 10
WORKS = 6_000
GONE = DownloadOutcome(False, None, Classification.ERROR, Reason.HTTP_4XX)
NEWEST = (2009, 0)
SLOW = frozenset(f"host{n}.org" for n in range(10))
# What a plan on PostgreSQL may not have. A sort is allowed where it puts a handful of works in the order of locks.
WALKS = re.compile(r"Seq Scan on (queue|catalog_entries|attempts|run_works)")
# "SCAN queue" alone, or by an index without a condition, reads all of it; counting leases reads the few that there are.
SCANS = re.compile(r"SCAN (queue|catalog_entries|attempts|run_works)(?! USING (COVERING )?INDEX queue_(leased|ready))")
# Small tables are quicker to read and sort whole; what counts is what it does when it would be dear.
UNLESS_IT_MUST = "; ".join(
    f"SET LOCAL enable_{way} = off" for way in ("seqscan", "sort", "incremental_sort", "bitmapscan")
)


def item(n: int) -> NewItem:
    year = None if n % 50 == 0 else 2000 + n % YEARS
    return NewItem(f"W{n:06}", year, year or 0, {"n": n}, "plan", f"host{n % 40}.org")


def finished(work_id: str, owner: str) -> Finished:
    return Finished(work_id, 2001, None, None, GONE, "run", "hash", owner, retry_at=None)


@pytest.fixture
def catalog(location: Location) -> Iterator[Catalog]:
    """With works in every state, most of them of another run."""
    with Catalog.open(location) as opened:
        for run in ("run", "other"):
            opened.start_run(run, "pull", "hash", {})
        opened.enqueue((item(n) for n in range(WORKS)), "other")
        opened.enqueue((item(n) for n in range(0, WORKS, 7)), "run")
        far = opened.now() + 10_000
        for owner, settled in (("a", True), ("b", False)):
            held = opened.claim(owner, 1_000, 600).items
            ids = [work.work_id for work in held]
            if settled:
                opened.commit(Batch(finished=[finished(work_id, owner) for work_id in ids]))
            else:
                opened.commit(Batch(parked=[Parked(i, {}, "host1.org", far, "why", owner) for i in ids]))
        opened.claim("me", 64, 600)
        if not isinstance(location, Path):
            with opened._write() as connection:
                connection.execute(text("ANALYZE"))
        yield opened


@contextmanager
def explained(catalog: Catalog, plans: list[tuple[str, str]]) -> Iterator[None]:
    """Explain every statement before it is sent."""
    in_file = catalog._in_file

    def explain(connection: Any, cursor: Any, statement: str, values: Any, context: Any, many: bool) -> tuple[str, Any]:
        if re.match(r"\s*(SELECT|UPDATE|DELETE|INSERT)", statement) and "set_config" not in statement:
            asking = connection.connection.driver_connection.cursor()
            one = values[0] if many else values
            if not in_file:
                asking.execute(UNLESS_IT_MUST)
            asking.execute(f"EXPLAIN {'QUERY PLAN ' if in_file else ''}{statement}", one)
            plans.append((statement, "\n".join(str(row[-1]) for row in asking.fetchall())))
            asking.close()
        return statement, values

    event.listen(catalog._engine, "before_cursor_execute", explain, retval=True)
    try:
        yield
    finally:
        event.remove(catalog._engine, "before_cursor_execute", explain)


HOT: dict[str, Callable[[Catalog], object]] = {
    "claim of a year": lambda c: c.claim("x", 64, 60, WorkScope(2004)),
    "claim of the newest year": lambda c: c.claim("x", 64, 60, WorkScope(NEWEST)),
    "claim of a run": lambda c: c.claim("x", 64, 60, WorkScope(run_id="run")),
    "claim of all": lambda c: c.claim("x", 64, 60),
    "claim without some groups": lambda c: c.claim("x", 64, 60, left_out=SLOW),
    "claim of a year without some groups": lambda c: c.claim("x", 64, 60, WorkScope(NEWEST), left_out=SLOW),
    "claim of a run behind a position": lambda c: c.claim(
        "x", 64, 60, WorkScope(run_id="run"), after=(2005, "W000500")
    ),
    "claim of nothing": lambda c: c.claim("x", 64, 60, WorkScope(1900)),
    "heartbeat": lambda c: c.heartbeat("me", 60),
    "commit": lambda c: c.commit(Batch(finished=[finished("W000009", "me"), finished("W000019", "me")])),
    "due by year": lambda c: c.due_by_year(),
    "next due": lambda c: [c.next_due(), c.next_due(2009), c.next_due(run_id="run")],
    "outlook": lambda c: [c.outlook(ALL_WORKS), c.outlook(WorkScope(NEWEST)), c.outlook(WorkScope(None, "run"))],
    "outcomes of a year": lambda c: list(c.entries(year=2009)),
    "outcomes of the newest year": lambda c: list(c.entries(year=NEWEST)),
    "outcomes settled by a run": lambda c: list(c.entries(settled_by="run")),
}


@pytest.mark.requirement("TRU-8")
def test_no_hot_statement_sorts_or_walks_over_the_queue(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resources.catalog.database._PAGE", 50)
    bad = []
    for name, act in HOT.items():
        plans: list[tuple[str, str]] = []
        with explained(catalog, plans):
            act(catalog)
        assert plans, name
        for statement, plan in plans:
            locks_by_id = "ORDER BY queue.work_id" in statement and "READY" not in statement
            sorts = ("TEMP B-TREE" in plan or "Sort" in plan) and not locks_by_id
            if sorts or (SCANS if catalog._in_file else WALKS).search(plan):
                bad.append(f"{name}: {' '.join(statement.split())}\n{plan}")
    assert bad == [], "\n\n".join(bad)
