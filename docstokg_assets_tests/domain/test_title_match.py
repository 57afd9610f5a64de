"""Titles without identifiers: 300 near-duplicates, none of which is taken for the work."""

from __future__ import annotations

from dataclasses import replace

import pytest

from docstokg_assets.domain.title_match import Citation, is_searchable, only_match, same_work

SUBJECTS = (
    "the growth of ice in cold seas", "a theory of small lakes", "measuring the depth of snow", "models of river deltas",
    "the migration of arctic birds", "learning to rank with few labels", "deep networks for soil maps",
    "quantum walks on trees", "the economics of rural schools", "protein folding in yeast", "rainfall in old records",
    "the archaeology of salt roads", "sleep and memory in bees", "voting with partial orders", "a survey of stone bridges",
    "graph colouring by local search", "carbon in mountain forests", "the syntax of questions", "fatigue of thin wires",
    "public health in port cities", "noise in optical clocks", "the ethics of field trials", "alloys at high pressure",
    "water markets in dry years", "reading in two scripts",
)  # fmt: skip
WORKS = [
    Citation(f"On {subject}", f"Doe{number}, Jane", 2000 + number % 20, "article")
    for number, subject in enumerate(SUBJECTS)
]


def near_duplicates(work: Citation) -> list[Citation]:
    title, family = work.title or "", (work.author or "").partition(",")[0]
    assert work.year is not None
    return [
        replace(work, title=f"Erratum: {title}"),
        replace(work, title=f"Correction to: {title}"),
        replace(work, title=f"{title} (vol 12, pg 3)"),
        replace(work, title=f"{title}. Part II"),
        replace(work, title=f"{title}: a reply to Smith"),
        replace(work, title=title.replace("On ", "Sobre ", 1)),
        replace(work, title=f"{title} [translated from the Russian]"),
        replace(work, year=work.year + 1),
        replace(work, author="Smith, Jane"),
        replace(work, author=f"{family}, Robert"),
        replace(work, type="posted-content"),
        replace(work, type="proceedings-article"),
    ]


@pytest.mark.requirement("SRC-2")
def test_no_near_duplicate_is_taken_for_the_work() -> None:
    pairs = [(work, other) for work in WORKS for other in near_duplicates(work)]
    assert len(pairs) == 300
    assert [(work.title, other) for work, other in pairs if same_work(work, other)] == []


@pytest.mark.requirement("SRC-2")
@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.title)
def test_the_work_itself_is_found_among_its_near_duplicates(work: Citation) -> None:
    spelt = replace(
        work, title=f"<i>{(work.title or '').upper()}</i>.", author=(work.author or "").replace("Jane", "J.")
    )
    listed = [(f"10.1/{n}", other) for n, other in enumerate(near_duplicates(work))]
    assert only_match(work, [*listed, ("10.1/own", replace(spelt, type="journal-article"))]) == "10.1/own"
    assert only_match(work, listed) is None


@pytest.mark.requirement("SRC-2")
@pytest.mark.parametrize(
    ("wanted", "found", "same"),
    [
        ("Über das Eis: eine Studie", "Uber das Eis – Eine Studie", True),
        ("Growth of Na<sub>2</sub>O films on glass", "Growth of Na2O films on glass", True),
        ("Growth of films, part I", "Growth of films, part II", False),
        ("氷の成長に関する研究について", "氷の成長に関する研究について", True),
        ("On ice", "On ice and snow", False),
    ],
)
def test_spellings_of_a_title(wanted: str, found: str, same: bool) -> None:
    assert same_work(Citation(wanted, "Doe, J.", 2020), Citation(found, "Jane Doe", 2020)) is same


@pytest.mark.requirement("SRC-2")
def test_what_is_not_known_leaves_doubt() -> None:
    whole = Citation("On the growth of ice in lakes", "Doe, Jane", 2020)
    for lacking in (replace(whole, author=None), replace(whole, year=None), replace(whole, title=None)):
        assert not same_work(lacking, whole) and not same_work(whole, lacking)
    assert not same_work(replace(whole, type=None), replace(whole, type="posted-content"))
    assert same_work(Citation(whole.title, "Ludwig van Doe", 2020), Citation(whole.title, "Doe, L. van", 2020))
    assert only_match(whole, [("10.1/a", whole), ("10.1/b", whole)]) is None
    assert only_match(whole, [("10.1/a", whole), ("10.1/A", whole)]) is not None
    assert is_searchable(whole) and not is_searchable(Citation("Editorial", None, 2020))
