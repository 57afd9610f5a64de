"""Options that several commands share, how each becomes an override, and how a command gets its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from docstokg_assets.config import ContentDownloadConfig
    from resources.settings import Loaded

ConfigOption = Annotated[
    Path | None, typer.Option("--config", "-c", help="Configuration file (YAML); $DTKG_CONFIG when not given.")
]
PolicyOption = Annotated[
    str | None, typer.Option("--policy", help="A preset for a field: biomedicine or computer_science.")
]
MaxWorksOption = Annotated[int | None, typer.Option("--max-works", metavar="N", help="Most works to take of a query.")]
WorkersOption = Annotated[int | None, typer.Option("--workers", help="Threads that move bytes.")]
OutOption = Annotated[Path | None, typer.Option("--out", help="Data root: the folder that holds it all.")]
ResolverOrderOption = Annotated[
    str | None, typer.Option("--resolver-order", help="Resolvers in order, separated by commas: unpaywall,crossref.")
]
NoRobotsOption = Annotated[bool, typer.Option("--no-robots", help="Do not obey robots.txt (for debugging only).")]
ChunkSizeOption = Annotated[int | None, typer.Option("--chunk-size", help="Bytes read at once.")]
AcceptOption = Annotated[str | None, typer.Option("--accept", help="Accept header of landing and artifact requests.")]
ShownAs = Annotated[
    Literal["table", "json"], typer.Option("--format", help="How to show it; a table has its first rows only.")
]
HeadPrecheckOption = Annotated[
    bool | None, typer.Option("--head-precheck/--no-head-precheck", help="Ask HEAD before GET.", show_default=False)
]

ConcurrentResolversOption = Annotated[
    int | None, typer.Option("--concurrent-resolvers", help="Resolvers of one tier that are asked side by side.")
]

# keyword of `overrides_from` → (flag, key)
_FLAGS = {
    "policy": ("--policy", "policy"),
    "max_works": ("--max-works", "openalex.max_works"),
    "workers": ("--workers", "workers"),
    "out": ("--out", "data_root"),
    "resolver_order": ("--resolver-order", "resolvers.order"),
    "no_robots": ("--no-robots", "robots.enabled"),
    "chunk_size": ("--chunk-size", "download.chunk_size_bytes"),
    "accept": ("--accept", "http.accept"),
    "head_precheck": ("--head-precheck", "download.head_precheck"),
    "concurrent_resolvers": ("--concurrent-resolvers", "download.max_concurrent_resolvers"),
}


def overrides_from(**given: Any) -> Mapping[str, Any]:
    """Dotted key → Override for the options that were given; None, and `no_robots=False`, mean not given."""
    from resources.settings import Override

    overrides: dict[str, Override] = {}
    for name, value in given.items():
        flag, key = _FLAGS[name]
        if value is None or (name == "no_robots" and not value):
            continue
        if name == "no_robots":
            value = False
        elif name == "resolver_order":
            value = [part.strip() for part in value.split(",") if part.strip()]
        elif name == "head_precheck" and not value:
            flag = "--no-head-precheck"
        overrides[key] = Override(value, f"command line {flag}")
    return overrides


def load_for_cli(
    config: Path | None, env: Mapping[str, str], overrides: Mapping[str, Any] | None = None
) -> Loaded[ContentDownloadConfig]:
    """The configuration of a command: the file of `--config`, else that of $DTKG_CONFIG, else none."""
    from docstokg_assets.config import load_config
    from resources.settings import config_file

    return load_config(config or config_file(env), env, overrides)
