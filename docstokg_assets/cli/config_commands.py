"""`content print-config`, `validate-config` and `explain`: the effective configuration and what it amounts to.

The commands print; `docstokg_assets.config` prepares what they print.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from typing import Annotated, Literal

import typer
from rich import box
from rich.console import Console

from docstokg_assets.cli.options import SETTING_NAMES, JsonOption, Load, with_settings
from docstokg_assets.config import config_hash, require_contact
from docstokg_assets.config.explain import HostRow, ResolverRow, explain_hosts, explain_resolvers
from docstokg_assets.config.render import as_json, as_yaml
from docstokg_assets.reporting.rendering import json_text, rich_table
from resources.settings import SettingsError, config_file

app = typer.Typer()


@app.command("print-config")
@with_settings(*SETTING_NAMES)
def print_config(
    load: Load,
    format: Annotated[
        Literal["yaml", "json"] | None, typer.Option("--format", help="Default: yaml on a terminal, json in a pipe.")
    ] = None,
    origins: Annotated[
        bool | None, typer.Option("--origins/--no-origins", help="Show where each value comes from (default for yaml).")
    ] = None,
) -> None:
    """Print the effective configuration: defaults, file, environment and command line merged. Secrets are masked."""
    loaded = load()
    if (format or ("yaml" if sys.stdout.isatty() else "json")) == "yaml":
        typer.echo(as_yaml(loaded, origins=origins is not False), nl=False)
    else:
        typer.echo(as_json(loaded, origins=bool(origins)))


@app.command("validate-config")
@with_settings("policy")
def validate_config(load: Load, as_json: JsonOption = False) -> None:
    """Check the configuration. Reports all problems at once, with exit code 2."""
    loaded, file = load(), load.config or config_file(os.environ)
    if as_json:
        name = str(file) if file is not None else None
        typer.echo(json_text({"valid": True, "file": name, "config_hash": config_hash(loaded.value)}))
        return
    typer.echo(f"{file or 'The configuration'} is valid")
    typer.echo(f"config hash {config_hash(loaded.value)}")
    try:
        require_contact(loaded.value)
    except SettingsError as error:
        typer.echo(f"note: {error}", err=True)


@app.command("explain")
@with_settings("policy", "resolver_order", "no_robots", "head_precheck")
def explain(load: Load, as_json: JsonOption = False) -> None:
    """Show which resolvers and hosts are queried, in which order and within which limits, and where each rule comes from."""
    loaded = load()
    resolvers, hosts = explain_resolvers(loaded), explain_hosts(loaded)
    if as_json:
        typer.echo(json_text({"resolvers": resolvers, "hosts": hosts}))
    else:
        _print_tables(resolvers, hosts)


def _print_tables(resolvers: list[ResolverRow], hosts: list[HostRow]) -> None:
    """Print what differs between the rows in tables, and what most of them share once below."""
    console = Console(width=None if sys.stdout.isatty() else 100, highlight=False)
    in_order = [row for row in resolvers if row.position is not None]
    rows = [(f"{row.position}", row.name, row.tier, str(row.state), "\n".join(row.asks) or "–") for row in in_order]
    console.print(rich_table(("#", "resolver", "tier", "state", "queries"), rows, box=box.SIMPLE))
    if left_out := [row for row in resolvers if row.position is None]:
        console.print(f"{left_out[0].state}: {', '.join(row.name for row in left_out)}")
    titles = {"robots.txt": "robots", "HEAD first": "head_precheck", "retry": "retry", "timeouts": "timeouts"}
    for title, column in titles.items():
        console.print(f"{title}: {_mostly([(row.name, str(getattr(row, column))) for row in in_order])}")
    for row in in_order:
        if row.has_own_limit:
            console.print(f"limit of {row.name}: {row.limit}")
        if row.wants is not None:
            console.print(f"{row.name} is off until it has a key: set {row.wants} or resolvers.{row.name}.api_key")
    limits = []
    for host in hosts:
        at_once = "no cap" if host.concurrency is None else f"{host.concurrency}{'' if host.cap_each else ' in all'}"
        limits.append((host.host, host.role, host.rate, at_once, "–" if host.group == host.host else host.group))
    console.print(rich_table(("host", "role", "rate", "at once", "group"), limits, box=box.SIMPLE))
    for host in hosts:
        origins = {"rate": host.origin, "at once": host.concurrency_origin}
        if own := [f"{what} {origin}" for what, origin in origins.items() if not origin.startswith("built-in")]:
            console.print(f"{host.host} ({host.role}): {', '.join(own)}")
    backend = f"{hosts[0].backend} ({hosts[0].backend_origin})"
    console.print(
        f"Rates apply to {hosts[0].counted}; backend {backend}. Servers may lower them, never raise them. "
        'Requests at once are counted per process, or, where it says "in all", over all processes of the data folder.'
    )


def _mostly(cells: list[tuple[str, str]]) -> str:
    """`obeyed; exempt: arxiv, zenodo`: the most frequent value, then the others with their names."""
    names = defaultdict[str, list[str]](list)
    for name, value in cells:
        names[value].append(name)
    most, *others = sorted(names, key=lambda value: -len(names[value]))
    return "; ".join([most, *(f"{value}: {', '.join(names[value])}" for value in others)])
