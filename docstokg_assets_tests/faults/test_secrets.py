"""Fault 20 and HTTP-14: canaries in every place where a secret can come in, and a search of every byte that goes out: data root
(databases with their logs, run folders, Parquet as it reads, cache unpacked), terminal, and all that Dagster keeps."""

from __future__ import annotations

import json
import logging
import os
import shutil
import sqlite3
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.parquet as pq
import pytest
import redis
import yaml
from pydantic import SecretStr

from docstokg_assets.cli import main as program
from docstokg_assets.config.models import resolvers_model
from docstokg_assets.domain.plans import Candidate, Target, Tier
from docstokg_assets.domain.works import Location, Work
from docstokg_assets.engine.search import ResolverPipeline
from docstokg_assets.engine.search_state import Failure
from docstokg_assets.engine.settings import DownloadSettings
from docstokg_assets.resolvers.registry import build_resolvers, load_resolvers
from docstokg_assets.sandbox import Sandbox
from docstokg_assets_tests.support.servers import Postgres, Valkey
from resources.artifacts.file_system import FileSystemStore
from resources.http.errors import HttpError
from resources.http.messages import Request, Role
from resources.records import Reason

ROOT = Path(program.__file__).parents[2]
KEY, PROXY, USER, LINE, TOKEN, HOP, COOKIE, ASIDE = (
    f"CANARY-{name}-5f3a" for name in ("key", "proxy", "user", "line", "token", "hop", "cookie", "aside")
)
KEYED = [name for name, cls in load_resolvers().items() if "api_key" in cls.Settings.model_fields]
OURS = (KEY, PROXY, USER, LINE, HOP, COOKIE, ASIDE)  # a page that links to TOKEN may be kept as its host wrote it
PAGES, FILES = "www.plainpages.example", "www.gatehouse.example"
BUSY, BROKEN = "www.keepout.example", "www.tatters.example"
PDF = b"%PDF-1.7\n" + b"x" * 4000 + b"\n%%EOF\n"


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    folder = tmp_path_factory.mktemp("sandbox")
    mix = {"robots": 0, "bad_status": 0}
    with Sandbox.start(folder, works_per_year=8, years=(2024, 2024), mix=mix, enforce_limits=False) as running:
        for name, host in (("good", FILES), ("late", BUSY), ("gone", BROKEN)):
            link = f"https://{host}/{name}.pdf;jsessionid={TOKEN}?token={TOKEN}&amp;ticket={TOKEN}&amp;x=1"
            page = f'<html><meta name="citation_pdf_url" content="{link}"><p>A page.</p></html>'
            cookie = {"Set-Cookie": f"session={COOKIE}", "X-Api-Key": COOKIE, "Cache-Control": "max-age=9999"}
            running.add_fault(host=PAGES, path=f"/{name}", status=200, body=page, type="text/html", headers=cookie)
        moved = f"https://me:{HOP}@{PAGES}/good?api_key={HOP}"
        running.add_fault(host=PAGES, path="/moved", status=301, headers={"Location": moved})
        session = f"https://{PAGES}/good;jsessionid={HOP}?ticket={HOP}&sid={HOP}#access_token={HOP}"
        running.add_fault(host=PAGES, path="/session", status=302, headers={"Location": session})
        running.add_fault(host=PAGES, path="/good;*", status=404)
        running.add_fault(host=FILES, path="/good.pdf*", status=200, body_hex=PDF.hex(), type="application/pdf")
        running.add_fault(host=BUSY, path="/late.pdf*", status=503, headers={"Retry-After": "55"})
        running.add_fault(host=BROKEN, path="/gone.pdf*", close=True)
        yield running


def write_config(box: Sandbox, folder: Path, **sections: Any) -> Path:
    config = {
        "data_root": str(folder / "data"),
        "workers": 4,
        "http": {
            "proxy": box.proxy_url.replace("//", f"//me:{PROXY}@"),
            "ca_bundle": str(box.ca_bundle),
            "contact_email": "crawler@library-of-tests.edu",
            "retry": {"max_attempts": 2, "base_delay_ms": 10, "jitter_ms": 0},
        },
        "robots": {"enabled": False},
        "rate_limit": {"policies": {"*": "500/second burst 50", "api.openalex.org": "100/second burst 20"}},
        "telemetry": {"sinks": ["jsonl", "csv", "console"]},
        "resolvers": {"order": ["openalex", "landing"]},
        "download": {"park_after_s": 1.0, "deadline_s": 3.0},
        **sections,
    }
    path = folder / "content.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DTKG_", "DOCSTOKG_"))}
    own = {"PYTHONPATH": str(ROOT), "COLUMNS": "250"}
    for provider in ("openalex", *KEYED):
        own[f"DOCSTOKG_CONTENT_API_KEY_{provider.upper()}"] = f"sandbox-{KEY}"
    return {**kept, **own, **more}


def told(folder: Path, *commands: list[str]) -> list[str]:
    """What `content` says to each command on both of its channels; they run side by side."""
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "docstokg_assets.cli", *command],
            cwd=folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for command in commands
    ]
    return [process.communicate(timeout=60)[0] for process in running]


def written(root: Path) -> Iterator[tuple[str, bytes]]:
    """Every file under a folder: its bytes, and what is inside where those are packed."""
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        name = path.relative_to(root).as_posix()
        yield name, path.read_bytes()
        if path.suffix == ".parquet":
            yield f"{name} as read", json.dumps(pq.read_table(path).to_pylist(), default=str).encode()
        elif path.suffix in (".sqlite3", ".sqlite", ".db"):
            yield f"{name} unpacked", b"\n".join(unpacked(path))


def unpacked(path: Path) -> Iterator[bytes]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for row in database.execute(f'SELECT * FROM "{table}"'):
                for value in row:
                    yield value if isinstance(value, bytes) else str(value).encode()
                    if isinstance(value, bytes):
                        with suppress(zlib.error):
                            yield zlib.decompressobj(wbits=47).decompress(value)


def shown(output: bytes, canaries: tuple[str, ...]) -> list[tuple[str, str]]:
    found = []
    for canary in canaries:
        at = output.find(canary.encode())
        if at >= 0:
            found.append((canary, output[max(0, at - 90) : at + 30].decode("utf-8", "replace")))
    return found


def leaks(root: Path, *ignored: str) -> list[tuple[str, list[tuple[str, str]]]]:
    found = []
    for name, content in written(root):
        everything = "unpacked" not in name and "cache" not in name
        if not name.startswith(ignored or ("\0",)) and (seen := shown(content, (*OURS, TOKEN) if everything else OURS)):
            found.append((name, seen))
    return found


@pytest.mark.requirement("HTTP-14")
def test_fault_20_no_output_of_the_program_shows_a_secret(box: Sandbox, tmp_path: Path) -> None:
    config = write_config(box, tmp_path)
    lines = [
        f"https://me:{USER}@{FILES}/good.pdf?api_key={LINE}&x=1",
        f"https://{PAGES}/good?access_token={LINE}",
        f"https://{PAGES}/late",
        f"https://{PAGES}/gone",
        f"https://{PAGES}/moved",
        f"https://{PAGES}/session",
        f"https://{PAGES}/(S({LINE}))/late;jsessionid={LINE}#id_token={LINE}",
        f"https://{FILES}/good.pdf?sid={LINE}&ticket={LINE}&y=2#access_token={LINE}",
        f"https://nowhere.example/x.pdf?X-Amz-Signature={LINE}",
        f"ftp://me:{ASIDE}@{FILES}/x.pdf?api_key={ASIDE}",
    ]
    (tmp_path / "urls").write_text("\n".join(lines))
    place = ["--config", str(config), "--out", str(tmp_path / "data")]
    outputs = told(tmp_path, ["pull", *place, "--urls", "urls"])
    outputs += told(tmp_path, ["pull", *place, "--query", "publication_year:2024"])
    outputs += told(
        tmp_path,
        ["pull", *place, "--urls", "urls", "--dry-run"],
        ["print-config", "--config", str(config), "--format", "yaml"],
        ["print-config", "--config", str(config), "--format", "json", "--origins"],
        ["explain", "--config", str(config)],
        ["report", "--out", str(tmp_path / "data"), "--format", "json"],
        ["pull", *place, "--query", "no_such_field:1"],
    )
    assert not any("Traceback" in output for output in outputs), outputs
    assert "skipped" in outputs[0] and "***" in outputs[3]  # they did say something
    asked = [arrival["path"] for arrival in box.arrivals()]
    assert any(KEY in path for path in asked), "the key was not used"
    assert any(path.startswith("/good.pdf") and TOKEN in path for path in asked), "a link with a token was not followed"
    assert not any(LINE in path or USER in path for path in asked)
    with closing(sqlite3.connect(tmp_path / "data" / "catalog.sqlite3")) as catalog:
        reasons = dict(catalog.execute("SELECT url, reason FROM catalog_entries WHERE work_id LIKE 'url-%'").fetchall())
        assert "ok" in reasons.values() and "conn-error" in reasons.values(), reasons
        parked = catalog.execute(
            "SELECT count(*) FROM queue WHERE state = 'queued' AND progress IS NOT NULL"
        ).fetchone()
        assert parked[0] >= 1, "nothing waits with its progress"
    assert leaks(tmp_path / "data") == []
    assert [found for output in outputs if (found := shown(output.encode(), (*OURS, TOKEN)))] == []


@pytest.mark.requirement("HTTP-14", "CFG-2")
def test_fault_20_keys_of_providers_go_to_their_own_host_and_nowhere_else(tmp_path: Path) -> None:
    """All resolvers that take a key are asked, answer, redirect and fail; what they send is looked at where it arrives."""
    where = {"semantic_scholar": "api.semanticscholar.org", "core": "api.core.ac.uk"}
    where |= {"openaire": "api.openaire.eu", "base": "api.base-search.net"}
    with Sandbox.start(tmp_path / "box", works_per_year=20, years=(2024, 2024), enforce_limits=False) as box:
        # what a key was shown to may send us elsewhere, and repeat the key there
        moved = f"https://{PAGES}/elsewhere?key=sandbox-{KEY}"
        box.add_fault(host=where["openaire"], status=302, headers={"Location": moved}, times=3)
        box.add_fault(host=where["semantic_scholar"], status=403, body=f"wrong key sandbox-{KEY}")
        rates = dict.fromkeys([*where.values(), "api.openalex.org", "*"], "500/second burst 50")
        config = write_config(box, tmp_path, resolvers={"order": list(where)}, rate_limit={"policies": rates})
        place = ["--config", str(config), "--out", str(tmp_path / "data")]
        outputs = told(tmp_path, ["pull", *place, "--query", "publication_year:2024"])
        outputs += told(tmp_path, ["explain", "--config", str(config)], ["print-config", "--config", str(config)])
        arrivals = box.arrivals()
    assert set(where.values()) <= {arrival["host"] for arrival in arrivals}
    # of the arrivals only the address is kept: a key in a header would not be seen, but those hosts answer 400 to it
    in_addresses = {arrival["host"] for arrival in arrivals if KEY in arrival["path"]}
    assert in_addresses == {"api.openalex.org", where["base"], PAGES}, "the last one was told by its neighbour"
    assert [a for a in arrivals if a["host"] == "core.ac.uk" and a["status"] == 400] == []
    assert any(a["host"] == "core.ac.uk" and a["status"] == 200 for a in arrivals)
    assert leaks(tmp_path / "data") == []
    assert [found for output in outputs if (found := shown(output.encode(), OURS))] == []


@pytest.mark.requirement("HTTP-14")
def test_fault_20_no_shared_server_is_told_a_secret(
    box: Sandbox, tmp_path: Path, valkey: Valkey, postgres: Postgres, postgres_catalog: SecretStr
) -> None:
    """Catalog in PostgreSQL, limits and cache in Redis: every value that these hold afterwards."""
    http = {**yaml.safe_load(write_config(box, tmp_path).read_text())["http"], "cache_backend": "redis"}
    limits = {"backend": "redis", "redis_url": valkey.url, "policies": {"*": "500/second burst 50"}}
    config = write_config(
        box,
        tmp_path,
        http={**http, "cache_url": valkey.url},
        rate_limit=limits,
        storage={"backend": "postgres", "url": postgres_catalog.get_secret_value()},
    )
    (tmp_path / "urls").write_text(f"https://{PAGES}/good?access_token={LINE}\nhttps://{PAGES}/late\n")
    place = ["--config", str(config), "--out", str(tmp_path / "data")]
    outputs = told(tmp_path, ["pull", *place, "--urls", "urls"])
    outputs += told(tmp_path, ["pull", *place, "--query", "publication_year:2024"])
    assert any(KEY in arrival["path"] for arrival in box.arrivals()) and not any("Traceback" in out for out in outputs)
    in_redis, in_postgres = b"\n".join(kept_in_redis(valkey)), b"\n".join(kept_in_postgres(postgres_catalog))
    assert b"A page." in in_redis and PAGES.encode() in in_postgres
    secrets = (*OURS, postgres.password)
    assert shown(in_redis, secrets) == [] and shown(in_postgres, secrets) == []
    assert [found for output in outputs if (found := shown(output.encode(), (*secrets, TOKEN)))] == []
    assert leaks(tmp_path / "data") == []


def kept_in_redis(valkey: Valkey) -> Iterator[bytes]:
    with closing(redis.Redis.from_url(valkey.url)) as client:
        for key in client.scan_iter():
            yield key
            match client.type(key):
                case b"hash":
                    values = [part for pair in client.hgetall(key).items() for part in pair]
                case b"string":
                    values = [client.get(key)]
                case b"zset":
                    values = client.zrange(key, 0, -1)
                case b"set":
                    values = list(client.smembers(key))
                case b"list":
                    values = client.lrange(key, 0, -1)
                case kind:
                    pytest.fail(f"{key!r} is a {kind!r}: look into it too")
            for value in values:
                yield value
                with suppress(zlib.error):
                    yield zlib.decompressobj(wbits=47).decompress(value)


def kept_in_postgres(location: SecretStr) -> Iterator[bytes]:
    tables = "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname IN ('docstokg', 'public')"
    with psycopg.connect(location.get_secret_value()) as connection:
        for (table,) in connection.execute(tables).fetchall():
            for (row,) in connection.execute(f"SELECT t::text FROM {table} t"):
                yield row.encode()


@pytest.mark.requirement("HTTP-14")
def test_fault_20_dagster_keeps_no_secret(box: Sandbox, tmp_path: Path) -> None:
    """Event log, run storage, compute logs and terminal of a materialisation, with console output switched on."""
    home = tmp_path / "home"
    home.mkdir()
    shutil.copy(ROOT / "dagster.yaml", home)
    config = write_config(box, tmp_path, openalex={"filter": "type:article", "max_works": 8})
    command = [sys.executable, "-m", "dagster", "asset", "materialize", "--select", "*", "--partition", "2024"]
    ended = subprocess.run(
        [*command, "-m", "docstokg_assets.definitions"],
        cwd=ROOT,
        env=environment(DTKG_CONFIG=str(config), DAGSTER_HOME=str(home)),
        capture_output=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-2000:]
    assert any(KEY in arrival["path"] for arrival in box.arrivals("api.openalex.org"))
    assert shown(ended.stdout + ended.stderr, OURS) == []
    assert any(path.suffix == ".db" for path in home.rglob("*"))
    assert leaks(home) == []
    assert leaks(tmp_path / "data") == []


@pytest.mark.requirement("HTTP-14")
@pytest.mark.parametrize("head", [b"No colon here\r\nX: y\r\n", b" folded\r\n", b"A\x00B: c\r\n"])
def test_fault_20_the_http_library_writes_no_url_into_the_log(
    polite: Callable[..., Any], serve: Callable[..., Any], caplog: pytest.LogCaptureFixture, head: bytes
) -> None:
    """It warns of headers that it cannot read, and at the finest level tells every request: with the whole URL."""
    caplog.set_level(logging.DEBUG)
    server = serve(b"HTTP/1.1 200 OK\r\n" + head + b"Content-Length: 0\r\nConnection: close\r\n\r\n")
    with suppress(HttpError):
        polite().ask(Request(server.url, Role.METADATA, secret_params={"api_key": KEY}))
    assert KEY in server.requests[0].line
    assert KEY not in caplog.text


# -- the rule for links that carry a key ------------------------------------------------------------------------------


def pipeline(folder: Path) -> ResolverPipeline:
    resolvers = build_resolvers(("openalex", "unpaywall", "landing"), resolvers_model(load_resolvers())().by_name())
    by_name = {resolver.name: resolver for resolver in resolvers}
    return ResolverPipeline(by_name, FileSystemStore(folder), DownloadSettings(), 10**5)


@pytest.mark.requirement("HTTP-14")
def test_a_parked_search_forgets_links_with_keys_and_looks_where_they_came_from_again(tmp_path: Path) -> None:
    work = Work("W1", doi="10.5555/1", locations=(Location(landing_url="https://a.example/1", is_oa=True),))
    made = pipeline(tmp_path)
    state = made.begin(work)
    (page,) = state.candidates.values()
    state.visited.add(page.key)
    state.asked.add("unpaywall")
    secret = f"https://b.example/1.pdf?token={TOKEN}"
    state.add(Candidate(secret, "unpaywall", Tier.DIRECT_OA))
    state.add(Candidate("https://b.example/2.pdf", "landing", Tier.LANDING_SCRAPE, referer=secret))
    (key,) = [key for key in state.candidates if TOKEN in key]
    state.failures[key] = Failure(Reason.HTTP_4XX, "unpaywall", Tier.DIRECT_OA, 50, url=secret)
    assert TOKEN not in "".join(state.dead_files())

    kept = json.loads(json.dumps(state.to_json()))
    assert TOKEN not in json.dumps(kept)
    again = made.begin(work, kept)
    assert {c.url for c in again.candidates.values()} == {page.url, "https://b.example/2.pdf"}
    assert again.asked == again.visited == set()


@pytest.mark.requirement("HTTP-14")
def test_a_search_without_such_links_forgets_nothing(tmp_path: Path) -> None:
    work = Work("W1", locations=(Location(landing_url="https://a.example/1", is_oa=True),))
    state = pipeline(tmp_path).begin(work)
    state.visited.add("https://a.example/1")
    state.asked.add("unpaywall")
    state.add(Candidate("https://b.example/2.pdf", "landing", Tier.LANDING_SCRAPE, Target.PDF))
    kept = state.to_json()
    assert (kept["visited"], kept["asked"], len(kept["candidates"])) == (["https://a.example/1"], ["unpaywall"], 2)
