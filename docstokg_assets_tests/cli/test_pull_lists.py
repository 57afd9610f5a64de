"""`content pull` with what people have: arguments, reference files, messy lists, filters; and what it keeps of the input."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from docstokg_assets.sandbox import Sandbox

if TYPE_CHECKING:
    from docstokg_assets_tests.support.program import Ended, Place

WORKS_PER_YEAR = 30
Content = Callable[..., "Ended"]


def of_archetype(box: Sandbox, name: str) -> Any:
    return next(work for work in box.universe.works(2024) if work.archetype == name)


def run_folder(place: Place) -> Path:
    return max(path for path in place.out.iterdir() if re.fullmatch("[0-9A-Z]{26}", path.name))


def works_of(place: Place) -> set[str]:
    return {work_id for (work_id,) in place.rows("SELECT work_id FROM queue")}


@pytest.mark.requirement("CLI-1", "SRC-2")
def test_identifiers_and_urls_can_be_arguments(box: Sandbox, place: Place, content: Content) -> None:
    gold, arxiv, pmc = (of_archetype(box, name) for name in ("gold", "arxiv_only", "pmc"))
    url = str(box.universe.truth(of_archetype(box, "unpaywall_only").id).url)
    ended = content(*place.arguments(gold.doi, f"arXiv:{arxiv.arxiv}", f"PMID:{pmc.pmid}", url))
    assert ended.code == 0, ended.err
    assert {gold.id, pmc.id} < works_of(place) and len(works_of(place)) == 4
    asked = [seen["path"] for seen in box.arrivals() if seen["host"] == "pmc.ncbi.nlm.nih.gov"]
    assert any("/tools/idconv/" in path for path in asked), "PMIDs go through the id converter"
    rows = pq.read_table(run_folder(place) / "inputs.parquet").to_pylist()
    assert [(row["file"], row["line"], row["kind"]) for row in rows] == [
        ("arguments", 1, "doi"), ("arguments", 2, "arxiv"), ("arguments", 3, "pmid"), ("arguments", 4, "url"),
    ]  # fmt: skip
    assert {row["work_id"] for row in rows} == works_of(place)


@pytest.mark.requirement("CLI-1", "SRC-2", "SRC-3")
def test_a_bibtex_file_is_named_read_and_accounted_for_line_by_line(
    box: Sandbox, place: Place, content: Content
) -> None:
    gold, pmc = of_archetype(box, "gold"), of_archetype(box, "pmc")
    bib = place.folder / "refs.bib"
    bib.write_text(
        f"@article{{good, title={{{{A {{\\'e}}tude}}}}, doi={{{gold.doi}}}, year=2024}}\n"
        "@article{broken, title={No end,\n  doi={10.5555/x}\n"
        f"@article{{pm, pmid={{{pmc.pmid}}}}}\n@misc{{bare, title={{No id}}}}\n@misc{{lost, pmid={{999999999}}}}\n"
        f"@article{{again, doi={{https://doi.org/{gold.doi.upper()}}}}}\n"
    )
    ended = content(*place.arguments("--ids", str(bib)))
    assert ended.code == 3
    assert f"{bib}: BibTeX, 6 entries, 2 of them set aside." in ended.err
    assert works_of(place) == {gold.id, pmc.id}
    aside = list(csv.DictReader((run_folder(place) / "set-aside.csv").open()))
    assert [row["line"] for row in aside] == ["2", "5", "6"]
    assert "brace" in aside[0]["reason"] and "no identifier" in aside[1]["reason"] and "PMID" in aside[2]["reason"]
    assert str(run_folder(place) / "set-aside.csv") in ended.err
    rows = pq.read_table(run_folder(place) / "inputs.parquet").to_pylist()
    assert [(row["key"], row["work_id"]) for row in rows if row["work_id"]] == [
        ("good", gold.id), ("pm", pmc.id), ("again", gold.id),
    ]  # fmt: skip
    assert [bool(row["reason"]) for row in rows] == [False, True, False, True, True, False]


@pytest.mark.requirement("SRC-2")
def test_where_the_id_converter_is_down_openalex_is_asked(box: Sandbox, place: Place, content: Content) -> None:
    box.add_fault(host="pmc.ncbi.nlm.nih.gov", path="/tools/idconv/*", status=503)
    pmc = of_archetype(box, "pmc")
    assert content(*place.arguments(f"https://pubmed.ncbi.nlm.nih.gov/{pmc.pmid}/")).code == 0
    assert works_of(place) == {pmc.id}


@pytest.mark.requirement("SRC-2")
def test_what_a_reference_says_names_a_work_that_openalex_does_not_know(
    box: Sandbox, place: Place, content: Content
) -> None:
    hidden = of_archetype(box, "unpaywall_only")
    box.add_fault(host="api.openalex.org", path="/works/*", status=404)
    csl = place.folder / "items.json"
    item = {"id": "k", "DOI": hidden.doi, "title": "Of seals and ice", "issued": {"date-parts": [[2019, 4]]}}
    csl.write_text(json.dumps([item]))
    ended = content(*place.arguments(str(csl)))
    assert "CSL-JSON, 1 entry." in ended.err, "a file may be an argument, too"
    assert place.rows("SELECT title, year FROM catalog_entries") == [("Of seals and ice", 2019)]


@pytest.mark.requirement("CLI-1", "SRC-1")
def test_filter_options_become_an_openalex_filter_that_is_shown(box: Sandbox, place: Place, content: Content) -> None:
    options = ("--type", "article", "--year", "2023-2024", "--oa", "--language", "en", "--license", "CC BY 4.0,cc0")
    ended = content(*place.arguments(*options, "--dry-run", "--format", "json"))
    assert ended.code == 0, ended.err
    became = (
        "best_oa_location.license:cc-by|cc0,language:en,open_access.is_oa:true,publication_year:2023-2024,type:article"
    )
    assert f"OpenAlex filter: {became}" in ended.err
    asked = [seen["path"] for seen in box.arrivals() if seen["host"] == "api.openalex.org"]
    assert "best_oa_location.license%3Acc-by%7Ccc0" in asked[0] or "best_oa_location.license:cc-by%7Ccc0" in asked[0]
    assert "download.licenses = CC BY 4.0,cc0" in ended.err


@pytest.mark.requirement("CLI-1", "SRC-3")
def test_filters_on_a_list_set_the_others_aside_with_their_line(box: Sandbox, place: Place, content: Content) -> None:
    old, new = next(iter(box.universe.works(2023))), of_archetype(box, "gold")
    ids = place.folder / "ids.txt"
    ids.write_text(f"{new.id}\n{old.id}\n")
    ended = content(*place.arguments("--ids", str(ids), "--year", "2024"))
    assert ended.code == 3 and works_of(place) == {new.id}
    (row,) = csv.DictReader((run_folder(place) / "set-aside.csv").open())
    assert (row["line"], row["reason"]) == ("2", "left out by --year: its year is 2023")


@pytest.mark.requirement("CLI-1")
@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--year", "24"), "--year '24': give a year or a range"),
        (("--year", "2024-2020"), "ends before it begins"),
        (("--topic", "ice"), "give an OpenAlex topic id such as T10102"),
        (("W1", "--topic", "T1"), "--topic goes with a query"),
        (("W1", "--query", "type:article"), "give one of --query, --ids and --urls"),
        (("--column", "DOI"), "--column names a column of the table"),
        (("--copy-version", "final"), "download.versions"),
        (("nonsense",), "(read as list) has a DOI"),
    ],
)
def test_wrong_options_are_named_and_nothing_is_made(place: Place, content: Content, options: Any, says: str) -> None:
    ended = content(*place.arguments(*options))
    assert ended.code == 2 and says in " ".join(ended.err.split()), ended.err
    assert not place.out.exists()


@pytest.mark.requirement("CLI-1")
def test_a_wrong_column_names_the_columns_there_are(place: Place, content: Content) -> None:
    table = place.folder / "t.csv"
    table.write_text("paper,where\nA,10.5555/a\n")
    ended = content(*place.arguments("--ids", str(table), "--column", "doi"))
    assert ended.code == 2 and "no column 'doi'. Its columns are: paper, where" in " ".join(ended.err.split())
