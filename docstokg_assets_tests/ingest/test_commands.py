"""`content ingest` as a person uses it, against the sandbox."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner, Result

from docstokg_assets.cli.main import build_app
from docstokg_assets.sandbox import Sandbox
from docstokg_assets_tests.ingest.flow import page

SANDBOX: dict[str, Any] = {"works_per_year": 5, "years": (2024, 2024), "enforce_limits": False}
GOOD, BAD = "https://journal.press.org/1.pdf", "https://journal.press.org/2"


class Place:
    def __init__(self, box: Sandbox, folder: Path) -> None:
        self.out, self.config = folder / "data", folder / "content.yaml"
        limits = {"*": "500/second burst 100", "web.archive.org": {"metadata": "500/second", "*": "500/second"}}
        http = {"proxy": box.proxy_url, "ca_bundle": str(box.ca_bundle), "contact_email": "a@library-of-tests.edu"}
        sections = {"data_root": str(self.out), "http": http, "rate_limit": {"policies": limits}}
        self.config.write_text(yaml.safe_dump(sections))
        self.runner = CliRunner()

    def call(self, command: str, *arguments: str, stdin: str | bytes | None = None) -> Result:
        given = ["ingest", command, "--config", str(self.config), *arguments]
        return self.runner.invoke(build_app(), given, input=stdin, catch_exceptions=False)


@pytest.fixture
def place(box: Sandbox, tmp_path: Path) -> Place:
    box.place({"url": GOOD, "pdf": 1}, {"url": BAD, "body": page("<h1>Nothing</h1>")})
    return Place(box, tmp_path)


@pytest.mark.requirement("ING-8")
@pytest.mark.requirement("ING-4")
def test_one_saves_a_paper_and_says_where(place: Place) -> None:
    ended = place.call("one", GOOD)
    assert ended.exit_code == 0, ended.output
    assert "success" in ended.stdout
    saved = next(line for line in ended.stdout.splitlines() if "saved as" in line).split("saved as ")[1].split(" (")[0]
    assert Path(saved).read_bytes().startswith(b"%PDF-")


@pytest.mark.requirement("ING-8")
def test_one_saves_the_paper_behind_a_doi(place: Place) -> None:
    """doi.org negotiates by the Accept header: one that names a file type brings 406 or metadata, not the page."""
    ended = place.call("one", "10.55550/aurora.20240000003", "--json")
    assert ended.exit_code == 0, ended.output
    assert json.loads(ended.stdout)["status"] == "success"


@pytest.mark.requirement("ING-8")
def test_one_prints_json_and_fails_with_a_code_and_a_reason(place: Place) -> None:
    ended = place.call("one", GOOD, BAD, "--json")
    assert ended.exit_code == 3
    first, second = map(json.loads, ended.stdout.splitlines())
    assert (first["status"], first["hit"]) == ("success", True)
    assert (second["status"], second["hit"]) == ("no-pdf-link", False)
    assert second["request"]["base_url"] == BAD
    nonsense = place.call("one", "corals")
    assert nonsense.exit_code == 2
    assert "neither a URL, a DOI" in nonsense.stderr
    private = place.call("one", "http://127.0.0.1:9/x.pdf")
    assert private.exit_code == 2
    assert "base_url" in private.stderr


@pytest.mark.requirement("ING-8")
def test_load_run_status_results_and_retry(place: Place, tmp_path: Path) -> None:
    lines = [
        json.dumps({"base_url": GOOD}),
        f"{BAD}\tmag\t7",
        "{broken",
        json.dumps({"base_url": GOOD, "ingest_type": "src"}),
    ]
    loaded = place.call("load", "-", stdin="\n".join(lines))
    assert loaded.exit_code == 3
    assert "3 requests read, 3 new, 2 URLs queued" in loaded.stderr
    assert "line 3: not JSON" in loaded.stderr
    again = place.call("load", "-", stdin=lines[0])
    assert (again.exit_code, "0 new" in again.stderr) == (0, True)
    before = place.call("status")
    assert "pending" in before.stdout
    ran = place.call("run")
    assert ran.exit_code == 0, ran.output
    counts = {(c["link_source"], c["status"]): c["requests"] for c in json.loads(place.call("status", "--json").stdout)}
    assert counts == {("url", "success"): 1, ("mag", "no-pdf-link"): 1, ("url", "not-implemented"): 1}
    results = [json.loads(line) for line in place.call("results").stdout.splitlines()]
    assert {result["status"] for result in results} == {"success", "no-pdf-link", "not-implemented"}
    table = list(csv.DictReader(io.StringIO(place.call("results", "--format", "csv").stdout)))
    assert sorted(row["base_url"] for row in table) == sorted([GOOD, GOOD, BAD])
    target = tmp_path / "results.parquet"
    assert place.call("results", "--format", "parquet", "--to", str(target)).exit_code == 0
    assert pq.read_table(target).num_rows == 3
    one = place.call("status", results[0]["id"])
    assert results[0]["status"] in one.stdout
    assert place.call("status", "ingest-0-0").exit_code == 2
    retried = place.call("retry", "--status", "no-pdf-link", "--older-than", "0")
    assert "1 URL will be fetched again" in retried.stderr
    wrong = place.call("retry", "--status", "no-such")
    assert (wrong.exit_code, "no status no-such" in wrong.stderr) == (2, True)
    assert "1 URL answered" in place.call("run", "--bulk").stderr
