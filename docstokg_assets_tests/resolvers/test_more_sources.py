"""Empty repositories, Internet Archive Scholar and publishers' keys, asked over sockets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from docstokg_assets.sandbox import Sandbox

KEY = "sandbox-CANARY-4711"
KEYS = {f"resolvers.{name}.api_key": KEY for name in ("elsevier", "wiley", "springer_nature")}
ORDER = ("openalex", "landing", "elsevier", "wiley", "springer_nature", "ia_scholar", "wayback")
KEYED = ("elsevier", "elsevier_preview", "wiley", "springer")
FOUND = ("dspace", "dspace_elsewhere", "preserved", *KEYED)


@pytest.mark.requirement("RES-3", "RES-9")
def test_every_copy_is_found_where_it_is_and_nothing_else(
    box_of: Callable[..., Sandbox], collect: Callable[..., Any]
) -> None:
    box = box_of(*FOUND, "embargoed", "elsevier_closed", works=36)
    entries, _ = collect(box, *ORDER, **KEYS)
    truths = {work_id: box.universe.truth(work_id) for work_id in entries}
    assert {truth.archetype for truth in truths.values()} == {*FOUND, "embargoed", "elsevier_closed"}
    for work_id, truth in truths.items():
        entry = entries[work_id]
        if truth.reachable:
            assert (entry.classification, entry.resolver, entry.url) == ("success", truth.resolver, truth.url), truth
        else:
            assert str(entry.reason) == truth.failure, truth
    licenses = {entries[i].license for i, truth in truths.items() if truth.archetype in KEYED}
    assert licenses == {"tdm-elsevier", "tdm-wiley", "tdm-springer-nature"}
    assert box.violations() == []


@pytest.mark.requirement("RES-9")
@pytest.mark.parametrize(("archetype", "most"), [("dspace", 4), ("dspace_elsewhere", 7), ("embargoed", 3)])
def test_a_silent_repository_is_asked_a_few_times(
    box_of: Callable[..., Sandbox], collect: Callable[..., Any], archetype: str, most: int
) -> None:
    box = box_of(archetype)
    collect(box, "landing")
    paths = [row["path"] for row in box.arrivals() if "repository" in row["host"] or "stillwater" in row["host"]]
    asked = [path for path in paths if path != "/robots.txt"]
    assert len(asked) <= most
    assert archetype != "embargoed" or not any(path.endswith("/content") for path in asked)


@pytest.mark.requirement("RES-3")
@pytest.mark.parametrize(
    ("archetype", "key", "reason"),
    [("elsevier", "wrong", "http-4xx"), ("wiley", "wrong", "http-4xx"), ("elsevier_closed", KEY, "not-entitled")],
)
def test_a_wrong_key_and_a_missing_right_have_their_reasons(
    box_of: Callable[..., Sandbox], collect: Callable[..., Any], archetype: str, key: str, reason: str
) -> None:
    name = archetype.partition("_")[0]
    entries, _ = collect(box_of(archetype), name, **{f"resolvers.{name}.api_key": key})
    assert [str(entry.reason) for entry in entries.values()] == [reason]


@pytest.mark.requirement("RES-3", "RL-4")
def test_a_spent_weekly_quota_closes_the_host_and_loses_nothing(
    box_of: Callable[..., Sandbox], collect: Callable[..., Any]
) -> None:
    box = box_of("elsevier", works=4)
    entries, _ = collect(box, "elsevier", **{"resolvers.elsevier.api_key": "sandbox-spent"}, workers=1)
    reasons = sorted(str(entry.reason) for entry in entries.values())
    assert reasons == ["ok", "retry-after", "retry-after", "retry-after"]
    assert len([row for row in box.arrivals() if row["host"] == "api.elsevier.com"]) <= 2


@pytest.mark.requirement("SEC-4", "RES-3")
def test_keys_go_to_their_own_host_and_into_no_file(
    tmp_path: Path, box_of: Callable[..., Sandbox], collect: Callable[..., Any]
) -> None:
    box = box_of(*KEYED, works=8)
    token = {"resolvers.elsevier.inst_token": "CANARY-TOKEN-0815"}
    entries, _ = collect(box, "elsevier", "wiley", "springer_nature", **KEYS, **token)
    assert {str(entry.reason) for entry in entries.values()} == {"ok"}
    for file in (tmp_path / "data").rglob("*"):
        if file.is_file():
            assert b"CANARY" not in file.read_bytes(), file
    assert not any("CANARY" in row["path"] for row in box.arrivals() if row["host"] != "api.springernature.com")


@pytest.mark.requirement("RES-3")
def test_no_archive_is_asked_where_unlicensed_copies_are_unwanted(
    box_of: Callable[..., Sandbox], collect: Callable[..., Any]
) -> None:
    box = box_of("preserved")
    collect(box, "ia_scholar", "wayback", **{"download.licenses": ["cc-by"]})
    assert not [row for row in box.arrivals() if row["host"].endswith("archive.org")]
