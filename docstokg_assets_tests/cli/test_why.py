"""`content why`: the story of one work after a real run: success, a wall, robots, waiting, a work that nobody has seen."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from docstokg_assets.domain.works import Work
from docstokg_assets.sandbox import Sandbox
from docstokg_assets_tests.support.configs import FAST, NAMED
from resources.catalog.catalog import Catalog
from resources.catalog.rows import NewItem

if TYPE_CHECKING:
    from docstokg_assets_tests.support.program import Ended

Content = Callable[..., "Ended"]
KINDS = ("gold", "wall", "robots", "wrong_paper", "wrong_only", "nothing_closed")
PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Sandbox, Path]]:
    """A web of a few kinds of works, and a data root that one run has filled; one host asked for a pause of an hour."""
    from docstokg_assets.config import load_config
    from docstokg_assets.runs.run import DownloadRun
    from docstokg_assets.runs.services import open_services

    folder = tmp_path_factory.mktemp("why")
    with Sandbox.start(folder / "box", works_per_year=60, years=(2024, 2024), mix=_mix(), enforce_limits=False) as box:
        box.add_fault(host=_host_of_the_last(box), status=503, headers={"Retry-After": "3600"})
        sections: dict[str, Any] = {
            "data_root": str(folder / "out"),
            "http": {
                "proxy": box.proxy_url,
                "ca_bundle": str(box.ca_bundle),
                "contact_email": "crawler@library-of-tests.edu",
                "retry": {"max_attempts": 2, "base_delay_ms": 10, "jitter_ms": 0},
            },
            "rate_limit": {"policies": dict.fromkeys(("*", *NAMED), FAST)},
            "resolvers": {"unpaywall": {"enabled": False}},
        }
        config = folder / "content.yaml"
        config.write_text(yaml.safe_dump(sections))
        with open_services(load_config(config, {}).value) as services, DownloadRun(services) as run:
            run.store_and_enqueue(run.collect("publication_year:2024"))
            run.drain(run.own_works, deadline_s=40)
        yield box, config


def _mix() -> dict[str, float]:
    from dataclasses import fields

    from docstokg_assets.sandbox.mix import Mix

    rates = {"strange": 0.0, "extra_arxiv": 0.0, "huge_locations": 1}
    return {field.name: float(field.name in KINDS) for field in fields(Mix)} | rates


def _host_of_the_last(box: Sandbox) -> str:
    return _of_kind(box, "gold", last=True).publisher.host


def _of_kind(box: Sandbox, kind: str, last: bool = False) -> Any:
    busy = "" if last else _host_of_the_last(box)
    works = [w for w in box.universe.works(2024) if w.archetype == kind and w.publisher.host != busy]
    return works[-1 if last else 0]


def why(content: Content, config: Path, work: str, *more: str, code: int = 0) -> str:
    ended = content("why", work, "--config", str(config), *more)
    assert ended.code == code, ended.err
    return ended.out or ended.err


@pytest.mark.requirement("CLI-1")
@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("gold", ["Full text downloaded: PDF/2024__", "fetched a file from", "200 OK"]),
        ("wall", ["No full text: ended as blocked-", "docs/reasons.md#blocked-", "Best candidate: "]),
        ("robots", ["robots", "sent no request to", "docs/reasons.md#robots"]),
        ("wrong_only", ["ended as wrong-paper", "download.on_suspect", "docs/reasons.md#wrong-paper"]),
        ("wrong_paper", ["Full text downloaded", "[wrong-paper]"]),
        (
            "nothing_closed",
            [
                "unpaywall was not queried: disabled (file content.yaml)",
                "crossref queried the API of api.crossref.org: 200 OK",
            ],
        ),
    ],
)
def test_the_story_of_a_work_says_what_was_tried_why_it_ended_so_and_what_would_help(
    told: tuple[Sandbox, Path], content: Content, kind: str, says: list[str]
) -> None:
    box, config = told
    story = why(content, config, _of_kind(box, kind).id)
    assert [text for text in says if text not in " ".join(story.split())] == []
    assert "nothing to go by" not in story
    if not story.startswith("Full text downloaded"):
        assert "What was tried" in story


@pytest.mark.requirement("CLI-1")
def test_a_work_that_waits_says_for_how_long_and_what_to_do(told: tuple[Sandbox, Path], content: Content) -> None:
    box, config = told
    story = why(content, config, _of_kind(box, "gold", last=True).id)
    assert "Waiting until 20" in story and "Run `content resume --" in story and "` after 20" in " ".join(story.split())
    assert "docs/reasons.md#retry-after" in story


def test_a_work_is_found_by_its_doi_in_any_spelling_and_by_a_part_of_its_title(
    told: tuple[Sandbox, Path], content: Content
) -> None:
    box, config = told
    work = next(w for w in box.universe.works(2024) if w.doi and w.title.isascii())
    doi = work.doi.upper()
    for wanted in (
        f"https://doi.org/{doi}",
        f"doi:{doi}",
        work.id.lower(),
        f"https://openalex.org/{work.id}",
        f"PDF/2024__a__{work.id}.pdf",
    ):
        assert why(content, config, wanted).startswith(work.id)
    assert why(content, config, work.title.upper()).startswith(work.id)  # each title of the sandbox ends in a number


def test_for_programs_the_story_is_json(told: tuple[Sandbox, Path], content: Content) -> None:
    box, config = told
    story = json.loads(why(content, config, _of_kind(box, "wrong_only").id, "--json"))
    assert story["reason"] == "wrong-paper"
    waits = json.loads(why(content, config, _of_kind(box, "robots").id, "--json"))
    assert "robots" not in {
        one["resolver"] for one in waits["tries"]
    }  # robots.txt belongs to the host, not to the work
    assert {"resolver", "host", "what", "answer", "reason", "url", "at"} == set(story["tries"][0])


def test_its_lines_fit_a_terminal_and_only_addresses_are_longer(
    told: tuple[Sandbox, Path], content: Content, monkeypatch: pytest.MonkeyPatch
) -> None:
    from docstokg_assets.cli import why_command

    monkeypatch.setattr(why_command.shutil, "get_terminal_size", lambda: os.terminal_size((80, 24)))
    box, config = told
    for kind in KINDS:
        for line in why(content, config, _of_kind(box, kind).id).splitlines():
            assert len(line) <= 80 or "https://" in line or ".pdf" in line or "doi:" in line, line


def test_a_work_that_was_never_seen_and_one_of_many_have_their_own_exit_code_and_a_hint(
    told: tuple[Sandbox, Path], content: Content, tmp_path: Path
) -> None:
    _, config = told
    assert "is not in this collection" in why(content, config, "10.9999/never", code=3)
    assert "content pull" in why(content, config, "no title is like this", code=3)
    listed = why(content, config, "a", code=3)
    assert len(listed.splitlines()) > 1 and listed.startswith("W")
    ended = content("why", "W1", "--out", str(tmp_path / "nowhere"))
    assert ended.code == 2 and "there is no catalog" in ended.err


def test_every_link_of_a_story_leads_to_its_place(told: tuple[Sandbox, Path], content: Content) -> None:
    box, config = told
    for kind in KINDS:
        for link in json.loads(why(content, config, _of_kind(box, kind).id, "--json"))["links"]:
            page, _, place = link.partition("#")
            assert f'<a id="{place}"></a>' in (PROJECT / page).read_text()


@pytest.mark.requirement("CAT-5")
def test_a_file_that_is_kept_for_other_works_too_says_so(told: tuple[Sandbox, Path], content: Content) -> None:
    _, config = told
    with sqlite3.connect(config.parent / "out" / "catalog.sqlite3") as catalog:
        work_id, sha256 = catalog.execute("SELECT work_id, sha256 FROM artifacts ORDER BY id LIMIT 1").fetchone()
        columns = "url, sha256, path, run_id, stored_at"
        catalog.execute(
            f"INSERT INTO artifacts (work_id, {columns}) SELECT 'W9', {columns} FROM artifacts WHERE sha256 = ?",
            (sha256,),
        )
    ended = content("why", work_id, "--config", str(config))
    assert ended.code == 0 and "The same file is also stored for W9." in ended.out


@pytest.mark.requirement("CLI-1", "TRU-8")
def test_among_very_many_works_only_ids_are_looked_up_and_the_other_way_is_named(
    tmp_path: Path, content: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("docstokg_assets.runs.work_history.MOST_SEARCHED", 3)
    with Catalog.open(tmp_path / "catalog.sqlite3") as catalog:
        works = [Work(f"W{n}", title=f"It's work {n}", year=2024, doi=f"10.1/{n}") for n in range(4)]
        catalog.enqueue([NewItem(w.work_id, 2024, 1, w.to_json(), "hash") for w in works])
    for name in ("W2", "https://openalex.org/W2", "2024__its-work-2__W2.pdf"):
        assert "It's work 2" in content("why", "--out", str(tmp_path), name).out
    titled = content("why", "--out", str(tmp_path), "It's work")
    assert titled.code == 3 and "WHERE title ILIKE '%It''s work%'" in titled.err.replace("\n", " ")
    by_doi = content("why", "--out", str(tmp_path), "https://doi.org/10.1234/abc")
    assert by_doi.code == 3 and "WHERE doi = '10.1234/abc'" in by_doi.err.replace("\n", " ")
    assert "is not in this collection" in content("why", "--out", str(tmp_path), "W99").err
