"""Read a policy, a file, the environment and the command line: each becomes one nested mapping of values with their places.

Reads and parses only; `settings.py` decides whether a key exists, which layer wins and what a value may be. Errors are added to
the caller's list of problems, so that all of them are reported at once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

ENV_PREFIXES = ("DTKG_", "DOCSTOKG_CONTENT_")
CONFIG_VARIABLE = "DTKG_CONFIG"
SECRET_PREFIX = "DOCSTOKG_CONTENT_API_KEY_"
POLICY_KEY = "policy"

KeyPath = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SourcedValue:
    """A value as it was given, with its origin; the value of a mapping holds further `SourcedValue`s. An override of the command
    line or of a Dagster resource is given as one."""

    value: Any
    origin: str = ""  # file cd.yaml, command line --workers
    place: str = ""  # file cd.yaml, line 3
    text: str | None = None  # as it was written, where the notation may have made something else of it
    secret: bool = False

    @property
    def nested(self) -> bool:
        return isinstance(self.value, dict) and all(isinstance(v, SourcedValue) for v in self.value.values())

    def plain(self) -> Any:
        return {k: v.plain() for k, v in self.value.items()} if self.nested else self.value


def key_path(dotted: str) -> KeyPath:
    return tuple(dotted.split(".")) if dotted else ()


def is_secret_variable(name: str) -> bool:
    return name.upper().startswith(SECRET_PREFIX) and len(name) > len(SECRET_PREFIX)


def policies_in(folder: Path | None) -> dict[str, Path]:
    """Named presets: each a file like the user's own, laid under it."""
    return {} if folder is None else {file.stem: file for file in sorted(folder.glob("*.yaml"))}


def read_policy(above: Sequence[SourcedValue], policies: Path | None, problems: list[str]) -> SourcedValue:
    """Read the preset that the highest of the layers names; an unknown name is reported when the whole is validated."""
    name = next((layer.value[POLICY_KEY].value for layer in reversed(above) if POLICY_KEY in layer.value), None)
    file = policies_in(policies).get(name) if isinstance(name, str) else None
    return read_file(file, problems, f"policy {name}")


def read_file(file: Path | None, problems: list[str], origin: str = "") -> SourcedValue:
    nothing = SourcedValue({})
    if file is None:
        return nothing
    origin = origin or f"file {file.name}"
    try:
        loader = _YamlLoader(file.read_text(encoding="utf-8"))
        node = loader.get_single_node()
    except OSError as error:
        problems.append(f"file {file}: cannot be read: {error.strerror}")
    except UnicodeDecodeError:
        problems.append(f"file {file}: is not UTF-8 text")
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        problems.append(f"{origin}{line}: is not valid YAML: {error.problem or error.context}")
    except yaml.YAMLError as error:
        problems.append(f"{origin}: is not valid YAML: {str(error).splitlines()[0]}")
    else:
        if isinstance(node, yaml.MappingNode):
            return _YamlReader(loader, origin, problems).read(node)
        if node is not None:
            problems.append(f"{origin}: must be a mapping of keys to values")
    return nothing


def read_environment(env: Mapping[str, str], aliases: Mapping[str, str], problems: list[str]) -> SourcedValue:
    """Read the variables with our prefixes; an empty one counts as not set."""
    by_path: dict[KeyPath, tuple[str, str]] = {}
    for name, value in sorted(env.items()):
        if is_secret_variable(name) and name.upper() not in aliases and aliases and value:
            known = ", ".join(alias for alias in aliases if is_secret_variable(alias))
            problems.append(f"environment {name}: there is no provider of that name; known are {known}")
        path = _variable_path(name, aliases)
        if path is None or not value:
            continue
        if path in by_path and by_path[path][1] != value:
            problems.append(f"environment {by_path[path][0]} and {name} say different things: remove one of them")
        by_path[path] = (name, value)
    layer: dict[str, SourcedValue] = {}
    # DTKG_HTTP__PROXY is more specific than DTKG_HTTP='{…}' and is laid over it.
    for path, (name, value) in sorted(by_path.items(), key=lambda item: len(item[0])):
        try:
            parsed = json.loads(value)
        except ValueError:
            parsed = value
        _put(layer, path, _from_json(parsed, f"environment {name}", value))
    return SourcedValue(layer)


def read_overrides(overrides: Mapping[str, Any]) -> SourcedValue:
    layer: dict[str, SourcedValue] = {}
    for key, value in overrides.items():
        override = value if isinstance(value, SourcedValue) else SourcedValue(value, "override")
        _put(layer, key_path(key), _from_json(override.value, override.origin, None))
    return SourcedValue(layer)


def _variable_path(name: str, aliases: Mapping[str, str]) -> KeyPath | None:
    upper = name.upper()
    if upper in aliases:
        return key_path(aliases[upper])
    if upper == CONFIG_VARIABLE or is_secret_variable(name):
        return None
    prefix = next((p for p in ENV_PREFIXES if upper.startswith(p)), None)
    return None if prefix is None else tuple(name[len(prefix) :].lower().split("__"))


def _from_json(value: Any, origin: str, text: str | None) -> SourcedValue:
    if isinstance(value, Mapping):
        return SourcedValue({str(k): _from_json(v, origin, None) for k, v in value.items()}, origin, origin)
    return SourcedValue(value, origin, origin, text)


def _put(layer: dict[str, SourcedValue], path: KeyPath, given: SourcedValue) -> None:
    for part in path[:-1]:
        inner = layer.get(part)
        if inner is None or not inner.nested:
            inner = layer[part] = SourcedValue({}, given.origin, given.place)
        layer = inner.value
    layer[path[-1]] = given


class _YamlLoader(yaml.SafeLoader):
    """Leaves dates as the text that they are: no setting is a date, and `run_id: 2025-10-20` is meant as written."""


_YamlLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


@dataclass(frozen=True, slots=True)
class _YamlReader:
    """Reads the node tree rather than the finished values, because only nodes know their lines and their duplicates."""

    loader: _YamlLoader
    origin: str
    problems: list[str]

    def read(self, node: yaml.Node, above: tuple[yaml.Node, ...] = ()) -> SourcedValue:
        place = self._line(node)
        if node in above:
            self.problems.append(f"{place}: an alias may not contain itself")
            return SourcedValue(None, self.origin, place)
        inside = (*above, node)
        if isinstance(node, yaml.MappingNode):
            self._refuse_duplicates(node)
            self.loader.flatten_mapping(node)  # resolves `<<`
            lines = {str(key.value): (self._line(key), value) for key, value in node.value}
            children = {key: replace(self.read(value, inside), place=line) for key, (line, value) in lines.items()}
            return SourcedValue(children, self.origin, place)
        if isinstance(node, yaml.SequenceNode):
            return SourcedValue([self.read(item, inside).plain() for item in node.value], self.origin, place)
        try:
            return SourcedValue(self.loader.construct_object(node), self.origin, place, node.value)
        except (yaml.YAMLError, ValueError):
            kind = node.tag.removeprefix("tag:yaml.org,2002:")
            self.problems.append(f"{place}: {node.value!r} cannot be read as {kind}")
            return SourcedValue(None, self.origin, place)

    def _line(self, node: yaml.Node) -> str:
        return f"{self.origin}, line {node.start_mark.line + 1}"

    def _refuse_duplicates(self, node: yaml.MappingNode) -> None:
        first: dict[str, yaml.Node] = {}
        for key, _ in node.value:
            if first.setdefault(str(key.value), key) is not key:
                line = first[str(key.value)].start_mark.line + 1
                self.problems.append(f"{self._line(key)}: {key.value} is given twice, first on line {line}")
