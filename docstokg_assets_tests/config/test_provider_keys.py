"""Keys of providers: where they are read from, who is off without one, and that this is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import SecretStr

from docstokg_assets.cli import main as program
from docstokg_assets.config import ContentDownloadConfig, load_config, resolvers_of
from docstokg_assets.config.explain import explain_resolvers
from docstokg_assets.config.models import resolvers_model
from docstokg_assets.domain.plans import Tier
from docstokg_assets.resolvers.registry import KeyedSettings, Resolver, key_variables, load_resolvers
from resources.settings import SettingsError

KEYED = ("semantic_scholar", "core", "openaire", "base")


def config(order: list[str], **env: str) -> ContentDownloadConfig:
    return load_config(None, env, {"resolvers.order": order}).value


def variable(name: str) -> str:
    return f"DOCSTOKG_CONTENT_API_KEY_{name.upper()}"


@pytest.mark.requirement("CFG-2")
@pytest.mark.parametrize("name", KEYED)
def test_a_resolver_is_on_with_its_key_and_off_without(name: str) -> None:
    order = [name, "openalex"]
    assert [resolver.name for resolver in resolvers_of(config(order))] == ["openalex"]
    for env in ({variable(name): "s3cret"}, {f"DTKG_RESOLVERS__{name.upper()}__API_KEY": "s3cret"}):
        assert [resolver.name for resolver in resolvers_of(config(order, **env))] == order
    disabled = {variable(name): "s3cret", f"DTKG_RESOLVERS__{name.upper()}__ENABLED": "false"}
    assert [resolver.name for resolver in resolvers_of(config(order, **disabled))] == ["openalex"]


@pytest.mark.requirement("CFG-2")
def test_a_key_for_a_provider_that_takes_none_is_refused_with_those_that_do() -> None:
    with pytest.raises(SettingsError) as caught:
        config(["doi"], **{variable("doi"): "x"})
    assert all(variable(name) in str(caught.value) for name in ("openalex", *KEYED))


@pytest.mark.requirement("CFG-2", "RES-1")
def test_a_new_resolver_with_a_key_needs_no_other_file_changed() -> None:
    class Fresh(Resolver):
        name = "fresh"
        tier = Tier.DIRECT_OA
        aliases = ("fr",)
        Settings = KeyedSettings

    assert key_variables({"fresh": Fresh}) == {
        variable("fresh"): "resolvers.fresh.api_key",
        variable("fr"): "resolvers.fresh.api_key",
    }
    model = resolvers_model({"fresh": Fresh})
    assert model.model_validate({"order": ["fr"], "fresh": {"api_key": "k"}}).order == ("fresh",)


@pytest.mark.requirement("CFG-8")
def test_semantic_scholar_may_be_called_s2() -> None:
    seed = ["unpaywall", "crossref", "arxiv", "europe_pmc", "core", "doaj", "s2", "landing", "wayback"]
    loaded = config(seed, DOCSTOKG_CONTENT_API_KEY_S2="k")
    assert loaded.resolvers.order[6] == "semantic_scholar"
    settings = loaded.resolvers.by_name()["semantic_scholar"]
    assert isinstance(settings, KeyedSettings) and settings.api_key == SecretStr("k")
    with pytest.raises(SettingsError, match="twice"):
        config(["s2", "semantic_scholar"])


@pytest.mark.requirement("CFG-8")
def test_the_default_order_names_everybody() -> None:
    assert set(load_config(None, {}).value.resolvers.order) == set(load_resolvers())


@pytest.mark.requirement("CLI-1")
def test_explain_says_which_key_would_switch_a_resolver_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in KEYED:
        monkeypatch.delenv(variable(name), raising=False)
    monkeypatch.setenv(variable("core"), "s3cret")
    rows = {row.name: row for row in explain_resolvers(load_config(None, {variable("core"): "s3cret"}))}
    assert (rows["core"].state.value, rows["core"].wants) == ("enabled", None)
    assert (rows["base"].state.value, rows["base"].wants) == ("off: no key", variable("base"))
    monkeypatch.setattr("sys.argv", ["content", "explain"])
    with pytest.raises(SystemExit) as ended:
        program.main()
    said = capsys.readouterr().out
    assert ended.value.code in (0, None) and "s3cret" not in said
    assert f"base is off until it has a key: set {variable('base')} or resolvers.base.api_key" in said
    assert "core is off" not in said


@pytest.mark.requirement("CFG-4")
def test_keys_are_shown_to_nobody() -> None:
    from docstokg_assets.config.render import as_json, as_yaml

    loaded = load_config(None, {variable(name): "s3cret" for name in KEYED})
    assert "s3cret" not in as_yaml(loaded) + as_json(loaded, origins=True) + repr(loaded.value)
    assert json.loads(as_json(loaded))["resolvers"]["core"]["api_key"] == "***"
