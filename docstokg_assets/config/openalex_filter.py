"""The filter that selects works, given as OpenAlex syntax or as a mapping, in one spelling. Asks nobody."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_ALTERNATIVES = 100  # OpenAlex refuses more in one filter


def filter_string(given: Any) -> str:
    """`{"topics.id": ["T1", "T2"], "open_access.is_oa": True}` → `open_access.is_oa:true,topics.id:T1|T2`; sorted."""
    if isinstance(given, Mapping):
        parts = [f"{name}:{_value(name, value)}" for name, value in given.items()]
    elif isinstance(given, str):
        parts = [part.strip() for part in given.split(",") if part.strip()]
    else:
        raise ValueError("must be text in OpenAlex filter syntax or a mapping of filter names to values")
    for part in parts:
        name, colon, value = part.partition(":")
        if not (name.strip() and colon and value.strip()):
            raise ValueError(f"{part!r} is not a filter; write for example 'topics.id:T10102,open_access.is_oa:true'")
        if value.count("|") >= MAX_ALTERNATIVES:
            raise ValueError(f"{name}: OpenAlex takes at most {MAX_ALTERNATIVES} alternatives")
    return ",".join(sorted(parts))


def _value(name: str, value: Any) -> str:
    if isinstance(value, list | tuple):
        return "|".join(_value(name, item) for item in value)
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if "," in str(value):
        raise ValueError(f"{name}: a filter value cannot contain a comma")
    return str(value).strip()
