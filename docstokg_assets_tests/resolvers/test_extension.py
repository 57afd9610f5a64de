"""Resolvers from outside the package, what the package still hands out for older code, and what it remembers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest
import requests

from docstokg_assets import resolvers
from docstokg_assets.config import load_config
from docstokg_assets.config.explain import explain_resolvers
from docstokg_assets.resolvers import registry
from docstokg_assets.sandbox import Sandbox
from resources.http.headers import headers_cache_key

PROJECT = Path(__file__).resolve().parents[2]
HOST = "journals.aurora-press.example"  # of the sandbox
PLUGIN = """
from docstokg_assets.resolvers import Example, Resolver, ResolverSettings, Tier, Work
from pydantic import Field


class AtticSettings(ResolverSettings):
    shelf: str = Field("top", description="which shelf of the attic is looked at")


class Attic(Resolver):
    tier = Tier.DIRECT_OA
    default_rank = 1
    head_precheck = False
    Settings = AtticSettings
    EXAMPLES = (Example(Work("W1"), urls=["https://HOST/attic/top/W1.pdf"]),)

    def applies(self, work):
        return True

    def candidates(self, work):
        url = f"https://HOST/attic/{self.settings.shelf}/{work.work_id}.pdf"
        return [self.candidate(url)]
""".replace("HOST", HOST)


def install(folder: Path, source: str = PLUGIN, target: str = "attic:Attic", name: str = "attic") -> dict[str, str]:
    """A distribution as an installer leaves it: a module, its metadata, its entry points. The environment that sees it."""
    folder.mkdir(exist_ok=True)
    (folder / "attic.py").write_text(source)
    info = folder / "attic_of_tests-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: attic-of-tests\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[docstokg.resolvers]\n{name} = {target}\n")
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("DTKG_", "DOCSTOKG_"))}
    return {**clean, "PYTHONPATH": f"{folder}{os.pathsep}{PROJECT}"}


def content(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "docstokg_assets.cli", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.requirement("RES-1")
def test_a_resolver_of_another_distribution_is_configured_planned_and_used(tmp_path: Path) -> None:
    environment = install(tmp_path / "site")
    shown = json.loads(content(environment, "print-config", "--format", "json").stdout)
    assert shown["resolvers"]["order"][:2] == ["attic", "arxiv"]  # by the rank in its own file
    assert shown["resolvers"]["attic"]["shelf"] == "top"
    explained = json.loads(content(environment, "explain", "--json").stdout)
    assert any(row["name"] == "attic" and row["state"]["value"] == "enabled" for row in explained["resolvers"])

    with Sandbox.start(tmp_path / "box", works_per_year=4, years=(2024, 2024), enforce_limits=False) as box:
        work = next(work for work in box.universe.works(2024) if not work.strange)
        good = next(t.url for w in box.universe.works(2024) if (t := box.universe.truth(w.id)).url and t.kind == "pdf")
        box.add_fault(host=HOST, path="/attic/low/*", redirect=good)
        environment |= {
            "DTKG_HTTP__PROXY": box.proxy_url,
            "DTKG_HTTP__CA_BUNDLE": str(box.ca_bundle),
            "DTKG_RESOLVERS__ATTIC__SHELF": "low",
            "DTKG_RESOLVERS__ORDER": '["attic"]',
            "DTKG_ROBOTS__ENABLED": "false",
            "DTKG_DOWNLOAD__ON_SUSPECT": "keep",
        }
        ids = tmp_path / "ids.txt"
        ids.write_text(work.id)
        ended = content(environment, "pull", "--ids", str(ids), "--out", str(tmp_path / "out"))
        assert ended.returncode == 0, ended.stderr
        told = json.loads(content(environment, "why", work.id, "--out", str(tmp_path / "out"), "--json").stdout)
    assert "found by attic" in told["ending"]
    assert told["tries"][0]["url"] == f"https://{HOST}/attic/low/{work.id}.pdf"


@pytest.mark.requirement("RES-1")
def test_the_resolver_of_the_guide_works_and_its_examples_are_run_by_the_suite(tmp_path: Path) -> None:
    guide = re.search(r"```python\n(.*?)```", (PROJECT / "docs" / "resolvers.md").read_text(), re.DOTALL)
    assert guide is not None
    environment = install(tmp_path / "site", guide[1], "attic:AtticResolver")
    suite = PROJECT / "docstokg_assets_tests" / "resolvers" / "test_examples.py"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(suite), "-k", "attic"]
    ended = subprocess.run(command, env=environment, cwd=PROJECT, capture_output=True, text=True, timeout=120)
    # three examples, that there are some with and without URLs, and nine kinds of failure
    assert "13 passed" in ended.stdout, ended.stdout


@pytest.mark.requirement("RES-7")
def test_what_is_installed_later_is_seen_after_the_caches_were_cleared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "REGISTRY", dict(registry.load_resolvers()))
    install(tmp_path / "site")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    try:
        assert "attic" not in registry.load_resolvers()
        registry.clear_resolver_caches()
        assert "attic" in registry.load_resolvers()
        assert "attic" not in {row.name for row in explain_resolvers(load_config(None, {}))}, "but not configured yet"
    finally:
        sys.modules.pop("attic", None)
        registry.clear_resolver_caches()


@pytest.mark.parametrize(
    ("source", "target", "name", "problem"),
    [
        ("import no_such_module", "attic:Attic", "attic", "cannot be loaded: ModuleNotFoundError"),
        ("Attic = 3", "attic:Attic", "attic", "is not a Resolver class"),
        (PLUGIN, "attic:Attic", "crossref", "there is a resolver of that name already"),
    ],
)
def test_a_resolver_from_outside_that_cannot_be_used_is_named_with_the_remedy(
    tmp_path: Path, source: str, target: str, name: str, problem: str
) -> None:
    ended = content(install(tmp_path / "site", source, target, name), "print-config")
    assert ended.returncode == 2 and "Traceback" not in ended.stderr
    assert problem in ended.stderr and "attic-of-tests" in ended.stderr and "uninstall it" in ended.stderr


@pytest.mark.requirement("RES-8")
@pytest.mark.parametrize(("name", "module"), [("time", time), ("requests", requests)])
def test_modules_that_older_code_takes_from_here_come_with_a_warning(name: str, module: object) -> None:
    with pytest.warns(DeprecationWarning, match=f"removed in the next minor version.*import {name}") as warned:
        assert getattr(resolvers, name) is module
    assert warned[0].filename == __file__
    with pytest.warns(DeprecationWarning, match=name):
        exec(f"from docstokg_assets.resolvers import {name}", {})


@pytest.mark.requirement("RES-8")
def test_everything_else_comes_silently_and_what_is_not_there_is_not() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exec("from docstokg_assets.resolvers import registry, api, crossref", {})
        with pytest.raises(AttributeError, match="json"):
            resolvers.json  # noqa: B018 (the access is the test)


@pytest.mark.requirement("RES-7")
def test_headers_have_one_key_however_they_are_spelt() -> None:
    key = headers_cache_key({"User-Agent": "Us/1", "ACCEPT": "Application/JSON"})
    assert key == (("accept", "Application/JSON"), ("user-agent", "Us/1"))
    assert key == headers_cache_key({"accept": "Application/JSON", "user-agent": "Us/1"})
    assert key != headers_cache_key({"accept": "application/json", "user-agent": "Us/1"})
