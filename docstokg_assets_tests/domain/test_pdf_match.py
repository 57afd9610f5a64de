"""Whether a PDF is the article that was wanted: what rejects, what is only flagged, and what must not be doubted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from docstokg_assets.domain.pdf_match import Flag, Verdict, validate_pdf
from docstokg_assets.domain.works import Work
from docstokg_assets.lake.views import query_lake
from docstokg_assets.runs.run import DownloadRun
from docstokg_assets.runs.services import open_services
from docstokg_assets.sandbox import Sandbox
from docstokg_assets_tests.support.configs import ConfigFor
from resources.pdf import PdfFacts
from resources.records import Classification, Reason

URL = "https://a.example/1.pdf"
WORK = Work("W1", title="On the efficient growth of sea ice: a study of the Baltic", doi="10.5555/Ice.1")
FILLER = (
    "We describe an experiment that nobody carried out, with samples that do not exist and numbers of no meaning. " * 8
)
OTHER = f"A catalogue of lighthouses on the northern coast\nby Nobody\ndoi:10.5555/light.7\nAbstract\n{FILLER}\nIntroduction"


def verdict(text: str, work: Work = WORK, url: str = URL, pages: int = 9, **metadata: str) -> Verdict:
    return validate_pdf(work, url, PdfFacts(pages=pages, text=text, metadata=metadata))


@pytest.mark.requirement("DL-11")
def test_another_papers_doi_and_title_reject_the_file_and_say_why() -> None:
    found = verdict(OTHER)
    assert (found.flags, found.reason) == ((Flag.SUSPECT_MISMATCH,), Reason.WRONG_PAPER)
    assert "10.5555/light.7" in found.evidence and "another title" in found.evidence
    assert verdict(FILLER, **{"prism:doi": "10.5555/light.7"}).reason is Reason.WRONG_PAPER
    elsewhere = Work("W1", title="波罗的海海冰生长的研究", doi="10.7777/ice.1")  # another script, and another publisher
    assert verdict(OTHER, elsewhere).reason is Reason.WRONG_PAPER


@pytest.mark.parametrize(
    "text",
    [
        f"ON THE EFFICIENT GROWTH OF SEA ICE\nA STUDY OF THE BALTIC\n{FILLER} 10.5555/light.7",
        f"On the e\ufb03cient growth of\nsea ice: a study\nof the Baltic\n{FILLER} doi:10.5555/light.7",  # a ligature
        f"On the effi-\ncient growth of sea ice: a stu-\ndy of the Baltic\n{FILLER} doi:10.5555/light.7",
        f"O n t h e e f f i c i e n t g r o w t h o f s e a i c e\n{FILLER} doi:10.5555/light.7",  # spaced letters
        f"On the efficient growth of sea ice\n{FILLER} doi:10.5555/light.7",  # without its subtitle
        f"Efficient growth of sea ice in the Baltic, a study\n{FILLER} doi:10.5555/light.7",  # as a preprint was called
        f"Repository of the University\nThis is the accepted version\nhttps://doi.org/10.5555/\nice.1\n{FILLER}",  # a cover
        f"{FILLER} doi:10.5555/ICE.1, see also doi:10.5555/light.7",
        f"{FILLER} doi:10.5555/ice.1.v2",
    ],
)
def test_the_right_paper_is_not_doubted_however_it_is_set(text: str) -> None:
    assert verdict(text) == Verdict()


@pytest.mark.parametrize(
    ("title", "text"),
    [
        ("Рост морского льда в Балтийском море", f"РОСТ МОРСКОГО ЛЬДА\nВ БАЛТИЙСКОМ МОРЕ\n{FILLER} doi:10.5555/x.1"),
        ("波罗的海海冰生长的研究", f"波罗的海海冰\n生长的研究\n{FILLER} doi:10.5555/x.1"),
        ("바다 얼음의 성장에 대한 연구", f"바다 얼음의 성장에 대한 연구\n{FILLER} doi:10.5555/x.1"),
        ("Étude de la croissance des glaces", f"ETUDE DE LA CROISSANCE DES GLACES\n{FILLER} doi:10.5555/x.1"),
    ],
)
def test_titles_of_other_scripts_are_found(title: str, text: str) -> None:
    assert verdict(text, Work("W1", title=title, doi="10.5555/ice.1")) == Verdict()


LONG = "Efficient growth of columnar sea ice in the brackish estuaries of the northern Baltic"
SHIPS = (
    "The lamps of the towers were lit by hand, and the keepers wrote down the names of the ships that went by. " * 30
)


@pytest.mark.requirement("DL-11")
@pytest.mark.parametrize("text", [SHIPS, f"A catalogue of lighthouses\n{SHIPS} doi:10.5555/light.7"])
def test_pages_without_one_word_of_a_long_title_are_another_paper_also_where_no_identifier_is_known(text: str) -> None:
    found = verdict(text, Work("W1", title=LONG))
    assert (found.flags, found.reason) == ((Flag.SUSPECT_MISMATCH,), Reason.WRONG_PAPER)


@pytest.mark.parametrize(
    ("text", "title"),
    [
        (f"{SHIPS} It is a matter of salinity in estuarine water.", LONG),  # a word of it, otherwise bent
        (SHIPS, "Growth of columnar sea ice"),  # too few words
        (SHIPS[:1000], LONG),  # too little text
        (
            "Les lampes des tours furent allumées à la main, et les gardiens notaient les navires. " * 40,
            LONG,
        ),  # translated
        (SHIPS, "Crescimento eficiente do gelo marinho colunar nos estuários salobros do Báltico"),
        ("%&/ §§ fgh jkl qwe rty zxc vbn asd " * 120, LONG),  # letters that are not those that are shown
    ],
)
def test_without_that_much_to_go_by_it_is_only_flagged(text: str, title: str) -> None:
    assert verdict(text, Work("W1", title=title)).reason is None


def test_less_than_plain_evidence_is_a_flag_and_the_file_is_kept() -> None:
    # a text in another script: its title cannot be compared, and the publisher is the same
    translated = verdict("波罗的海海冰生长的研究 " * 40 + "doi:10.5555/light.7")
    several = verdict(f"A catalogue of lighthouses\n{FILLER} doi:10.5555/a.1 doi:10.5555/b.2")  # references, maybe
    untitled = verdict(f"A catalogue of lighthouses\n{FILLER}")
    unnumbered = verdict(OTHER, Work("W1", title=WORK.title))  # the work has no DOI that could be another
    for found in (translated, several, untitled, unnumbered):
        assert (found.flags, found.reason) == ((Flag.SUSPECT_MISMATCH,), None)
        assert found.evidence


@pytest.mark.parametrize(
    "work",
    [
        Work("W1", doi="10.5555/ice.1", title="Editorial"),  # too short to be told from other words
        Work("url:1"),
    ],
)
def test_where_nothing_can_be_compared_nothing_is_claimed(work: Work) -> None:
    assert verdict(FILLER, work) == Verdict()
    assert verdict("", WORK) == Verdict()  # a scan


@pytest.mark.requirement("DL-11")
@pytest.mark.parametrize(
    ("text", "url"),
    [
        (f"Supporting Information\nfor\n{WORK.title}\n{FILLER}", URL),
        (f"Electronic Supplementary Material\n{WORK.title}\n{FILLER}", URL),
        (f"{WORK.title}\n{FILLER}", "https://static.example/1234_2024_MOESM1_ESM.pdf?download=1"),
        (f"{WORK.title}\n{FILLER}", "https://ars.example/1-s2.0-S00-mmc2.pdf"),
    ],
)
def test_a_supplement_is_not_taken_for_the_article(text: str, url: str) -> None:
    found = verdict(text, url=url)
    assert (found.flags, found.reason) == ((Flag.SUPPLEMENT,), Reason.WRONG_PAPER)


@pytest.mark.requirement("DL-11")
def test_an_article_that_only_mentions_its_supplement_is_an_article() -> None:
    text = f"{WORK.title}\nSupplementary material for this article is available online\n{FILLER}"
    assert verdict(text) == Verdict()
    assert verdict(f"{WORK.title}\n{FILLER}", url="https://a.example/content/12/suppl_1/S3.pdf") == Verdict()
    data = Work("W1", title="Supplementary data for the growth of ice", doi="10.5555/ice.1")
    assert verdict("Supplementary data for the growth of ice", data).flags == ()


@pytest.mark.requirement("DL-11")
@pytest.mark.parametrize("first", ["", "Ice Letters 4 (2024)\n"])
def test_an_article_with_a_note_about_its_supplement_in_the_margin_is_flagged_and_kept(first: str) -> None:
    note = "Supporting information: this article has\nsupporting information at journals.example.org"
    found = verdict(f"{first}{note}\n{WORK.title}\nby Nobody\nAbstract {FILLER}\n1. Introduction\n{FILLER}")
    assert (found.flags, found.reason) == ((Flag.SUPPLEMENT,), None)


def test_abstracts_and_front_matter_are_flagged_and_articles_are_not() -> None:
    abstract = f"{WORK.title}\nAbstract\n{FILLER}"
    assert verdict(abstract, pages=1).flags == (Flag.ABSTRACT_ONLY,)
    assert verdict(f"{abstract}\n1 Introduction", pages=1).flags == ()
    assert verdict(abstract, pages=9).flags == ()
    contents = f"Journal of Ice\nTable of Contents\n{WORK.title} ... 12\nA catalogue of lighthouses ... 19"
    assert verdict(contents, pages=2).flags == (Flag.FRONT_MATTER,)


def test_what_could_not_be_read_is_told_apart() -> None:
    assert validate_pdf(WORK, URL, PdfFacts(fault="startxref not found")) == Verdict(
        (Flag.UNREADABLE,), "startxref not found"
    )
    assert validate_pdf(WORK, URL, PdfFacts(encrypted=True)).flags == (Flag.ENCRYPTED,)
    found = validate_pdf(WORK, URL, PdfFacts(limit="memory"))
    assert (found.flags, found.reason) == ((Flag.VALIDATOR_LIMIT,), Reason.VALIDATOR_LIMIT)


# -- from the web to the manifest -------------------------------------------------------------------------------------

MIX = {
    **dict.fromkeys(("gold", "repository", "later_location", "arxiv_only", "unpaywall_only", "crossref_link"), 0),
    **dict.fromkeys(("doi_redirect", "landing", "pmc", "html_only", "jats_only", "wayback_only", "loop_pdf"), 0),
    **dict.fromkeys(("loop_doi", "nothing_closed", "nothing_404", "bad_status", "no_pdf_link", "wall", "corrupt"), 0),
    **dict.fromkeys(("no_pdf_link_closed", "robots", "strange"), 0),
    **{"gold": 8, "wrong_paper": 8, "wrong_only": 5, "abstract_only": 5},
}


SANDBOX: dict[str, Any] = {"works_per_year": 40, "years": (2024, 2024), "mix": MIX, "enforce_limits": False}


def pulled(config: Any) -> dict[str, Any]:
    with open_services(config) as services:
        with DownloadRun(services) as run:
            run.store_and_enqueue(run.collect("publication_year:2024"))
            run.drain(run.own_works)
            attempts = [stored.record for stored in services.catalog.attempts_after(0, 10_000)]
        services.export_lake()
        return {"entries": list(services.catalog.entries()), "attempts": attempts}


@pytest.mark.requirement("DL-11")
def test_no_wrong_paper_is_stored_the_next_copy_is_and_the_reason_is_kept(
    sandbox: Sandbox, config_for: ConfigFor
) -> None:
    config = config_for(sandbox, robots__enabled=False)
    got = pulled(config)
    truth = {work.id: work.archetype for work in sandbox.universe.works(2024)}
    assert set(truth.values()) == {"gold", "wrong_paper", "wrong_only", "abstract_only"}
    rejected = {a.work_id: a for a in got["attempts"] if a.reason is Reason.WRONG_PAPER}
    for entry in got["entries"]:
        kind = truth[entry.work_id]
        if kind == "wrong_only":
            assert (entry.classification, entry.reason) == (Classification.ERROR, Reason.WRONG_PAPER)
            assert entry.path is None and entry.meta["note"]
        else:
            assert entry.reason is Reason.OK
            stored = (config.data_root / entry.path).read_bytes()
            assert b"lighthouse" not in stored and b"Supporting Information" not in stored
        assert entry.meta.get("flags", []) == (["abstract-only"] if kind == "abstract_only" else [])
        assert (entry.work_id in rejected) == kind.startswith("wrong")
    assert all(a.extra["evidence"] and a.extra["flags"] for a in rejected.values())
    answer = query_lake(
        config.lake_files(), "SELECT work_id FROM outcomes WHERE list_contains(flags, 'abstract-only')", limit=None
    )
    abstracts = {work for work, kind in truth.items() if kind == "abstract_only"}
    assert {row[0] for row in answer.rows} == abstracts
    (manifest,) = config.data_root.glob("*/manifest.jsonl")
    lines = [json.loads(line) for line in manifest.read_text().splitlines()]
    assert {line["work_id"] for line in lines if line.get("flags") == ["abstract-only"]} == abstracts


@pytest.mark.requirement("DL-11")
def test_who_wants_to_decide_later_keeps_suspects_with_their_flags(sandbox: Sandbox, config_for: ConfigFor) -> None:
    got = pulled(config_for(sandbox, robots__enabled=False, download__on_suspect="keep"))
    truth = {work.id: work.archetype for work in sandbox.universe.works(2024)}
    kept = {entry.work_id: entry for entry in got["entries"] if truth[entry.work_id].startswith("wrong")}
    assert kept
    for entry in kept.values():
        assert entry.reason is Reason.OK and entry.path
        assert entry.meta["flags"] in (["suspect-mismatch"], ["supplement"])
