"""The table of statuses is complete both ways."""

from __future__ import annotations

import pytest

from docstokg_assets.ingest.statuses import (
    DETAILS,
    NOT_IMPLEMENTED,
    REASONS,
    SAVE_PAGE_NOW,
    SPN_UNKNOWN,
    STATUSES,
    Pace,
    rule_of,
    status_of,
)
from resources.records import Ending, Reason


@pytest.mark.requirement("ING-6")
def test_every_reason_has_a_status_and_every_status_comes_from_somewhere() -> None:
    assert set(REASONS) == set(Reason)
    made = {*REASONS.values(), *SAVE_PAGE_NOW.values(), *DETAILS.values(), NOT_IMPLEMENTED, SPN_UNKNOWN}
    assert made == set(STATUSES)
    assert all((rule.pace is not None) == (rule.ending is Ending.RETRYABLE) for rule in STATUSES.values())


@pytest.mark.requirement("ING-6")
def test_success_and_only_success_ends_a_successful_reason() -> None:
    for reason, status in REASONS.items():
        if reason not in (Reason.HTML_ONLY,):
            assert (STATUSES[status].ending is Ending.SUCCESS) == (reason.ending is Ending.SUCCESS)


@pytest.mark.requirement("ING-6")
@pytest.mark.parametrize(
    ("raw", "status"),
    [
        ("spn:too-many-daily-captures", "too-many-daily-captures"),
        ("spn:blocked-url", "spn2-error:blocked-url"),
        ("spn:WorkerLostError", SPN_UNKNOWN),
        ("spn:class Exception", SPN_UNKNOWN),
        ("spn:", SPN_UNKNOWN),
    ],
)
def test_unknown_answers_of_save_page_now_get_one_slug(raw: str, status: str) -> None:
    assert status_of(Reason.NO_CANDIDATE, raw) == status


@pytest.mark.requirement("ING-6")
def test_a_bad_status_is_retried_by_its_code_and_a_loop_in_a_capture_by_its_route() -> None:
    assert rule_of("terminal-bad-status", code=404).ending is Ending.TERMINAL
    assert rule_of("terminal-bad-status", code=503)[:2] == (Ending.RETRYABLE, Pace.DAYS)
    assert rule_of("redirect-loop", route="live").ending is Ending.TERMINAL
    assert rule_of("redirect-loop", route="archive").ending is Ending.RETRYABLE
    assert rule_of("of-the-past").ending is Ending.TERMINAL
