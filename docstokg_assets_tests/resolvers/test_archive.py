"""The archive, asked over sockets: captures of what is dead, and new ones of what is there but not for us."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from docstokg_assets.resolvers import wayback
from docstokg_assets.sandbox import Sandbox

SAVING = {"resolvers.wayback.save_page_now": True, "resolvers.wayback.api_key": "sandbox-me:CANARY-0815"}


@pytest.fixture(autouse=True)
def _no_long_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wayback, "_POLL_S", 0.05)


@pytest.mark.requirement("RES-3")
def test_a_dead_file_comes_from_the_capture_that_the_index_names(
    box_of: Callable[..., Sandbox], collect: Callable[..., Any]
) -> None:
    box = box_of("wayback_only", works=3)
    entries, _ = collect(box, "openalex", "wayback")
    assert {(i, e.classification, e.url) for i, e in entries.items()} == {
        (i, "success", box.universe.truth(i).url) for i in entries
    }


@pytest.mark.requirement("RES-3")
def test_a_replay_of_another_moment_is_not_taken_for_the_capture(
    box_of: Callable[..., Sandbox], collect: Callable[..., Any]
) -> None:
    box = box_of("wayback_only")
    (work,) = box.universe.works()
    dead = str(box.universe.truth(work.id).url).partition("id_/")[2]
    other = f"https://web.archive.org/web/{work.year + 1}0927204213id_/{dead}"
    box.add_fault(host="web.archive.org", path=f"/web/{work.year + 1}0401*", redirect=other)
    entries, services = collect(box, "openalex", "wayback")
    (entry,) = entries.values()
    assert entry.path is None
    assert "wrong-capture" in str(entry.meta)
    assert not list(services.config.data_root.rglob("*.pdf"))


@pytest.mark.requirement("RES-3")
def test_a_file_behind_a_wall_is_captured_on_request_where_that_is_switched_on(
    box_of: Callable[..., Sandbox], collect: Callable[..., Any]
) -> None:
    box = box_of("wall", works=2)
    entries, _ = collect(box, "openalex", "wayback", root="off")
    assert {str(entry.reason)[:8] for entry in entries.values()} == {"blocked-"}
    assert not [arrival for arrival in box.arrivals("web.archive.org") if arrival["path"].startswith("/save")]
    entries, _ = collect(box, "openalex", "wayback", **SAVING)
    assert {(e.classification, e.resolver) for e in entries.values()} == {("success", "wayback")}
    saves = [(a["method"], a["status"]) for a in box.arrivals("web.archive.org") if a["path"].startswith("/save")]
    assert sorted(saves) == [("GET", 200)] * 4 + [("POST", 200)] * 2  # pending once, then there


@pytest.mark.requirement("RES-3")
def test_what_cannot_be_captured_or_has_no_right_to_be_leaves_the_reason_of_the_wall(
    box_of: Callable[..., Sandbox], collect: Callable[..., Any]
) -> None:
    box = box_of("wall")
    entries, _ = collect(box, "openalex", "wayback", **SAVING | {"resolvers.wayback.api_key": "wrong:one"})
    assert {str(entry.reason)[:8] for entry in entries.values()} == {"blocked-"}
    gone = '{"status": "error", "status_ext": "error:too-many-daily-captures", "message": "Try again tomorrow."}'
    box.add_fault(host="web.archive.org", path="/save", body=gone, status=200)
    entries, _ = collect(box, "openalex", "wayback", root="other", **SAVING)
    assert {str(entry.reason)[:8] for entry in entries.values()} == {"blocked-"}
