"""Fault 31: PDFs that are made to exhaust whoever looks into them, through the whole pipeline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from docstokg_assets_tests.support.pdfs import BOMBS, paper

URL = "http://a.example/1.pdf"
OTHER = "http://b.example/1.pdf"


@pytest.mark.requirement("DL-6")
@pytest.mark.parametrize("name", BOMBS)
def test_fault_31_a_pdf_made_to_exhaust_a_parser_ends_as_validator_limit(
    pull: Callable[..., Any], answers: Any, name: str
) -> None:
    got = pull(answers.ok(BOMBS[name](), Content_Type="application/pdf"), URL)
    assert (got.reason, got.files) == ("validator-limit", {})
    assert [str(record.reason) for record in got.attempts] == ["ok", "validator-limit"]


@pytest.mark.requirement("DL-6")
def test_fault_31_the_run_goes_on_with_the_next_copy(pull: Callable[..., Any], answers: Any) -> None:
    good = paper("A title", "and a second page")

    def answer(request: Any) -> bytes:
        body = BOMBS["nested flate streams"]() if "a.example" in request.line else good
        return answers.ok(body, Content_Type="application/pdf")

    got = pull(answer, URL, OTHER)
    assert got.reason == "ok"
    assert list(got.files.values()) == [good]
