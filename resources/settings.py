"""Layered loading of one settings model: defaults < policy < file < environment < command line, with the origin of every value.

Works for any pydantic model; `layers.py` reads each layer. The file and the environment are parameters: nothing here reads
`os.environ`. One SettingsError reports all problems of all layers at once. Why not pydantic-settings:
docs/decisions/0001-own-settings-loader.md.
"""

from __future__ import annotations

import difflib
import json
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, SecretStr, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from resources import layers
from resources.errors import ExplainedError
from resources.http.redact import redact_url
from resources.layers import CONFIG_VARIABLE, ENV_PREFIXES, SECRET_PREFIX, KeyPath, SourcedValue

MASK = "***"


class Section(BaseModel):
    """Base of every configuration section: unknown keys are refused, values are immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class SettingsError(ExplainedError):
    """Everything that is wrong with the configuration, one sentence per problem."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = list(problems)


T = TypeVar("T", bound=BaseModel)
_Tree = dict[str, Any]  # of further trees, with a SourcedValue at each leaf


@dataclass(frozen=True, slots=True)
class Loaded(Generic[T]):
    """The settings, and for each dotted key that is not a default where its value came from."""

    value: T
    origins: Mapping[str, str]

    def origin(self, *keys: str) -> str:
        """Where the values of `keys` came from; of a section or mapping, the origins of what was given inside it.

        Validation may have changed the spelling of a key in a mapping or made a mapping of a single value, so case does
        not count, and what is inside a given value came with it.
        """
        wanted = [f"{key.lower()}." for key in keys]
        given = [(f"{key.lower()}.", origin) for key, origin in self.origins.items()]
        found = {o for known, o in given if any(known.startswith(key) or key.startswith(known) for key in wanted)}
        return ", ".join(sorted(found)) or "default"


def load(
    model: type[T],
    *,
    file: Path | None,
    env: Mapping[str, str],
    overrides: Mapping[str, Any] | None = None,
    aliases: Mapping[str, str] | None = None,
    policies: Path | None = None,
) -> Loaded[T]:
    """Load `model` from all layers. `overrides` and `aliases` (variable name → key) use dotted keys; `policies` is the folder of
    the presets that the key `policy` may name."""
    check = _Check(model)
    given = (
        layers.read_file(file, check.problems),
        layers.read_environment(env, aliases or {}, check.problems),
        layers.read_overrides(overrides or {}),
    )
    tree: _Tree = {}
    for layer in (layers.read_policy(given, policies, check.problems), *given):
        fitted = check.fit(model, layer, ())
        tree = _merged(tree, fitted if isinstance(fitted, dict) else {})
    try:
        value = model.model_validate(_values(tree))
    except ValidationError as error:
        wrong = [_problem(detail, tree) for detail in error.errors()]
        raise SettingsError(check.problems + wrong) from None
    if check.problems:
        raise SettingsError(check.problems)
    return Loaded(value, {".".join(path): given.origin for path, given in _leaves(tree, ())})


def config_file(env: Mapping[str, str]) -> Path | None:
    """The configuration file that the environment names, if any."""
    return next((Path(value) for name, value in env.items() if name.upper() == CONFIG_VARIABLE and value), None)


class _Check:
    """Finds the field of the model for each given value, and collects the values that have none."""

    def __init__(self, model: type[BaseModel]) -> None:
        self.problems: list[str] = []
        self.keys = [".".join(path) for path in _known_keys(model, ())]

    def fit(self, kind: Any, given: SourcedValue, path: KeyPath) -> SourcedValue | _Tree | None:
        """`given` in the shape of `kind`: models and mappings become trees that can be merged, all else one value."""
        kind = get_args(kind)[0] if get_origin(kind) is Annotated else kind
        model = model_in(kind)
        values = get_args(kind)[1] if get_origin(kind) is dict else None
        tree: _Tree = {}
        if given.nested and (model is not None or values is not None):
            for key, child in given.value.items():
                field = model.model_fields.get(key) if model else None
                if model is not None and field is None:
                    self._unknown((*path, key), child, list(model.model_fields))
                else:
                    tree[key] = self.fit(field.annotation if field else values, child, (*path, key))
            return {key: node for key, node in tree.items() if node is not None}
        if given.value is None and (values is not None or kind is model):
            return None  # a section whose lines are all commented out
        return replace(given, value=_value_or_text(kind, given), secret=SecretStr in (kind, *get_args(kind)))

    def _unknown(self, path: KeyPath, given: SourcedValue, siblings: Sequence[str]) -> None:
        if given.origin.startswith("environment "):
            hint = self._variable_hint(given.origin.removeprefix("environment ").upper())
        else:
            near = [".".join((*path[:-1], key)) for key in difflib.get_close_matches(path[-1], siblings, 1)]
            # a right key at the wrong place, `proxy` instead of `http.proxy`
            near = near or [key for key in self.keys if key.endswith(f".{path[-1]}")]
            hint = f"did you mean {near[0]}?" if near else f"known here: {', '.join(siblings)}"
        self.problems.append(f"{given.place}: unknown key {'.'.join(path)}; {hint}")

    def _variable_hint(self, name: str) -> str:
        prefix = next((p for p in ENV_PREFIXES if name.startswith(p)), "")
        if name.startswith(f"{prefix}API_KEY_"):
            return f"keys of providers are read from {SECRET_PREFIX}<PROVIDER>"
        names = [prefix + key.upper().replace(".", "__") for key in self.keys]
        near = difflib.get_close_matches(name, [*names, CONFIG_VARIABLE], 1)
        return f"did you mean {near[0]}?" if near else f"variables are named like {names[0]}; `__` goes into a section"


def _value_or_text(kind: Any, given: SourcedValue) -> Any:
    """The parsed value, or its text where the field takes only text: `123` for a text field is "123"."""
    value = given.plain()
    if given.text is None or isinstance(value, str):
        return value
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    for attempt in (value, given.text):
        try:
            adapter.validate_python(attempt)
        except ValidationError:
            continue
        return attempt
    return value


def alternatives(kind: Any) -> tuple[Any, ...]:
    """The members of a union; of any other type the type itself."""
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def model_in(kind: Any) -> type[BaseModel] | None:
    """The model that `kind` is, or that it optionally is."""
    return next((k for k in alternatives(kind) if isinstance(k, type) and issubclass(k, BaseModel)), None)


def _known_keys(model: type[BaseModel], path: KeyPath) -> Iterator[KeyPath]:
    for name, field in model.model_fields.items():
        yield (*path, name)
        inner = model_in(field.annotation)
        if inner is not None:
            yield from _known_keys(inner, (*path, name))


def _merged(below: _Tree, above: _Tree) -> _Tree:
    merged = dict(below)
    for key, node in above.items():
        under = below.get(key)
        merged[key] = _merged(under, node) if isinstance(under, dict) and isinstance(node, dict) else node
    return merged


def _values(tree: _Tree) -> dict[str, Any]:
    return {key: _values(node) if isinstance(node, dict) else node.value for key, node in tree.items()}


def _leaves(tree: _Tree, path: KeyPath) -> Iterator[tuple[KeyPath, SourcedValue]]:
    for key, node in tree.items():
        if isinstance(node, dict):
            yield from _leaves(node, (*path, key))
        else:
            yield (*path, key), node


def _problem(detail: ErrorDetails, tree: _Tree) -> str:
    """A validation error as a sentence: the key, what is allowed, what was given and where."""
    node: Any = tree
    path: list[str] = []
    for part in detail["loc"]:
        if not isinstance(node, dict) or str(part) not in node:
            break
        node = node[str(part)]
        path.append(str(part))
    key = ".".join(path) or "configuration"
    if not isinstance(node, SourcedValue):
        return f"{key}: {_sentence(detail)}"
    value = path[-1] if detail["loc"][-1] == "[key]" else node.value
    return f"{key}: {_sentence(detail)}; given {MASK if node.secret else _quoted(value)} ({node.place})"


def _quoted(value: Any) -> str:
    text = redact_url(json.dumps(value, default=str, ensure_ascii=False))
    return text if len(text) <= 80 else f"{text[:77]}..."


def _sentence(detail: ErrorDetails) -> str:
    if detail["type"] == "value_error":
        return str(detail["ctx"]["error"])
    if detail["type"] == "literal_error":
        expected = str(detail["ctx"]["expected"])
        return f"must be {expected}" if " or " in expected else f"only {expected} is available in this version"
    if detail["type"] == "model_type":
        return "must be a mapping of keys to values"
    text = detail["msg"].partition(", unable to")[0]
    for jargon, word in _JARGON.items():
        text = text.replace(jargon, word)
    return text


_JARGON = {
    "Input should": "must",
    "Tuple should": "must",
    "tuple": "list",
    "dictionary": "mapping",
    " after validation": "",
}
