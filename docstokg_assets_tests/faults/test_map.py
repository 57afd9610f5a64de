"""docs/faults.md says where each fault is shown; this keeps it true."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path

import docstokg_assets

ROOT = Path(docstokg_assets.__file__).parents[1]
ROWS = (*range(1, 60), *range(61, 66))  # 60, a network that is gone, is not handled yet


def rows() -> list[tuple[str, list[str]]]:
    cells = re.findall(r"^\| ([0-9–]+) \|.*\| ([^|]+) \|$", (ROOT / "docs/faults.md").read_text(), re.MULTILINE)
    return [(number, re.findall(r"`([^`]+)`", tests)) for number, tests in cells]


def test_every_fault_is_shown_by_tests_that_exist() -> None:
    shown = rows()
    assert set(map(str, ROWS)) <= {number for number, _ in shown}
    missing = []
    for number, names in shown:
        assert names, number
        for name in names:
            file, _, wanted = name.partition("::")
            found = re.findall(r"^def (test_\w+)", (ROOT / "docstokg_assets_tests" / file).read_text(), re.MULTILINE)
            if not any(fnmatchcase(test, wanted) for test in found):
                missing.append(name)
    assert missing == []


def test_every_test_of_a_fault_is_on_the_page() -> None:
    named = [name for _, names in rows() for name in names]
    for path in sorted((ROOT / "docstokg_assets_tests/faults").glob("test_*.py")):
        for test in re.findall(r"^def (test_fault_\w+)", path.read_text(), re.MULTILINE):
            assert any(fnmatchcase(f"faults/{path.name}::{test}", name) for name in named), test
