"""`content landing`: what the landing-page rules find on one page, and why. For authors of rules.

Reads the page from a file, or fetches it with the polite client; `docstokg_assets.landing` evaluates it. Exit codes: 0 found a
link; 3 found none; 2 the page could not be fetched.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.text import Text

from docstokg_assets.cli.exits import DONE, INCOMPLETE, fail
from docstokg_assets.cli.options import JsonOption, Load, with_settings
from docstokg_assets.cli.run_session import disk_errors, load_with_contact, working_root
from docstokg_assets.domain.identifiers import normalize_url
from docstokg_assets.landing.extract import ITSELF, Found, Link, extract
from docstokg_assets.landing.walls import LOOKED_AT, recognise_wall
from docstokg_assets.reporting.rendering import json_text, rich_table
from docstokg_assets.runs.services import open_services
from resources.http.errors import HttpError
from resources.http.messages import Request, Response, Role

app = typer.Typer()

_MAX_PAGE = 20_000_000  # bytes; a longer page is read up to here


@app.command("landing")
@with_settings("no_robots")
def landing(
    load: Load,
    url: Annotated[str, typer.Option("--url", help="URL of the page; relative links are resolved against it.")],
    file: Annotated[
        Path | None, typer.Option("--file", metavar="PAGE.html", help="Saved page; then nothing is fetched.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show what the landing-page rules find on a page: the links, the rule behind each, and the rejected links.

    Exit codes: 0 found a link; 3 found none; 2 the page could not be fetched.
    """
    address = normalize_url(url)
    if address is None:
        fail(f"--url {url!r} is not a web address. Give one that begins with http:// or https://.")
    response = _read(file, address) if file is not None else _fetch(address, load)
    answer = describe(response)
    if as_json:
        typer.echo(json_text(answer))
    else:
        _print(response.url, answer)
    found = any(answer[key] for key in ("pdf_url", "xml_url", "html_url", "next_url"))
    raise typer.Exit(DONE if found else INCOMPLETE)


def describe(response: Response) -> dict[str, Any]:
    """The full-text links in a response, as plain data."""
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
    try:
        with file.open("rb") as page:
            body = page.read(_MAX_PAGE)
    except OSError as error:
        fail(f"--file {file}: {error.strerror}. Give a saved HTML page.")
    return Response(200, url, {}, body)


def _fetch(url: str, load: Load) -> Response:
    def page() -> Generator[Request, Response, Response]:
        return (yield Request(url, Role.LANDING, max_bytes=_MAX_PAGE, beginning_only=True))

    config = load_with_contact(load)
    try:
        with (
            disk_errors(config),
            working_root(config, dry_run=True) as (effective, limits),
            open_services(effective, limits) as services,
        ):
            return services.driver().ask(page())
    except HttpError as error:
        fail(f"{url} could not be fetched ({error.reason}): {error}. Save the page and give it with --file.")


def _print(url: str, answer: dict[str, Any]) -> None:
    console = Console(width=None if sys.stdout.isatty() else 400, highlight=False)
    console.print(Text(url, style="bold"))
    if answer["wall"]:
        console.print(f"[red]Wall: {answer['wall']}[/] (see docs/reasons.md)")
    rows: list[tuple[str | Text, ...]] = []
    for kind in ("pdf", "xml", "html", "next"):
        links = [one for one in answer["candidates"] if one["kind"] == kind]
        for number, one in enumerate(links):
            style = "dim" if number else "bold green"
            rows.append(("" if number else kind, Text(one["url"], style=style), one["rule"]))
        if not links:
            rows.append((kind, Text("none", style="dim"), ""))
    console.print(rich_table(("", "link", "found by"), rows, box=box.SIMPLE))
    if answer["rejected"]:
        rejected = [(one["url"], one["why"], one["rule"]) for one in answer["rejected"]]
        console.print(rich_table(("rejected", "because", "rule"), rejected, box=box.SIMPLE))
