"""The catalog behind a pooler that gives each transaction another session, as PgBouncer does in transaction mode."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from pydantic import SecretStr
from sqlalchemy import event

from docstokg_assets_tests.support.servers import Postgres, free_port
from resources.catalog.catalog import Catalog
from resources.catalog.rows import Batch, Finished, NewItem
from resources.records import Classification, DownloadOutcome, Reason

GONE = DownloadOutcome(False, None, Classification.ERROR, Reason.HTTP_4XX)
WORKS = 300


def work_off(catalog: Catalog, owner: str) -> int:
    done = 0
    while items := catalog.claim(owner, 20, 60).items:
        assert catalog.heartbeat(owner, 60) == {item.work_id for item in items}
        ended = [Finished(item.work_id, 2024, None, None, GONE, "run", "", owner) for item in items]
        assert not catalog.commit(Batch(finished=ended)).lost
        catalog.last_numbers()
        done += len(items)
    return done


def fill(catalog: Catalog) -> None:
    catalog.start_run("run", "pull", "", {})
    catalog.enqueue([NewItem(f"W{n}", 2024, 0, {}, "plan") for n in range(WORKS)], "run")


@pytest.mark.requirement("CAT-1")
def test_a_transaction_needs_nothing_of_the_session_before_it(postgres_catalog: SecretStr) -> None:
    with Catalog.open(postgres_catalog) as catalog:

        @event.listens_for(catalog._engine, "checkin")
        def forget(connection: psycopg.Connection, record: object) -> None:
            connection.autocommit = True
            connection.execute("DISCARD ALL")
            connection.autocommit = False

        fill(catalog)
        assert work_off(catalog, "me") == WORKS
        with catalog.export_turn():
            assert len(list(catalog.entries())) == WORKS


@pytest.fixture
def pooled() -> Iterator[SecretStr]:
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        pytest.skip("needs the program pgbouncer")
    server, port = Postgres(), free_port()
    server.start()
    folder = server._folder / "pooler"
    folder.mkdir()
    (folder / "users").write_text(f'"tester" "{server.password}"\n')
    settings = {
        "listen_addr": "127.0.0.1",
        "listen_port": port,
        "auth_type": "scram-sha-256",
        "auth_file": folder / "users",
        "pool_mode": "transaction",
        "default_pool_size": 3,
        "unix_socket_dir": "",
    }
    lines = ["[databases]", f"postgres = host=127.0.0.1 port={server.port} dbname=postgres", "[pgbouncer]"]
    (folder / "ini").write_text("\n".join([*lines, *(f"{name} = {value}" for name, value in settings.items()), ""]))
    as_user = ["-u", "nobody"] if os.geteuid() == 0 else []
    pooler = subprocess.Popen([program, "-q", *as_user, str(folder / "ini")], stderr=subprocess.DEVNULL)
    url, end = server.url.replace(f":{server.port}/", f":{port}/"), time.monotonic() + 20
    try:
        while True:
            try:
                psycopg.connect(url, connect_timeout=2).close()
                break
            except psycopg.OperationalError:
                assert time.monotonic() < end, "PgBouncer does not start"
                time.sleep(0.05)
        yield SecretStr(url)
    finally:
        pooler.terminate()
        pooler.wait(10)
        server.remove()


@pytest.mark.requirement("CAT-1")
def test_processes_share_the_few_connections_of_pgbouncer(pooled: SecretStr) -> None:
    def of_one(number: int) -> int:
        with Catalog.open(pooled, 3) as catalog:
            return work_off(catalog, f"process-{number}")

    with Catalog.open(pooled) as catalog, ThreadPoolExecutor(6) as pool:
        fill(catalog)
        assert sum(pool.map(of_one, range(6))) == WORKS
        assert catalog.queue_counts().done == WORKS
        with catalog.export_turn():
            assert len({entry.revision for entry in catalog.entries()}) == WORKS
