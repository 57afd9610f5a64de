"""The whole product against curl, aria2c, Scrapy and a tuned `requests` loop: the same files from the same nginx on loopback.

    .venv/bin/python benchmarks/race.py [--sets A,B,C] [--files 10000,1000,16] [--rounds 3] [--only content,scrapy]
                                        [--processes 2]

A: small files of 50 to 200 KB; B: 2 to 5 MB; C: 128 MB. Every file is a valid PDF with bytes of its own. 16 transfers at once,
one nginx worker with keep-alive, start-up included. All promises are on: plans, address guard, limiter, attempts, catalog,
fsync, PDF check, manifest. The peers do less: curl and aria2c only write, Scrapy stores and takes an MD5, the tuned loop takes a
SHA-256, syncs, and records into SQLite and JSON lines. The ways take turns inside each round; printed are medians, and medians
of the ratios within a round; only ratios mean something. nginx, curl and aria2c come from the system; Scrapy is installed
into a throw-away environment. A peer that is missing is left out and named.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import yaml

AT_ONCE = 16
SIZES = {"A": (50_000, 200_000), "B": (2_000_000, 5_000_000), "C": (128 * 1024**2, 128 * 1024**2)}
DEFAULT_FILES = {"A": 10_000, "B": 1_000, "C": 16}
OURS, TUNED = "content", "tuned"

NGINX = """
daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
  access_log off; sendfile on; tcp_nopush on; keepalive_requests 10000000; keepalive_timeout 600;
  types {{ application/pdf pdf; text/html html; text/plain txt; }}
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{ listen 127.0.0.1:{port}; root {root}; }}
}}
"""

SCRAPY = """
import sys
import scrapy
from scrapy.crawler import CrawlerProcess

class Files(scrapy.Spider):
    name = "files"
    start_urls = [sys.argv[1] + "/index.html"]
    def parse(self, response):
        for url in open(sys.argv[2]).read().split():
            yield {"file_urls": [url]}

process = CrawlerProcess({
    "ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 1}, "FILES_STORE": sys.argv[3], "LOG_ENABLED": False,
    "CONCURRENT_REQUESTS": 16, "CONCURRENT_REQUESTS_PER_DOMAIN": 16, "TELNETCONSOLE_ENABLED": False, "ROBOTSTXT_OBEY": False,
    "DOWNLOAD_MAXSIZE": 0, "DOWNLOAD_WARNSIZE": 0, "DOWNLOAD_DELAY": 0, "RETRY_ENABLED": False, "COOKIES_ENABLED": False,
})
process.crawl(Files)
process.start()
"""

TUNED_LOOP = """
import hashlib, itertools, json, os, queue, sqlite3, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
import requests

urls, out = open(sys.argv[2]).read().split(), sys.argv[3]
os.makedirs(out, exist_ok=True)
local, folder, done, numbers = threading.local(), os.open(out, os.O_RDONLY), queue.SimpleQueue(), itertools.count()

def fetch(url):
    if not hasattr(local, "session"):
        local.session = requests.Session()
        local.session.trust_env = False
        local.request = local.session.prepare_request(requests.Request("GET", url))
    local.request.url = url
    name = f"{next(numbers)}.pdf"
    digest, size = hashlib.sha256(), 0
    answer = local.session.send(local.request, stream=True, timeout=(10, 60), allow_redirects=False)
    with open(f"{out}/.{name}", "wb", buffering=0) as file:
        for chunk in answer.raw.stream(262_144, decode_content=False):
            digest.update(chunk)
            size += file.write(chunk)
        os.fsync(file.fileno())
    os.replace(f"{out}/.{name}", f"{out}/{name}")
    os.fsync(folder)
    done.put((url, name, size, digest.hexdigest()))

def record():
    database = sqlite3.connect(f"{out}/rows.sqlite3", check_same_thread=False)
    database.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
                           "CREATE TABLE files (url TEXT PRIMARY KEY, name TEXT, size INT, sha256 TEXT)")
    lines = open(f"{out}/rows.jsonl", "w")
    row = done.get()
    while row is not None:
        rows = [row]
        while not done.empty() and rows[-1] is not None:
            rows.append(done.get())
        row = rows[-1]
        rows = [one for one in rows if one is not None]
        with database:
            database.executemany("INSERT INTO files VALUES (?, ?, ?, ?)", rows)
        lines.writelines(json.dumps(one) + "\\n" for one in rows)
        lines.flush()
        row = done.get() if row is not None else None

recorder = threading.Thread(target=record)
recorder.start()
with ThreadPoolExecutor(16) as pool:
    list(pool.map(fetch, urls))
done.put(None)
recorder.join()
"""


@dataclass(frozen=True)
class Race:
    """What every way is given: the address of nginx, the list of URLs, and a folder that is empty."""

    base: str
    urls: Path
    out: Path

    @property
    def count(self) -> int:
        return len(self.urls.read_text().split())


Way = Callable[[Race], list[str]]


@dataclass(frozen=True)
class Spent:
    wall_s: float
    cpu_s: float


def write_pdf(path: Path, size: int, seed: int) -> None:
    """A valid one-page PDF of about `size` bytes, padded by a stream of bytes that are its own."""
    noise = random.Random(seed)
    text = f"BT /F1 12 Tf 72 720 Td (Document number {seed}) Tj ET".encode()
    filler = noise.randbytes(min(size, 1 << 20))
    padding = filler * (size // len(filler) + 1)
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(text), text),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (size, padding[:size]),
    ]
    with path.open("wb") as file:
        file.write(b"%PDF-1.7\n")
        places = []
        for number, content in enumerate(objects, 1):
            places.append(file.tell())
            file.write(b"%d 0 obj\n%s\nendobj\n" % (number, content))
        table = file.tell()
        file.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1))
        file.writelines(b"%010d 00000 n \n" % place for place in places)
        file.write(b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, table))


def make_files(folder: Path, name: str, count: int) -> None:
    low, high = SIZES[name]
    sizes = random.Random(name)
    for number in range(count):
        write_pdf(folder / f"{name}{number:05}.pdf", sizes.randint(low, high), number)


def start_nginx(stack: ExitStack, folder: Path, root: Path) -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    folder.mkdir()
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, root=root, port=port))
    nginx = shutil.which("nginx") or "/usr/sbin/nginx"
    server = subprocess.Popen([nginx, "-p", str(folder), "-c", str(folder / "nginx.conf")], stderr=subprocess.DEVNULL)
    stack.callback(server.wait)
    stack.callback(server.terminate)
    end = time.monotonic() + 10
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return f"http://127.0.0.1:{port}"
        time.sleep(0.05)
    raise SystemExit("nginx did not start")


def scrapy_python(folder: Path) -> str | None:
    """The Python of a throw-away environment with Scrapy and requests; None where they cannot be installed."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = str(folder / "bin/python")
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "scrapy", "requests"]
    return python if subprocess.run(command, capture_output=True, check=False).returncode == 0 else None


def ways(folder: Path, only: Sequence[str], processes: int) -> dict[str, Way]:
    """Every way that can run here, by name."""
    found: dict[str, Way] = {OURS: lambda race: content(race, processes)}
    if shutil.which("curl"):
        found["curl"] = lambda race: curl(race)
    if shutil.which("aria2c"):
        found["aria2c"] = lambda race: [
            *("aria2c", "--quiet", f"-j{AT_ONCE}", "-x1", "--file-allocation=none", "-i", str(race.urls)),
            *("-d", str(race.out)),
        ]
    (folder / "spider.py").write_text(SCRAPY)
    (folder / "tuned.py").write_text(TUNED_LOOP)
    found[TUNED] = lambda race: [sys.executable, str(folder / "tuned.py"), race.base, str(race.urls), str(race.out)]
    if not only or "scrapy" in only:
        python = scrapy_python(folder / "venv")
        if python is not None:
            found["scrapy"] = lambda race: [python, str(folder / "spider.py"), race.base, str(race.urls), str(race.out)]
    for name in {"curl", "aria2c", "scrapy"} - set(found):
        print(f"{name} is not here and is left out")
    return {name: way for name, way in found.items() if not only or name in only}


def curl(race: Race) -> list[str]:
    race.out.mkdir(parents=True)
    config = race.out.parent / "curl.txt"
    urls = race.urls.read_text().split()
    config.write_text("".join(f'url = "{url}"\noutput = "{race.out}/{n}.pdf"\n' for n, url in enumerate(urls)))
    return ["curl", "--silent", "--parallel", "--parallel-max", str(AT_ONCE), "--config", str(config)]


def content(race: Race, processes: int) -> list[str]:
    settings = {
        "workers": AT_ONCE,
        "processes": processes,
        "http": {
            "contact_email": "benchmark@library-of-tests.edu",
            "allow_http_hosts": ["127.0.0.1"],
            "allow_private_hosts": ["127.0.0.1"],
        },
        "rate_limit": {"policies": {"*": "100000/second burst 10000"}, "concurrency": {"*": None}},
        "download": {"max_bytes": 2**30},
    }
    config = race.out.parent / "content.yaml"
    config.write_text(yaml.safe_dump(settings))
    program = str(Path(sys.executable).with_name("content"))
    return [program, "pull", "--config", str(config), "--urls", str(race.urls), "--out", str(race.out)]


def run(command: list[str], race: Race) -> Spent:
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ})
    _, _, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    got = sum(1 for path in race.out.rglob("*") if path.is_file() and path.stat().st_size >= SIZES["A"][0])
    lists = sum(1 for path in race.out.rglob("*.sqlite3*") if path.stat().st_size >= SIZES["A"][0])
    if got - lists < race.count:
        raise SystemExit(f"{command[0]} brought {got - lists} of {race.count} files")
    return Spent(wall, used.ru_utime + used.ru_stime)


def show(name: str, count: int, rounds: list[dict[str, Spent]]) -> None:
    print(f"\nset {name}: {count} files, medians of {len(rounds)} rounds")
    print(f"  {'':10}{'files/s':>10}{'CPU ms':>10}   ours ÷ it (each round)")
    for way in rounds[0]:
        speed = statistics.median(count / one[way].wall_s for one in rounds)
        cpu = statistics.median(1000 * one[way].cpu_s / count for one in rounds)
        line = f"  {way:10}{speed:10.1f}{cpu:10.2f}"
        if OURS in rounds[0] and way != OURS:
            ratios = [one[way].wall_s / one[OURS].wall_s for one in rounds]
            line += f"   {statistics.median(ratios):.2f}  ({', '.join(f'{ratio:.2f}' for ratio in ratios)})"
        print(line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default="A,B,C")
    parser.add_argument("--files", help="numbers of files for these sets, e.g. 2000,200,4")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="e.g. content,scrapy")
    parser.add_argument("--processes", type=int, default=1, help="engines of `content pull` on its data root")
    options = parser.parse_args()
    sets = options.sets.split(",")
    counts = dict(zip(sets, map(int, options.files.split(",")), strict=True)) if options.files else DEFAULT_FILES
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="race-")))
        racers = ways(folder, [name for name in options.only.split(",") if name], options.processes)
        for name in sets:
            root = folder / f"www-{name}"
            root.mkdir()
            (root / "index.html").write_text("<p>start</p>")
            make_files(root, name, counts[name])
            with ExitStack() as serving:
                base = start_nginx(serving, folder / f"nginx-{name}", root)
                urls = folder / f"urls-{name}.txt"
                urls.write_text("".join(f"{base}/{path.name}\n" for path in sorted(root.glob("*.pdf"))))
                rounds: list[dict[str, Spent]] = []
                for turn in range(options.rounds):
                    order = list(racers)[turn % len(racers) :] + list(racers)[: turn % len(racers)]
                    spent: dict[str, Spent] = {}
                    for way in order:
                        place = folder / f"out-{name}-{turn}-{way}"
                        race = Race(base, urls, place / "out")
                        place.mkdir()
                        spent[way] = run(racers[way](race), race)
                        shutil.rmtree(place)
                    rounds.append({way: spent[way] for way in racers})
                show(name, counts[name], rounds)
            shutil.rmtree(root)


if __name__ == "__main__":
    main()
