"""Every resolver carries its own examples; this runs them all, also those of resolvers that are yet to be written."""

from __future__ import annotations

import pytest

from docstokg_assets.domain.identifiers import normalize_url
from docstokg_assets.resolvers.registry import Example, Resolver, ResolverResult, load_resolvers
from resources.http.canonical import host_of
from resources.http.messages import Role
from resources.records import Reason

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


@pytest.mark.requirement("RES-1")
@pytest.mark.parametrize("name", sorted(RESOLVERS))
def test_every_resolver_has_examples_of_plenty_and_of_nothing(name: str) -> None:
    examples = RESOLVERS[name].EXAMPLES
    assert any(example.urls for example in examples) and any(not example.urls for example in examples)
    if RESOLVERS[name].api_host is not None:
        assert {example.reason for example in examples} > {Reason.OK, Reason.NO_CANDIDATE}
