"""Reading JSON of which nothing is certain: each function returns the value if it is as hoped, else its empty form.

Providers send null for lists, numbers for strings and strings for objects; whoever reads them stays straight-line code.
What the values mean is left to the readers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")


def mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def items(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def text(value: Any, limit: int = 256) -> str | None:
    """One line without control characters and lone surrogates (databases refuse both), cut at `limit`; never empty."""
    if not isinstance(value, str):
        return None
    if len(value) <= limit and value.isprintable() and "  " not in value and value.strip() == value:
        return value or None  # nearly all
    return " ".join(_CONTROL.sub(" ", value[: 4 * limit]).split())[:limit].rstrip() or None
