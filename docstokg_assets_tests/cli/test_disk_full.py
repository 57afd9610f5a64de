"""Fault 36: a disk that fills up in the middle of a run. The disk is a small tmpfs, the program the one that people start."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from docstokg_assets.sandbox import Sandbox

if TYPE_CHECKING:
    from docstokg_assets_tests.support.program import Place

WORKS_PER_YEAR = 30
QUERY = ("--query", "publication_year:2024")


def check(place: Place, root: Path, *, ended: bool) -> None:
    """Every file that the catalog names is there with its hash, and no part; in the end no other file either."""
    named = dict(place.rows("SELECT path, sha256 FROM artifacts"))
    files = {
        path.relative_to(root).as_posix(): path
        for path in root.rglob("*")
        if path.parent.name in ("PDF", "HTML", "XML")
    }
    assert not [name for name in files if "/.part-" in name]
    for name, sha256 in named.items():
        assert hashlib.sha256(files[name].read_bytes()).hexdigest() == sha256
    assert set(files) == set(named) or not ended


@pytest.mark.requirement("DL-4")
@pytest.mark.parametrize("whole_root", [False, True], ids=["artifacts", "all of the data root"])
def test_fault_36_a_full_disk_has_its_own_exit_code_and_the_same_command_goes_on(
    place: Place, box: Sandbox, small_disk: Callable[[str], Path], whole_root: bool
) -> None:
    disk = small_disk("2m" if whole_root else "400k")
    if whole_root:
        place.out.symlink_to(disk)
    else:
        place.write(artifacts__root=str(disk))
    full = place.run(*QUERY)
    assert full.code == 4, full.err
    assert "No space left" in full.err or "is full" in full.err
    assert "Free some space, then run the same command again." in full.err
    check(place, disk, ended=False)
    done = place.done()
    assert 0 < done < WORKS_PER_YEAR

    small_disk("64m")
    again = place.run(*QUERY)
    assert again.code == 0, again.err
    assert place.done() == WORKS_PER_YEAR
    check(place, disk, ended=True)
