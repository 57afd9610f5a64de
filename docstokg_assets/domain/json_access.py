"""Read JSON of uncertain shape: each function returns the value if it has the expected type, else an empty value.

Providers send null for lists, numbers for strings and strings for objects; with these functions, parsers need no checks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

JsonObject = Mapping[str, Any]
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")


def mapping(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


def items(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def objects(value: Any) -> Iterator[JsonObject]:
    """The items of a list; an item that is not an object becomes an empty one."""
    return map(mapping, items(value))


def dig(value: Any, *keys: str) -> Any:
    """The value under nested keys, or None when an object or a key on the path is missing."""
    for key in keys:
        value = mapping(value).get(key)
    return value


def values_at(value: Any, way: str) -> Iterator[Any]:
    """The values under nested keys (`topics.id`), from every item where a value on the way is a list; None where a key is
    missing."""
    if isinstance(value, list):
        for item in value:
            yield from values_at(item, way)
    elif way:
        key, _, rest = way.partition(".")
        yield from values_at(mapping(value).get(key), rest)
    else:
        yield value


def text(value: Any, limit: int = 256) -> str | None:
    """One line without control characters and lone surrogates (databases refuse both), cut at `limit`; never empty."""
    if not isinstance(value, str):
        return None
    if len(value) <= limit and value.isprintable() and "  " not in value and value.strip() == value:
        return value or None  # the common case
    return " ".join(_CONTROL.sub(" ", value[: 4 * limit]).split())[:limit].rstrip() or None
