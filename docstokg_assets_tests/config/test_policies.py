"""Policies: presets for a field, laid between the defaults and the file, and shown as what they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from docstokg_assets.config import config_hash, load_config
from docstokg_assets.config.models import POLICIES
from docstokg_assets.runs.run import DownloadRun
from docstokg_assets.runs.services import open_services
from docstokg_assets.sandbox import Sandbox
from docstokg_assets_tests.support.configs import ConfigFor
from resources.layers import SourcedValue, policies_in
from resources.settings import SettingsError

PROJECT = Path(__file__).parents[2]


@pytest.mark.requirement("RES-10")
@pytest.mark.parametrize("name", policies_in(POLICIES))
def test_each_policy_says_order_types_and_limits_and_is_in_the_documentation(name: str) -> None:
    loaded = load_config(None, {"DTKG_POLICY": name})
    plain = load_config(None, {})
    for key in ("resolvers.order", "openalex.types", "rate_limit.policies"):
        assert loaded.origin(key) == f"policy {name}"
    assert set(loaded.value.resolvers.order) <= set(plain.value.resolvers.names())
    assert config_hash(loaded.value) != config_hash(plain.value)
    assert f"| `{name}` |" in (PROJECT / "docs" / "configuration.md").read_text()


@pytest.mark.requirement("RES-10")
def test_a_policy_is_laid_over_the_defaults_and_under_all_that_the_user_says(tmp_path: Path) -> None:
    file = tmp_path / "cd.yaml"
    file.write_text("policy: biomedicine\nopenalex: {types: [review]}\nrate_limit: {policies: {my.edu: 1/second}}\n")
    loaded = load_config(file, {})
    assert loaded.origin("resolvers.order") == "policy biomedicine"
    assert (loaded.value.openalex.types, loaded.origin("openalex.types")) == (("review",), "file cd.yaml")
    assert {"my.edu", "www.biorxiv.org"} <= set(loaded.value.rate_limit.policies)  # mappings are merged
    loaded = load_config(file, {"DTKG_RESOLVERS__ORDER": '["doi"]'})
    assert (loaded.value.resolvers.order, loaded.origin("resolvers.order")) == (
        ("doi",),
        "environment DTKG_RESOLVERS__ORDER",
    )
    loaded = load_config(
        file, {"DTKG_POLICY": "computer_science"}, {"policy": SourcedValue("biomedicine", "command line --policy")}
    )
    assert (loaded.value.policy, loaded.origin("resolvers.order")) == ("biomedicine", "policy biomedicine")


@pytest.mark.requirement("RES-10")
def test_the_policy_that_file_or_environment_names_sets_the_rate_limits(tmp_path: Path) -> None:
    file = tmp_path / "cd.yaml"
    file.write_text("policy: biomedicine\n")
    policies = load_config(file, {}).value.rate_limit.policies
    assert "www.biorxiv.org" in policies
    policies = load_config(file, {"DTKG_POLICY": "computer_science"}).value.rate_limit.policies
    assert "dl.acm.org" in policies and "www.biorxiv.org" not in policies


def test_a_policy_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(SettingsError) as refused:
        load_config(None, {"DTKG_POLICY": "alchemy"})
    assert refused.value.problems == [
        'policy: there is no policy alchemy; there are biomedicine, computer_science; given "alchemy"'
        " (environment DTKG_POLICY)"
    ]


@pytest.mark.requirement("RES-10")
def test_the_types_of_a_policy_narrow_a_query_that_names_none(tmp_path: Path, config_for: ConfigFor) -> None:
    with Sandbox.start(tmp_path / "box", works_per_year=40, years=(2024, 2024), enforce_limits=False) as box:
        with open_services(config_for(box, openalex__types=["preprint"])) as services, DownloadRun(services) as run:
            asked = list(run.collect("publication_year:2024"))
            own = list(run.collect("publication_year:2024,type:article"))
        assert asked and {work.type for work in asked} == {"preprint"}
        assert own and {work.type for work in own} == {"article"}
