"""Lists in every format that people have: all give the same works, and what cannot be read is named by its line."""

from __future__ import annotations

import codecs
import io
import time
from collections.abc import Callable

import pytest

from docstokg_assets.domain.identifiers import Identifier
from docstokg_assets.domain.mentions import find_mentions
from docstokg_assets.sources import SourceError
from docstokg_assets.sources.inputs import unique_identifiers
from docstokg_assets.sources.references import read_arguments, read_references
from docstokg_assets_tests.support import reference_lists as lists

SICI = "10.1002/(SICI)1097-4571(199806)49:8<693::AID-ASI4>3.0.CO;2-O"
EXPECTED = [(one.kind, one.value) for one in lists.references()]
FORMATS: dict[str, tuple[str, Callable[[], str]]] = {
    "bib": ("BibTeX", lists.bibtex),
    "ris": ("RIS", lists.ris),
    "csv": ("CSV", lists.table),
    "tsv": ("TSV", lambda: lists.table("\t")),
    "csl": ("CSL-JSON", lists.csl),
    "txt": ("text", lists.messy_text),
}
ENCODINGS: dict[str, Callable[[str], bytes]] = {
    "utf-8": lambda text: text.encode(),
    "bom and crlf": lambda text: codecs.BOM_UTF8 + text.replace("\n", "\r\n").encode(),
    "utf-16": lambda text: text.encode("utf-16"),
    "utf-16-be without bom": lambda text: text.encode("utf-16-be"),
}


def identified(data: bytes, name: str = "list") -> list[tuple[str, str]]:
    return [(one.kind, one.value) for one in unique_identifiers(read_references(data, name).inputs)]


@pytest.mark.requirement("SRC-2")
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("format", FORMATS)
def test_all_formats_in_all_encodings_give_the_same_works(format: str, encoding: str) -> None:
    name, make = FORMATS[format]
    read = read_references(ENCODINGS[encoding](make()), f"refs.{format}")
    assert read.format == name
    assert [one for one in read.inputs if one.reason] == []
    assert [(one.identifier.kind, one.identifier.value) for one in read.inputs if one.identifier] == EXPECTED


@pytest.mark.requirement("SRC-2")
def test_pubmed_and_excel_give_the_same_works() -> None:
    read = read_references(lists.excel(), "refs.xlsx")
    assert read.format == "Excel, sheet 'papers'"
    found = [(one.identifier.kind, one.identifier.value) for one in read.inputs if one.identifier]
    assert found == EXPECTED
    nbib = identified(codecs.BOM_UTF8 + lists.nbib().replace("\n", "\r\n").encode())
    assert nbib == [one for one in EXPECTED if one[0] != "arxiv"]


@pytest.mark.requirement("SRC-2")
def test_entries_keep_their_line_key_title_and_year() -> None:
    for make in (lists.bibtex, lists.ris, lists.csl):
        read = read_references(make().encode(), "refs").inputs
        first = read[1]
        assert (first.key, first.title, first.year) == ("author0", "Über Öl und Käse 1", 2001)
        assert make().splitlines()[first.line - 1].startswith(("@article{author0", "TY  - ", "  {"))
    keys = [one.key for one in read_references(lists.bibtex().encode(), "refs").inputs]
    assert len(keys) == 2 * len(set(keys)) == lists.COUNT, "entries with the same key are all read"


@pytest.mark.requirement("SRC-3")
def test_a_missing_brace_costs_one_entry_which_is_named_by_its_line() -> None:
    lines = lists.bibtex().split("\n")
    entry = next(n for n, line in enumerate(lines) if line.startswith("@article{author50"))
    lines[entry + 2] = lines[entry + 2].replace("}},", "},")
    read = read_references("\n".join(lines).encode(), "refs.bib")
    (broken,) = [one for one in read.inputs if one.reason]
    assert broken.line == entry + 1 and "brace" in (broken.reason or "") and "author50" in broken.text
    found = [(one.identifier.kind, one.identifier.value) for one in read.inputs if one.identifier]
    assert found == [one for one in EXPECTED if one != EXPECTED[100]]


@pytest.mark.requirement("SRC-3")
def test_entries_without_identifier_and_broken_ones_are_set_aside_with_reason() -> None:
    ris = "TY  - JOUR\nTI  - No id here\nER  - \n\nTY  - JOUR\nDO  - n/a\nER  -\nTY  - JOUR\nDO  - 10.5555/cut.off\n"
    read = read_references(ris.encode(), "refs.ris").inputs
    assert [(one.line, bool(one.reason)) for one in read] == [(1, True), (5, True), (8, False)]
    assert read[0].title == "No id here" and "'n/a' is not valid" in (read[1].reason or "")
    json_list = read_references(b'[{"DOI": "10.5555/a"},\n {"DOI": "10.5555/b"},\n {"DOI": "10.55', "x.json").inputs
    assert [one.line for one in json_list] == [1, 2, 3] and "not valid JSON" in (json_list[2].reason or "")


@pytest.mark.requirement("SRC-3")
def test_columns_are_found_or_named_and_wrong_ones_are_refused_with_the_known_ones() -> None:
    table = b"paper;where;pmid\nA;10.5555/a;1\nB;;2\nC;see https://doi.org/10.5555/c;\n"
    read = read_references(table, "t.csv", "Where").inputs
    assert [(one.line, one.identifier.value if one.identifier else one.reason) for one in read] == [
        (2, "10.5555/a"),
        (3, "column Where is empty"),
        (4, "10.5555/c"),
    ]
    assert [one.reason for one in read_references(table, "t.csv").inputs] == [None, None, "no identifier in pmid"]
    with pytest.raises(SourceError, match=r"has no column 'DOI'.*paper, where, pmid"):
        read_references(table, "t.csv", "DOI")
    with pytest.raises(SourceError, match=r"has no column 'nothing'"):
        read_references(lists.excel(), "t.xlsx", "nothing")


@pytest.mark.requirement("SRC-3")
def test_an_open_quotation_mark_does_not_swallow_the_rest() -> None:
    table = lists.table().replace("\n", "\r\n").replace('"said ""no""', '"said "no"', 1).encode()
    assert set(identified(table)) == set(EXPECTED)


@pytest.mark.requirement("SRC-3")
@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"%PDF-1.7 ...", "is a PDF"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1", "old Excel"),
        (b'<?xml version="1.0"?><rdf:RDF/>', "XML"),
        (b"\x1f\x8b\x08\x00", "compressed"),
        (b"PK\x03\x04 not a sheet", "not a readable Excel file"),
    ],
)
def test_what_is_no_list_is_named_with_a_remedy(data: bytes, says: str) -> None:
    with pytest.raises(SourceError, match=says):
        read_references(data, "given")


@pytest.mark.requirement("SRC-2")
@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("10.5555/a,10.5555/b;10.5555/c", ["10.5555/a", "10.5555/b", "10.5555/c"]),
        (f"“{SICI}”", [SICI]),
        ('<a href="https://doi.org/10.5555/x">10.5555/x</a>', ["10.5555/x"]),
        ("[10.5555/x](https://doi.org/10.5555/x)", ["10.5555/x"]),
        ("https://onlinelibrary.wiley.com/doi/full/10.1002/abc.123?casa_token=1", ["10.1002/abc.123"]),
        ("https://www.frontiersin.org/articles/10.3389/fpsyg.2020.1/full", ["10.3389/fpsyg.2020.1"]),
        ("https://link.springer.com/content/pdf/10.1007/s00-1-2.pdf", ["10.1007/s00-1-2"]),
        ("https://journals.plos.org/plosone/article?id=10.1371/journal.pone.1&type=printable", ["10.1371/journal.pone.1"]),
        ("https://www.biorxiv.org/content/10.1101/2020.01.01.123456v2.full.pdf", ["10.1101/2020.01.01.123456"]),
        ("PMIDs: 12345678, 23456789; 2020", ["12345678", "23456789"]),
        ("PMID 31452104; PMCID: PMC6703865", ["31452104", "PMC6703865"]),
        ("arXiv:2401.00001v2, hep-th/9901001 and 2401.00002", ["2401.00001v2", "hep-th/9901001", "2401.00002"]),
        ("W2741809807 https://openalex.org/W123456", ["W2741809807", "W123456"]),
        ("doi%3A10.5555%2Fx", ["10.5555/x"]),
        ("DOI: 10.5555/a&lt;b&gt;", ["10.5555/a"]),
        ("10.5555/\u200babc\u00a0", ["10.5555/abc"]),
        ("https://press.example/a(b).pdf).", ["https://press.example/a(b).pdf"]),
        ("12345 2020 version 10.2 p. 3/4", []),
        ("", []),
    ],
)  # fmt: skip
def test_identifiers_are_found_anywhere_in_a_line(line: str, found: list[str]) -> None:
    assert [one.value if isinstance(one, Identifier) else one for one in find_mentions(line)] == found


@pytest.mark.requirement("SRC-2", "CLI-1")
def test_arguments_are_read_like_lines_and_numbers_alone_are_a_list_of_pmids() -> None:
    read = read_arguments(["10.5555/a", "arXiv:2401.00001", "https://press.example/paper.pdf", "nothing"])
    assert [one.line for one in read.inputs] == [1, 2, 3, 4]
    assert read.inputs[2].work is not None and read.inputs[3].reason
    pubmed = read_references(b"31452104\n31437182\n", "pmids.txt")
    assert pubmed.format == "list of PMIDs" and {one.identifier.kind for one in pubmed.inputs if one.identifier} == {
        "pmid"
    }
    assert read_references(b"12345\nW123456\n", "mixed.txt").inputs[0].reason, "a number alone may be anything"


@pytest.mark.requirement("SRC-2")
def test_lines_in_several_encodings_and_a_long_file_are_read() -> None:
    mixed = "Müller 10.5555/a\n".encode() + "Müller 10.5555/b\n".encode("cp1252")
    assert [one.text for one in read_references(mixed, "x").inputs] == ["Müller 10.5555/a", "Müller 10.5555/b"]
    data = "".join(f"10.5555/{n}\n" for n in range(100_000)).encode()
    began = time.process_time()
    assert len(identified(data)) == 100_000
    assert time.process_time() - began < 20, "a million lines take a minute or two, not an hour"


@pytest.mark.requirement("SRC-3")
def test_a_formula_without_a_result_and_an_empty_sheet_are_reported_not_fatal() -> None:
    import openpyxl

    book = openpyxl.Workbook()
    book.active.append(["DOI"])
    book.active.append(['=CONCATENATE("10.5555/","a")'])
    book.active.append(["=A1+1"])
    out = io.BytesIO()
    book.save(out)
    read = read_references(out.getvalue(), "f.xlsx").inputs
    assert [(one.line, bool(one.reason)) for one in read] == [(2, True), (3, True)]
    empty = io.BytesIO()
    openpyxl.Workbook().save(empty)
    assert read_references(empty.getvalue(), "e.xlsx").inputs == ()
