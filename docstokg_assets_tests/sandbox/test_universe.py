"""The universe and its files: repeatable, in proportion, decodable, and real enough to be opened."""

from __future__ import annotations

import io
import subprocess
import sys
from collections import Counter

import pypdf
import pytest

from docstokg_assets.sandbox import PROFILES, Mix, Universe
from docstokg_assets.sandbox.files import jats
from docstokg_assets.sandbox.limits import Windows
from docstokg_assets.sandbox.records import openalex
from docstokg_assets.sandbox.state import SandboxState
from docstokg_assets.sandbox.universe import STRANGE_KINDS

_FAILURES = {
    "redirect-loop": 8,
    "nothing": 5,
    "bad-status": 4,
    "no-pdf-link": 2,
    "wall": 2,
    "corrupt": 0.7,
    "robots": 0.3,
}


@pytest.mark.parametrize("profile", ["default", "demo"])
def test_the_proportions_of_the_outcomes_hold(profile: str) -> None:
    universe = Universe(works_per_year=1000, years=(2023, 2024), mix=PROFILES[profile])
    truths = [universe.truth(w.id) for w in universe.works()]
    share = {k: 100 * v / len(truths) for k, v in Counter(t.failure for t in truths).items()}
    assert share[""] == pytest.approx(78, abs=0.6)
    for family, wanted in _FAILURES.items():
        assert share[family] == pytest.approx(wanted, abs=0.4), family


def test_arxiv_and_archive_shares_of_the_default_mix() -> None:
    universe = Universe(works_per_year=2000, years=(2024, 2024))
    kinds = Counter(w.archetype for w in universe.works())
    assert kinds["arxiv_only"] == pytest.approx(120, abs=6)
    assert kinds["wayback_only"] == pytest.approx(40, abs=4)


@pytest.mark.parametrize("seed", [1, 7, 99])
def test_the_demo_spares_the_slow_services(seed: int) -> None:
    universe = Universe(seed, 80, (2022, 2024), PROFILES["demo"])
    works = list(universe.works())
    assert sum(w.arxiv is not None for w in works) <= 10
    stories = [(universe.truth(w.id), universe.scenario(w)) for w in works]
    to_archive = [
        t for t, s in stories if (not t.reachable or t.resolver == "wayback") and any(x.pdf for x in s.locations)
    ]
    assert len(to_archive) <= 30


def test_the_same_seed_gives_the_same_universe_in_another_process() -> None:
    script = (
        "from docstokg_assets.sandbox import Universe;"
        "from docstokg_assets.sandbox.files import FileMaker; import hashlib;"
        "u=Universe(3, 50, (2024, 2024)); f=FileMaker(3);"
        "print(hashlib.sha256(b''.join(repr((w, u.truth(w.id))).encode() + f.pdf(w) for w in u.works())).hexdigest())"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": s}
        )
        for s in ("1", "2")
    ]
    assert runs[0].stdout == runs[1].stdout != ""


def test_another_seed_gives_another_universe() -> None:
    assert [w.archetype for w in Universe(1).works(2024)] != [w.archetype for w in Universe(2).works(2024)]


def test_a_work_does_not_depend_on_the_size_of_its_year() -> None:
    assert Universe(works_per_year=10).work(2024, 3) == Universe(works_per_year=1_000_000).work(2024, 3)


def test_every_identifier_leads_back_to_its_work() -> None:
    universe = Universe(works_per_year=700, years=(2023, 2024))
    for work in universe.works():
        assert universe.by_openalex(f"https://openalex.org/{work.id}") == work
        assert work.doi is None or universe.by_doi(work.doi.lower()) == work
        assert work.arxiv is None or universe.by_arxiv(f"{work.arxiv}v1") == work
        assert work.pmcid is None or universe.by_pmcid(work.pmcid) == work
    assert universe.by_doi("10.55550/aurora.19990000001") is None
    assert universe.by_openalex("W1") is None
    assert universe.by_openalex("nonsense") is None


def test_dois_carry_odd_characters() -> None:
    dois = " ".join(w.doi or "" for w in Universe(works_per_year=300).works(2024))
    assert all(c in dois for c in "()<>;:")


def test_titles_come_in_many_scripts() -> None:
    text = "".join(w.title for w in Universe(works_per_year=1500).works(2024))
    for sample in "éßΜИ网学دמ🧪":
        assert sample in text, sample
    assert "<mml:math" in text
    assert any(len(w.title) > 4000 for w in Universe(works_per_year=1500).works(2024))


def test_dates_lie_in_the_year_and_days_are_found_by_arithmetic() -> None:
    universe = Universe(works_per_year=1000, years=(2024, 2024))
    days = Counter(w.day for w in universe.works())
    assert all(w.date.year == 2024 for w in universe.works())
    assert [universe.day_count(2024, d) for d in range(366)] == [days[d] for d in range(366)]
    assert universe.work(2024, universe.of_day(2024, 17, 1)).day == 17


def test_pdfs_open_and_have_their_text() -> None:
    universe = Universe(works_per_year=60, years=(2024, 2024))
    box = SandboxState(universe, Windows(lambda: 0.0))
    seen = set()
    for work in universe.works():
        data = box.pdf_bytes(work)
        assert 1024 <= len(data) <= 230_000
        assert data.startswith(b"%PDF-") and data.rstrip().endswith(b"%%EOF")
        reader = pypdf.PdfReader(io.BytesIO(data), strict=True)
        shown = reader.pages[0].extract_text()
        assert (work.doi or work.id) in shown.replace("\n", "")
        assert reader.metadata is not None and reader.metadata.title == work.title
        seen.add(data)
    assert len(seen) == 60
    sizes = [len(d) for d in seen]
    assert min(sizes) < 5_000 and max(sizes) > 80_000


def test_jats_is_well_formed() -> None:
    from lxml import etree

    for work in Universe(works_per_year=200).works(2024):
        root = etree.fromstring(jats(work))
        assert root.tag == "article" and root.find("body") is not None


def test_strange_records_occur_in_every_kind_when_asked() -> None:
    universe = Universe(works_per_year=300, years=(2024, 2024), mix=Mix(strange=1.0, huge_locations=10_000))
    records = {w.strange: openalex(w, universe.scenario(w)) for w in universe.works()}
    assert set(records) == set(STRANGE_KINDS)
    assert records["null_title"]["title"] is None
    assert "publication_date" not in records["no_publication_date"]
    assert len(records["many_locations"]["locations"]) == 10_000
    assert records["null_ids"]["ids"] is None
    assert records["null_source"]["locations"][0]["source"] is None
    assert records["non_string"]["title"] == 12345


def test_a_mix_can_be_changed_and_refuses_unknown_names() -> None:
    assert Mix.load("default", "{wall: 50, strange: 0}").wall == 50
    with pytest.raises(ValueError, match="unknown in mix: walls"):
        Mix.load("default", {"walls": 1})
    with pytest.raises(ValueError, match="unknown profile"):
        Mix.load("nope")
