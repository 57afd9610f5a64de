"""Requests that serve several works."""

from __future__ import annotations

from collections.abc import Sequence

from docstokg_assets.resolvers import Request, api_request, batchable_request


def build(items: Sequence[str], key: str) -> Request:
    return api_request(f"https://api.example/{','.join(items)}", secret_headers={"x-api-key": key})


def test_requests_with_the_same_builder_and_key_may_be_sent_as_one() -> None:
    one, same, other = (batchable_request(item, 5, build, key).batchable for item, key in ("ak", "bk", "cx"))
    assert one is not None and same is not None and other is not None
    assert one.build == same.build != other.build
    assert one.build(["a", "b"]).url == "https://api.example/a,b"


def test_a_batchable_request_is_also_good_for_its_item_alone_and_hides_its_key() -> None:
    request = batchable_request("a", 5, build, "CANARY")
    assert request.url == "https://api.example/a" and request.batchable is not None
    assert "CANARY" not in repr(request.batchable)
