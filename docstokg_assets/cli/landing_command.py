"""`content landing`: what the rules find on one landing page, and why. For those who write rules.

Reads the page from a file, or lets the polite client fetch it; what it shows is found by `docstokg_assets.landing`. Exit codes:
0 something was found; 3 nothing was; 2 the page could not be had.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from docstokg_assets.cli.ending import DONE, SOMETHING_LEFT, fail
from docstokg_assets.cli.options import ConfigOption, NoRobotsOption, load_for_cli, overrides_from
from docstokg_assets.cli.running import exit_with_message, working_root

if TYPE_CHECKING:
    from resources.http.messages import Request, Response

app = typer.Typer()

_MAX_PAGE = 20_000_000  # bytes; what is longer is read up to here


@app.command("landing")
def landing(
    url: Annotated[str, typer.Option("--url", help="Address of the page; links on it are relative to this.")],
    file: Annotated[
        Path | None, typer.Option("--file", metavar="PAGE.html", help="The page, saved; nothing is fetched then.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
    config: ConfigOption = None,
    no_robots: NoRobotsOption = False,
) -> None:
    """Show what the landing-page rules find on a page: the links, the rule behind each, and what was turned down.

    Exit codes: 0 something was found; 3 nothing was; 2 the page could not be had.
    """
    from docstokg_assets.domain.identifiers import normalize_url

    address = normalize_url(url)
    if address is None:
        fail(f"--url {url!r} is no web address. Give one that begins with http:// or https://.")
    response = _read(file, address) if file is not None else _fetch(address, config, no_robots)
    answer = describe(response)
    if as_json:
        import json

        typer.echo(json.dumps(answer, indent=2, ensure_ascii=False))
    else:
        _print(response.url, answer)
    raise typer.Exit(
        DONE if any(answer[key] for key in ("pdf_url", "xml_url", "html_url", "next_url")) else SOMETHING_LEFT
    )


def describe(response: Response) -> dict[str, Any]:
    """What an answer holds for those who look for the full text, as plain data."""
    from docstokg_assets.landing.extract import ITSELF, Found, Link, extract
    from docstokg_assets.landing.walls import LOOKED_AT, recognise_wall

    wall = recognise_wall(response.status, response.headers, response.body[:LOOKED_AT], response.url)
    if b"%PDF-" in response.body[:1024]:
        found = Found(pdf=(Link(response.url, ITSELF),))
    elif wall is not None:
        found = Found()
    else:
        found = extract(response.body, response.headers.get("content-type"), response.url)
    kinds = {"pdf": found.pdf, "xml": found.xml, "html": found.html, "next": (found.step,) if found.step else ()}
    links = [(kind, link) for kind, several in kinds.items() for link in several]
    first = {kind: several[0].url if several else None for kind, several in kinds.items()}
    return {
        **{f"{kind}_url": first[kind] for kind in ("pdf", "xml", "html")},
        "rule": links[0][1].technique if links else None,
        "wall": str(wall) if wall else None,
        "next_url": first["next"],
        "candidates": [{"kind": kind, "url": link.url, "rule": link.technique} for kind, link in links],
        "rejected": [{"url": one.url, "rule": one.technique, "why": one.why} for one in found.rejected],
    }


def _read(file: Path, url: str) -> Response:
    from resources.http.messages import Response

    try:
        with file.open("rb") as page:
            body = page.read(_MAX_PAGE)
    except OSError as error:
        fail(f"--file {file}: {error.strerror}. Give a page that was saved as HTML.")
    return Response(200, url, {}, body)


def _fetch(url: str, config: Path | None, no_robots: bool) -> Response:
    from docstokg_assets.config import require_contact
    from docstokg_assets.runs.services import open_services
    from resources.http.errors import HttpError
    from resources.http.messages import Request, Role

    def page() -> Generator[Request, Response, Response]:
        return (yield Request(url, Role.LANDING, max_bytes=_MAX_PAGE, beginning_only=True))

    loaded = load_for_cli(config, os.environ, overrides_from(no_robots=no_robots)).value
    require_contact(loaded)
    try:
        with (
            exit_with_message(loaded),
            working_root(loaded, dry_run=True) as (effective, limits),
            open_services(effective, limits) as services,
        ):
            return services.driver().ask(page())
    except HttpError as error:
        fail(f"{url} could not be had ({error.reason}): {error}. Save the page and give it with --file.")


def _print(url: str, answer: dict[str, Any]) -> None:
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 400, highlight=False)
    console.print(f"[bold]{escape(url)}[/]")
    if answer["wall"]:
        console.print(f"[red]A wall: {answer['wall']}[/] (docs/reasons.md says what helps)")
    table = Table(box=box.SIMPLE, show_header=bool(answer["candidates"]))
    for column in ("", "link", "found by"):
        table.add_column(column, overflow="fold")
    for kind in ("pdf", "xml", "html", "next"):
        several = [one for one in answer["candidates"] if one["kind"] == kind]
        for number, one in enumerate(several):
            style = "bold green" if number == 0 else "dim"
            table.add_row(kind if number == 0 else "", f"[{style}]{escape(one['url'])}[/]", one["rule"])
        if not several:
            table.add_row(kind, "[dim]none[/]", "")
    console.print(table)
    if answer["rejected"]:
        turned_down = Table("turned down", "because", "looked at by", box=box.SIMPLE)
        for one in answer["rejected"]:
            turned_down.add_row(escape(one["url"]), one["why"], one["rule"])
        console.print(turned_down)
