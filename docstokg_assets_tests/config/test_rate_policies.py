"""How rates are written, and which policy counts for a host and a role."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstokg_assets.config import load_config
from resources.rate_limit.policies import DEFAULT_CONCURRENCY, DEFAULT_POLICIES, resolve_policy
from resources.rate_limit.settings import Rate, RateLimitSettings, parse_rate
from resources.settings import SettingsError

ROLES = ("metadata", "landing", "artifact")
SECONDS = {"second": 1, "s": 1, "minute": 60, "min": 60, "hour": 3600, "h": 3600, "day": 86400, "d": 86400}


def settings(**given: Any) -> RateLimitSettings:
    return RateLimitSettings.model_validate(given)


@pytest.mark.requirement("HTTP-10")
@given(
    number=st.decimals(min_value="0.001", max_value=10_000, places=3),
    unit=st.sampled_from(sorted(SECONDS)),
    burst=st.none() | st.integers(1, 500),
)
def test_every_well_written_rate_is_read(number: Any, unit: str, burst: int | None) -> None:
    rate = parse_rate(f" {number} / {unit.upper()}" + (f" burst {burst}" if burst else ""))
    assert rate.per_second == pytest.approx(float(number) / SECONDS[unit])
    assert rate.burst == (burst or 1)


@given(per_second=st.floats(1e-6, 1e6), burst=st.integers(1, 100))
def test_a_shown_rate_can_be_read_again(per_second: float, burst: int) -> None:
    again = parse_rate(str(Rate(per_second, burst)))
    assert again.per_second == pytest.approx(per_second, rel=1e-6)
    assert again.burst == burst


@given(text=st.text(max_size=30))
def test_any_text_is_a_rate_or_a_value_error(text: str) -> None:
    try:
        rate = parse_rate(text)
    except ValueError as error:
        assert repr(text) in str(error)
    else:
        assert rate.per_second > 0 and rate.burst >= 1


@pytest.mark.parametrize(
    "text", ["", "fast", "1", "1/", "/second", "-1/second", "0/second", "1/week", "1/s burst 0", "1e3/s"]
)
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_rate(text)


@pytest.mark.requirement("CFG-3")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("policies: {arxiv.org: {artifact: fast}}", "rate_limit.policies.arxiv.org.artifact: 'fast' is not a rate"),
        (
            "policies: {arxiv.org: {artefact: 1/s}}",
            "must be 'metadata', 'landing', 'artifact' or '*'; given \"artefact\"",
        ),
        ("policies: {'https://arxiv.org/': 1/s}", "must be a host name"),
        ("domains: {a.org: 0}", "rate_limit.domains.a.org: must be greater than 0"),
        ("domains: {'*': 1}", "must name one domain"),
        ("concurrency: {a.org: 0}", "rate_limit.concurrency.a.org: must be greater than or equal to 1"),
        ("redis_url: 'http://u:canary@r/0'", "rate_limit.redis_url: must begin with redis://host"),
        ("connection_string: 'canary words'", "rate_limit.connection_string: must be like postgresql://user"),
    ],
)
def test_a_wrong_policy_is_named(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "cd.yaml"
    file.write_text(f"rate_limit:\n  {text}\n")
    with pytest.raises(SettingsError) as caught:
        load_config(file, {})
    assert told in str(caught.value)
    assert "(file cd.yaml, line 2)" in str(caught.value)
    assert "canary" not in str(caught.value)


@pytest.mark.requirement("HTTP-11")
@pytest.mark.parametrize(("backend", "key"), [("redis", "redis_url"), ("postgres", "connection_string")])
def test_a_backend_on_a_server_needs_to_know_which(tmp_path: Path, backend: str, key: str) -> None:
    file = tmp_path / "cd.yaml"
    file.write_text(f"rate_limit: {{backend: {backend}}}\n")
    with pytest.raises(SettingsError, match=f"rate_limit: backend {backend} needs {key}"):
        load_config(file, {})


@pytest.mark.requirement("HTTP-10")
def test_built_in_policies_can_all_be_read_and_stay_below_what_providers_publish() -> None:
    for host, roles in DEFAULT_POLICIES.items():
        for rate in roles.values():
            parse_rate(rate)
        assert host == host.lower()
    assert resolve_policy(settings(), "api.crossref.org", "metadata").rate.per_second <= 10
    assert resolve_policy(settings(), "web.archive.org", "metadata").rate.per_second <= 0.5
    assert DEFAULT_CONCURRENCY["api.crossref.org"] == 3


@pytest.mark.requirement("HTTP-10")
def test_all_of_arxiv_shares_one_bucket_and_one_connection() -> None:
    policies = {
        resolve_policy(settings(), host, role)
        for host in ("arxiv.org", "export.arxiv.org", "www.arxiv.org", "ArXiv.org.")
        for role in ROLES
    }
    [policy] = policies
    assert (policy.group, policy.key, policy.rate, policy.concurrency) == ("arxiv", "arxiv", Rate(0.33), 1)


@pytest.mark.requirement("HTTP-10")
def test_a_configured_rate_for_one_role_of_a_shared_group_counts_for_all_of_it() -> None:
    for policies in (
        {"arxiv.org": {"artifact": "0.2/second"}},
        {"export.arxiv.org": {"artifact": "0.2/s", "*": "0.3/s"}},
    ):
        for host in ("arxiv.org", "export.arxiv.org"):
            policy = resolve_policy(settings(policies=policies), host, "metadata")
            assert (policy.key, policy.rate.per_second) == ("arxiv", 0.2)


@pytest.mark.requirement("HTTP-10")
def test_a_policy_covers_subdomains_and_the_most_specific_one_wins() -> None:
    given = settings(policies={"Unpaywall.org": "1/second", "eu.api.unpaywall.org": "2/second"})
    assert resolve_policy(given, "unpaywall.org", "metadata").rate.per_second == 1
    assert resolve_policy(given, "api.unpaywall.org", "metadata").rate.per_second == 1
    assert resolve_policy(given, "x.eu.api.unpaywall.org", "metadata").rate.per_second == 2
    assert resolve_policy(given, "notunpaywall.org", "metadata").origin == "built-in default"


@pytest.mark.requirement("HTTP-10")
def test_roles_have_buckets_of_their_own_unless_the_policy_is_for_all_of_them() -> None:
    given = settings(policies={"a.org": {"landing": "1/s", "artifact": "2/s"}, "b.org": "1/s"})
    assert resolve_policy(given, "a.org", "landing").key != resolve_policy(given, "a.org", "artifact").key
    assert len({resolve_policy(given, "www.b.org", role).key for role in ROLES}) == 1
    cdx, replay = (resolve_policy(settings(), "web.archive.org", role) for role in ("metadata", "artifact"))
    assert (cdx.rate, replay.rate) == (Rate(0.4, 6), Rate(1.0))
    assert cdx.key != replay.key
    assert cdx.group == replay.group


@pytest.mark.requirement("HTTP-10")
def test_configured_policies_are_laid_over_the_built_in_ones() -> None:
    given = settings(policies={"web.archive.org": {"artifact": "5/second"}})
    assert resolve_policy(given, "web.archive.org", "artifact").rate == Rate(5.0)
    assert resolve_policy(given, "web.archive.org", "metadata").rate == Rate(0.4, 6)
    assert resolve_policy(given, "api.crossref.org", "metadata").rate == Rate(3.0)


@pytest.mark.requirement("HTTP-10")
def test_hosts_that_nobody_named_have_the_default_each_for_itself() -> None:
    one, other = (resolve_policy(settings(), host, "artifact") for host in ("a.org", "b.org"))
    assert one.rate == other.rate == Rate(2.0, 2)
    assert one.concurrency == 2
    assert one.key != other.key
    slower = settings(policies={"*": {"landing": "6/minute"}}, concurrency={"*": 1})
    assert resolve_policy(slower, "a.org", "landing").rate.per_second == pytest.approx(0.1)
    assert resolve_policy(slower, "a.org", "artifact").rate == Rate(2.0, 2)
    assert resolve_policy(slower, "a.org", "artifact").concurrency == 1
    assert resolve_policy(slower, "api.crossref.org", "landing").rate == Rate(3.0)


@pytest.mark.requirement("HTTP-10")
def test_concurrency_is_configured_by_host_and_null_lifts_it() -> None:
    given = settings(concurrency={"a.org": 1, "api.crossref.org": None, "export.arxiv.org": 2})
    assert resolve_policy(given, "www.a.org", "landing").concurrency == 1
    assert resolve_policy(given, "api.crossref.org", "metadata").concurrency is None
    assert {resolve_policy(given, host, "artifact").concurrency for host in ("arxiv.org", "export.arxiv.org")} == {2}


def test_one_bucket_has_one_rate_whoever_asks() -> None:
    given = settings(policies={"ac.uk": {"landing": "1/s"}, "unpaywall.org": {"metadata": "4/s"}, "*": "3/s"})
    rates: dict[str, set[Rate]] = {}
    for host in ("www.ebi.ac.uk", "x.ac.uk", "api.unpaywall.org", "unpaywall.org", "arxiv.org", "export.arxiv.org"):
        for role in ROLES:
            policy = resolve_policy(given, host, role)
            rates.setdefault(policy.key, set()).add(policy.rate)
    assert all(len(found) == 1 for found in rates.values())
