"""The auditor of the soak sees what is wrong, and nothing else; the soak itself disturbs by its seed alone."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

from docstokg_assets.sandbox import Sandbox
from docstokg_assets_tests.support.audit import Audit, audit
from docstokg_assets_tests.support.configs import FAST, NAMED
from docstokg_assets_tests.support.program import Place
from docstokg_assets_tests.support.soak import Soak, SoakPlan, schedule


@pytest.fixture(scope="module")
def pulled(small_sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Place:
    small_sandbox.reset()
    http = {"proxy": small_sandbox.proxy_url, "ca_bundle": str(small_sandbox.ca_bundle)}
    http["contact_email"] = "crawler@library-of-tests.edu"
    limits = {"policies": dict.fromkeys(("*", *NAMED), FAST), "concurrency": {"*": None, "arxiv.org": None}}
    sections = {"http": http | {"breaker": {"enabled": False}}, "robots": {"enabled": False}, "rate_limit": limits}
    place = Place(tmp_path_factory.mktemp("pulled"), sections)
    place.write()
    assert place.run("--query", "publication_year:2024").code in (0, 3)
    return place


@pytest.fixture
def root(pulled: Place, tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(pulled.out, tmp_path / "copy"))


def rules(found: Audit) -> set[str]:
    return {finding.rule for finding in found.findings}


def change(root: Path, sql: str) -> None:
    with closing(sqlite3.connect(root / "catalog.sqlite3")) as catalog, catalog:
        catalog.execute(sql)


def test_a_good_root_has_no_finding(root: Path, small_sandbox: Sandbox) -> None:
    found = audit(root, [work.id for work in small_sandbox.universe.works()])
    assert found.findings == [] and found.outcomes.total() == 20


def test_files_that_are_wrong_missing_or_unknown_are_found(root: Path) -> None:
    replaced, cut, gone, *_ = sorted(root.glob("PDF/*.pdf"))
    replaced.write_bytes(replaced.read_bytes() + b"%")
    cut.write_bytes(cut.read_bytes()[:500])
    gone.rename(root / "PDF" / "unknown.pdf")
    (root / "PDF" / ".part-1").write_bytes(b"%PDF")
    found = audit(root, None)
    assert rules(found) == {
        "every file has the SHA-256 of its row",
        "every PDF is whole",
        "every recorded file is there",
        "no file that no row names",
        "no part of a file is left behind",
    }
    assert len(found.findings) == 6


@pytest.mark.parametrize(
    ("sql", "rule"),
    [
        ("DELETE FROM catalog_entries WHERE path IS NULL", "every work has exactly one outcome"),
        ("UPDATE queue SET state = 'leased'", "no work is left unfinished"),
        ("UPDATE catalog_entries SET reason = 'internal-error'", "no work ends by an error of the program"),
        ("UPDATE catalog_entries SET classification = 'error'", "a success has a file, and nothing else has"),
        ("UPDATE catalog_entries SET bytes = 1", "every file has the size of its row"),
        ("UPDATE attempts SET extra = '{}'", "every stored file has its attempt"),
        ("DELETE FROM attempts WHERE role = 'metadata'", "a manifest has no attempt that the catalog lacks"),
        ("DELETE FROM artifacts", "every stored file is among the artifacts"),
    ],
)
def test_rows_that_are_wrong_are_found(root: Path, sql: str, rule: str) -> None:
    change(root, sql)
    assert rules(audit(root, None)) == {rule}


def test_a_torn_line_is_a_finding_unless_it_is_the_last(root: Path) -> None:
    (manifest,) = root.glob("*/manifest.jsonl")
    whole = manifest.read_bytes()
    manifest.write_bytes(whole + b'{"record_')
    found = audit(root, None)
    assert found.findings == [] and len(found.apart) == 1
    manifest.write_bytes(b'{"record_\n' + whole)
    assert rules(audit(root, None)) == {"every line of a manifest is JSON"}


def test_the_same_seed_disturbs_in_the_same_way() -> None:
    plan, other = SoakPlan(100, 600.0, 5), SoakPlan(100, 600.0, 6)
    assert schedule(plan) == schedule(plan) != schedule(other)
    assert {event.kind for event in schedule(plan)} == set(plan.kinds())
    assert any(event.seconds > plan.lease_s for event in schedule(plan))


class Counted:
    """A sandbox that has seen three requests to arXiv: one in time, one just after its sender was woken, one too early."""

    def arrivals(self) -> list[dict[str, object]]:
        senders = (("pull", 100.0), ("resume", 101.0), ("pull", 102.0))
        return [{"host": "arxiv.org", "time": at, "user_agent": f"x soak-{who}/1"} for who, at in senders]

    def violations(self) -> list[dict[str, object]]:
        limit = {"limit": "arxiv", "host": "arxiv.org", "seconds": 3.0, "count": 1, "seen": 2}
        return [limit | {"time": at} for at in (101.0, 102.0)]


def test_a_stop_excuses_one_request_and_no_more(tmp_path: Path) -> None:
    soak = Soak(SoakPlan(1, 1.0, 1), tmp_path, cast(Sandbox, Counted()), tmp_path)
    soak.freezes.append(("resume", 90.0, 100.5))
    soak._judge_limits()
    assert [finding.evidence[:5] for finding in soak.result.apart] == ["arxiv"]
    assert rules(soak.result) == {"no limit is exceeded at the server"} and len(soak.result.findings) == 1
