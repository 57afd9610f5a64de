"""The configuration commands as a user runs them, and that the command line starts quickly."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from docstokg_assets.cli import main as program
from docstokg_assets.cli.options import overrides_from
from resources.errors import ExplainedError

HEAVY = ("dagster", "pandas", "pyarrow", "duckdb", "sqlalchemy", "requests", "cryptography", "pydantic", "lxml")


@pytest.fixture(autouse=True)
def no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.upper().startswith(("DTKG_", "DOCSTOKG_CONTENT_")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def content(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Runs the entry point in this process and returns its exit code."""
    monkeypatch.setattr(sys, "argv", ["content", *arguments])
    with pytest.raises(SystemExit) as ended:
        program.main()
    return int(ended.value.code or 0)


@pytest.mark.requirement("CLI-1", "CFG-1")
def test_print_config_in_a_pipe_is_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    Path("cd.yaml").write_text("workers: 3\n")
    monkeypatch.setenv("DOCSTOKG_CONTENT_API_KEY_OPENALEX", "s3cret")
    assert content(monkeypatch, "print-config", "-c", "cd.yaml", "--no-robots") == 0
    out = capsys.readouterr().out
    shown = json.loads(out)
    assert (shown["workers"], shown["robots"]["enabled"], shown["openalex"]["api_key"]) == (3, False, "***")
    assert "s3cret" not in out


@pytest.mark.requirement("CLI-1", "CLI-2")
def test_print_config_names_the_option_that_a_value_came_from(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DTKG_WORKERS", "16")
    code = content(
        monkeypatch, "print-config", "--format", "yaml", "--resolver-order", "unpaywall,arxiv", "--no-head-precheck",
        "--out", "papers", "--chunk-size", "4096", "--accept", "application/pdf",
    )  # fmt: skip
    assert code == 0
    out = capsys.readouterr().out
    lines = [line.strip() for line in out.splitlines()]
    assert "workers: 16  # environment DTKG_WORKERS" in lines
    assert "order: [unpaywall, arxiv]  # command line --resolver-order" in lines
    assert "head_precheck: false  # command line --no-head-precheck" in lines
    assert "data_root: papers  # command line --out" in lines
    assert "chunk_size_bytes: 4096  # command line --chunk-size" in lines
    assert "accept: application/pdf  # command line --accept" in lines
    assert yaml.safe_load(out)["workers"] == 16


@pytest.mark.requirement("CLI-1")
def test_the_file_can_be_named_by_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("mine.yaml").write_text("workers: 5\n")
    monkeypatch.setenv("DTKG_CONFIG", "mine.yaml")
    assert content(monkeypatch, "print-config") == 0
    assert json.loads(capsys.readouterr().out)["workers"] == 5


@pytest.mark.requirement("CLI-1")
def test_validate_config_tells_the_hash_or_every_problem(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("cd.yaml").write_text("workers: 3\n")
    assert content(monkeypatch, "validate-config", "-c", "cd.yaml") == 0
    captured = capsys.readouterr()
    assert "cd.yaml is valid\nconfig hash sha256:" in captured.out
    assert "http.contact_email is not set" in captured.err
    Path("cd.yaml").write_text("wokers: 3\nworkers: 0\n")
    assert content(monkeypatch, "validate-config", "-c", "cd.yaml") == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        "content: file cd.yaml, line 1: unknown key wokers; did you mean workers?\n"
        "content: workers: must be greater than or equal to 1; given 0 (file cd.yaml, line 2)\n"
    )


@pytest.mark.requirement("CLI-1")
def test_explain_lists_resolvers_and_hosts(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    Path("cd.yaml").write_text("resolvers: {order: [unpaywall, arxiv], arxiv: {enabled: false}}\n")
    assert content(monkeypatch, "explain", "-c", "cd.yaml", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in told["resolvers"]][:2] == ["unpaywall", "arxiv"]
    assert told["resolvers"][1]["state"] == {"value": "disabled", "origin": "file cd.yaml"}
    assert any(row["host"] == "arxiv.org" for row in told["hosts"])
    assert content(monkeypatch, "explain", "-c", "cd.yaml") == 0
    table = capsys.readouterr().out
    assert "disabled (file cd.yaml)" in table
    assert "not in resolvers.order (file cd.yaml)" in table
    assert "any other host" in table


def test_explain_fits_a_hundred_columns_and_says_once_what_holds_for_most(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("cd.yaml").write_text(
        "resolvers: {crossref: {timeout_read_s: 7, rate_limit: {refill_per_sec: 1}}}\n"
        "rate_limit: {policies: {a.example: 3/second}}\n"
    )
    assert content(monkeypatch, "explain", "-c", "cd.yaml") == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    shown = " ".join(" ".join(lines).split())
    assert shown.count("connect 10 s, read 60 s") == 1
    assert "connect 10 s, read 7 s (file cd.yaml): crossref" in shown
    assert "limit of crossref: 1/second, besides 3/second" in shown
    assert "a.example (all): rate configured a.example (file cd.yaml)" in shown
    assert "pmc.ncbi.nlm.nih.gov" in shown, "the converter is asked besides the bucket"


@pytest.mark.requirement("CFG-3", "CLI-1")
@pytest.mark.parametrize(
    "arguments", [("print-config", "--wrokers", "3"), ("print-confg",), ("print-config", "--workers", "x")]
)
def test_a_wrong_command_line_ends_with_2_and_a_hint(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert content(monkeypatch, *arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    assert captured.err


def test_what_is_wrong_is_broken_between_words_on_a_narrow_terminal_and_not_in_a_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("cd.yaml").write_text("openalex: {filtre: 'type:article'}\nhttp: {contact_email: nobody}\n")
    assert content(monkeypatch, "print-config", "-c", "cd.yaml") == 2
    piped = capsys.readouterr().err.splitlines()
    assert max(map(len, piped)) > 60

    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("COLUMNS", "48")
    assert content(monkeypatch, "print-config", "-c", "cd.yaml") == 2
    told = capsys.readouterr().err.splitlines()
    assert len(told) > len(piped) and " ".join(told).split() == " ".join(piped).split()
    assert all(len(line) <= 48 or " " not in line.strip() for line in told)


def test_an_interrupted_command_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("docstokg_assets.cli.options.load_config", interrupted)
    assert content(monkeypatch, "print-config") == 130


def test_options_that_were_not_given_override_nothing() -> None:
    assert overrides_from(workers=None, no_robots=False, head_precheck=None) == {}


def test_an_explained_error_ends_with_its_message_and_a_full_disk_with_its_own_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Full(ExplainedError):
        out_of_space = True

    for kind, code in ((ExplainedError, 2), (Full, 4)):

        def failing(*_: object, kind: type[ExplainedError] = kind) -> None:
            raise kind("the store cannot be reached.\nCheck its address.")

        monkeypatch.setattr("docstokg_assets.cli.options.load_config", failing)
        assert content(monkeypatch, "print-config") == code
        assert capsys.readouterr().err == "content: the store cannot be reached.\ncontent: Check its address.\n"


@pytest.mark.requirement("CLI-3")
def test_python_m_is_the_same_program_and_its_start_imports_nothing_heavy() -> None:
    project = Path(program.__file__).parents[2]
    script = (
        "import sys, runpy\n"
        "sys.argv = ['content', '--help']\n"
        "try: runpy.run_module('docstokg_assets.cli', run_name='__main__')\n"
        "except SystemExit as ended: code = ended.code\n"
        f"heavy = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "print('code', code, 'heavy', heavy)\n"
    )
    run = subprocess.run([sys.executable, "-c", script], cwd=project, capture_output=True, text=True, timeout=60)
    assert run.stdout.splitlines()[-1] == "code 0 heavy []", run.stderr
    assert "print-config" in run.stdout


def test_a_program_error_is_not_mistaken_for_a_wrong_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("docstokg_assets.cli.options.load_config", broken)
    monkeypatch.setattr(sys, "argv", ["content", "print-config"])
    with pytest.raises(ZeroDivisionError):
        program.main()
