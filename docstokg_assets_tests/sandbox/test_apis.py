"""The services answer in the shapes of the real ones, over real sockets, through the proxy and its CA."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

import pytest
import requests
from lxml import etree

from docstokg_assets.sandbox import Sandbox, Work
from docstokg_assets_tests.support.sandbox import proxied_session

OA = "https://api.openalex.org"
ATOM = "{http://www.w3.org/2005/Atom}"


@pytest.fixture(scope="module")
def box(start: Callable[..., Sandbox]) -> Sandbox:
    return start(works_per_year=350, years=(2022, 2024), enforce_limits=False)


@pytest.fixture(scope="module")
def web(box: Sandbox) -> requests.Session:
    return proxied_session(box)


def one(box: Sandbox, archetype: str) -> Work:
    return next(w for w in box.universe.works() if w.archetype == archetype and w.doi and not w.strange)


# -- OpenAlex


def test_a_list_has_the_shape_of_openalex(web: requests.Session) -> None:
    answer = web.get(f"{OA}/works", params={"filter": "publication_year:2024", "per_page": 100, "cursor": "*"})
    body = answer.json()
    assert set(body) == {"meta", "results", "group_by"}
    assert {"count", "db_response_time_ms", "page", "per_page", "groups_count", "next_cursor", "cost_usd"} <= set(
        body["meta"]
    )
    assert body["meta"]["count"] == 350 and body["meta"]["page"] is None and body["meta"]["cost_usd"] == 0.0001
    record = next(r for r in body["results"] if r["best_oa_location"] and r.get("ids"))
    assert record["id"].startswith("https://openalex.org/W")
    assert set(record["open_access"]) == {"is_oa", "oa_status", "oa_url", "any_repository_has_fulltext"}
    location = record["best_oa_location"]
    assert {"id", "is_oa", "landing_page_url", "pdf_url", "source", "license", "license_id", "version", "is_accepted",
            "is_published", "raw_source_name", "raw_type"} == set(location)  # fmt: skip
    assert location in record["locations"] and record["open_access"]["is_oa"] is True
    assert int(answer.headers["X-RateLimit-Limit"]) == 1000
    assert answer.headers["X-RateLimit-Credits-Used"] == "1"


def test_cursors_yield_every_work_exactly_once(box: Sandbox, web: requests.Session) -> None:
    seen: list[str] = []
    cursor: str | None = "*"
    while cursor:
        page = web.get(f"{OA}/works", params={"filter": "publication_year:2022-2023", "per_page": 90, "cursor": cursor,
                                              "select": "id,publication_date"}).json()  # fmt: skip
        seen += [r["id"].rsplit("/", 1)[1] for r in page["results"]]
        cursor = page["meta"]["next_cursor"]
    assert sorted(seen) == sorted(w.id for y in (2022, 2023) for w in box.universe.works(y))


def test_pages_and_cursors_agree_and_pages_end_at_ten_thousand(web: requests.Session) -> None:
    query = {"filter": "publication_year:2024", "per_page": 50, "select": "id"}
    paged = web.get(f"{OA}/works", params={**query, "page": 2}).json()
    assert paged["meta"]["page"] == 2 and len(paged["results"]) == 50
    assert web.get(f"{OA}/works", params={**query, "page": 201}).status_code == 400


@pytest.mark.parametrize(
    ("filters", "check"),
    [
        ("from_publication_date:2023-03-01,to_publication_date:2023-03-31",
         lambda r: r["publication_date"][:7] == "2023-03"),
        ("publication_year:>2023", lambda r: r["publication_year"] == 2024),
        ("publication_year:2022|2024", lambda r: r["publication_year"] in (2022, 2024)),
        ("primary_topic.id:T10102", lambda r: r["primary_topic"]["id"].endswith("T10102")),
        ("topics.id:T10102|T10036", lambda r: any(t["id"][-6:] in ("T10102", "T10036") for t in r["topics"])),
        ("open_access.is_oa:true", lambda r: r["open_access"]["is_oa"]),
        ("open_access.is_oa:false,has_doi:true", lambda r: r["doi"] and not r["open_access"]["is_oa"]),
        ("language:el", lambda r: r["language"] == "el"),
        ("type:!article", lambda r: r["type"] != "article"),
        ("authorships.institutions.lineage:I136199900",
         lambda r: r["authorships"][0]["institutions"][0]["id"].endswith("I136199984")),
    ],
)  # fmt: skip
def test_filters_select(web: requests.Session, filters: str, check: Callable[[dict[str, object]], bool]) -> None:
    body = web.get(f"{OA}/works", params={"filter": filters, "per_page": 100}).json()
    plain = [r for r in body["results"] if r.get("publication_date") and r["ids"] and isinstance(r["language"], str)]
    assert body["meta"]["count"] > 0 and plain and all(check(r) for r in plain if r["doi"] != "10..//")


def test_works_by_lists_of_ids(box: Sandbox, web: requests.Session) -> None:
    works = [box.universe.work(2024, k) for k in range(100)]
    body = web.get(
        f"{OA}/works", params={"filter": "openalex:" + "|".join(w.id for w in works), "per_page": 100}
    ).json()
    assert {r["id"].rsplit("/", 1)[1] for r in body["results"]} == {w.id for w in works}
    dois = [w.doi for w in works[:20] if w.doi and "," not in w.doi]
    assert web.get(f"{OA}/works", params={"filter": "doi:" + "|".join(dois)}).json()["meta"]["count"] == len(dois)
    too_many = "|".join(f"W{n}" for n in range(101))
    assert web.get(f"{OA}/works", params={"filter": f"openalex:{too_many}"}).status_code == 400


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("filter=nonsense:1", "Invalid query parameters error."),
        ("select=locations.source", "Invalid query parameters error."),
        ("per_page=201", "Invalid query parameters error."),
        ("cursor=xx", "Invalid query parameters error."),
        ("limit=5", "Invalid request rejected at the API edge"),
        ("filter=title.search:a,b", "Invalid request rejected at the API edge"),
    ],
)
def test_bad_queries_are_refused(web: requests.Session, query: str, error: str) -> None:
    answer = web.get(f"{OA}/works?{query}")
    assert answer.status_code == 400 and answer.json()["error"] == error
    assert ("x-openalex-edge-reject" in answer.headers) == ("edge" in error)


def test_keys_and_plans(web: requests.Session) -> None:
    bad = web.get(f"{OA}/works?api_key=unknown")
    assert (bad.status_code, bad.json()) == (
        401,
        {"error": "Invalid or missing API key", "message": "API key not found"},
    )
    assert web.get(f"{OA}/works?api_key=").status_code == 401
    assert web.get(f"{OA}/works", headers={"Authorization": "Bearer sandbox-a"}).headers["X-RateLimit-Limit"] == "10000"
    gated = web.get(f"{OA}/works?filter=from_updated_date:2024-01-01&api_key=sandbox-a")
    assert (gated.status_code, gated.json()["error"]) == (429, "Plan upgrade required")
    assert web.get(f"{OA}/works?filter=from_updated_date:2024-01-01&api_key=sandbox-paid-a").json()["meta"]["count"] > 0
    usage = web.get(f"{OA}/rate-limit?api_key=sandbox-a").json()["rate_limit"]
    assert usage["credits_limit"] == 10_000 and usage["credit_costs"]["search"] == 10


def test_single_works(box: Sandbox, web: requests.Session) -> None:
    work = one(box, "gold")
    for name in (work.id, f"doi:{work.doi}", f"https://doi.org/{work.doi}"):
        assert web.get(f"{OA}/works/{quote(name, safe='/:')}").json()["id"].endswith(work.id)
    assert web.get(f"{OA}/works/W1").status_code == 404


# -- the others


def test_unpaywall(box: Sandbox, web: requests.Session) -> None:
    work = one(box, "unpaywall_only")
    url = f"https://api.unpaywall.org/v2/{quote(work.doi or '', safe='')}"
    assert web.get(url).status_code == web.get(f"{url}?email=me@example.com").status_code == 422
    body = web.get(f"{url}?email=me@somewhere.org").json()
    assert body["is_oa"] is True and body["best_oa_location"]["url_for_pdf"] == box.universe.truth(work.id).url
    assert body["best_oa_location"]["evidence"] == "deprecated" and body["data_standard"] == 2
    missing = web.get("https://api.unpaywall.org/v2/10.1/x?email=me@somewhere.org")
    assert missing.status_code == 404 and "text/html" in missing.headers["Content-Type"]


def test_crossref(box: Sandbox, web: requests.Session) -> None:
    work = one(box, "crossref_link")
    url = f"https://api.crossref.org/works/{quote(work.doi or '', safe='')}?mailto=a@b.org"
    answer = web.get(url)
    assert answer.headers["x-api-pool"] == "polite-single" and "x-rate-limit-limit" not in answer.headers
    box.enforce_limits(True)  # only a limit that counts is announced
    limited = web.get(url).headers
    box.enforce_limits(False)
    assert (limited["x-rate-limit-limit"], limited["x-rate-limit-interval"]) == ("10", "1s")
    assert limited["x-concurrency-limit"] == "3"
    message = answer.json()["message"]
    assert message["link"][0]["URL"] == box.universe.truth(work.id).url
    assert message["link"][-1]["intended-application"] == "similarity-checking" and "license" not in message
    missing = web.get("https://api.crossref.org/v1/works/10.1%2Fx")
    assert (missing.status_code, missing.text) == (404, "Resource not found.")
    assert missing.headers["x-api-pool"] == "public-single"


def test_doi(box: Sandbox, web: requests.Session) -> None:
    work = one(box, "doi_redirect")
    url = f"https://doi.org/{quote(work.doi or '', safe='/')}"
    answer = web.get(url, headers={"Accept": "text/html"})
    assert answer.status_code == 200 and len({r.url.split("/")[2] for r in answer.history}) >= 2
    assert web.get(f"https://doi.org/doiRA/{work.doi}").json() == [{"DOI": work.doi, "RA": "Crossref"}]
    assert web.get(f"https://doi.org/api/handles/{quote(work.doi or '')}").json()["responseCode"] == 1
    assert web.get("https://doi.org/doiRA/10.1/x").json()[0]["status"] == "DOI does not exist"
    assert web.get("https://doi.org/10.1/x").status_code == 404
    negotiated = web.get(url, headers={"Accept": "application/vnd.citationstyles.csl+json"})
    assert negotiated.json()["DOI"] == work.doi and "api.crossref.org" in negotiated.url
    assert web.get(url.replace("doi.org", "dx.doi.org"), allow_redirects=False).headers["Location"] == url


def test_arxiv(box: Sandbox, web: requests.Session) -> None:
    work = one(box, "arxiv_only")
    feed = etree.fromstring(web.get(f"https://export.arxiv.org/api/query?id_list={work.arxiv}").content)
    entry = feed.find(f"{ATOM}entry")
    assert entry is not None and (work.arxiv or "") in (entry.findtext(f"{ATOM}id") or "")
    for suffix in ("", "v1", ".pdf"):
        assert web.get(f"https://arxiv.org/pdf/{work.arxiv}{suffix}").content.startswith(b"%PDF-")
    assert "citation_pdf_url" in web.get(f"https://arxiv.org/abs/{work.arxiv}").text
    error = web.get("https://export.arxiv.org/api/query?id_list=x")
    assert (
        error.status_code == 200 and "<title>Error</title>" in error.text and "incorrect id format for x" in error.text
    )
    assert web.get("http://export.arxiv.org/api/query?id_list=1", allow_redirects=False).status_code == 301
    assert "Crawl-delay: 15" in web.get("https://arxiv.org/robots.txt").text


def test_pmc_and_europe_pmc(box: Sandbox, web: requests.Session) -> None:
    work = one(box, "pmc")
    bucket = "https://pmc-oa-opendata.s3.amazonaws.com"
    assert (
        f"<Prefix>{work.pmcid}.1/</Prefix>" in web.get(f"{bucket}/?list-type=2&prefix={work.pmcid}.&delimiter=/").text
    )
    meta = web.get(f"{bucket}/metadata/{work.pmcid}.1.json").json()
    assert meta["pdf_url"].startswith(f"s3://pmc-oa-opendata/{work.pmcid}.1/{work.pmcid}.1.pdf?md5=")
    assert web.get(f"{bucket}/{work.pmcid}.1/{work.pmcid}.1.pdf").content.startswith(b"%PDF-")
    assert "KeyCount>0<" in web.get(f"{bucket}/?list-type=2&prefix=PMC1.&delimiter=/").text
    assert "POW_CHALLENGE" in web.get(f"https://pmc.ncbi.nlm.nih.gov/articles/{work.pmcid}/pdf/main.pdf").text
    converted = web.get(
        "https://pmc.ncbi.nlm.nih.gov/tools/idconv/api/v1/articles/", params={"ids": work.doi, "idtype": "doi"}
    )
    assert converted.json()["records"][0]["pmcid"] == work.pmcid
    rest = "https://www.ebi.ac.uk/europepmc/webservices/rest"
    found = web.get(
        f"{rest}/search", params={"query": f'DOI:"{work.doi}"', "resultType": "core", "format": "json"}
    ).json()
    assert found["hitCount"] == 1 and found["resultList"]["result"][0]["hasPDF"] == "Y"
    assert "errCode" in web.get(f"{rest}/search?query=x&pageSize=5000").json()
    assert web.get(f"{rest}/{work.pmcid}/fullTextXML").content.startswith(b"<?xml")
    rendered = web.get(f"https://europepmc.org/articles/{work.pmcid}?pdf=render")
    assert rendered.content.startswith(b"%PDF-") and "/api/getPdf" in rendered.url


def test_wayback(box: Sandbox, web: requests.Session) -> None:
    work = one(box, "wayback_only")
    dead = box.universe.scenario(work).locations[0].pdf or ""
    cdx = "https://web.archive.org/cdx/search/cdx"
    assert web.get(dead).status_code in (404, 410)
    rows = web.get(cdx, params={"url": dead, "output": "json"}).json()
    assert rows[0] == ["urlkey", "timestamp", "original", "mimetype", "statuscode", "digest", "length"]
    assert [r[3] for r in rows[1:]] == ["text/html", "application/pdf", "warc/revisit"] and rows[3][4] == "-"
    wanted = [("url", dead), ("output", "json"), ("filter", "statuscode:200"), ("filter", "mimetype:application/pdf"),
              ("fl", "timestamp,original"), ("limit", "-1")]  # fmt: skip
    only = web.get(cdx, params=wanted).json()
    assert only[0] == ["timestamp", "original"] and len(only) == 2
    assert len(web.get(cdx, params={"url": dead, "output": "json", "filter": "!statuscode:200"}).json()) == 3
    assert len(web.get(cdx, params={"url": dead, "output": "json", "collapse": "digest"}).json()) == 3
    for limit, kinds in (("2", ["text/html", "application/pdf"]), ("-2", ["application/pdf", "warc/revisit"])):
        part = web.get(cdx, params={"url": dead, "output": "json", "fl": "mimetype", "limit": limit}).json()
        assert [r[0] for r in part[1:]] == kinds
    assert web.get(cdx, params={"url": "https://www.plainpages.example/none", "output": "json"}).json() == []
    replay = web.get(f"https://web.archive.org/web/{only[1][0]}id_/{dead}")
    assert replay.content.startswith(b"%PDF-") and not replay.history
    near = web.get(f"https://web.archive.org/web/{work.year + 1}0402id_/{dead}")
    assert near.content == replay.content and only[1][0] in near.url
    snapshot = web.get("https://archive.org/wayback/available", params={"url": dead}).json()["archived_snapshots"][
        "closest"
    ]
    assert snapshot["timestamp"] == only[1][0]
