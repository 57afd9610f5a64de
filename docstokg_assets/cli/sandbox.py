"""`content sandbox`: serve the simulated scholarly web (the sandbox) for demos and experiments.

Reads options and prints the two settings that point the program at the sandbox; `docstokg_assets.sandbox` serves.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from docstokg_assets.sandbox.mix import Mix
from docstokg_assets.sandbox.server import PortTaken
from docstokg_assets.sandbox.server import serve as serve_sandbox
from docstokg_assets.sandbox.universe import Universe

app = typer.Typer(
    name="sandbox",
    help="Simulated scholarly web (the sandbox): local stand-ins for the services, for demos and tests.",
    no_args_is_help=True,
)


@app.callback()
def _group() -> None:
    """Keeps `serve` a command of its own while it is the only one."""


def _settings(port: int, bundle: Path) -> str:
    proxy = f"http://127.0.0.1:{port}"
    return (
        "The sandbox is ready. Use it with these two settings, in the configuration file:\n\n"
        f"http:\n  proxy: {proxy}\n  ca_bundle: {bundle}\n\n"
        "or in the environment:\n\n"
        f"export DTKG_HTTP__PROXY={proxy}\nexport DTKG_HTTP__CA_BUNDLE={bundle}\n\n"
        "Press Ctrl-C to stop it."
    )


@app.command()
def serve(
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1; 0 takes a free one.")] = 8899,
    works_per_year: Annotated[int, typer.Option(min=0, max=1_000_000, help="Works in each year.")] = 200,
    first_year: Annotated[int, typer.Option(help="First publication year.")] = 2021,
    last_year: Annotated[int, typer.Option(help="Last publication year, inclusive.")] = 2026,
    seed: Annotated[int, typer.Option(help="The same seed gives the same works and files.")] = 7,
    profile: Annotated[str, typer.Option(help="Mix of works: default or demo.")] = "default",
    mix: Annotated[str, typer.Option(help="Changes to the profile as YAML or JSON, e.g. '{wall: 5}'.")] = "",
    state_dir: Annotated[Path, typer.Option(help="Folder for the CA bundle.")] = Path(".sandbox"),
    no_enforce_limits: Annotated[
        bool, typer.Option("--no-enforce-limits", help="Count rate limits, but do not refuse requests.")
    ] = False,
) -> None:
    """Print the two settings that point the program at the sandbox, then serve until Ctrl-C."""
    folder = state_dir.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".gitignore").write_text("*\n")
    try:
        universe = Universe(seed, works_per_year, (first_year, last_year), Mix.load(profile, mix))
        serve_sandbox(
            universe,
            folder,
            port=port,
            enforce_limits=not no_enforce_limits,
            ready=lambda bound, bundle: print(_settings(bound, bundle), flush=True),
        )
    except (PortTaken, ValueError) as error:
        typer.echo(f"sandbox: {error}", err=True)
        raise typer.Exit(2) from None
    typer.echo("sandbox: stopped")
