"""`Link` headers as repositories send them, malformed ones and hostile ones included."""

from __future__ import annotations

import random
import time

import pytest

from docstokg_assets.landing.extract import extract
from docstokg_assets.landing.signposting import TypedLink, first, parse_link_header, parse_linkset

URL = "https://repo.example/records/1"
ZENODO = (
    '<https://repo.example/records/1/files/p.pdf> ; rel="item" ; type="application/pdf", '
    '<https://repo.example/api/1> ; rel="linkset" ; type="application/ld+json;profile="https://w3id.org/x"", '
    '<https://repo.example/api/records/1/linkset> ; rel="linkset" ; type="application/linkset+json", '
    '<https://doi.org/10.5281/1> ; rel="cite-as"'
)
DATAVERSE = (
    '<https://doi.org/10.7910/DVN/1>;rel="cite-as", <https://x.example/1>;rel="item";type="application/pdf",'
    'https://creativecommons.org/publicdomain/zero/1.0;rel="license", <https://schema.org/Dataset>;rel="type"'
)


@pytest.mark.requirement("RES-9")
def test_the_malformed_headers_of_zenodo_and_dataverse_are_read() -> None:
    zenodo = parse_link_header(ZENODO)
    assert first(zenodo, "item", "application/pdf") == "https://repo.example/records/1/files/p.pdf"
    assert first(zenodo, "linkset", "application/linkset+json") == "https://repo.example/api/records/1/linkset"
    assert first(zenodo, "cite-as") == "https://doi.org/10.5281/1"
    dataverse = parse_link_header(DATAVERSE)
    assert first(dataverse, "license") == "https://creativecommons.org/publicdomain/zero/1.0"
    assert first(dataverse, "item", "application/pdf") == "https://x.example/1"
    assert len(dataverse) == 4


@pytest.mark.requirement("RES-9")
@pytest.mark.parametrize(
    ("header", "links"),
    [
        ('</a.pdf>; rel=item; type="application/pdf"', [TypedLink("item", "application/pdf", "/a.pdf")]),
        ('<a,b>; rel="item describedby"; title="x, <y"', [TypedLink("item describedby", "", "a,b")]),
        ("<a>; REL=Item;Type=Application/PDF", [TypedLink("item", "application/pdf", "a")]),
        ('garbage, <b>; rel="item"', [TypedLink("item", "", "b")]),
        ('<broken, <b>; rel="item"', [TypedLink("item", "", "b")]),
        ("<a>", []),
        ("", []),
    ],
)
def test_headers_are_read_leniently(header: str, links: list[TypedLink]) -> None:
    assert parse_link_header(header)[: len(links)] == links


@pytest.mark.requirement("RES-9")
def test_what_the_header_declares_is_found() -> None:
    found = extract(b"<p>empty", "text/html", URL, {"link": ZENODO})
    assert [link.url for link in found.pdf] == ["https://repo.example/records/1/files/p.pdf"]
    assert (found.cite_as, found.license) == ("https://doi.org/10.5281/1", None)
    assert found.linkset == "https://repo.example/api/records/1/linkset"
    page = b'<link rel="license" href="https://creativecommons.org/licenses/by/4.0/"><link rel="cite-as" href="x">'
    assert extract(page, "text/html", URL).license == "https://creativecommons.org/licenses/by/4.0/"


@pytest.mark.requirement("RES-9")
def test_a_linkset_is_read_and_unknown_keys_are_ignored() -> None:
    item = {"href": "https://x.example/1.pdf", "type": "application/pdf"}
    data = {"linkset": [{"anchor": "https://x.example", "uniqueType": [{"href": "no"}], "item": [item], "type": None}]}
    assert list(parse_linkset(data)) == [TypedLink("item", "application/pdf", "https://x.example/1.pdf")]
    for broken in (None, [], {"linkset": 1}, {"linkset": [{"item": "x"}]}, {"linkset": [[1]]}):
        assert list(parse_linkset(broken)) == []


@pytest.mark.requirement("SEC-1")
def test_ten_thousand_fuzzed_headers_raise_nothing() -> None:
    dice = random.Random(7)
    pieces = ["<", ">", ",", ";", '"', "=", " rel", "type", "item", "https://a.example/", "\t", "\\", "ü", "\0", ", <"]
    started = time.process_time()
    for _ in range(10_000):
        if dice.random() < 0.5:
            header = "".join(dice.choices(pieces, k=dice.randrange(60)))
        else:
            text = list(ZENODO if dice.random() < 0.5 else DATAVERSE)
            for _ in range(dice.randrange(12)):
                text[dice.randrange(len(text))] = dice.choice(pieces)
            header = "".join(text)
        parse_link_header(header)
    assert time.process_time() - started < 10


@pytest.mark.requirement("SEC-1")
@pytest.mark.parametrize(
    "piece",
    ["<", ", <", ",https://a", "<a>;rel=", '<a>;rel="item",', ",\t", '"', ", <https://a.example/1>", ";rel" * 9],
)
def test_five_megabytes_of_links_take_little_time(piece: str) -> None:
    header = piece * (5_000_000 // len(piece))
    started = time.process_time()
    assert len(parse_link_header(header)) <= 500
    assert time.process_time() - started < 1
