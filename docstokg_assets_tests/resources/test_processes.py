"""Who holds a lease: living processes are never taken for dead, whatever their number means elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from resources import processes
from resources.processes import epoch_of, new_owner, pid_unused, process_is_gone, process_start_time, processes_since


@pytest.mark.requirement("CAT-2")
def test_a_process_that_has_ended_is_known_as_gone_and_a_living_one_is_not() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", "from resources.processes import new_owner; print(new_owner())"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    assert process_is_gone(ended)
    assert not process_is_gone(new_owner())
    assert new_owner() != new_owner()


@pytest.mark.requirement("CAT-2", "ORC-6")
@pytest.mark.parametrize("part", ["_BOOT", "_TABLE"])
def test_a_number_of_another_table_of_processes_is_not_judged(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two containers with one name, or one machine after another boot: 999999999 is nobody here, and may be somebody there."""
    (tmp_path / "_BOOT").write_text("another boot")
    (tmp_path / "_TABLE").symlink_to("pid:[4026530000]")
    monkeypatch.setattr(processes, part, tmp_path / part)
    processes._place.cache_clear()
    there = new_owner().replace(f":{os.getpid()}:", ":999999999:")
    assert process_is_gone(there)
    monkeypatch.undo()
    processes._place.cache_clear()
    assert not process_is_gone(there)


@pytest.mark.requirement("CAT-2")
def test_where_the_kernel_tells_nothing_the_host_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_BOOT", tmp_path / "nothing")
    processes._place.cache_clear()
    try:
        assert process_is_gone(new_owner().replace(f":{os.getpid()}:", ":999999999:"))
        assert not process_is_gone(new_owner())
    finally:
        processes._place.cache_clear()


@pytest.mark.requirement("CAT-2")
def test_a_process_that_has_ended_and_was_not_buried_is_gone() -> None:
    process = subprocess.Popen(["true"])
    end = time.monotonic() + 30
    while not pid_unused(process.pid):
        assert time.monotonic() < end
        time.sleep(0.01)
    assert Path(f"/proc/{process.pid}").exists(), "nobody has asked for its exit code"
    process.wait()


@pytest.mark.requirement("ORC-2")
def test_processes_are_there_since_the_start_of_the_machine() -> None:
    """Not before the boot, and in a container some time after it; not after any process that is here."""
    booted = time.time() - float(Path("/proc/uptime").read_text().split()[0])
    ours = process_start_time(os.getpid())
    assert ours is not None
    assert booted - 5 < processes_since() <= epoch_of(ours) + 1


@pytest.mark.requirement("ORC-2")
def test_a_process_is_as_old_as_it_is() -> None:
    before = time.time()
    process = subprocess.Popen(["sleep", "600"])
    try:
        birth = process_start_time(process.pid)
        assert birth is not None and before - 1 < epoch_of(birth) < time.time() + 1
        time.sleep(0.1)
        assert process_start_time(process.pid) == birth, "whenever it is asked"
    finally:
        process.kill()
        process.wait()
    assert process_start_time(process.pid) is None
