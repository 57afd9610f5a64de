"""`content pull` as a person uses it: what it brings, where it puts it, what it says, and how it ends."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import pytest
from rich.console import Console
from rich.text import Text

from docstokg_assets.cli.progress import Display, State
from docstokg_assets.engine.workers import GRACE_S
from docstokg_assets.resolvers.registry import load_resolvers
from docstokg_assets.sandbox import Sandbox

if TYPE_CHECKING:
    from docstokg_assets_tests.support.program import Ended, Place

WORKS_PER_YEAR = 30
QUERY = ("--query", "publication_year:2024")
APIS = {"api.openalex.org"} | {
    host for cls in load_resolvers().values() if cls.api_host for host in (cls.api_host, *cls.other_hosts)
}
BUDGET_SPENT = json.dumps(
    {"error": "Rate limit exceeded", "message": "Insufficient budget. Resets at midnight UTC.", "retryAfter": 40000}
)

Content = Callable[..., "Ended"]


def artifact_arrivals(box: Sandbox) -> list[str]:
    """Everything that was asked of hosts that are no metadata APIs, and files of those that are both."""
    return [
        f"{seen['host']}{seen['path']}"
        for seen in box.arrivals()
        if seen["host"] not in APIS or seen["path"].endswith((".pdf", ".xml"))
    ]


def run_folder(place: Place) -> Path:
    """Of the latest run; run ids sort by time."""
    return max(path for path in place.out.iterdir() if re.fullmatch("[0-9A-Z]{26}", path.name))


def of_archetype(box: Sandbox, name: str) -> Any:
    return next(work for work in box.universe.works(2024) if work.archetype == name)


def outcomes(place: Place) -> dict[str, tuple[str, str, str | None]]:
    found = place.rows("SELECT work_id, classification, reason, path FROM catalog_entries")
    return {work_id: (classification, reason, path) for work_id, classification, reason, path in found}


# -- what it brings -------------------------------------------------------------------------------------------------


@pytest.mark.requirement("CLI-1", "CLI-3", "DL-9", "TEL-4", "TEL-5", "CAT-4")
def test_a_query_becomes_whole_files_and_a_run_folder_that_accounts_for_them(box: Sandbox, place: Place) -> None:
    ended = place.run(*QUERY)
    assert ended.code == 0, ended.err
    assert {path.name for path in place.out.iterdir()} >= {"catalog.sqlite3", "limits.sqlite3", "PDF", "lake"}

    entries = outcomes(place)
    assert set(entries) == {work.id for work in box.universe.works(2024)}
    stored = place.rows("SELECT work_id, year, path, sha256, bytes FROM catalog_entries WHERE path IS NOT NULL")
    assert len(stored) > WORKS_PER_YEAR / 2
    for work_id, year, path, sha256, size in stored:
        assert re.fullmatch(rf"(PDF|HTML|XML)/{year}__[a-z0-9-]+__{work_id}\.(pdf|html|xml)", path)
        content = (place.out / path).read_bytes()
        assert (hashlib.sha256(content).hexdigest(), len(content)) == (sha256, size)

    folder = run_folder(place)
    files = {"manifest.jsonl", "manifest.sqlite3", "manifest.last.csv", "manifest.metrics.json", "attempts.csv"}
    assert {path.name for path in folder.iterdir()} == files | {"summary.md"}
    lines = [json.loads(line) for line in (folder / "manifest.jsonl").read_bytes().splitlines()]
    assert {line["schema_version"] for line in lines} == {3}
    assert {line["work_id"] for line in lines if line["record_type"] == "outcome"} == set(entries)
    assert sum(line["record_type"] == "outcome" for line in lines) == len(entries)
    attempts = [line for line in lines if line["record_type"] == "attempt"]
    with sqlite3.connect(folder / "manifest.sqlite3") as slice_of_run:
        assert slice_of_run.execute("SELECT count(*) FROM catalog_entries").fetchone() == (len(entries),)
        assert slice_of_run.execute("SELECT count(*) FROM attempts").fetchone() == (len(attempts),)
        assert slice_of_run.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert len(list(csv.reader((folder / "attempts.csv").open()))) == 1 + len(attempts)
    last = list(csv.DictReader((folder / "manifest.last.csv").open()))
    assert {row["work_id"] for row in last} == {row[0] for row in stored}
    (summary,) = [line for line in lines if line["record_type"] == "summary"]
    metrics = json.loads((folder / "manifest.metrics.json").read_text())
    assert metrics["processed"] == summary["processed"] == len(entries)
    assert metrics["saved"] + metrics["html_only"] == len(stored)
    assert "# Content download report" in (folder / "summary.md").read_text()
    assert "works finished" in ended.out and folder.name in ended.err
    assert re.search(r"^\[ +\d+\.\d s\] done, 30/30 works, [\d.]+/s, yield \d+%$", ended.err, re.MULTILINE)
    assert "\x1b" not in ended.out + ended.err, "plain lines where there is no terminal"


@pytest.mark.requirement("CLI-1", "CAT-3")
def test_the_same_command_again_fetches_nothing_and_says_so(box: Sandbox, place: Place, content: Content) -> None:
    first = content(*place.arguments(*QUERY))
    before = outcomes(place)
    box.control("DELETE", "arrivals")
    second = content(*place.arguments(*QUERY))
    assert artifact_arrivals(box) == []
    assert f"{len(before)} of {len(before)} works already finished; nothing was downloaded again." in second.err
    assert (first.code, second.code, outcomes(place)) == (0, 0, before)
    assert "were already finished" in (run_folder(place) / "summary.md").read_text()


@pytest.mark.requirement("CLI-1", "SRC-2")
def test_ids_of_all_kinds_may_be_mixed_and_come_from_a_pipe(box: Sandbox, place: Place) -> None:
    gold, unpaywall, pmc = (of_archetype(box, name) for name in ("gold", "unpaywall_only", "pmc"))
    arxiv = of_archetype(box, "arxiv_only")
    lines = [gold.id, f"https://doi.org/{unpaywall.doi}", f"arXiv:{arxiv.arxiv}", pmc.pmcid, "# a comment", ""]
    ended = place.run("--ids", "-", stdin="\r\n".join(lines))
    assert ended.code == 0, ended.err
    saved = {work_id for work_id, (classification, _, _) in outcomes(place).items() if classification == "success"}
    assert {gold.id, unpaywall.id, pmc.id} < saved and len(saved) == 4


@pytest.mark.requirement("SRC-2", "SRC-3")
def test_a_line_that_is_no_id_is_set_aside_with_its_number(box: Sandbox, place: Place, content: Content) -> None:
    gold = of_archetype(box, "gold")
    ids = place.folder / "ids.txt"
    ids.write_bytes(f"{gold.id}\n\n12345\x0b\n{gold.id.lower()}\nnot an id \x1b[31m\n".encode() + b"\xff\xfe\x00\n")
    ended = content(*place.arguments("--ids", str(ids)))
    assert ended.code == 3
    for line in ("line 3: ", "line 5: ", "line 6: "):
        assert f"skipped: {line}no identifier found" in ended.err
    assert "'12345'" in ended.err and "\x1b" not in ended.err
    assert outcomes(place)[gold.id][0] == "success"
    assert [item.partition(":")[0] for (item,) in place.rows("SELECT item FROM set_aside")] == [
        "line 3",
        "line 5",
        "line 6",
    ]


@pytest.mark.requirement("SRC-2")
def test_ids_that_openalex_does_not_know_are_tried_all_the_same(box: Sandbox, place: Place, content: Content) -> None:
    hidden = of_archetype(box, "unpaywall_only")
    box.add_fault(host="api.openalex.org", path="/works/*", status=404)
    box.add_fault(host="api.openalex.org", path="/works?*", body=json.dumps({"meta": {"count": 0}, "results": []}))
    ids = place.folder / "ids.txt"
    ids.write_text(f"doi:{hidden.doi}\n10.5555/nobody.knows\nW999\n")
    assert content(*place.arguments("--ids", str(ids))).code == 0
    ((found, path),) = place.rows("SELECT doi, path FROM catalog_entries WHERE classification = 'success'")
    assert found == hidden.doi and re.fullmatch(r"PDF/nd__untitled__doi-.*\.pdf", path)
    assert sorted(reason for _, reason, _ in outcomes(place).values()) == ["http-4xx", "no-candidate", "ok"]


@pytest.mark.requirement("SRC-2")
def test_urls_may_be_files_or_pages_and_dangerous_ones_are_set_aside(
    box: Sandbox, place: Place, content: Content
) -> None:
    file = box.universe.truth(of_archetype(box, "gold").id).url
    page = box.universe.scenario(of_archetype(box, "landing")).doi_url
    urls = place.folder / "urls.txt"
    bad = ["javascript:alert(1)", "file:///etc/passwd", "https://x.example/\x1b[31m", "https://\u202e.example:x/"]
    urls.write_text("\n".join([str(file), *bad, page, "http://127.0.0.1/secret.pdf"]))
    ended = content(*place.arguments("--urls", str(urls)))
    assert ended.code == 3
    assert ended.err.count("not an absolute http or https URL") == len(bad) and "line 5:" in ended.err
    assert "\x1b" not in ended.err
    assert sorted(reason for _, reason, _ in outcomes(place).values()) == ["blocked-address", "ok", "ok"]


# -- dry run ----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("DL-8", "CLI-2")
def test_a_dry_run_asks_metadata_only_and_writes_nothing(
    box: Sandbox, place: Place, content: Content, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = place.folder / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    before = sorted(place.folder.rglob("*"))
    gold, closed = of_archetype(box, "gold"), of_archetype(box, "unpaywall_only")
    ended = content(*place.arguments(*QUERY, "--dry-run", "--format", "csv"))
    assert ended.code == 0, ended.err
    assert sorted(place.folder.rglob("*")) == before and not place.out.exists()
    assert artifact_arrivals(box) == []
    assert {seen["method"] for seen in box.arrivals()} == {"GET"}
    assert f"\n{gold.id}," in ended.out
    assert str(box.universe.truth(gold.id).url) in ended.out
    assert str(box.universe.truth(closed.id).url) in ended.out  # which only an API could tell
    assert f"{WORKS_PER_YEAR} works, " in ended.err and "yield" not in ended.err


@pytest.mark.requirement("DL-8")
def test_a_dry_run_tells_totals_and_its_first_works_and_the_rest_where_it_is_asked_for(
    place: Place, content: Content
) -> None:
    table = content(*place.arguments(*QUERY, "--dry-run"))
    assert table.code == 0, table.err
    for said in ("resolver", "host", "openalex", f"… and {WORKS_PER_YEAR - 10} more works; --format csv or json"):
        assert said in table.out
    assert len(re.findall(r"^W\d+  ", table.out, re.MULTILINE)) == 10
    every = json.loads(content(*place.arguments(*QUERY, "--dry-run", "--format", "json")).out)
    assert len({row["work_id"] for row in every}) == WORKS_PER_YEAR
    assert content(*place.arguments(*QUERY, "--format", "json")).code == 2


@pytest.mark.requirement("CLI-2")
def test_a_query_can_be_cut_short_and_the_source_says_how_many_there_are(place: Place, content: Content) -> None:
    ended = content(*place.arguments(*QUERY, "--max-works", "4"))
    assert ended.code in (0, 3), ended.err
    assert f"OpenAlex lists {WORKS_PER_YEAR} matching works; taking the first 4." in ended.err
    assert place.rows("SELECT count(*) FROM queue") == [(4,)]
    (place.folder / "ids.txt").write_text("W5240000000")
    refused = content(*place.arguments("--ids", str(place.folder / "ids.txt"), "--max-works", "4"))
    assert refused.code == 2 and "--max-works goes with a query" in refused.err


@pytest.mark.requirement("CLI-2")
def test_help_shows_whole_option_names_on_eighty_columns(
    content: Content, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.get_terminal_size", lambda *_: os.terminal_size((80, 24)))
    shown = content("pull", "--help").out
    assert "--concurrent-resolvers" in shown and "--dry-run  " in shown
    assert max(map(len, shown.splitlines())) <= 80


# -- what cannot start -----------------------------------------------------------------------------------------------


@pytest.mark.requirement("CLI-1")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "say which works: content pull 10.1038"),
        (
            ("--ids", "ids.txt", "--query", "a:b"),
            "give one of --query, --ids and --urls, not --query and identifiers together",
        ),
        (("--query", "climate"), "'climate' is neither an OpenAlex filter (name:value,name:value) nor a file of ids"),
        (("--ids", "missing.txt"), "missing.txt cannot be read: No such file or directory. Give a file"),
        (("--urls", "."), ". cannot be read: Is a directory"),
        (("--ids", "nul\0byte"), "cannot be read: embedded null byte"),
        (
            ("--ids", "empty.txt"),
            "empty.txt is empty: there is no entry. Give a DOI, OpenAlex id, arXiv id, PMID, PMCID or URL",
        ),
        (("--urls", "empty.txt"), "empty.txt is empty: there is no entry. Give a URL"),
        (
            ("--ids", "garbage.bin"),
            "of garbage.bin (read as text) has a DOI, OpenAlex id, arXiv id, PMID, PMCID or URL",
        ),
        (("--query", "topics.id:,type:article"), "'topics.id:' is not a filter; write for example"),
        (("--query", "a:b", "--workers", "0"), "workers: must be greater than or equal to 1"),
        (("--query", "a:b", "--resolver-order", "arxive"), "there is no resolver arxive; did you mean arxiv?"),
    ],
)
def test_input_of_no_use_is_refused_before_anything_is_made(
    arguments: tuple[str, ...], message: str, place: Place, content: Content, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place.folder)
    Path("empty.txt").touch()
    Path("ids.txt").write_text("W1\n")
    Path("garbage.bin").write_bytes(hashlib.shake_256(b"seed").digest(20_000))
    ended = content(*place.arguments(*arguments))
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err
    assert not place.out.exists()


@pytest.mark.requirement("CFG-1", "CFG-3")
def test_a_wrong_configuration_is_refused_with_its_place(place: Place, content: Content) -> None:
    place.write(wokers=3)
    ended = content(*place.arguments(*QUERY))
    assert ended.code == 2 and "unknown key wokers; did you mean workers?" in ended.err
    assert not place.out.exists()


def test_the_real_web_is_not_asked_without_a_contact_address(
    place: Place, content: Content, box: Sandbox, tmp_path: Path
) -> None:
    place.config.write_text("workers: 2\n")
    ended = content(*place.arguments(*QUERY))
    assert ended.code == 2
    assert "http.contact_email is not set" in ended.err and "DTKG_HTTP__CONTACT_EMAIL" in ended.err
    assert not place.out.exists()


@pytest.mark.parametrize("where", ["content.yaml", "content.yaml/below", "/proc/nowhere", "/dev/null"])
def test_a_data_root_that_cannot_be_written_is_named_with_a_remedy(
    where: str, place: Place, content: Content, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place.folder)
    ended = content("pull", "-c", "content.yaml", "--out", where, *QUERY)
    assert ended.code == 2
    assert where in ended.err and "Choose another data_root" in ended.err


@pytest.mark.requirement("CAT-1", "CFG-7")
def test_a_data_root_on_a_network_file_system_is_refused_before_anything_is_made(
    place: Place, content: Content, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resources.mounts.network_filesystem", lambda path, mounts: "nfs4")
    ended = content(*place.arguments("--query", "publication_year:2024"))
    assert ended.code == 2 and "lies on a network file system (nfs4), where SQLite loses data" in ended.err
    assert "put data_root (or storage.path) on a local disk" in " ".join(ended.err.split())
    assert not place.out.exists()


@pytest.mark.requirement("SRC-1")
@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("publication_year:20x4", "Value for filter publication_year must be a year"),
        ("topics.idd:T1", "topics.idd is not a valid field"),
    ],
)
def test_a_filter_that_openalex_refuses_is_told_in_its_words(
    query: str, said: str, place: Place, content: Content
) -> None:
    ended = content(*place.arguments("--query", query))
    assert ended.code == 2
    assert said in ended.err and "Correct the OpenAlex filter (--query" in ended.err
    assert not place.out.exists(), "a data root for nothing"


@pytest.mark.requirement("SRC-1")
def test_a_refused_filter_takes_nothing_with_it_that_was_there(place: Place, content: Content) -> None:
    place.out.mkdir()
    (place.out / "notes.txt").write_text("ours")
    assert content(*place.arguments("--query", "topics.idd:T1")).code == 2
    assert (place.out / "notes.txt").read_text() == "ours"


def test_a_bad_key_is_refused_with_the_remedy_and_not_shown(
    place: Place, content: Content, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCSTOKG_CONTENT_API_KEY_OPENALEX", "b4d-k3y")
    ended = content(*place.arguments(*QUERY))
    assert ended.code == 2
    assert "did not accept the API key" in ended.err and "DOCSTOKG_CONTENT_API_KEY_OPENALEX" in ended.err
    assert "b4d-k3y" not in ended.err + ended.out


def test_a_source_that_cannot_be_reached_is_named(box: Sandbox, place: Place, content: Content) -> None:
    box.add_fault(host="api.openalex.org", close=True)
    ended = content(*place.arguments(*QUERY))
    assert ended.code == 2
    assert "could not list works from api.openalex.org: " in ended.err
    assert f"through the proxy {box.proxy_url} (http.proxy): is it running?" in ended.err


def test_a_query_without_works_is_done_at_once(place: Place, content: Content) -> None:
    ended = content(*place.arguments("--query", "publication_year:1990"))
    assert ended.code == 0 and "No matching works." in ended.err


# -- sources that break off ---------------------------------------------------------------------------------------------


@pytest.mark.requirement("SRC-3")
@pytest.mark.parametrize("cursor_is_known", [True, False])
def test_a_list_that_breaks_off_is_downloaded_so_far_and_goes_on_from_there(
    cursor_is_known: bool, box: Sandbox, place: Place, content: Content
) -> None:
    place.write(openalex={"per_page": 10})
    box.add_fault(host="api.openalex.org", delay=0.001, times=2)
    box.add_fault(host="api.openalex.org", status=429, body=BUDGET_SPENT, type="application/json")
    first = content(*place.arguments(*QUERY))
    assert first.code == 3
    assert "The daily OpenAlex budget is spent" in first.err and "A key of your own" in first.err
    assert len(outcomes(place)) == 20
    folder = run_folder(place)

    too_early = content(*place.arguments(*QUERY))
    assert too_early.code == 3 and "The daily OpenAlex budget is spent" in too_early.err
    box.reset()
    if not cursor_is_known:
        box.add_fault(host="api.openalex.org", status=400, times=1)
    content(*place.arguments(*QUERY))
    assert len(outcomes(place)) == WORKS_PER_YEAR
    assert len(box.arrivals("api.openalex.org")) == (2 if cursor_is_known else 5)  # the last page is empty
    assert run_folder(place) == folder, "it is the same run that goes on"
    # and a third time the list begins anew, because the last one came to its end
    box.control("DELETE", "arrivals")
    content(*place.arguments(*QUERY))
    assert run_folder(place) != folder
    assert "cursor=*" in box.arrivals("api.openalex.org")[0]["path"] and artifact_arrivals(box) == []


@pytest.mark.requirement("CLI-1")
def test_works_that_may_succeed_later_are_left_with_the_time_to_come_back(
    box: Sandbox, place: Place, content: Content
) -> None:
    gold = of_archetype(box, "gold")
    box.add_fault(host=urlsplit(str(box.universe.truth(gold.id).url)).netloc, status=503)
    ids = place.folder / "ids.txt"
    ids.write_text(gold.id)
    ended = content(*place.arguments("--ids", str(ids)))
    assert ended.code == 3
    assert re.search(
        r"1 work not finished yet \(1 waiting\); run the same command again after 20\d\d-[-0-9]+ \d\d:\d\d UTC",
        ended.err,
    )
    box.reset()
    again = content(*place.arguments("--ids", str(ids)))
    assert again.code == 3 and artifact_arrivals(box) == [], "it is not tried before its time"


def test_a_folder_that_is_in_the_way_is_named(place: Place, content: Content) -> None:
    place.write(run_id="taken")
    place.out.mkdir()
    (place.out / "taken").touch()
    ended = content(*place.arguments(*QUERY))
    assert ended.code == 2 and f"{place.out / 'taken'}: File exists." in ended.err


def test_a_report_that_cannot_be_made_does_not_fail_the_run(place: Place, content: Content) -> None:
    assert content(*place.arguments(*QUERY)).code == 0
    next((place.out / "lake" / "outcomes").rglob("*.parquet")).write_bytes(b"torn")
    ended = content(*place.arguments(*QUERY))
    assert ended.code == 0 and "content: could not write the report: " in ended.err
    assert "`content telemetry rebuild` repairs the lake" in (run_folder(place) / "run.log").read_text()


# -- how it ends ------------------------------------------------------------------------------------------------------


def _busiest_host(box: Sandbox) -> str:
    """The host with most of the copies; other works end while its answers are waited for."""
    copies = Counter(urlsplit(url).netloc for w in box.universe.works() if (url := box.universe.truth(w.id).url))
    return copies.most_common(1)[0][0]


@pytest.mark.requirement("CAT-2")
@pytest.mark.parametrize(("number", "delay"), [(signal.SIGINT, 1), (signal.SIGTERM, 60)])
def test_an_interrupted_run_ends_soon_and_the_same_command_goes_on(
    number: signal.Signals, delay: float, box: Sandbox, place: Place
) -> None:
    """Whether what is under way ends by itself within the grace, or has to be left."""
    host = _busiest_host(box)
    box.add_fault(host=host, delay=delay)
    process = place.start(*QUERY)
    place.wait_for(lambda: place.done() >= 4 and len(box.arrivals(host)) > 0, process)
    began = time.monotonic()
    process.send_signal(number)
    ended = place.end(process)
    assert time.monotonic() - began < 20, "an answer takes a minute"
    assert ended.code == 130
    assert "Interrupted. All progress is saved;" in ended.err
    assert place.rows("SELECT count(*) FROM queue WHERE state = 'leased' OR lease_owner IS NOT NULL") == [(0,)]
    assert place.done() < WORKS_PER_YEAR
    assert (run_folder(place) / "manifest.sqlite3").exists()

    box.clear_faults()
    again = place.run(*QUERY)
    assert again.code == 0 and "already finished" in again.err
    assert len(outcomes(place)) == WORKS_PER_YEAR


@pytest.mark.requirement("CAT-2")
def test_a_second_signal_ends_at_once_and_loses_nothing(box: Sandbox, place: Place) -> None:
    host = _busiest_host(box)
    box.add_fault(host=host, delay=60)
    process = place.start(*QUERY)
    place.wait_for(lambda: place.done() >= 4 and len(box.arrivals(host)) > 0, process)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert place.end(process).code == 130
    assert time.monotonic() - began < GRACE_S
    assert place.rows("SELECT count(*) FROM queue WHERE state = 'leased'")[0][0] > 0

    box.clear_faults()
    again = place.run(*QUERY)
    assert "from a process that has ended" in again.err
    assert len(outcomes(place)) == WORKS_PER_YEAR


@pytest.mark.requirement("CAT-2", "SRC-3")
def test_a_signal_while_works_are_looked_for_is_not_kept_waiting(box: Sandbox, place: Place) -> None:
    place.write(openalex={"per_page": 10})
    box.add_fault(host="api.openalex.org", delay=0.001, times=1)
    box.add_fault(host="api.openalex.org", delay=60)
    process = place.start(*QUERY)
    place.wait_for(lambda: len(box.arrivals("api.openalex.org")) == 2, process)
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    ended = place.end(process)
    assert time.monotonic() - began < 20, "an answer takes a minute"
    assert ended.code == 130
    assert place.rows("SELECT count(*) FROM queue") == [(10,)], "what had come is kept"


@pytest.mark.requirement("CFG-6")
def test_a_changed_configuration_is_taken_over_on_sighup_and_a_broken_one_is_not(box: Sandbox, place: Place) -> None:
    slow = {**place.sections["rate_limit"]["policies"], "api.unpaywall.org": "0.5/second"}
    place.write(rate_limit__policies=slow)
    process = place.start(*QUERY)
    place.wait_for(lambda: place.done() >= 4, process)
    place.config.write_text("wokers: 3\n")
    process.send_signal(signal.SIGHUP)
    time.sleep(1)
    place.write()
    before = len(box.arrivals("api.unpaywall.org"))
    process.send_signal(signal.SIGHUP)
    ended = place.end(process)
    assert ended.code == 0
    assert "the configuration was not reloaded: " in ended.err and "unknown key wokers" in ended.err
    assert "configuration reloaded" in ended.err
    hashes = place.rows("SELECT config_hash FROM catalog_entries ORDER BY finished_at")
    (first,), *_, (last,) = hashes
    assert len(set(hashes)) == 2 and place.rows("SELECT config_hash FROM runs") == [(first,)]
    lines = [json.loads(line) for line in (run_folder(place) / "manifest.jsonl").read_bytes().splitlines()]
    assert {row["config_hash"] for row in lines if row["record_type"] == "attempt"} == {first, last}
    times = [arrival["time"] for arrival in box.arrivals("api.unpaywall.org")]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert len(outcomes(place)) == WORKS_PER_YEAR and len(times) >= 5
    assert all(gap > 1.5 for gap in gaps[: before - 1]) and min(gaps) < 1, "the old limit is two seconds for each"


def test_a_narrow_terminal_has_a_line_of_its_own_for_the_hosts() -> None:
    terminal = Console(force_terminal=True, width=80, file=io.StringIO())
    state = State(
        "2024", "downloading", 1_200, 560, 420, 3, 25.3, "", "a-host-with-a-long-name.example, another.example"
    )
    with Display(terminal, [state]):
        pass
    shown = cast(io.StringIO, terminal.file).getvalue()
    for text in ("2024", "560/1,200 works", "25.3/s", "yield 75%", "3 waiting", state.hosts):
        assert text in shown
    assert max(len(line) for line in Text.from_ansi(shown).plain.splitlines()) <= 80
    assert state.line().startswith(
        "2024: downloading, 560/1,200 works, 25.3/s, yield 75%, 3 waiting, requesting a-host"
    )


# -- names and help -------------------------------------------------------------------------------------------------


@pytest.mark.requirement("CLI-2", "CLI-3")
def test_run_is_pull_under_its_other_name(content: Content) -> None:
    shown = {name: content(name, "--help").out for name in ("pull", "run")}
    for name, text in shown.items():
        assert f"content {name} [OPTIONS]" in text
        for option in ("--query", "--ids", "--urls", "--out", "--workers", "--config", "--dry-run"):
            assert option in text
    assert "130 interrupted" in " ".join(shown["pull"].split())
    assert shown["pull"].partition("Options")[2] == shown["run"].partition("Options")[2]


@pytest.mark.requirement("CLI-1")
def test_content_and_contentdownload_are_the_same_program() -> None:
    for name in ("content", "contentdownload"):
        script = Path(sys.executable).with_name(name)
        shown = subprocess.run([script, "pull"], capture_output=True, text=True, timeout=60, cwd="/")
        assert shown.returncode == 2 and shown.stderr.startswith("content: ")
