"""Every resolver carries its own examples; this runs them all, also those of resolvers that are yet to be written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from docstokg_assets.domain.identifiers import normalize_url
from docstokg_assets.resolvers import Example, Reason, Resolver, ResolverResult, answer, host_of, load_resolvers
from resources.http.messages import Role

RESOLVERS = load_resolvers()
CASES = [
    pytest.param(cls, example, id=f"{name}-{position}")
    for name, cls in sorted(RESOLVERS.items())
    for position, example in enumerate(cls.EXAMPLES)
]


def ask(resolver: Resolver, example: Example) -> ResolverResult:
    """Drive `resolve` with the example's answers; all of them must be asked for."""
    answers = list(example.answers)
    resolution = resolver.resolve(example.work, example.context)
    try:
        request = next(resolution)
        while True:
            assert request.role is Role.METADATA and normalize_url(request.url) == request.url
            assert resolver.api_host is not None
            assert host_of(request.url) in (resolver.api_host, *resolver.other_hosts)
            request = resolution.send(answers.pop(0))
    except StopIteration as done:
        assert not answers
        result: ResolverResult = done.value
        return result


@pytest.mark.requirement("RES-3")
@pytest.mark.parametrize(("cls", "example"), CASES)
def test_a_resolver_behaves_as_its_example_says(cls: type[Resolver], example: Example) -> None:
    resolver = cls.from_config(cls.Settings())
    if not resolver.applies(example.work):
        assert not example.urls
        return
    candidates, reason = tuple(resolver.candidates(example.work)), Reason.OK
    if resolver.api_host is not None:
        result = ask(resolver, example)
        candidates, reason = candidates + result.candidates, result.reason
    assert [candidate.url for candidate in candidates] == list(example.urls)
    assert reason is example.reason
    for candidate in candidates:
        assert candidate.resolver == resolver.name
        assert normalize_url(candidate.url) == candidate.url
        assert candidate.tier.order >= resolver.tier.order or candidate.rank == 0


@pytest.mark.requirement("RES-3")
@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (200, b"<html>maintenance</html>", Reason.BAD_ANSWER),
        (400, {"error": "undefined field"}, Reason.HTTP_4XX),
        (401, {"message": "Unauthorized"}, Reason.HTTP_4XX),
        (403, b"blocked", Reason.HTTP_4XX),
        (404, b"Resource not found.", Reason.NO_CANDIDATE),
        (410, {"message": "Record deleted"}, Reason.NO_CANDIDATE),
        (429, b"error code: 1015", Reason.RATE_LIMITED),
        (503, b"Service Unavailable", Reason.HTTP_5XX),
        (504, b"<html>504 Gateway Time-out</html>", Reason.HTTP_5XX),
    ],
)
@pytest.mark.parametrize("name", sorted(name for name, cls in RESOLVERS.items() if cls.api_host is not None))
def test_every_api_failure_has_its_reason(name: str, status: int, body: object, reason: Reason) -> None:
    resolver = RESOLVERS[name].from_config(RESOLVERS[name].Settings())
    asking = [example for example in resolver.EXAMPLES if example.answers and resolver.applies(example.work)]
    for example in asking:
        result = ask(resolver, replace(example, answers=[answer(body, status)]))
        assert (result.candidates, result.reason) == ((), reason)


@pytest.mark.requirement("RES-1")
@pytest.mark.parametrize("name", sorted(RESOLVERS))
def test_every_resolver_has_examples_of_plenty_and_of_nothing(name: str) -> None:
    examples = RESOLVERS[name].EXAMPLES
    assert any(example.urls for example in examples) and any(not example.urls for example in examples)
    if RESOLVERS[name].api_host is not None:
        assert {example.reason for example in examples} > {Reason.OK, Reason.NO_CANDIDATE}
