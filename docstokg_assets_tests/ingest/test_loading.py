"""Files of requests in their formats; bad lines are set aside with their number and never end a load."""

from __future__ import annotations

import json

import pytest

from docstokg_assets.ingest.loading import Rejected, read_requests
from docstokg_assets.ingest.records import IngestRequest
from resources.http.settings import HttpSettings

UNPAYWALL = {
    "doi": "10.5555/ABC",
    "oa_status": "green",
    "oa_locations": [
        {
            "url_for_pdf": "https://repo.example.org/1.pdf",
            "version": "acceptedVersion",
            "host_type": "repository",
            "pmh_id": "oai:1",
        },
        {"url_for_pdf": None, "url": "https://press.example.org/1"},
    ],
}
DOAJ = {
    "id": "ABCDEF",
    "bibjson": {
        "identifier": [{"type": "doi", "id": "10.5555/D"}],
        "link": [
            {"type": "fulltext", "url": "https://j.example.org/1", "content_type": "HTML"},
            {"type": "fulltext", "url": "https://j.example.org/1.pdf", "content_type": "PDF"},
        ],
    },
}


def read(*lines: bytes, **options: str) -> tuple[list[IngestRequest], Rejected]:
    rejected = Rejected()
    return list(read_requests(lines, rejected, HttpSettings(), **options)), rejected


@pytest.mark.requirement("ING-2")
def test_an_unpaywall_line_makes_a_request_for_each_pdf() -> None:
    (request,), _ = read(json.dumps(UNPAYWALL).encode())
    assert (request.base_url, request.link_source, request.link_source_id) == (
        "https://repo.example.org/1.pdf",
        "unpaywall",
        "10.5555/abc",
    )
    assert (request.release_stage, request.rel, request.oa_status) == ("accepted", "repository", "green")
    assert request.ext_ids == {"doi": "10.5555/abc", "pmh_id": "oai:1"}


@pytest.mark.requirement("ING-2")
def test_a_doaj_page_makes_an_html_and_a_pdf_request() -> None:
    requests, _ = read(json.dumps(DOAJ).encode())
    assert [(r.ingest_type, r.base_url) for r in requests] == [
        ("html", "https://j.example.org/1"),
        ("pdf", "https://j.example.org/1"),
        ("pdf", "https://j.example.org/1.pdf"),
    ]
    assert {(r.link_source, r.link_source_id) for r in requests} == {("doaj", "abcdef")}


@pytest.mark.requirement("ING-2")
def test_tsv_ids_and_requests_may_be_mixed() -> None:
    requests, rejected = read(
        b"https://a.example.org/1.pdf\tmag\t77\n",
        b"arXiv:2401.00001\n",
        b"PMC123\n",
        b"10.5555/x\n",
        b'{"base_url": "https://a.example.org/2.pdf", "ingest_type": "xml"}\n',
        b"\n",
        b"# a comment\n",
        source="test",
    )
    assert [(r.link_source, r.link_source_id) for r in requests[:4]] == [
        ("mag", "77"),
        ("arxiv", "2401.00001"),
        ("pmc", "PMC123"),
        ("doi", "10.5555/x"),
    ]
    assert requests[4].ingest_type == "xml"
    assert {r.ingest_request_source for r in requests} == {"test"}
    assert rejected.count == 0


@pytest.mark.requirement("ING-2")
def test_bad_lines_are_set_aside_with_their_number_and_the_rest_is_read() -> None:
    requests, rejected = read(
        b'{"base_url": "https://a.example.org/1.pdf"}',
        b'{"base_url": "https://a.example.org/',
        b'{"base_url": "https://a.example.org/\\u0000"}',
        b'{"base_url": "https://a.example.org/' + b"x" * 3_000 + b'"}',
        b"\xff\xfe\x00",
        b'["a"]',
        b'{"base_url": "http://127.0.0.1/"}',
        b'{"a":' * 100_000,
        b"a paper about corals",
        b'{"base_url": "https://a.example.org/2.pdf"}',
    )
    assert [r.base_url for r in requests] == ["https://a.example.org/1.pdf", "https://a.example.org/2.pdf"]
    assert [number for number, _, _ in rejected.first] == [2, 3, 4, 5, 6, 7, 8, 9]
    assert "\x00" not in "".join(item + why for _, why, item in rejected.first)
