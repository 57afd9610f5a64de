"""What holds for every store: whole files or none, the same answer to the same question, one winner of a race."""

from __future__ import annotations

import hashlib
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from docstokg_assets_tests.support.servers import S3_PART_BYTES
from resources.artifacts.quarantine import Quarantine
from resources.artifacts.store import QUARANTINE, ArtifactStore, NameTaken, StoreError


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def put(store: ArtifactStore, path: str, *chunks: bytes) -> str:
    part = store.begin(path.rpartition("/")[0])
    for chunk in chunks:
        part.write(chunk)
    stored = store.commit(part, path, digest(b"".join(chunks)))
    assert stored.bytes == sum(map(len, chunks))
    return stored.path


def paths(store: ArtifactStore) -> list[str]:
    return [found.path for folder in ("PDF", "HTML", "cas") for found in store.iter_files(folder)]


def parts_of(store: Any) -> list[Path]:
    root = store._spool.root if hasattr(store, "_spool") else store.root
    return list(root.rglob(".part-*"))


@pytest.mark.requirement("DL-4")
@pytest.mark.requirement("DL-10")
def test_a_file_appears_whole_and_only_on_commit(any_store: Any) -> None:
    part = any_store.begin("PDF")
    part.write(b"one ")
    part.write(b"two")
    assert part.path.read_bytes() == b"one two"  # nothing is held back in a buffer
    assert paths(any_store) == []
    stored = any_store.commit(part, "PDF/x.pdf", digest(b"one two"))
    assert paths(any_store) == [stored.path] and stored.bytes == part.bytes_written == 7
    assert any_store.exists(stored.path) and any_store.sha256_of(stored.path) == (digest(b"one two"), 7)
    with any_store.open_read(stored.path) as file:
        assert file.read() == b"one two"
    (found,) = any_store.iter_files(stored.path.partition("/")[0])
    assert found.bytes == 7 and abs(found.changed_at - time.time()) < 120
    assert parts_of(any_store) == []


@pytest.mark.requirement("DL-9")
def test_the_layout_decides_the_path(any_store: Any) -> None:
    content = b"%PDF-1.7 the same bytes"
    one, other = put(any_store, "PDF/2024__a__W1.pdf", content), put(any_store, "PDF/2024__b__W2.pdf", content)
    if any_store.layout == "readable":
        assert (one, other) == ("PDF/2024__a__W1.pdf", "PDF/2024__b__W2.pdf")
    else:
        name = digest(content)
        assert one == other == f"cas/{name[:2]}/{name[2:4]}/{name}.pdf"
    assert paths(any_store) == sorted({one, other})


@pytest.mark.requirement("DL-6")
def test_what_is_in_quarantine_is_kept_out_of_the_layout_once_and_within_its_bound(any_store: Any) -> None:
    def take(content: bytes, quarantine: Quarantine) -> str | None:
        part = any_store.begin("PDF")
        part.write(content)
        return quarantine.take(part, digest(content), "pdf")

    quarantine = Quarantine(any_store, max_bytes=10)
    first = take(b"4 by", quarantine)
    assert first == f"{QUARANTINE}/{digest(b'4 by')}.pdf" == take(b"4 by", quarantine)
    assert any_store.sha256_of(first) == (digest(b"4 by"), 4)
    later = Quarantine(any_store, max_bytes=10)  # of another process: what lies there counts
    assert take(b"7 bytes", later) is None
    second = take(b"6 byte", later)
    assert second is not None and take(b"1", later) is None
    assert {found.path for found in any_store.iter_files(QUARANTINE)} == {first, second}
    assert paths(any_store) == [] and parts_of(any_store) == []
    assert any_store.delete(first) and not any_store.exists(first)


@pytest.mark.requirement("DL-4")
def test_a_discarded_part_leaves_nothing(any_store: Any) -> None:
    part = any_store.begin("PDF")
    part.write(b"x")
    part.discard()
    part.discard()
    assert paths(any_store) == [] and parts_of(any_store) == []
    with pytest.raises(StoreError, match="already committed or discarded"):
        any_store.commit(part, "PDF/x.pdf", digest(b"x"))


@pytest.mark.requirement("DL-10")
@pytest.mark.requirement("TRU-1")
def test_a_name_is_made_once_and_its_bytes_stay(any_store: Any) -> None:
    first = put(any_store, "PDF/x.pdf", b"same")
    if any_store.layout == "cas":
        assert put(any_store, "PDF/x.pdf", b"same") == first != put(any_store, "PDF/x.pdf", b"a newer copy")
        return
    for content in (b"same", b"a newer copy"):
        part = any_store.begin("PDF")
        part.write(content)
        with pytest.raises(NameTaken, match="exists already"):
            any_store.commit(part, "PDF/x.pdf", digest(content), b"a note", "host:1:b")
        later = any_store.commit(
            part, f"PDF/{len(content)}.pdf", digest(content), b"a note", "host:1:b"
        )  # it is still whole
        assert later.own and any_store.sha256_of(later.path)[0] == digest(content)
        creator = any_store.creator_of(later.path)
        assert creator is not None and creator.name == "host:1:b" and abs(creator.at - time.time()) < 120
    assert any_store.sha256_of(first)[0] == digest(b"same") and any_store.creator_of("PDF/nothing.pdf") is None
    assert parts_of(any_store) == []


@pytest.mark.requirement("TRU-2")
def test_what_is_set_aside_keeps_its_bytes_and_frees_its_name(any_store: Any) -> None:
    path = put(any_store, "PDF/x.pdf", b"damaged")
    place = f"{QUARANTINE}/{path}"
    assert any_store.set_aside(path, place) and not any_store.exists(path)
    assert any_store.sha256_of(place)[0] == digest(b"damaged")
    assert not any_store.set_aside(path, f"{place}.2")
    assert put(any_store, "PDF/x.pdf", b"damaged") == path
    with pytest.raises(NameTaken):
        any_store.set_aside(path, place)
    assert any_store.exists(path)


@pytest.mark.requirement("DL-10")
def test_a_large_file_is_whole_too(any_store: Any) -> None:
    content = b"%PDF" + bytes(range(256)) * (S3_PART_BYTES // 128)  # three pieces
    path = put(any_store, "PDF/large.pdf", content)
    assert any_store.sha256_of(path) == (digest(content), len(content))
    assert any_store.stale_parts(-60, path.partition("/")[0]) == []  # no upload in pieces is left open


@pytest.mark.requirement("DL-10")
def test_of_a_race_one_makes_the_name(any_store: Any) -> None:
    results: list[Any] = []

    def write(number: int) -> None:
        content = b"the same bytes" if any_store.layout == "cas" else b"the bytes of writer %d" % (number % 2)
        part = any_store.begin("PDF")
        part.write(content)
        try:
            results.append(any_store.commit(part, "PDF/x.pdf", digest(content)).path)
        except NameTaken:
            part.discard()
            results.append(None)
        except BaseException as error:
            results.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made = [path for path in results if path is not None]
    assert len(made) == (1 if any_store.layout == "readable" else 6) and len(results) == 6, results
    assert paths(any_store) == [made[0]] and parts_of(any_store) == []
    allowed = {digest(b"the same bytes"), *(digest(b"the bytes of writer %d" % n) for n in (0, 1))}
    assert any_store.sha256_of(made[0])[0] in allowed


def test_what_is_not_there_is_missing(any_store: Any) -> None:
    assert not any_store.exists("PDF/x.pdf") and not any_store.delete("PDF/x.pdf")
    for question in (any_store.open_read, any_store.sha256_of):
        with pytest.raises(FileNotFoundError):
            question("PDF/x.pdf")
    assert any_store.stale_parts(0, "nowhere") == []


def test_what_is_deleted_is_gone(any_store: Any) -> None:
    path = put(any_store, "HTML/x.html", b"<html>")
    assert any_store.delete(path) and not any_store.exists(path)
    assert paths(any_store) == []


@pytest.mark.requirement("DL-4")
@pytest.mark.parametrize("path", ["../x", "PDF/../../x", "/etc/x", "PDF//x", "", "PDF/x\0.pdf"])
def test_paths_that_lead_elsewhere_are_refused(any_store: Any, path: str) -> None:
    part = any_store.begin("PDF")
    with pytest.raises(StoreError, match="is not a path inside the artifact store"):
        any_store.commit(part, path, digest(b""))
    assert parts_of(any_store) == []
    for question in (any_store.exists, any_store.open_read, any_store.sha256_of, any_store.delete):
        with pytest.raises(StoreError, match="is not a path inside"):
            question(path)


@pytest.mark.requirement("CAT-3")
def test_parts_of_a_process_that_was_killed_are_found_when_they_are_old(any_store: Any) -> None:
    part = any_store.begin("PDF")
    part.write(b"half")
    folder = "cas" if any_store.layout == "cas" else "PDF"
    assert any_store.stale_parts(3600, folder) == []  # it may still be written to
    (left,) = any_store.stale_parts(-60, folder)
    assert left.bytes == 4 and any_store.delete(left.path)
    assert parts_of(any_store) == []
