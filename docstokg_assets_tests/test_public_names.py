"""The names that programs import from `docstokg_assets`, and what importing it costs."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

import docstokg_assets
from docstokg_assets.cli import main as program

PROJECT = Path(docstokg_assets.__file__).parents[1]
HEAVY = ("dagster", "pandas", "pyarrow", "duckdb", "sqlalchemy", "requests", "pydantic", "lxml")


def loaded_by(code: str) -> list[str]:
    """Run code in a fresh interpreter and return the heavy modules that it loaded."""
    script = f"{code}\nimport sys\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", script], cwd=PROJECT, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()[-1].split()


@pytest.mark.requirement("CFG-5")
def test_the_public_names_are_exported() -> None:
    from docstokg_assets import (
        CatalogConnector,
        ContentDownloadConfig,
        ContentOrchestrator,
        DownloadRun,
        ResolverPipeline,
    )

    public = (CatalogConnector, ContentDownloadConfig, ContentOrchestrator, DownloadRun, ResolverPipeline)
    assert all(isinstance(each, type) for each in public)
    assert set(docstokg_assets.__all__) <= set(dir(docstokg_assets))
    for name in docstokg_assets.__all__:
        assert getattr(docstokg_assets, name) is getattr(docstokg_assets, name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'ContentOrchestra'"):
        _ = docstokg_assets.ContentOrchestra


@pytest.mark.requirement("CLI-3")
def test_importing_the_package_or_the_command_line_loads_nothing_heavy() -> None:
    assert loaded_by("import docstokg_assets") == []
    assert loaded_by("import docstokg_assets.cli.main as program; program.build_app()") == []
    assert loaded_by("from docstokg_assets import ContentOrchestrator").count("dagster") == 0


def test_the_list_of_commands_names_every_command_of_every_module() -> None:
    """The list is shown without importing the commands, so nothing else notices one that is missing."""
    listed = {name: module for name, (module, _) in program.COMMANDS.items()}
    for module in set(listed.values()):
        app = import_module(f"docstokg_assets.cli.{module}").app
        names = {each.name or each.callback.__name__ for each in app.registered_commands}
        assert {name for name, at in listed.items() if at == module} == ({app.info.name} if app.info.name else names)


def test_there_is_one_version(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["content", "--version"])
    with pytest.raises(SystemExit) as ended:
        program.main()
    assert not ended.value.code
    assert capsys.readouterr().out.strip() == f"content {docstokg_assets.__version__}"
    assert version("docstokg-contentdownload") == docstokg_assets.__version__
    assert f"## {docstokg_assets.__version__} " in (PROJECT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_both_packages_carry_the_marker_of_their_types() -> None:
    assert (PROJECT / "docstokg_assets" / "py.typed").exists()
    assert (PROJECT / "resources" / "py.typed").exists()
