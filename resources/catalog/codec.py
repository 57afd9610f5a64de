"""Turn the values of declared tables into what the catalog stores, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import orjson

from resources.tables import Into, Table, Type


def to_json(value: object) -> str:
    return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode()


def from_json(text: str | None) -> Any:
    return None if text is None else orjson.loads(text)


class Codec:
    """Turns the values of a declared table into what the catalog stores, and back."""

    def __init__(self, table: Table) -> None:
        columns = [c for c in table.columns_in(Into.CATALOG) if c.name != "id"]  # the database numbers rows
        self.names = tuple(column.name for column in columns)
        self._empty_for_none = [column.name for column in columns if column.empty_for_none]
        self._encoders = [
            (c.name, str if c.tokens else _ENCODERS[c.type]) for c in columns if c.tokens or c.type in _ENCODERS
        ]
        self._decoders = [(c.name, c.tokens or _DECODERS[c.type]) for c in columns if c.tokens or c.type in _DECODERS]

    def encode(self, values: Mapping[str, Any]) -> dict[str, Any]:
        get = values.get
        row = {name: get(name) for name in self.names}
        for name, encode in self._encoders:
            if row[name] is not None:
                row[name] = encode(row[name])
        for name in self._empty_for_none:
            row[name] = row[name] or ""
        return row

    def decode(self, row: Mapping[Any, Any]) -> dict[str, Any]:
        values = dict(row)
        for name, decode in self._decoders:
            if values[name] is not None:
                values[name] = decode(values[name])
        return values | {name: values[name] or None for name in self._empty_for_none}


_ENCODERS: Mapping[Type, Callable[[Any], Any]] = {
    Type.TIME: lambda moment: moment.timestamp() if isinstance(moment, datetime) else moment,
    Type.FLAG: int,
    Type.TEXTS: to_json,
    Type.JSON: to_json,
}
_DECODERS: Mapping[Type, Callable[[Any], Any]] = {
    Type.FLAG: bool,
    Type.TEXTS: lambda text: tuple(from_json(text)),
    Type.JSON: from_json,
}
