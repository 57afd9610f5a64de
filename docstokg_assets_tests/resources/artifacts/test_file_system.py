"""The store on a file system: durable in order, nothing outside its root, links not followed. The rest is in the contract."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import resources
from resources.artifacts import file_system
from resources.artifacts.file_system import FileSystemStore, PartFile
from resources.artifacts.store import NameTaken, StoreError, StoreFull

PROJECT = Path(resources.__file__).parents[1]
SHA256 = "0" * 64  # a file system believes what it is told


@pytest.fixture
def store(tmp_path: Path) -> FileSystemStore:
    return FileSystemStore(tmp_path / "root")


def put(store: FileSystemStore, path: str, *chunks: bytes) -> None:
    part = store.begin(path.rpartition("/")[0])
    for chunk in chunks:
        part.write(chunk)
    store.commit(part, path, SHA256)


def files(store: FileSystemStore, under: str = "") -> list[str]:
    return [found.path for found in store.iter_files(under)]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.requirement("DL-4")
def test_bytes_reach_the_disk_before_the_name_and_the_name_before_the_return(
    store: FileSystemStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = store.begin("PDF")
    part.write(b"x")
    steps: list[str] = []
    fsync, rename = os.fsync, file_system.rename_new

    def seen_fsync(fd: int) -> None:
        steps.append(f"fsync {Path(os.readlink(f'/proc/self/fd/{fd}')).name[:5]}")
        fsync(fd)

    def seen_rename(*args: Any) -> None:
        steps.append("rename")
        rename(*args)

    monkeypatch.setattr(os, "fsync", seen_fsync)
    monkeypatch.setattr(file_system, "rename_new", seen_rename)
    store.commit(part, "PDF/x.pdf", SHA256)
    assert steps == ["fsync .part", "rename", "fsync PDF"]


@pytest.mark.requirement("DL-4")
def test_new_folders_are_durable_too(store: FileSystemStore, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(Path(os.readlink(f"/proc/self/fd/{fd}")).name))
    store.begin("cas/ab").discard()
    assert synced == ["root", "cas"]
    store.begin("cas/ab").discard()
    assert synced == ["root", "cas"]


@pytest.mark.requirement("DL-4")
@pytest.mark.parametrize("step", ["os.fsync", "file_system.rename_new"])
def test_a_process_killed_while_it_commits_leaves_no_file_under_the_final_name(tmp_path: Path, step: str) -> None:
    script = f"""
import os, signal, sys
from pathlib import Path
from resources.artifacts.file_system import FileSystemStore
from resources.artifacts import file_system
store = FileSystemStore(Path(sys.argv[1]))
part = store.begin("PDF")
part.write(b"x" * 100_000)
{step} = lambda *args, **kw: os.kill(os.getpid(), signal.SIGKILL)
store.commit(part, "PDF/x.pdf", "{SHA256}")
"""
    ended = subprocess.run([sys.executable, "-c", script, str(tmp_path)], cwd=PROJECT)
    assert ended.returncode == -signal.SIGKILL
    store = FileSystemStore(tmp_path)
    assert files(store) == []
    assert store.stale_parts(3600, "PDF") == []  # it may still be in use
    (left,) = store.stale_parts(-1, "PDF")
    assert left.path.startswith("PDF/.part-") and store.delete(left.path)
    put(store, "PDF/x.pdf", b"again")
    assert files(store) == ["PDF/x.pdf"]


def test_discarding_after_commit_keeps_the_file(store: FileSystemStore) -> None:
    part = store.begin("PDF")
    store.commit(part, "PDF/x.pdf", SHA256)
    part.discard()
    assert store.exists("PDF/x.pdf")


@pytest.mark.requirement("DL-4")
def test_a_part_can_be_moved_to_another_folder(store: FileSystemStore) -> None:
    put(store, "PDF/x.pdf", b"same")
    part = store.begin("PDF")  # its first bytes then said something else
    part.write(b"<html>")
    store.commit(part, "HTML/x.html", SHA256)
    put(store, "notes.txt", b"n")
    assert files(store) == ["notes.txt", "HTML/x.html", "PDF/x.pdf"]
    assert files(store, "HTML") == ["HTML/x.html"]
    assert files(store, "XML") == []


@pytest.mark.requirement("DL-4")
def test_a_link_at_the_target_takes_the_name_and_is_not_followed(store: FileSystemStore, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_bytes(b"precious")
    (store.root / "PDF").mkdir()
    (store.root / "PDF" / "x.pdf").symlink_to(outside)
    assert not store.exists("PDF/x.pdf") and files(store) == []
    with pytest.raises(StoreError, match=r"PDF/x\.pdf.*links are not followed"):
        store.open_read("PDF/x.pdf")
    with pytest.raises(NameTaken):
        put(store, "PDF/x.pdf", b"new")
    assert outside.read_bytes() == b"precious"


@pytest.mark.requirement("TRU-1")
@pytest.mark.parametrize("kernel", [True, False], ids=["renameat2", "link"])
def test_a_name_is_taken_in_one_step(store: FileSystemStore, monkeypatch: pytest.MonkeyPatch, kernel: bool) -> None:
    if not kernel:
        monkeypatch.setattr(file_system, "_RENAMEAT2", None)
    put(store, "PDF/x.pdf", b"one")
    part = store.begin("PDF")
    part.write(b"other")
    with pytest.raises(NameTaken):
        store.commit(part, "PDF/x.pdf", SHA256)
    assert store.commit(part, "PDF/x~2.pdf", SHA256).own
    assert names(store.root / "PDF") == ["x.pdf", "x~2.pdf"] and (store.root / "PDF/x.pdf").read_bytes() == b"one"


@pytest.mark.requirement("DL-4")
def test_a_link_in_place_of_a_folder_is_refused(store: FileSystemStore, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (store.root / "PDF").symlink_to(outside, target_is_directory=True)
    with pytest.raises(StoreError, match="links are not followed"):
        store.begin("PDF")
    part = store.begin("")
    with pytest.raises(StoreError, match="links are not followed"):
        store.commit(part, "PDF/x.pdf", SHA256)
    (outside / "x.pdf").write_bytes(b"x")
    with pytest.raises(StoreError, match="links are not followed"):
        store.delete("PDF/x.pdf")
    assert names(outside) == ["x.pdf"] and names(store.root) == ["PDF"]


@pytest.mark.requirement("DL-4")
def test_a_link_waiting_at_the_temporary_name_is_not_followed(
    store: FileSystemStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda size: "guessed")
    outside = tmp_path / "outside.txt"
    (store.root / ".part-guessed").symlink_to(outside)
    with pytest.raises(StoreError, match="part-guessed: File exists"):
        store.begin("")
    assert not outside.exists()


def test_a_folder_that_was_swapped_for_a_link_does_not_lead_a_part_astray(
    store: FileSystemStore, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    part = store.begin("PDF")
    (store.root / "PDF").rename(store.root / "old")
    (store.root / "PDF").symlink_to(outside, target_is_directory=True)
    part.discard()
    assert names(store.root / "old") == [] and names(outside) == []


@pytest.mark.requirement("DL-4")
def test_a_full_disk_has_its_own_error_and_leaves_nothing(tmp_path: Path) -> None:
    # /dev/full answers every write as a full disk does
    (tmp_path / ".part-x").touch()
    part = PartFile(tmp_path / ".part-x", os.open(tmp_path, os.O_RDONLY), os.open("/dev/full", os.O_WRONLY))
    with pytest.raises(StoreFull, match=r"\.part-x: No space left on device\. Free some space"):
        part.write(b"x")
    assert names(tmp_path) == []


@pytest.mark.requirement("DL-4")
def test_a_root_that_cannot_be_used_is_refused_when_opened(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="file/below: Not a directory"):
        FileSystemStore(tmp_path / "file" / "below")
    with pytest.raises(StoreError, match=r"/proc/.*Check|Give this user"):
        FileSystemStore(Path("/proc/self"))


@pytest.mark.requirement("CAT-3")
def test_a_flipped_bit_is_seen(store: FileSystemStore) -> None:
    put(store, "PDF/x.pdf", b"abcd")
    before = store.sha256_of("PDF/x.pdf")
    (store.root / "PDF" / "x.pdf").write_bytes(b"abce")
    assert store.sha256_of("PDF/x.pdf") != before


def test_threads_can_write_side_by_side_without_leaking_descriptors(store: FileSystemStore) -> None:
    put(store, "PDF/first.pdf", b"x")  # its folder stays open
    before = len(os.listdir("/proc/self/fd"))

    def work(owner: int) -> None:
        for n in range(20):
            put(store, f"PDF/{owner}-{n}.pdf", b"x" * 1000, b"y")
            store.sha256_of(f"PDF/{owner}-{n}.pdf")

    threads = [threading.Thread(target=work, args=(owner,)) for owner in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(files(store, "PDF")) == 161
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.requirement("TRU-1")
def test_a_folder_that_another_process_has_just_made_is_durable_before_a_file_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one was stopped between making the folder and bringing it to the disk."""
    store = FileSystemStore(tmp_path)
    os.makedirs(tmp_path / "PDF/2024")
    synced: list[int] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(os.fstat(fd).st_ino), real(fd)))
    part = store.begin("PDF/2024")
    part.write(b"%PDF")
    store.commit(part, "PDF/2024/a.pdf", hashlib.sha256(b"%PDF").hexdigest())
    folders = [(tmp_path / name).stat().st_ino for name in ("", "PDF", "PDF/2024")]
    assert set(folders) <= set(synced)
    assert max(map(synced.index, folders[:2])) < synced.index(folders[2]), "the parents first"
    synced.clear()
    part = store.begin("PDF/2024")
    part.write(b"%PDF")
    store.commit(part, "PDF/2024/b.pdf", hashlib.sha256(b"%PDF").hexdigest())
    assert folders[0] not in synced and folders[1] not in synced, "once for each process"
