"""Limits that are counted in the SQLite file: after a reboot, and what happens when the file cannot be used."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from resources.rate_limit.limiter import Allowance, Limiter
from resources.rate_limit.settings import Rate, RateLimitSettings
from resources.rate_limit.stores import LimiterUnavailable

SETTINGS = RateLimitSettings()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "root" / "limits.sqlite3"


@pytest.fixture
def limiter(path: Path) -> Iterator[Limiter]:
    opened = Limiter.open(SETTINGS, path)
    yield opened
    opened.close()


def one_in(seconds: float) -> Allowance:
    return Allowance("g", (("key", Rate(1 / seconds)),), None)


@pytest.mark.requirement("HTTP-11")
def test_a_new_file_that_another_process_is_just_making_is_waited_for(path: Path) -> None:
    path.parent.mkdir()
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    other.execute("CREATE TABLE limits (key TEXT PRIMARY KEY, state TEXT NOT NULL) WITHOUT ROWID")
    threading.Timer(0.3, lambda: other.execute("COMMIT")).start()
    limiter = Limiter.open(SETTINGS, path)
    assert limiter.enter(one_in(60)) == 0.0
    limiter.close()
    other.close()


@pytest.mark.requirement("HTTP-11")
def test_many_threads_of_one_process_stay_within_the_limit(limiter: Limiter) -> None:
    allowance, times, end = one_in(0.05), list[float](), time.monotonic() + 0.6

    def go() -> None:
        while time.monotonic() < end:
            if limiter.enter(allowance) == 0.0:
                times.append(time.monotonic())
            time.sleep(0.001)

    threads = [threading.Thread(target=go) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 5 <= len(times) <= 12


@pytest.mark.requirement("HTTP-11")
def test_a_state_from_before_a_reboot_does_not_block(limiter: Limiter, path: Path) -> None:
    """The monotonic clock begins anew, so that the times in the file lie far ahead."""
    assert limiter.enter(one_in(0.1)) == 0.0
    with sqlite3.connect(path) as file:
        file.execute("UPDATE limits SET state = ?", (str(int((time.monotonic() + 1e7) * 1e6)),))
    deadline = time.monotonic() + 5
    while (wait := limiter.enter(one_in(0.1))) != 0.0:
        assert wait is not None and wait <= 0.2
        assert time.monotonic() < deadline, "blocked"
        time.sleep(wait)


@pytest.mark.requirement("HTTP-11")
def test_a_file_that_became_a_directory_stops_requests(limiter: Limiter, path: Path) -> None:
    assert limiter.enter(one_in(0.001)) == 0.0
    for file in path.parent.iterdir():
        file.unlink()
    path.mkdir()
    for _ in range(3):
        time.sleep(0.01)
        with pytest.raises(LimiterUnavailable, match=str(path)):
            limiter.enter(one_in(0.001))
    path.rmdir()
    assert limiter.enter(one_in(0.001)) == 0.0  # and they go on when it is back


@pytest.mark.requirement("HTTP-11")
def test_a_folder_that_is_gone_stops_requests(limiter: Limiter, path: Path) -> None:
    shutil.rmtree(path.parent)
    with pytest.raises(LimiterUnavailable):
        limiter.enter(one_in(0.001))
    assert not path.parent.exists()


@pytest.mark.requirement("HTTP-11")
def test_a_file_that_was_replaced_is_counted_in_by_all(limiter: Limiter, path: Path) -> None:
    """Otherwise this process would count in the old one and the next in the new one: twice the limit."""
    assert limiter.enter(Allowance("g", (("other key", Rate(1.0)),), None)) == 0.0
    for file in path.parent.iterdir():
        file.unlink()
    other = Limiter.open(SETTINGS, path)
    assert other.enter(one_in(60)) == 0.0
    assert limiter.enter(one_in(60)) != 0.0
    other.close()


@pytest.mark.requirement("HTTP-11")
def test_a_file_that_is_no_database_stops_requests(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("this is not a database, and long enough to be read as one" * 100)
    with pytest.raises(LimiterUnavailable, match="not a database"):
        Limiter.open(SETTINGS, path)


@pytest.mark.requirement("HTTP-11")
def test_a_place_that_cannot_be_written_to_stops_requests(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(LimiterUnavailable):
        Limiter.open(SETTINGS, tmp_path / "file" / "limits.sqlite3")


@pytest.mark.requirement("HTTP-11")
@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_file_without_permissions_stops_requests(limiter: Limiter, path: Path) -> None:
    path.chmod(0)
    with pytest.raises(LimiterUnavailable):
        Limiter.open(SETTINGS, path)


@pytest.mark.requirement("HTTP-11")
def test_a_file_that_somebody_holds_stops_requests_until_it_is_free(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resources.rate_limit.sqlite_limits._BUSY_S", 0.1)
    limiter = Limiter.open(SETTINGS, path)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(LimiterUnavailable, match="locked"):
        limiter.enter(one_in(0.001))
    holder.execute("ROLLBACK")
    assert limiter.enter(one_in(0.001)) == 0.0
    limiter.close()
    holder.close()
