"""Requests with a body: they arrive whole, are repeated only where that is harmless, and are never kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from docstokg_assets.sandbox import Sandbox
from resources.http.cache import HttpCache
from resources.http.messages import Request, Role
from resources.http.settings import HttpSettings

S2 = "https://api.semanticscholar.org/graph/v1/paper/batch?fields=openAccessPdf"


def post(url: str = S2, ids: list[str] | None = None, **more: Any) -> Request:
    body = orjson.dumps({"ids": ids or ["DOI:10.5555/unknown"]})
    headers, secret = {"Content-Type": "application/json"}, {"x-api-key": "sandbox-key"}
    return Request(url, Role.METADATA, verb="POST", body=body, headers=headers, secret_headers=secret, **more)


@pytest.mark.requirement("HTTP-1")
def test_a_body_arrives_whole_and_the_attempt_says_post(polite: Callable[..., Any], sandbox: Sandbox) -> None:
    ids = [f"DOI:{work.doi}" for work in sandbox.universe.works() if work.doi and not work.strange]
    client = polite(through=sandbox)
    papers = client.ask(post(ids=ids)).json()
    assert len(papers) == len(ids) and all(papers)
    assert client.told("verb", "http_status") == [("POST", 200)]


@pytest.mark.requirement("HTTP-2")
@pytest.mark.parametrize(
    ("fault", "repeatable", "sent"),
    [
        ({"status": 503}, True, 4),
        ({"close": True}, True, 4),
        ({"status": 503}, False, 1),  # it may have done what was asked
        ({"close": True}, False, 1),
        ({"status": 429}, False, 4),  # it says that it did not
    ],
)
def test_what_is_to_be_done_once_is_repeated_only_when_it_was_not_done(
    polite: Callable[..., Any], sandbox: Sandbox, fault: dict[str, Any], repeatable: bool, sent: int
) -> None:
    sandbox.add_fault(host="api.semanticscholar.org", **fault)
    client = polite(through=sandbox, http={"breaker": {"failures": 50}})
    try:
        client.ask(post(repeatable=repeatable))
    except Exception as error:
        assert "close" in fault, error
    assert len(client.attempts) == sent


@pytest.mark.requirement("HTTP-7")
def test_the_answer_to_a_post_is_not_kept(polite: Callable[..., Any], sandbox: Sandbox, tmp_path: Path) -> None:
    cache = HttpCache.open(HttpSettings(), tmp_path)
    client = polite(through=sandbox, cache=cache)
    work = next(work for work in sandbox.universe.works() if work.doi)
    for _ in range(2):
        client.ask(post(ids=[f"DOI:{work.doi}"]))
    assert len(sandbox.arrivals("api.semanticscholar.org")) == 2
