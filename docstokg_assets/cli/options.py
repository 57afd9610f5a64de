"""Options that several commands share, declared once, and how a command gets its configuration."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_type_hints

import typer

if TYPE_CHECKING:
    from docstokg_assets.config import ContentDownloadConfig
    from resources.layers import SourcedValue
    from resources.settings import Loaded

ConfigOption = Annotated[
    Path | None, typer.Option("--config", "-c", help="Configuration file (YAML); default: $DTKG_CONFIG.")
]
RunOption = Annotated[str | None, typer.Option(help="Folder or id of a run; default: all runs.")]
YearOption = Annotated[int | None, typer.Option(min=0, help="Only works of this publication year; 0: unknown.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
TableFormatOption = Annotated[
    Literal["table", "json"], typer.Option("--format", help="Output format; a table shows the first rows only.")
]
DeadlineOption = Annotated[
    float | None,
    typer.Option("--deadline", min=1, metavar="SECONDS", help="Stop after this time; the rest stays in the queue."),
]


class _Setting(NamedTuple):
    key: str
    kind: Any
    flag: str
    help: str
    metavar: str | None = None

    @property
    def option(self) -> Any:
        return Annotated[self.kind, typer.Option(self.flag, help=self.help, metavar=self.metavar, show_default=False)]


# name of the parameter → the configuration key that its option sets
_SETTINGS = {
    "out": _Setting("data_root", Path | None, "--out", "Data folder (files, catalog, reports)."),
    "max_works": _Setting("openalex.max_works", int | None, "--max-works", "Maximum number of works.", "N"),
    "workers": _Setting("workers", int | None, "--workers", "Number of download threads."),
    "host": _Setting("serve.host", str | None, "--host", "Address to listen on."),
    "grpc_port": _Setting("serve.grpc_port", int | None, "--grpc-port", "Port for gRPC; 0 takes a free one."),
    "port": _Setting("serve.port", int | None, "--port", "Port for HTTP; 0 takes a free one."),
    "policy": _Setting("policy", str | None, "--policy", "Preset for a field: biomedicine or computer_science."),
    "resolver_order": _Setting(
        "resolvers.order", str | None, "--resolver-order", "Resolvers in order, comma-separated: unpaywall,crossref."
    ),
    "license": _Setting(
        "download.licenses", str | None, "--license", "Only copies under these licences: cc-by,cc0, cc-by*.", "NAMES"
    ),
    "copy_version": _Setting(
        "download.versions", str | None, "--copy-version", "Only these versions: published,accepted,submitted.", "NAMES"
    ),
    "name": _Setting(
        "download.file_name", str | None, "--name", "File names, e.g. {author}_{year}_{title}.", "TEMPLATE"
    ),
    "no_robots": _Setting("robots.enabled", bool, "--no-robots", "Ignore robots.txt (for debugging only)."),
    "chunk_size": _Setting("download.chunk_size_bytes", int | None, "--chunk-size", "Bytes per read."),
    "accept": _Setting("http.accept", str | None, "--accept", "Accept header of landing and artifact requests."),
    "head_precheck": _Setting(
        "download.head_precheck", bool | None, "--head-precheck/--no-head-precheck", "Send HEAD before GET."
    ),
    "concurrent_resolvers": _Setting(
        "download.max_concurrent_resolvers",
        int | None,
        "--concurrent-resolvers",
        "Resolvers of one tier that are queried at once.",
    ),
}
SETTING_NAMES = tuple(name for name, setting in _SETTINGS.items() if not setting.key.startswith("serve."))


class Load:
    """Loads the configuration of a command from the file (`--config`, else $DTKG_CONFIG), the environment and the options in
    `given`."""

    def __init__(self, config: Path | None, given: Mapping[str, Any]) -> None:
        self.config, self.given = config, given

    def __call__(self, **overrides: Any) -> Loaded[ContentDownloadConfig]:
        """`overrides` replace options by name."""
        from docstokg_assets.config import load_config
        from resources.settings import config_file

        given = overrides_from(**{**self.given, **overrides})
        return load_config(self.config or config_file(os.environ), os.environ, given)


def with_settings(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command `--config` and the options of these settings; its first parameter is then the `Load` that applies them."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**given: Any) -> None:
            load = Load(given.pop("config"), {name: given.pop(name) for name in names})
            command(load, **given)

        hints = get_type_hints(command, include_extras=True)
        own = list(inspect.signature(command).parameters.values())[1:]
        added = {name: _SETTINGS[name].option for name in names} | {"config": ConfigOption}
        parameters = [parameter.replace(annotation=hints[parameter.name]) for parameter in own]
        for name, kind in added.items():
            default = False if name == "no_robots" else None
            parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind))
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


def overrides_from(**given: Any) -> Mapping[str, Any]:
    """Dotted key → SourcedValue for the options that were given; None, and `no_robots=False`, mean not given."""
    from resources.layers import SourcedValue

    overrides: dict[str, SourcedValue] = {}
    for name, value in given.items():
        key, flag = _SETTINGS[name].key, _SETTINGS[name].flag
        if value is None or (name == "no_robots" and not value):
            continue
        if name == "no_robots":
            value = False
        elif name == "license":
            from docstokg_assets.sources.selection import license_names

            value = list(license_names(value))
        elif name in ("resolver_order", "copy_version"):
            value = [part.strip() for part in value.split(",") if part.strip()]
        elif name == "head_precheck":
            flag = flag.split("/")[0 if value else 1]
        overrides[key] = SourcedValue(value, f"command line {flag}")
    return overrides
