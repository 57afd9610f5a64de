"""ContentDownloadConfig: its sections and resolvers, its hash, how it is shown, the examples and the reference."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import SecretStr, create_model

from docstokg_assets.config import ContentDownloadConfig, config_hash, load_config
from docstokg_assets.config.explain import OTHER_HOST, explain_hosts, explain_resolvers
from docstokg_assets.config.models import resolvers_model
from docstokg_assets.config.render import as_json, as_yaml, reference_markdown
from docstokg_assets.domain.plans import Tier
from docstokg_assets.resolvers.registry import Resolver, ResolverSettings
from docstokg_assets.sources.settings import filter_string
from resources.settings import Loaded, Section, SettingsError, load

PROJECT = Path(__file__).parents[2]
SEED_ORDER = ("arxiv", "openalex", "crossref", "unpaywall", "doi", "landing", "wayback")


def loaded(tmp_path: Path, text: str = "", **env: str) -> Loaded[ContentDownloadConfig]:
    file = tmp_path / "cd.yaml"
    file.write_text(text)
    return load_config(file, env)


def fake_resolver(resolver_name: str, resolver_tier: Tier, rank: int = 50) -> type[Resolver]:
    class Own(ResolverSettings):
        depth: int = 2

    class Fake(Resolver):
        name = resolver_name
        tier = resolver_tier
        default_rank = rank
        Settings = Own

    return Fake


@pytest.mark.requirement("CFG-5")
def test_a_program_loads_its_configuration_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "cd.yaml"
    file.write_text("workers: 3\ndata_root: /srv/papers\n")
    config = ContentDownloadConfig.from_yaml(str(file), env={}, overrides={"download.max_bytes": 5})
    assert (config.workers, config.download.max_bytes) == (3, 5)
    assert config.catalog_location == Path("/srv/papers/catalog.sqlite3")
    assert config.artifact_root == Path("/srv/papers")


@pytest.mark.requirement("CFG-1")
def test_a_program_s_environment_counts_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "cd.yaml"
    file.write_text("workers: 3\n")
    monkeypatch.setenv("DTKG_WORKERS", "5")
    assert ContentDownloadConfig.from_yaml(file).workers == 5


@pytest.mark.requirement("CFG-1", "CFG-7")
@pytest.mark.parametrize("example", sorted((PROJECT / "examples").glob("*.yaml")), ids=lambda path: path.name)
def test_each_example_file_validates(example: Path) -> None:
    secrets = {"DTKG_STORAGE__URL": "postgresql://host/database"} | dict.fromkeys(
        ("DTKG_RATE_LIMIT__REDIS_URL", "DTKG_HTTP__CACHE_URL"), "redis://host"
    )
    asked_for = {name: value for name, value in secrets.items() if name in example.read_text()}
    config = load_config(example, asked_for).value
    several_machines = config.artifacts.store == "s3"
    assert several_machines == (config.rate_limit.backend == "redis") == (config.http.cache_backend == "redis")


def test_a_sink_that_needs_an_endpoint_says_so(tmp_path: Path) -> None:
    for text in ("telemetry: {sinks: [otlp]}", "telemetry: {sinks: [otlp], otlp_endpoint: 'collector:4318'}"):
        with pytest.raises(SettingsError, match="the sink otlp needs otlp_endpoint, for example http://localhost:4318"):
            loaded(tmp_path, text)


@pytest.mark.requirement("CFG-7")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("storage: {backend: mysql}", "must be 'sqlite' or 'postgres'"),
        ("rate_limit: {backend: mongo}", "must be 'memory', 'multiprocess', 'sqlite', 'redis' or 'postgres'"),
        ("telemetry: {lake: /mnt/lake}", "must be s3://bucket/prefix; leave it out to keep the lake in the data root"),
        ("telemetry: {lake: 's3://'}", "must be s3://bucket/prefix"),
        ("artifacts: {cas_enabled: true}", "unknown key artifacts.cas_enabled; known here: store, layout, root"),
        ("telemetry: {sinks: [kafka]}", "must be 'jsonl', 'csv', 'console' or 'otlp'"),
    ],
)
def test_what_this_version_does_not_have_is_refused_clearly(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(SettingsError, match=r"cd\.yaml, line 1") as caught:
        loaded(tmp_path, text)
    assert told in str(caught.value)


@pytest.mark.requirement("CFG-8")
def test_the_default_order_is_that_of_the_tiers_and_begins_with_arxiv(tmp_path: Path) -> None:
    order = loaded(tmp_path).value.resolvers.order
    assert [name for name in order if name in SEED_ORDER] == list(SEED_ORDER)


@pytest.mark.requirement("CFG-8", "RES-1")
def test_a_new_resolver_brings_its_settings_and_its_place_in_the_order() -> None:
    registry = {
        "late": fake_resolver("late", Tier.WAYBACK),
        "arxiv": fake_resolver("arxiv", Tier.DIRECT_OA),
        "early": fake_resolver("early", Tier.DIRECT_OA),
    }
    model = resolvers_model(registry)
    assert model().order == ("arxiv", "early", "late")
    tree = create_model("Tree", resolvers=(model, model()), __base__=Section)
    settings = load(tree, file=None, env={"DTKG_RESOLVERS__EARLY__DEPTH": "7"}).value.resolvers  # type: ignore[attr-defined]
    assert settings.by_name()["early"].model_dump()["depth"] == 7
    assert settings.by_name()["late"].enabled is True


@pytest.mark.requirement("CFG-8")
def test_a_resolver_can_be_told_everything_that_the_guide_names(tmp_path: Path) -> None:
    text = """
resolvers:
  unpaywall:
    enabled: false
    priority: 3
    timeout_connect_s: 1
    timeout_read_s: 2
    retry: {max_attempts: 2, retry_statuses: [429], base_delay_ms: 1, max_delay_ms: 2, jitter_ms: 0, strategy: constant}
    rate_limit: {capacity: 2, refill_per_sec: 0.5, burst: 1}
    robots: false
    head_precheck: false
"""
    settings = loaded(tmp_path, text).value.resolvers.by_name()["unpaywall"]
    assert settings.enabled is False
    assert settings.retry is not None and settings.retry.strategy == "constant"
    assert settings.rate_limit is not None and settings.rate_limit.refill_per_sec == 0.5


@pytest.mark.requirement("CFG-3")
@pytest.mark.parametrize(
    ("order", "told"),
    [
        ("[arxiv, unpaywal]", "there is no resolver unpaywal; did you mean unpaywall?"),
        ("[arxiv, arxiv]", "names a resolver twice"),
        ("[]", "at least 1 item"),
    ],
)
def test_an_order_that_cannot_be_followed_is_refused(tmp_path: Path, order: str, told: str) -> None:
    with pytest.raises(SettingsError) as caught:
        loaded(tmp_path, f"resolvers: {{order: {order}}}")
    assert told in str(caught.value)


@pytest.mark.requirement("CFG-3")
def test_an_unknown_resolver_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"unknown key resolvers\.arxivv; did you mean resolvers\.arxiv\?"):
        loaded(tmp_path, "resolvers: {arxivv: {enabled: false}}")


@pytest.mark.requirement("SRC-1")
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", ""),
        ("topics.id:T1, open_access.is_oa:true", "open_access.is_oa:true,topics.id:T1"),
        ({"topics.id": ["T1", "T2"], "open_access.is_oa": True}, "open_access.is_oa:true,topics.id:T1|T2"),
        (
            {"cited_by_count": ">10", "doi": None, "publication_year": 2024},
            "cited_by_count:>10,doi:null,publication_year:2024",
        ),
    ],
)
def test_a_filter_has_one_spelling(given: Any, expected: str) -> None:
    assert filter_string(given) == expected
    assert filter_string(expected) == expected


@pytest.mark.parametrize("given", ["T10102", "topics.id:", {"topics.id": []}, {"x": "a,b"}, {"x": list(range(101))}, 5])
def test_what_is_no_filter_is_refused(given: Any) -> None:
    with pytest.raises(ValueError):
        filter_string(given)


@pytest.mark.requirement("SRC-2")
def test_a_source_needs_its_file(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="openalex: source ids needs ids_file"):
        loaded(tmp_path, "openalex: {source: ids}")
    assert loaded(tmp_path, "openalex: {source: ids, ids_file: a.txt}").value.openalex.ids_file == Path("a.txt")


@pytest.mark.requirement("CFG-2")
def test_the_key_of_openalex_in_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    config = loaded(tmp_path, "openalex: {api_key: old}", DOCSTOKG_CONTENT_API_KEY_OPENALEX="new").value
    assert config.openalex.api_key == SecretStr("new")


@pytest.mark.requirement("CFG-4")
def test_equal_values_have_one_hash_whatever_layer_and_order_they_came_from(tmp_path: Path) -> None:
    written = loaded(tmp_path, "workers: 4\nhttp: {timeout: 15, proxy: 'http://p:1'}\nopenalex: {filter: 'a:1,b:2'}\n")
    other = loaded(
        tmp_path,
        "openalex: {filter: {b: 2, a: 1}}\nhttp: {proxy: 'http://p:1'}\n",
        DTKG_WORKERS="4",
        DTKG_HTTP__TIMEOUT="15.0",
    )
    assert config_hash(written.value) == config_hash(other.value)
    assert config_hash(written.value).startswith("sha256:")
    assert len(config_hash(written.value)) == 7 + 64


@pytest.mark.requirement("CFG-4")
@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("run_id: r1", True),
        ("data_root: /elsewhere", True),
        ("storage: {path: /elsewhere/c.sqlite3}", True),
        ("artifacts: {root: /elsewhere}", True),
        ("telemetry: {lake: 's3://bucket/lake'}", True),
        ("openalex: {api_key: s3cret}", True),
        ("workers: 9", False),
        ("download: {max_bytes: 7}", False),
        ("rate_limit: {policies: {arxiv.org: 0.2/second}}", False),
        ("resolvers: {wayback: {enabled: false}}", False),
    ],
)
def test_the_hash_changes_with_the_rules_only(tmp_path: Path, text: str, same: bool) -> None:
    assert (config_hash(loaded(tmp_path, text).value) == config_hash(loaded(tmp_path).value)) is same


@pytest.mark.requirement("CFG-4")
def test_the_password_of_a_proxy_is_no_part_of_the_hash(tmp_path: Path) -> None:
    hashes = {
        config_hash(loaded(tmp_path, f"http: {{proxy: 'http://me:{word}@p:1'}}").value) for word in ("one", "two")
    }
    assert len(hashes) == 1


@pytest.mark.requirement("HTTP-14")
def test_no_secret_is_shown(tmp_path: Path) -> None:
    result = loaded(tmp_path, "http: {proxy: 'http://me:s3cret@p:1'}", DOCSTOKG_CONTENT_API_KEY_OPENALEX="s3cret")
    shown = as_yaml(result) + as_json(result, origins=True) + repr(result.value.openalex)
    assert "s3cret" not in shown
    assert json.loads(as_json(result))["openalex"]["api_key"] == "***"


def test_the_shown_yaml_loads_to_the_same_configuration(tmp_path: Path) -> None:
    text = (
        "workers: 3\nrate_limit: {policies: {ArXiv.org: 0.2/second, '*': {landing: 1/s}}, concurrency: {a.org: null}}\n"
    )
    first = loaded(tmp_path, text, DTKG_RUN_ID="123", DTKG_HTTP__USER_AGENT="a: b # c")
    again = loaded(tmp_path, as_yaml(first))
    assert again.value == first.value


@pytest.mark.requirement("CFG-1")
def test_the_shown_yaml_names_the_origin_of_every_value(tmp_path: Path) -> None:
    text = "http: {timeout: 3}\nrate_limit: {policies: {ArXiv.org: 0.2/second}}\n"
    lines = as_yaml(loaded(tmp_path, text, DTKG_WORKERS="16")).splitlines()
    assert "workers: 16  # environment DTKG_WORKERS" in lines
    assert "  timeout: 3.0  # file cd.yaml" in lines
    assert "      '*': 0.2/second  # file cd.yaml" in lines
    assert "  max_redirects: 10  # default" in lines
    assert all(" # " in line for line in lines if not line.endswith(":"))


def test_the_shown_json_can_carry_the_origins(tmp_path: Path) -> None:
    result = loaded(tmp_path, "workers: 3\n")
    assert json.loads(as_json(result)) == yaml.safe_load(as_yaml(result))
    assert json.loads(as_json(result, origins=True))["origins"] == {"workers": "file cd.yaml"}


@pytest.mark.requirement("CFG-8")
def test_explain_says_who_is_asked_and_which_layer_decided(tmp_path: Path) -> None:
    text = """
http: {timeout: 15}
resolvers:
  order: [unpaywall, arxiv, wayback]
  arxiv: {enabled: false, retry: {max_attempts: 2}}
  unpaywall: {rate_limit: {refill_per_sec: 0.5}, head_precheck: true}
"""
    rows = {row.name: row for row in explain_resolvers(loaded(tmp_path, text, DTKG_DOWNLOAD__HEAD_PRECHECK="false"))}
    assert [rows[name].position for name in ("unpaywall", "arxiv", "wayback", "crossref")] == [1, 2, 3, None]
    assert str(rows["arxiv"].state) == "disabled (file cd.yaml)"
    assert str(rows["crossref"].state) == "not in resolvers.order (file cd.yaml)"
    assert str(rows["arxiv"].retry) == "2 tries, exponential from 750 ms (file cd.yaml)"
    assert str(rows["crossref"].retry) == "4 tries, exponential from 750 ms"
    assert str(rows["unpaywall"].limit) == "0.5/second, besides 10/second (file cd.yaml)"
    assert str(rows["crossref"].limit) == "3/second (built-in api.crossref.org)"
    assert str(rows["unpaywall"].head_precheck) == "no (environment DTKG_DOWNLOAD__HEAD_PRECHECK)"
    assert str(rows["crossref"].head_precheck) == "no (environment DTKG_DOWNLOAD__HEAD_PRECHECK)"
    assert str(rows["crossref"].timeouts) == "connect 15 s, read 15 s (file cd.yaml)"


def test_explain_lists_resolvers_as_plans_ask_them(tmp_path: Path) -> None:
    text = "resolvers: {order: [wayback, doi, hal, arxiv, crossref], crossref: {priority: 1}}"
    rows = explain_resolvers(loaded(tmp_path, text))
    assert [row.name for row in rows[:5]] == ["crossref", "hal", "arxiv", "doi", "wayback"]
    assert {row.position for row in rows[5:]} == {None}


def test_explain_says_what_counts_for_which_host(tmp_path: Path) -> None:
    rows = explain_hosts(loaded(tmp_path, "rate_limit: {policies: {a.org: {landing: 1/s}}}"))
    assert {(row.role, row.rate, row.origin) for row in rows if row.host == "a.org"} == {
        ("landing", "1/second", "configured a.org (file cd.yaml)"),
        ("metadata", "2/second burst 2", "built-in default"),
        ("artifact", "2/second burst 2", "built-in default"),
    }
    assert rows[-1].host == OTHER_HOST
    assert [(row.role, row.group) for row in rows if row.host == "arxiv.org"] == [("all", "arxiv")]


@pytest.mark.requirement("HTTP-10", "HTTP-11")
def test_explain_says_who_counts_for_whom_and_where_that_came_from(tmp_path: Path) -> None:
    text = "rate_limit: {backend: redis, redis_url: 'redis://u:canary@r/0', concurrency: {b.org: 4, '*': 1}, domains: {c.org: 9}}"
    rows = {row.host: row for row in explain_hosts(loaded(tmp_path, text, DTKG_RATE_LIMIT__POLICIES='{"*": "1/s"}'))}
    arxiv, named, spaced, other = (rows[host] for host in ("arxiv.org", "b.org", "c.org", OTHER_HOST))
    assert {(row.backend, row.backend_origin, row.counted) for row in rows.values()} == {
        ("redis", "file cd.yaml", "everybody who uses the Redis server")
    }
    assert (arxiv.concurrency, arxiv.cap_counted) == (1, "all processes of this data root")
    assert (arxiv.origin, arxiv.concurrency_origin) == ("built-in arxiv.org", "built-in arxiv.org")
    assert (named.concurrency, named.cap_counted) == (4, "all processes of this data root")
    assert named.concurrency_origin == "configured b.org (file cd.yaml)"
    environment = "configured default (environment DTKG_RATE_LIMIT__POLICIES)"
    assert (spaced.rate, spaced.origin) == (
        "1/second, 9 s apart",
        f"{environment}; configured c.org (file cd.yaml)",
    )
    assert (other.concurrency, other.cap_counted, other.origin) == (1, "each process", environment)
    assert other.concurrency_origin == "configured default (file cd.yaml)"
    assert "canary" not in repr(rows)


@pytest.mark.requirement("CFG-1")
def test_the_documentation_lists_every_key_as_it_is() -> None:
    # make it again with: python -c "from docstokg_assets.config.render import *; print(reference_markdown())"
    assert reference_markdown() in (PROJECT / "docs" / "configuration.md").read_text()


def test_every_key_has_a_meaning() -> None:
    assert [line for line in reference_markdown().splitlines() if line.endswith("|  |")] == []
