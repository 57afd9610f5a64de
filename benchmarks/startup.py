"""How long the commands of `content` take when there is almost nothing to do: median wall time of each, start of Python included.

    .venv/bin/python benchmarks/startup.py [--rounds 5] [--only pull,report]

A pull of one file from a local server fills a data folder; the other commands read it. Only numbers of one machine and day
compare.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import yaml
from race import write_pdf

PROGRAM = str(Path(sys.executable).with_name("content"))
TARGETS_S = {
    "pull of one file": 1.2,
    "pull, nothing to do": 0.8,
    **dict.fromkeys(("why", "report", "query", "catalog stats"), 0.7),
    "explain": 0.5,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="e.g. pull,report: commands whose name begins so")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, file_server(Path(folder)) as base:
        write_pdf(Path(folder) / "one.pdf", 100_000, 1)
        commands = commands_in(Path(folder), f"{base}/one.pdf")
        wanted = tuple(filter(None, options.only.split(","))) or ("",)
        subprocess.run(
            commands["pull, nothing to do"], check=True, capture_output=True
        )  # fills the folder that is read
        for name, command in commands.items():
            if name.startswith(wanted):
                tell(name, [measure(command, Path(folder)) for _ in range(options.rounds)])


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def file_server(folder: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


def commands_in(folder: Path, url: str) -> Mapping[str, list[str]]:
    here = ["127.0.0.1"]
    http = {"contact_email": "benchmark@library-of-tests.edu", "allow_http_hosts": here, "allow_private_hosts": here}
    config, urls = folder / "content.yaml", folder / "urls.txt"
    config.write_text(yaml.safe_dump({"http": http}))
    urls.write_text(f"{url}\n")
    given, known = ["--config", str(config)], ["--out", str(folder / "known")]
    pull = [PROGRAM, "pull", *given, "--urls", str(urls), "--out"]
    return {
        "pull of one file": [*pull, str(folder / "fresh")],
        "pull, nothing to do": [*pull, str(folder / "known")],
        "why": [PROGRAM, "why", url, *given, *known],
        "report": [PROGRAM, "report", *given, *known],
        "query": [PROGRAM, "query", "SELECT count(*) FROM outcomes", *given, *known],
        "catalog stats": [PROGRAM, "catalog", "stats", *given, *known],
        "explain": [PROGRAM, "explain", *given],
        "--help": [PROGRAM, "--help"],
        **{f"{name} --help": [PROGRAM, name, "--help"] for name in ("pull", "report", "why", "explain")},
    }


def measure(command: list[str], folder: Path) -> tuple[float, float]:
    """Wall and CPU seconds."""
    shutil.rmtree(folder / "fresh", ignore_errors=True)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("DTKG_")}
    began, spent = time.perf_counter(), cpu_of_children()
    subprocess.run(command, check=True, capture_output=True, env=clean)
    return time.perf_counter() - began, cpu_of_children() - spent


def cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def tell(name: str, measured: list[tuple[float, float]]) -> None:
    times, cpu = zip(*measured, strict=True)
    target = TARGETS_S.get(name)
    wanted = f"   wanted {target} s" if target else ""
    spread = f"({min(times):.2f}–{max(times):.2f})"
    print(
        f"{name:22} {statistics.median(times):6.2f} s {spread:13} {statistics.median(cpu):5.2f} s CPU{wanted}",
        flush=True,
    )


if __name__ == "__main__":
    main()
