"""Options that every command has: `-v`, `-q`, and `--json` where there is `--format json`."""

from contextvars import ContextVar
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

_LEVEL = ContextVar("verbosity", default=0)


def verbosity() -> int:
    """-1 under --quiet, 1 under --verbose, else 0."""
    return _LEVEL.get()


def add_common_options(command: Any) -> None:
    """Add the options to a command, or to all commands of a group."""
    _LEVEL.set(0)
    if isinstance(command, TyperGroup):
        for each in command.commands.values():
            add_common_options(each)
        return
    names = {option for parameter in command.params for option in parameter.opts}
    has_format = "--format" in names and "--json" not in names
    command.params += [option for option in _declared() if has_format or "--json" not in option.opts]


def _declared() -> list[Any]:
    """The options as Typer makes them; their callbacks act, and the command does not see their values."""
    app = typer.Typer(add_completion=False)

    @app.command()
    def command(
        verbose: Annotated[bool, _flag("-v", "--verbose", help="Show debug messages.", callback=_verbose)] = False,
        quiet: Annotated[bool, _flag("-q", "--quiet", help="Show errors and results only.", callback=_quiet)] = False,
        json: Annotated[bool, _flag("--json", help="Same as --format json.", callback=_choose_json)] = False,
    ) -> None: ...

    options = [option for option in typer.main.get_command(app).params if "--help" not in option.opts]
    for option in options:
        option.expose_value = False
    return options


def _flag(*names: str, help: str, callback: Any) -> Any:
    return typer.Option(*names, help=help, callback=callback, is_eager=True, show_default=False)


def _verbose(given: bool) -> None:
    if given:
        _LEVEL.set(1)


def _quiet(given: bool) -> None:
    if given:
        _LEVEL.set(-1)


def _choose_json(context: typer.Context, given: bool) -> None:
    """The default of `--format`, which is read after the eager options."""
    if given:
        context.default_map = {**(context.default_map or {}), "format": "json"}
