"""`content print-config`, `validate-config` and `explain`: what the configuration is, and what it amounts to.

The commands print; what they print is made in `docstokg_assets.config`, imported when a command runs.
"""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from docstokg_assets.cli.options import (
    AcceptOption,
    ChunkSizeOption,
    ConcurrentResolversOption,
    ConfigOption,
    HeadPrecheckOption,
    NoRobotsOption,
    OutOption,
    PolicyOption,
    ResolverOrderOption,
    WorkersOption,
    load_for_cli,
    overrides_from,
)

if TYPE_CHECKING:
    from docstokg_assets.config.explain import HostRow, ResolverRow

app = typer.Typer()


@app.command("print-config")
def print_config(
    config: ConfigOption = None,
    format: Annotated[
        Literal["yaml", "json"] | None, typer.Option("--format", help="yaml on a terminal, json in a pipe, by default.")
    ] = None,
    origins: Annotated[
        bool | None,
        typer.Option("--origins/--no-origins", help="Say where each value came from (yaml does by default)."),
    ] = None,
    policy: PolicyOption = None,
    workers: WorkersOption = None,
    out: OutOption = None,
    resolver_order: ResolverOrderOption = None,
    no_robots: NoRobotsOption = False,
    chunk_size: ChunkSizeOption = None,
    accept: AcceptOption = None,
    head_precheck: HeadPrecheckOption = None,
    concurrent_resolvers: ConcurrentResolversOption = None,
) -> None:
    """Show the merged configuration: defaults, file, environment and command line. Secrets are masked."""
    from docstokg_assets.config.render import as_json, as_yaml

    overrides = overrides_from(
        policy=policy,
        workers=workers,
        out=out,
        resolver_order=resolver_order,
        no_robots=no_robots,
        chunk_size=chunk_size,
        accept=accept,
        head_precheck=head_precheck,
        concurrent_resolvers=concurrent_resolvers,
    )
    loaded = load_for_cli(config, os.environ, overrides)
    if (format or ("yaml" if sys.stdout.isatty() else "json")) == "yaml":
        typer.echo(as_yaml(loaded, origins=origins is not False), nl=False)
    else:
        typer.echo(as_json(loaded, origins=bool(origins)))


@app.command("validate-config")
def validate_config(config: ConfigOption = None, policy: PolicyOption = None) -> None:
    """Check the configuration; all problems are told at once, with exit code 2."""
    from docstokg_assets.config import config_hash, require_contact
    from resources.settings import SettingsError, config_file

    loaded = load_for_cli(config, os.environ, overrides_from(policy=policy))
    typer.echo(f"{config or config_file(os.environ) or 'The configuration'} is valid")
    typer.echo(f"config hash {config_hash(loaded.value)}")
    try:
        require_contact(loaded.value)
    except SettingsError as error:
        typer.echo(f"note: {error}", err=True)


@app.command("explain")
def explain(
    config: ConfigOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
    policy: PolicyOption = None,
    resolver_order: ResolverOrderOption = None,
    no_robots: NoRobotsOption = False,
    head_precheck: HeadPrecheckOption = None,
) -> None:
    """Show who is asked, in which order and how politely, and where each rule came from."""
    import json

    from docstokg_assets.config.explain import explain_hosts, explain_resolvers

    overrides = overrides_from(
        policy=policy, resolver_order=resolver_order, no_robots=no_robots, head_precheck=head_precheck
    )
    loaded = load_for_cli(config, os.environ, overrides)
    resolvers, hosts = explain_resolvers(loaded), explain_hosts(loaded)
    if as_json:
        rows = {"resolvers": [asdict(row) for row in resolvers], "hosts": [asdict(row) for row in hosts]}
        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
    else:
        _print_tables(resolvers, hosts)


def _print_tables(resolvers: list[ResolverRow], hosts: list[HostRow]) -> None:
    """What differs between the rows is in the tables, what is the same for most of them is said once below."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 100, highlight=False)
    who = Table("#", "resolver", "tier", "state", "asks", box=box.SIMPLE)
    for row in resolvers:
        if row.position is not None:
            who.add_row(str(row.position), row.name, row.tier, str(row.state), "\n".join(row.asks) or "–")
    console.print(who)
    in_order = [row for row in resolvers if row.position is not None]
    if left_out := [row for row in resolvers if row.position is None]:
        console.print(f"{left_out[0].state}: {', '.join(row.name for row in left_out)}")
    for title, cells in (
        ("robots.txt", [(row.name, str(row.robots)) for row in in_order]),
        ("HEAD first", [(row.name, str(row.head_precheck)) for row in in_order]),
        ("retry", [(row.name, str(row.retry)) for row in in_order]),
        ("timeouts", [(row.name, str(row.timeouts)) for row in in_order]),
    ):
        console.print(f"{title}: {_mostly(cells)}")
    for row in in_order:
        if row.has_own_limit:
            console.print(f"limit of {row.name}: {row.limit}")
        if row.wants is not None:
            console.print(f"{row.name} is off until it has a key: set {row.wants} or resolvers.{row.name}.api_key")
    limits = Table("host", "role", "rate", "at once", "group", box=box.SIMPLE)
    for host in hosts:
        at_once = "no cap" if host.concurrency is None else f"{host.concurrency}{'' if host.cap_each else ' in all'}"
        limits.add_row(host.host, host.role, host.rate, at_once, "–" if host.group == host.host else host.group)
    console.print(limits)
    for host in hosts:
        told = {"rate": host.origin, "at once": host.concurrency_origin}
        if own := [f"{what} {origin}" for what, origin in told.items() if not origin.startswith("built-in")]:
            console.print(f"{host.host} ({host.role}): {', '.join(own)}")
    backend = f"{hosts[0].backend} ({hosts[0].backend_origin})"
    console.print(
        f"Rates are counted for {hosts[0].counted}; backend {backend}. Servers may lower them, never raise them. "
        "Requests at once are counted in each process, or, where it says so, in all processes of the data root."
    )


def _mostly(cells: list[tuple[str, str]]) -> str:
    """`obeyed; exempt: arxiv, zenodo`: the value of most, then the others with their names."""
    from collections import defaultdict

    names = defaultdict[str, list[str]](list)
    for name, value in cells:
        names[value].append(name)
    most, *others = sorted(names, key=lambda value: -len(names[value]))
    return "; ".join([most, *(f"{value}: {', '.join(names[value])}" for value in others)])
