"""Documentation is product: the commands in README and docs are executed, the links lead somewhere, the claims are looked at.

A fence ```sh is run line by line; `sh serve` must come up and is ended; `sh demo` is run in test_demo; `sh tests` runs this.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from docstokg_assets.sandbox import Sandbox

PROJECT = Path(__file__).resolve().parents[2]
PAGES = [PROJECT / "README.md", PROJECT / "ARCHITECTURE.md", *sorted((PROJECT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#]+)\)")
FAST = dict.fromkeys(
    ("*", "api.openalex.org", "api.crossref.org", "api.unpaywall.org", "doi.org"), "2000/second burst 500"
)


def fences(kind: str) -> list[tuple[str, str]]:
    """(page, commands) of every ```sh fence of a kind."""
    return [
        (str(page.relative_to(PROJECT)), body)
        for page in PAGES
        for language, words, body in FENCE.findall(page.read_text(encoding="utf-8"))
        if language in ("sh", "bash") and words.strip() == kind
    ]


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, str]]]:
    """A folder and an environment in which a reader would type the commands, with the sandbox in the place of the web."""
    folder = tmp_path_factory.mktemp("reader")
    (folder / "examples").symlink_to(PROJECT / "examples")
    with Sandbox.start(folder / "box", works_per_year=12, years=(2023, 2024), enforce_limits=False) as box:
        works = [work for work in box.universe.works(2024) if not work.strange]
        (folder / "my-ids.txt").write_text("\n".join([works[0].id, f"doi:{works[1].doi}", "# a remark", works[2].id]))
        urls = [truth.url for work in works if (truth := box.universe.truth(work.id)).url]
        (folder / "my-urls.txt").write_text("\n".join(urls[:3]))
        config = {
            "data_root": str(folder / "papers"),
            "http": {"proxy": box.proxy_url, "ca_bundle": str(box.ca_bundle), "retry": {"base_delay_ms": 20}},
            "rate_limit": {"policies": FAST},
            "openalex": {"filter": "type:article|preprint"},
            "download": {"deadline_s": 20},
        }
        (folder / "sandbox.yaml").write_text(yaml.safe_dump(config))
        home = folder / "dagster"
        home.mkdir()
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("DTKG_", "DOCSTOKG_"))}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        extra = {"PATH": path, "DTKG_CONFIG": str(folder / "sandbox.yaml"), "DAGSTER_HOME": str(home), "COLUMNS": "110"}
        yield folder, clean | extra


@pytest.mark.requirement("ORC-4")
@pytest.mark.timeout(300)
def test_the_commands_of_the_documentation_do_what_they_say(workplace: tuple[Path, dict[str, str]]) -> None:
    folder, environment = workplace
    pages = fences("")
    assert sum(body.count("content ") for _, body in pages) >= 10
    for page, body in pages:
        script = "set -e\n" + "".join(f"{line} || [ $? -eq 3 ]\n" for line in body.strip().splitlines())
        done = subprocess.run(
            ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=240
        )
        assert done.returncode == 0, f"{page}: {body}\n{done.stdout[-1500:]}\n{done.stderr[-1500:]}"
        assert "Traceback" not in done.stderr, f"{page}: {done.stderr[-1500:]}"
    assert any((folder / "papers" / "PDF").iterdir())


@pytest.mark.timeout(120)
def test_what_the_documentation_starts_comes_up_and_goes_down(
    workplace: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    _, environment = workplace
    commands = [line for _, body in fences("serve") for line in body.strip().splitlines()]
    assert commands == ["make ui", "content sandbox serve"]
    server = subprocess.Popen(
        [*commands[1].split(), "--port", "0", "--state-dir", str(tmp_path)],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    assert server.stdout is not None
    said = ""
    deadline = time.monotonic() + 30
    while "DTKG_HTTP__CA_BUNDLE=" not in said and time.monotonic() < deadline:
        said += server.stdout.readline()
    server.send_signal(signal.SIGINT)
    assert server.wait(timeout=15) in (0, 130)
    assert "proxy:" in said
    assert "DTKG_HTTP__PROXY=" in said


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = [link for link in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]
    assert [link for link in targets if not (page.parent / link).exists()] == []


def test_all_commands_stand_in_fences_that_are_run() -> None:
    kinds = {
        words.strip()
        for page in PAGES
        for language, words, _ in FENCE.findall(page.read_text())
        if language in ("sh", "bash")
    }
    assert kinds <= {"", "serve", "demo", "tests"}
    assert [body.strip() for _, body in fences("demo")] == ["make demo"]
    assert [body.strip() for _, body in fences("tests")] == ["make test"]
    assert "make test" in (PROJECT / ".ci" / "run").read_text()
