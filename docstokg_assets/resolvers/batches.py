"""Requests that serve several works at once, for endpoints that take a list of identifiers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from resources.http.messages import BatchableRequest, Request, Response


@dataclass(frozen=True, slots=True)
class BatchBuilder:
    """Call `build` with the items of a batch and with what the work's context gives, such as a key.

    Requests with equal builders may be sent as one.
    """

    build: Callable[..., Request]
    arguments: tuple[Any, ...] = field(default=(), repr=False)  # may hold a key

    def __call__(self, items: Sequence[str]) -> Request:
        return self.build(items, *self.arguments)


def batchable_request(
    item: str,
    most: int,
    build: Callable[..., Request],
    *arguments: Any,
    is_for_all: Callable[[Response], bool] = lambda response: False,
) -> Request:
    """A request for `item` that may also carry the items of other works, at most `most` of them.

    `build(items, *arguments)` makes the request for several items; `response.items` lists them in the order asked for.
    `is_for_all` tells an error about the whole batch from one that a single item caused.
    """
    builder = BatchBuilder(build, arguments)
    return replace(builder([item]), batchable=BatchableRequest(item, most, builder, is_for_all))
