"""A PostgreSQL server that hangs: its port is open, nobody answers. It costs time, never works, and holds up no end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest
from pydantic import SecretStr
from sqlalchemy import text

from docstokg_assets_tests.support.servers import Postgres
from resources.catalog import database as database_module
from resources.catalog import patience as patience_module
from resources.catalog.catalog import Catalog
from resources.catalog.errors import CatalogError
from resources.catalog.rows import Batch, Finished, NewItem, Parked
from resources.records import Classification, DownloadOutcome, Reason

GONE = DownloadOutcome(False, None, Classification.ERROR, Reason.HTTP_4XX)
THREADS = 32
CONNECTIONS = 3


def finished(work_id: str) -> Finished:
    return Finished(work_id, 2024, None, None, GONE, "run", "hash", "me")


@contextmanager
def frozen(server: Postgres) -> Iterator[None]:
    server.freeze(True)
    try:
        yield
    finally:
        server.freeze(False)


@pytest.fixture
def catalog(postgres_catalog: SecretStr) -> Iterator[Catalog]:
    with Catalog.open(postgres_catalog, CONNECTIONS) as opened:
        opened.start_run("run", "pull", "hash", {})
        opened.enqueue([NewItem(f"W{n:02}", 2024, 2024, {}, "p") for n in reversed(range(2 * THREADS))], "run")
        yield opened


def connections(server: Postgres) -> int:
    with psycopg.connect(server.url) as other:
        found = other.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'docstokg-catalog'"
        ).fetchone()
    assert found is not None
    return int(found[0])


@pytest.mark.requirement("TRU-3")
@pytest.mark.parametrize("answer_s", [0.5, 30.0])  # given up and asked again on new connections, or waited for
def test_fault_52_threads_wait_for_a_server_that_hangs_and_nothing_is_lost(
    catalog: Catalog, postgres: Postgres, monkeypatch: pytest.MonkeyPatch, answer_s: float
) -> None:
    monkeypatch.setattr(patience_module, "ANSWER_S", answer_s)
    begun = threading.Barrier(THREADS + 1)

    def work() -> list[str]:
        begun.wait()
        (item,) = catalog.claim("me", 1, 600).items
        catalog.host_pause("a.example")
        assert len(catalog.heartbeat("me", 600)) >= 1
        return catalog.commit(Batch(finished=[finished(item.work_id)])).lost

    with ThreadPoolExecutor(THREADS) as threads:
        with frozen(postgres):
            works = [threads.submit(work) for _ in range(THREADS)]
            begun.wait()
            time.sleep(1.5)  # the fault itself: longer than the pool lets a thread wait at a time
            assert not any(each.done() for each in works)
        assert [each.result(60) for each in works] == [[]] * THREADS
    assert connections(postgres) <= CONNECTIONS
    assert len({entry.work_id for entry in catalog.entries()}) == THREADS
    assert catalog.queue_counts().done == THREADS and catalog.queue_counts().leased == 0


@pytest.mark.requirement("TRU-3")
def test_who_is_told_to_stop_does_not_wait_for_a_server_that_hangs(
    catalog: Catalog, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, seconds in (("STOPPING_S", 0.5), ("LAST_ANSWER_S", 0.2)):
        monkeypatch.setattr(patience_module, name, seconds)
    stop = threading.Event()
    catalog.patience.end_with(stop)
    with ThreadPoolExecutor(2 * CONNECTIONS) as threads, frozen(postgres):
        waiting = [threads.submit(catalog.claim, "me", 1, 60) for _ in range(2 * CONNECTIONS)]
        stop.set()
        for each in waiting:  # those that have a connection and those that want one
            with pytest.raises(CatalogError, match=r"postgresql://.*answer|connect"):
                each.result(20)
        began = time.monotonic()
        with pytest.raises(CatalogError):
            catalog.heartbeat("me", 60)
        catalog.close()
        assert time.monotonic() - began < 15


@pytest.mark.requirement("TRU-3")
def test_a_question_over_whole_tables_may_take_longer(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience_module, "ANSWER_S", 0.2)
    monkeypatch.setattr(database_module, "PATIENCE_S", 0.1)
    with catalog._read(slow=True) as connection:
        connection.execute(text("SELECT pg_sleep(0.8)"))
    with pytest.raises(CatalogError, match="does not answer"), catalog._read() as connection:
        connection.execute(text("SELECT pg_sleep(0.8)"))


@pytest.mark.requirement("TRU-3")
def test_a_lock_that_another_holds_for_too_long_is_waited_for_again(
    catalog: Catalog, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = "set_config('lock_timeout', '100ms', true), set_config('search_path', 'docstokg', true)"
    impatient = f"SELECT pg_current_xact_id()::text, {settings}"
    monkeypatch.setattr(database_module, "_NUMBER_AND_SETTINGS", text(impatient))
    (item,) = catalog.claim("me", 1, 60).items
    told: list[str] = []
    monkeypatch.setattr(database_module.log, "warning", lambda message, *values: told.append(message % values))
    with ThreadPoolExecutor(1) as threads, psycopg.connect(postgres.url) as other:
        other.execute("SELECT 1 FROM docstokg.queue WHERE work_id = %s FOR UPDATE", (item.work_id,))
        held = threads.submit(catalog.heartbeat, "me", 60)
        until(lambda: bool(told))
        other.rollback()
        assert held.result(30) == {item.work_id}
    assert "lock timeout" in told[0]


def until(reached: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.01)


Change = Callable[[Catalog], object]
CHANGES: dict[str, Change] = {
    "heartbeat": lambda catalog: catalog.heartbeat("me", 600),
    "release": lambda catalog: catalog.release_owner("me"),
    "commit": lambda catalog: catalog.commit(
        Batch(parked=[Parked(f"W{n:02}", {}, None, 0.0, "why", "me") for n in (3, 1, 0, 2)])
    ),
    "replan": lambda catalog: catalog.enqueue([NewItem(f"W{n:02}", 2024, 2024, {}, "q") for n in (2, 0, 3, 1)]),
    "reopen": lambda catalog: catalog.reopen((f"W{n:02}", None) for n in (2, 0, 3, 1)),
}


@pytest.mark.requirement("TRU-3")
@pytest.mark.parametrize("name", CHANGES)
def test_works_are_locked_in_one_order_whoever_locks_them(catalog: Catalog, postgres: Postgres, name: str) -> None:
    """So heartbeats and commits, of one process or of several, never wait for each other in a circle."""
    first = [f"W{n:02}" for n in range(4)]
    if name != "reopen":
        catalog.claim("me", 4, 600)
    with psycopg.connect(postgres.url, autocommit=True) as other:
        for n, work_id in enumerate(reversed(first)):  # the other way round in the table and in the index of leases
            later = "UPDATE docstokg.queue SET lease_until = lease_until + %s, not_before = %s WHERE work_id = %s"
            other.execute(later, (n, n, work_id))
    waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    free = "SELECT work_id FROM docstokg.queue WHERE work_id < 'W04' ORDER BY work_id FOR UPDATE SKIP LOCKED"
    with (
        ThreadPoolExecutor(1) as threads,
        psycopg.connect(postgres.url) as holding,
        psycopg.connect(postgres.url, autocommit=True) as looking,
    ):
        holding.execute("SELECT 1 FROM docstokg.queue WHERE work_id = 'W02' FOR UPDATE")
        changing: Future[object] = threads.submit(CHANGES[name], catalog)
        until(lambda: looking.execute(waits).fetchone() != (0,))
        left = [work_id for (work_id,) in looking.execute(free)]
        holding.rollback()
        changing.result(30)
    assert left == ["W03"]
