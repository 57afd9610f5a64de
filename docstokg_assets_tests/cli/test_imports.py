"""Which large libraries each command imports. A command that takes on another one starts more slowly: think first, then list it
here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from docstokg_assets.domain.works import Work
from docstokg_assets.lake.views import export_new_rows
from docstokg_assets.lake.writer import LakeWriter
from docstokg_assets.runs.planning import store_works
from docstokg_assets_tests.support.telemetry import START
from resources.catalog.catalog import Catalog
from resources.catalog.rows import NewItem
from resources.lake.files import LakeFolder

# The libraries that take 10 ms and more to import.
LARGE = {
    *(
        "alembic",
        "boto3",
        "botocore",
        "confluent_kafka",
        "dagster",
        "duckdb",
        "fastapi",
        "grpc",
        "hishel",
        "lxml",
        "jinja2",
        "lxml",
    ),
    *("numpy", "openpyxl", "pandas", "psycopg", "pyarrow", "pydantic", "pypdf", "pyrate_limiter", "redis", "requests"),
    *("bibtexparser", "cryptography", "opentelemetry", "rispy", "sqlalchemy", "uvicorn"),
}
CONFIGURATION = {"pydantic"}
CATALOG = {*CONFIGURATION, "sqlalchemy"}
LAKE = {*CONFIGURATION, "duckdb", "numpy", "pyarrow"}
ALLOWED = {
    ("--help",): set(),
    ("--version",): set(),
    **{(name, "--help"): CONFIGURATION for name in ("pull", "run", "resume", "report", "query", "why")},
    ("catalog", "stats", "--help"): CATALOG,
    ("explain", "--help"): CONFIGURATION,
    ("explain",): CONFIGURATION,
    ("print-config",): CONFIGURATION,
    ("validate-config",): CONFIGURATION,
    ("catalog", "stats", "--out", "{root}"): CATALOG,
    ("why", "W1", "--out", "{root}"): CATALOG,
    ("query", "SELECT count(*) FROM works", "--out", "{root}"): LAKE,
    ("report", "--out", "{root}"): CATALOG | LAKE,
    ("pull", "--urls", "{root}/none.txt", "--out", "{root}", "--deadline", "1"): {
        *CATALOG,
        *LAKE,
        "requests",
        "pyrate_limiter",
        "hishel",
        "lxml",
    },
}
_PROGRAM = """
import json, sys
from docstokg_assets.cli.main import main
sys.argv = ["content", *sys.argv[1:]]
try:
    main()
finally:
    print("\\n" + json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


@pytest.fixture(scope="module")
def data_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("data")
    work, lake = Work("W1", "A title", 2024), LakeFolder(root / "lake")
    store_works(LakeWriter(lake), [work], START)
    with Catalog.open(root / "catalog.sqlite3") as catalog:
        catalog.enqueue([NewItem("W1", 2024, 2024, work.to_json(), "plan")])
        export_new_rows(catalog, lake)
    (root / "none.txt").write_text("https://127.0.0.1/none.pdf\n")
    return root


@pytest.mark.parametrize("command", ALLOWED, ids=" ".join)
def test_a_command_imports_only_the_large_libraries_that_it_needs(command: tuple[str, ...], data_root: Path) -> None:
    given = [word.format(root=data_root) for word in command]
    environment = {"DTKG_HTTP__CONTACT_EMAIL": "tests@library-of-tests.edu", "HOME": str(data_root)}
    ended = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *given], capture_output=True, text=True, env=environment, timeout=120
    )
    assert ended.returncode in (0, 3), ended.stderr
    loaded = set(json.loads(ended.stdout.splitlines()[-1]))
    assert loaded & LARGE <= ALLOWED[command]
    assert "dagster" not in loaded
