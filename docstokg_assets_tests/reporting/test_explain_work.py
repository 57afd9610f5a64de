"""Which works somebody may mean who asks for one; the stories themselves are told in `cli/test_why.py`."""

from __future__ import annotations

import pytest

from docstokg_assets.domain.works import Work
from docstokg_assets.reporting.explain_work import matches, search_terms


@pytest.mark.parametrize("wanted", ["2401.00001", "arXiv:2401.00001v1", "https://arxiv.org/abs/2401.00001v3"])
@pytest.mark.parametrize(
    "work",
    [
        Work("W1", arxiv_id="2401.00001v2"),
        Work("W1", arxiv_id="2401.00001"),
        Work("W1", doi="10.48550/arXiv.2401.00001"),
    ],
    ids=["with version", "without", "by its DOI"],
)
def test_an_arxiv_paper_is_found_whichever_version_is_asked_for(wanted: str, work: Work) -> None:
    assert matches(wanted, work)
    assert all(piece in str(work.to_json()) for piece in search_terms(wanted))
    assert not matches("2401.00002", work)


def test_a_work_that_was_given_as_an_address_is_found_by_it_and_by_its_name() -> None:
    work = Work("url-a5b036d4beb9", urls=("https://press.example/x.pdf?a=1",))
    for wanted in ("https://press.example/x.pdf?a=1", " url-a5b036d4beb9 "):
        assert matches(wanted, work) and search_terms(wanted) == [wanted.strip()]
    assert not matches("https://press.example/y.pdf", work)
