"""Pages that name files name files that exist, and the tools of `make check` are those of the pre-commit hooks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

PROJECT = Path(__file__).resolve().parents[2]
NAMED = re.compile(r"`((?:docstokg_assets(?:_tests)?|resources|docs|deploy|benchmarks)/[\w/.-]*)`")


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "README.md", "SECURITY.md"])
def test_every_path_that_a_page_names_exists(page: str) -> None:
    named = NAMED.findall((PROJECT / page).read_text(encoding="utf-8"))
    assert [path for path in named if not (PROJECT / path).exists()] == []
    assert page != "ARCHITECTURE.md" or len(named) > 50


def test_every_package_is_on_the_page_of_the_architecture() -> None:
    text = (PROJECT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    for top in ("docstokg_assets", "resources"):
        for package in sorted((PROJECT / top).glob("*/__init__.py")):
            assert f"`{package.parent.relative_to(PROJECT).as_posix()}/`" in text


def test_pre_commit_runs_the_tools_of_make_check() -> None:
    makefile = (PROJECT / "Makefile").read_text(encoding="utf-8").replace("$(BIN)", ".venv/bin")
    config = yaml.safe_load((PROJECT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    entries = [hook["entry"] for repository in config["repos"] for hook in repository["hooks"]]
    assert len(entries) == 5
    for entry in entries:
        assert entry.removesuffix(" --fix") in makefile, entry
