"""`content init`, `content doctor`, `content quota`: write a first configuration, check the set-up, show budgets."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from docstokg_assets.cli.exits import DONE, INCOMPLETE, NOT_STARTED, fail
from docstokg_assets.cli.options import JsonOption, Load, with_settings
from docstokg_assets.config.contact import contact_problem
from resources.settings import SettingsError

app = typer.Typer()
_TEMPLATE = """\
# Configuration of `content`. Every key: docs/configuration.md; the effective values: content print-config -c {name}
# Use it with --config, or: export DTKG_CONFIG={path}

# Data folder: files, catalog, lake and the folders of runs.
data_root: {out}

http:
  # Sent with every request, so that the operators of servers can reach you.
  contact_email: {email}

openalex:
  # Which works `content pull` takes when neither --query, --ids nor --urls is given.
  # filter: topics.id:T10102,publication_year:2024
  # A free key has ten times the budget: https://openalex.org/users. Also read from DOCSTOKG_CONTENT_API_KEY_OPENALEX.
  {key}

# download:
#   licenses: [cc-by*, cc0]                 # only copies under these licences; all by default
#   file_name: "{{author}}_{{year}}_{{title}}"    # names of files
"""


@app.command("init")
def init(
    config: Annotated[Path, typer.Option("--config", "-c", help="File to write.")] = Path("content.yaml"),
    email: Annotated[str | None, typer.Option("--email", help="Contact address.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Data folder (files, catalog, reports).")] = None,
    openalex_key: Annotated[str | None, typer.Option("--openalex-key", help="Key for OpenAlex.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing; take the options and the defaults.")] = False,
) -> None:
    """Write a commented configuration file. Asks for the contact address, the data folder and the OpenAlex key. An existing file
    is checked and left as it is.

    Exit codes: 0 the file is there and valid; 2 it is not.
    """
    from docstokg_assets.config import load_config

    if config.exists():
        load_config(config, os.environ)  # raises with all problems
        typer.echo(f"{config} exists and is valid; nothing was changed.")
        _print_next(config)
        return
    asks = not yes and sys.stdin.isatty()
    address = email or os.environ.get("DTKG_HTTP__CONTACT_EMAIL") or ""
    while asks and (not address or contact_problem(address)):
        if address:
            typer.echo(contact_problem(address), err=True)
        address = typer.prompt("Your e-mail address, sent with every request").strip()
    problem = contact_problem(address)
    if problem is not None:
        fail(f"{problem}; give it with --email")
    folder = out or Path(typer.prompt("Data folder", default="data") if asks else "data")
    key = openalex_key or (typer.prompt("OpenAlex key (empty: none)", default="", show_default=False) if asks else "")
    _write(config, address, folder, key.strip())
    load_config(config, os.environ)
    typer.echo(f"Wrote {config}.")
    _print_next(config)


def _write(config: Path, address: str, folder: Path, key: str) -> None:
    """Write the file so that only its owner can read it: it may hold a key."""
    import yaml

    def scalar(value: str) -> str:
        return yaml.safe_dump(value, default_style='"', width=10_000).strip()

    text = _TEMPLATE.format(
        name=config.name,
        path=config.absolute(),
        out=scalar(str(folder)),
        email=scalar(address),
        key=f"api_key: {scalar(key)}" if key else "# api_key: …",
    )
    try:
        descriptor = os.open(config, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        fail(f"{config} cannot be written: {error.strerror}. Give another file with --config.")


def _print_next(config: Path) -> None:
    typer.echo(f"Next: export DTKG_CONFIG={config.absolute()} && content doctor")


@app.command("doctor")
@with_settings("out", "policy")
def doctor(
    load: Load,
    offline: Annotated[bool, typer.Option("--offline", help="Send no requests.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Check the set-up: Python, disk, data folder, clock, proxy, TLS, contact, keys, limits, catalog. Each key is tried with one
    harmless request.

    Exit codes: 0 all is well, or warnings only; 2 the configuration is wrong; 3 there is an error.
    """
    from docstokg_assets.reporting.rendering import json_text
    from docstokg_assets.runs.doctor import Finding, examine

    try:
        config = load().value
    except SettingsError as error:
        found = [
            Finding("configuration", "error", problem, "Correct it; `content print-config` shows the rest.")
            for problem in error.problems
        ]
        _print_findings(found, as_json)
        raise typer.Exit(NOT_STARTED) from None
    found = examine(config, offline=offline)
    if as_json:
        typer.echo(json_text(found))
    else:
        _print_findings(found, as_json)
    raise typer.Exit(INCOMPLETE if any(one.state == "error" for one in found) else DONE)


def _print_findings(found: list, as_json: bool) -> None:  # type: ignore[type-arg]
    from rich.console import Console

    from docstokg_assets.cli.output import print_message
    from docstokg_assets.reporting.rendering import json_text, plural

    if as_json:
        typer.echo(json_text(found))
        return
    console = Console()
    for one in found:
        print_message(console, f"{one.state:<8}{one.name}: {one.message}")
        if one.remedy:
            print_message(console, f"        {one.remedy}")
    errors, warnings = (sum(one.state == state for one in found) for state in ("error", "warning"))
    print_message(console, f"{plural(errors, 'error')}, {plural(warnings, 'warning')}.")


@app.command("quota")
@with_settings("out")
def quota(load: Load, as_json: JsonOption = False) -> None:
    """Show what is left of today's budgets: OpenAlex, paid files, and providers with a daily limit.

    Exit codes: 0 shown; 3 a budget could not be read.
    """
    from rich.console import Console

    from docstokg_assets.cli.output import print_message
    from docstokg_assets.cli.run_session import load_with_contact
    from docstokg_assets.reporting.rendering import json_text, rich_table
    from docstokg_assets.runs.quota import read_quotas

    budgets = read_quotas(load_with_contact(load))
    if as_json:
        typer.echo(json_text(budgets))
    else:
        rows = [(b.name, b.limit, b.used, b.left, b.resets, b.note) for b in budgets]
        console = Console()
        console.print(rich_table(("budget", "limit", "used", "left", "renewed", ""), rows))
        for one in budgets:
            if one.problem:
                print_message(console, f"{one.name}: {one.problem}")
    raise typer.Exit(INCOMPLETE if any(one.problem for one in budgets) else DONE)
