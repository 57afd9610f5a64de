"""Two processes that work on one data root ask arXiv as one: one request in three seconds, one connection."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from docstokg_assets.config import ContentDownloadConfig
from docstokg_assets.config.models import plain
from docstokg_assets.runs.run import DownloadRun
from docstokg_assets.runs.services import open_services
from docstokg_assets.sandbox import Sandbox
from docstokg_assets.sandbox.mix import ARCHETYPES
from docstokg_assets_tests.support.configs import ConfigFor

PROJECT = Path(__file__).resolve().parents[3]

# A pass of the dispatcher over a year, as a backfill has it: one process a year.
PASS = """
import sys
from docstokg_assets.config import ContentDownloadConfig
from resources.scope import WorkScope
from docstokg_assets.runs.run import DownloadRun
from docstokg_assets.runs.services import open_services

with open_services(ContentDownloadConfig.from_yaml(sys.argv[1], env={})) as services, DownloadRun(services) as run:
    print("ready", flush=True)
    run.drain(WorkScope(int(sys.argv[2])), deadline_s=11.0)
"""
SLOW_S = 3.6  # longer than the interval, so that the limit alone would let a second request in


@pytest.mark.requirement("HTTP-10")
@pytest.mark.requirement("HTTP-11")
@pytest.mark.timeout(120)
def test_two_processes_keep_arxiv_at_one_connection_and_one_request_in_three_seconds(
    tmp_path: Path, config_for: ConfigFor
) -> None:
    mix = dict.fromkeys(ARCHETYPES, 0.0) | {"arxiv_only": 1.0, "strange": 0.0}
    with Sandbox.start(tmp_path / "box", works_per_year=8, years=(2023, 2024), mix=mix) as box:
        config = config_for(box, limits=True, resolvers__order=["arxiv"])
        with open_services(config) as services, DownloadRun(services) as run:
            run.store_and_enqueue(run.collect(""))
        box.reset()
        box.add_fault(host="*arxiv.org", delay=SLOW_S)
        running = [_start(tmp_path, config, year) for year in (2023, 2024)]
        assert [process.wait(60) for process in running] == [0, 0]
        arrivals = sorted(box.arrivals("arxiv.org") + box.arrivals("export.arxiv.org"), key=lambda a: float(a["time"]))
        times = [float(arrival["time"]) for arrival in arrivals]
        assert box.violations() == []
        assert len(times) >= 3
        assert min(later - before for before, later in pairwise(times)) >= SLOW_S  # the one before was answered
        assert len({arrival["user_agent"] for arrival in arrivals}) == 2  # and both had their turn


def _start(folder: Path, config: ContentDownloadConfig, year: int) -> subprocess.Popen[str]:
    """A process whose User-Agent tells which of the two it is."""
    tree = plain(config)
    tree["http"]["user_agent"] = f"year-{year}/1.0"
    file = folder / f"{year}.yaml"
    file.write_text(yaml.safe_dump(tree))
    command = [sys.executable, "-c", PASS, str(file), str(year)]
    process = subprocess.Popen(command, text=True, cwd=PROJECT, stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process
