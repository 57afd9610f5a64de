"""Display the configuration: the merged tree with the origin of every value, and the reference of all keys."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator
from typing import Annotated, Any, Literal, get_args, get_origin

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from docstokg_assets.config.models import ContentDownloadConfig, ResolversSettings, plain
from docstokg_assets.resolvers.registry import ResolverSettings
from resources.settings import Loaded, alternatives, model_in


def as_yaml(loaded: Loaded[ContentDownloadConfig], *, origins: bool = True) -> str:
    """The merged configuration as YAML that loads again; a comment behind each value says where it came from."""
    return "\n".join(_yaml_lines(plain(loaded.value), (), loaded if origins else None)) + "\n"


def as_json(loaded: Loaded[ContentDownloadConfig], *, origins: bool = False) -> str:
    tree = plain(loaded.value)
    shown = {"config": tree, "origins": dict(loaded.origins)} if origins else tree
    return json.dumps(shown, indent=2, ensure_ascii=False)


def _yaml_lines(
    tree: dict[str, Any], path: tuple[str, ...], loaded: Loaded[ContentDownloadConfig] | None
) -> Iterator[str]:
    for key, value in tree.items():
        line = f"{'  ' * len(path)}{_inline(key)}:"
        if isinstance(value, dict) and value:
            yield line
            yield from _yaml_lines(value, (*path, key), loaded)
        else:
            comment = f"  # {loaded.origin('.'.join((*path, key)))}" if loaded else ""
            yield f"{line} {_inline(value)}{comment}"


def _inline(value: Any) -> str:
    text: str = yaml.safe_dump(value, default_flow_style=True, width=10**9, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...")


def reference_markdown() -> str:
    """All keys with type, default and meaning, one table per section. Keys that every resolver has are listed once."""
    return "\n\n".join(_table(name, rows) for name, rows in _sections(ContentDownloadConfig, "") if rows)


def _sections(model: type[BaseModel], prefix: str, known: Container[str] = ()) -> Iterator[tuple[str, list[str]]]:
    """Each section with the rows of its keys, without the `known` keys."""
    fields = {
        name: (field, model_in(field.annotation)) for name, field in model.model_fields.items() if name not in known
    }
    own = {name: field for name, (field, section) in fields.items() if section is None or field.default is None}
    yield prefix.rstrip(".") or "Top level", [_row(f"{prefix}{name}", field) for name, field in own.items()]
    of_resolvers = issubclass(model, ResolversSettings)
    if of_resolvers:
        yield from _sections(ResolverSettings, f"{prefix}<name>.")
    for name, (_, section) in fields.items():
        if section is not None:
            yield from _sections(section, f"{prefix}{name}.", ResolverSettings.model_fields if of_resolvers else ())


def _table(name: str, rows: list[str]) -> str:
    return "\n".join([f"### {name}", "", "| Key | Type | Default | Meaning |", "|--|--|--|--|", *rows])


def _row(key: str, field: FieldInfo) -> str:
    default = json.dumps(plain(field.default), ensure_ascii=False)
    return f"| `{key}` | {_type_name(field.annotation)} | `{default}` | {field.description or ''} |"


_WORDS = {
    "str": "text",
    "SecretStr": "secret",
    "Path": "path",
    "int": "integer",
    "float": "number",
    "bool": "true, false",
}


def _type_name(kind: Any) -> str:
    if get_origin(kind) is Annotated:
        return _type_name(get_args(kind)[0])
    if get_origin(kind) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(kind))
    if get_origin(kind) is dict:
        return f"mapping of {_type_name(get_args(kind)[1])}"
    if get_origin(kind) is tuple:
        return f"list of {_type_name(get_args(kind)[0])}"
    names = [k for k in alternatives(kind) if k is not type(None)]
    if len(names) > 1 or names[0] is not kind:
        return " or ".join(_type_name(name) for name in names)
    return "section" if model_in(kind) else _WORDS.get(kind.__name__, kind.__name__)
