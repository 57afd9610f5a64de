"""A PostgreSQL server that goes away in the middle: transactions are done again, whole, and never twice."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import psycopg
import pytest
from pydantic import SecretStr
from sqlalchemy import text

from docstokg_assets_tests.support.configs import spent_today
from docstokg_assets_tests.support.servers import Postgres, free_port
from resources.catalog import database as database_module
from resources.catalog.catalog import Catalog
from resources.catalog.errors import CatalogError
from resources.catalog.rows import Batch, Finished, NewItem
from resources.records import Classification, DownloadOutcome, Reason

GONE = DownloadOutcome(False, None, Classification.ERROR, Reason.HTTP_4XX)


def finished(work_id: str) -> Finished:
    return Finished(work_id, 2024, None, None, GONE, "run", "hash", "me")


class Cutter:
    """A wire to the server that is cut when the answer to a COMMIT comes back: the server has done it, nobody hears of it."""

    def __init__(self, port: int) -> None:
        self._target = port
        self.cuts_left = 0
        self.cuts = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._target))
            committing = threading.Event()
            threading.Thread(target=self._up, args=(client, server, committing), daemon=True).start()
            threading.Thread(target=self._down, args=(server, client, committing), daemon=True).start()

    def _up(self, client: socket.socket, server: socket.socket, committing: threading.Event) -> None:
        try:
            while data := client.recv(65536):
                if self.cuts_left and data.startswith(b"Q") and b"COMMIT" in data:
                    committing.set()
                server.sendall(data)
        except OSError:
            pass
        _cut(server)

    def _down(self, server: socket.socket, client: socket.socket, committing: threading.Event) -> None:
        try:
            while data := server.recv(65536):
                if committing.is_set():
                    self.cuts_left -= 1
                    self.cuts += 1
                    break
                client.sendall(data)
        except OSError:
            pass
        _cut(client)


def _cut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)  # which also wakes whoever reads there
    end.close()


@pytest.fixture
def wire(postgres: Postgres) -> Iterator[Cutter]:
    cutter = Cutter(postgres.port)
    yield cutter
    cutter.close()


@pytest.fixture
def catalog(postgres_catalog: SecretStr, postgres: Postgres, wire: Cutter) -> Iterator[Catalog]:
    address = SecretStr(postgres_catalog.get_secret_value().replace(f":{postgres.port}/", f":{wire.port}/"))
    with Catalog.open(address) as opened:
        opened.start_run("run", "pull", "hash", {})
        opened.enqueue([NewItem(f"W{n}", 2024, 2024, {}, "p") for n in range(4)], "run")
        yield opened


@pytest.mark.requirement("CAT-2")
def test_a_claim_whose_answer_was_lost_is_the_claim_that_was_made(catalog: Catalog, wire: Cutter) -> None:
    wire.cuts_left = 1
    assert [work.work_id for work in catalog.claim("me", 2, 60).items] == ["W0", "W1"]
    assert wire.cuts == 1
    assert catalog.queue_counts().leased == 2


@pytest.mark.requirement("CAT-1")
def test_a_commit_whose_answer_was_lost_is_neither_repeated_nor_taken_for_lost(catalog: Catalog, wire: Cutter) -> None:
    catalog.claim("me", 2, 60)
    wire.cuts_left = 1
    assert catalog.commit(Batch(finished=[finished("W0"), finished("W1")])).lost == []
    assert wire.cuts == 1
    assert [(entry.work_id, entry.revision) for entry in catalog.entries()] == [("W0", 1), ("W1", 2)]


def test_a_transaction_whose_very_number_was_lost_in_a_crash_was_not_committed(catalog: Catalog) -> None:
    """A server that crashed gives out the numbers again that it had not written down: to it, ours is of the future."""
    assert catalog._was_committed(str(2**40 + 879)) is False
    with catalog._write() as connection:
        number = connection.scalar(text("SELECT pg_current_xact_id()::text"))
    assert number is not None and catalog._was_committed(number)


@pytest.mark.requirement("CAT-1")
def test_a_transaction_that_is_cut_off_in_its_middle_is_done_again_from_its_start(
    catalog: Catalog, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog.claim("me", 2, 60)
    asked = 0
    really = database_module.now_of

    def now_of(connection: object) -> float:
        nonlocal asked
        asked += 1
        if asked == 1:
            with psycopg.connect(postgres.url, autocommit=True) as other:
                other.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'docstokg-catalog'"
                )
        return really(connection)  # type: ignore[arg-type]

    monkeypatch.setattr("resources.catalog.catalog.now_of", now_of)
    assert catalog.commit(Batch(finished=[finished("W0")])).lost == []
    assert asked == 2
    assert [entry.revision for entry in catalog.entries()] == [1]


@pytest.mark.requirement("CAT-1")
def test_reading_outcomes_and_giving_money_back_wait_for_the_server_too(
    catalog: Catalog, postgres: Postgres, wire: Cutter
) -> None:
    catalog.claim("me", 1, 60)
    catalog.commit(Batch(finished=[finished("W0")]))
    day = catalog.spend("paid", 0.02, 1.0).day
    cut_off = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'docstokg-catalog'"
    with psycopg.connect(postgres.url, autocommit=True) as other:
        other.execute(cut_off)
        assert [entry.work_id for entry in catalog.entries_of(["W0"])] == ["W0"]
        other.execute(cut_off)
        wire.cuts_left = 1
        catalog.give_back("paid", 0.01, day)
    assert wire.cuts == 1
    assert spent_today(catalog, "paid") == pytest.approx(0.01)  # given back once


@pytest.mark.requirement("CAT-2")
def test_a_work_that_is_claimed_at_the_same_moment_is_not_opened_again(
    catalog: Catalog, postgres: Postgres, postgres_catalog: SecretStr
) -> None:
    waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    with psycopg.connect(postgres.url) as claiming, psycopg.connect(postgres.url, autocommit=True) as looking:
        claiming.execute(
            "UPDATE docstokg.queue SET state = 'leased', lease_owner = 'me', lease_until = 9e9 WHERE work_id = 'W0'"
        )
        opened: list[int] = []
        thread = threading.Thread(target=lambda: opened.append(catalog.reopen([("W0", None), ("W1", None)])))
        thread.start()
        while looking.execute(waits).fetchone() == (0,):
            pass
        claiming.commit()
        thread.join()
    assert opened == [1]
    assert catalog.lease_owners() == {"me"}


@pytest.mark.requirement("CAT-1")
def test_patience_with_a_server_that_stays_away_has_an_end(
    postgres: Postgres, postgres_catalog: SecretStr, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "PATIENCE_S", 0.3)
    with Catalog.open(postgres_catalog) as catalog:
        postgres.stop()
        try:
            with pytest.raises(
                CatalogError, match=r"postgresql://127\.0\.0\.1:\d+/postgres failed: .*Start the server"
            ):
                catalog.claim("me", 1, 60)
        finally:
            postgres.start()
        assert catalog.claim("me", 1, 60).items == []  # and when it is back, all is well


@pytest.mark.requirement("CAT-1")
def test_a_server_that_cannot_be_used_is_told_at_once_with_the_remedy_and_without_the_password(
    postgres: Postgres,
) -> None:
    nobody = f"postgresql://tester:{postgres.password}@127.0.0.1:{free_port()}/postgres"
    stranger = postgres.url.replace(postgres.password, "canary-of-a-wrong-one")
    missing = postgres.url.replace("/postgres", "/nowhere")
    for url, told in (
        (nobody, r"refused.*Start the server, or correct storage\.url"),
        (stranger, r"password authentication failed.*Check the user and the password in storage\.url"),
        (missing, r"\"nowhere\" does not exist.*Create it on the server"),
    ):
        with pytest.raises(CatalogError, match=told) as caught:
            Catalog.open(SecretStr(url))
        assert "canary" not in str(caught.value)
