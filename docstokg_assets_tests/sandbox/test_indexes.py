"""The played indexes answer in the shapes of the real ones, also when they refuse; the limits of each count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import requests

from docstokg_assets.sandbox import Sandbox, Work
from docstokg_assets_tests.support.sandbox import proxied_session

CORE = "https://api.core.ac.uk/v3/search/works/"
S2 = "https://api.semanticscholar.org/graph/v1/paper"
HAL = "https://api.archives-ouvertes.fr/search/"
BASE = "https://api.base-search.net/cgi-bin/BaseHttpSearchInterface.fcgi"
GRAPH = "https://api.openaire.eu/graph/v3/research-products"
BEARER = {"Authorization": "Bearer sandbox-me"}


@pytest.fixture(scope="module")
def box(start: Callable[..., Sandbox]) -> Sandbox:
    return start(works_per_year=300, years=(2024, 2024), mix={"strange": 0})


@pytest.fixture
def web(box: Sandbox) -> requests.Session:
    box.reset()
    return proxied_session(box)


def one(box: Sandbox, archetype: str) -> Work:
    return next(w for w in box.universe.works() if w.archetype == archetype and w.repository.key == "harbor")


def test_core_wants_a_key_and_its_files_want_none(box: Sandbox, web: requests.Session) -> None:
    work = one(box, "repository")
    query = {"q": f'doi:"{work.doi}"', "limit": "5"}
    assert web.get(CORE, params=query).status_code == 429
    assert web.get(CORE, params=query, headers={"Authorization": "Bearer x"}).status_code == 401
    assert web.get(CORE.rstrip("/"), params=query, headers=BEARER, allow_redirects=False).status_code == 301
    (result,) = web.get(CORE, params=query, headers=BEARER).json()["results"]
    assert result["doi"] == work.doi and box.universe.truth(work.id).url in result["sourceFulltextUrls"]
    assert web.get(result["downloadUrl"]).content.startswith(b"%PDF-")
    assert web.get(result["downloadUrl"], headers=BEARER).status_code == 400
    assert web.get(CORE, params={**query, "limit": "200"}, headers=BEARER).status_code == 504
    assert web.get(CORE, params={"q": 'doi:"10.1/x"'}, headers=BEARER).json()["totalHits"] == 0


def test_doaj_lists_the_articles_of_open_journals(box: Sandbox, web: requests.Session) -> None:
    search = "https://doaj.org/api/v4/search/articles/"
    work = one(box, "gold")
    (result,) = web.get(f'{search}bibjson.identifier.id:"{work.doi}"').json()["results"]
    links = {link["content_type"]: link["url"] for link in result["bibjson"]["link"]}
    assert links["PDF"] == box.universe.truth(work.id).url
    assert web.get(f'{search}bibjson.identifier.id:"{one(box, "repository").doi}"').json()["results"] == []
    assert web.get(f"{search}x?pageSize=200").status_code == 400
    assert web.get("https://doaj.org/search/articles?x").status_code == 403


def test_hal_has_deposits_with_and_without_a_main_file(box: Sandbox, web: requests.Session) -> None:
    works = [w for w in box.universe.works() if w.archetype == "repository" and w.repository.key == "harbor"]
    deposits = [
        web.get(HAL, params={"q": f'doiId_s:"{w.doi}"', "wt": "json"}).json()["response"]["docs"][0] for w in works
    ]
    assert {"fileMain_s" in deposit for deposit in deposits} == {True, False}
    for deposit in deposits[:4]:
        assert web.get(deposit.get("fileMain_s") or deposit["files_s"][0]).content.startswith(b"%PDF-")
    assert web.get(HAL, params={"q": 'doiId_s:"10.1/x"'}).json()["response"]["numFound"] == 0
    assert web.get(HAL, params={"q": "nonsense:1"}).json()["error"]["code"] == 400


def test_openaire_tells_open_instances(box: Sandbox, web: requests.Session) -> None:
    work = one(box, "unpaywall_only")
    (product,) = web.get(GRAPH, params={"pid": work.doi or ""}, headers=BEARER).json()["results"]
    assert [i["urls"] for i in product["instances"]] == [[box.universe.truth(work.id).url]]
    assert web.get(GRAPH, params={"pid": "10.1/x"}).json()["results"] == []
    assert web.get(GRAPH, headers={"Authorization": "Bearer x"}).status_code == 401


def test_base_refuses_strangers_in_plain_text_with_status_200(box: Sandbox, web: requests.Session) -> None:
    box.enforce_limits(False)
    work = one(box, "repository")
    query = {"func": "PerformSearch", "query": f'dcdoi:"{work.doi}"', "format": "json"}
    refused = web.get(BASE, params=query)
    assert (refused.status_code, refused.headers["Content-Type"][:10]) == (200, "text/plain")
    (document,) = web.get(BASE, params={**query, "apikey": "sandbox-me"}).json()["response"]["docs"]
    box.enforce_limits(True)
    assert document["dcoa"] == 1 and box.universe.truth(work.id).url in document["dcidentifier"]


def test_semantic_scholar_answers_one_and_many(box: Sandbox, web: requests.Session) -> None:
    box.enforce_limits(False)
    key = {"x-api-key": "sandbox-me"}
    known, closed = one(box, "repository"), one(box, "doi_redirect")

    def batch(ids: Any, **more: Any) -> requests.Response:
        return web.post(f"{S2}/batch?fields=openAccessPdf", json={"ids": ids}, headers=key, **more)

    assert web.get(f"{S2}/DOI:{known.doi}").status_code == 429
    assert "Retry-After" not in web.get(f"{S2}/DOI:{known.doi}").headers
    assert web.get(f"{S2}/DOI:{known.doi}", headers={"x-api-key": "x"}).status_code == 403
    assert web.get(f"{S2}/DOI:10.1/x", headers=key).json() == {"error": "Paper with id DOI:10.1/x not found"}
    assert web.get(f"{S2}/DOI:{known.doi}?fields=foo", headers=key).status_code == 400
    papers = batch([f"DOI:{known.doi}", "DOI:10.1/x", f"DOI:{closed.doi}"]).json()
    assert [paper and paper["openAccessPdf"]["url"] for paper in papers] == [box.universe.truth(known.id).url, None, ""]
    assert batch(["DOI:10.1/x"]).status_code == batch(["x"] * 501).status_code == batch(7).status_code == 400
    box.enforce_limits(True)


@pytest.mark.parametrize(
    ("most", "ask"),
    [
        (1, lambda web: web.get(f"{S2}/DOI:10.1/x", headers={"x-api-key": "sandbox-me"})),
        (5, lambda web: web.get(CORE, params={"q": 'doi:"10.1/x"'}, headers=BEARER)),
        (1, lambda web: web.get(BASE, params={"query": 'dcdoi:"10.1/x"', "apikey": "sandbox-me"})),
        (15, lambda web: web.get("https://doaj.org/api/v4/search/articles/x")),
        (60, lambda web: web.get(GRAPH, params={"pid": "10.1/x"})),
    ],
    ids=["semantic-scholar", "core", "base", "doaj", "openaire"],
)
def test_who_asks_faster_than_allowed_gets_a_429(
    box: Sandbox, web: requests.Session, most: int, ask: Callable[[requests.Session], requests.Response]
) -> None:
    codes = [ask(web).status_code for _ in range(most + 1)]
    assert codes[-1] == 429 and 429 not in codes[:most]
    assert len(box.violations()) == 1


def test_europe_pmc_answers_a_plain_503_to_who_asks_too_fast(box: Sandbox, web: requests.Session) -> None:
    url = "https://www.ebi.ac.uk/europepmc/webservices/rest/search?query=x"
    answers = [web.get(url) for _ in range(11)]
    assert (answers[-1].status_code, answers[-1].headers["Content-Type"][:10]) == (503, "text/plain")
