"""Layers, their precedence and origins, and what is told when something is wrong, on a small tree."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import Field, SecretStr

from resources.layers import SourcedValue
from resources.settings import (
    Loaded,
    Section,
    SettingsError,
    config_file,
    load,
)


class Retry(Section):
    tries: int = Field(4, ge=1)


class Web(Section):
    proxy: str | None = None
    verify: bool = True
    hosts: tuple[str, ...] = ()
    timeout: float = Field(10.0, gt=0)
    retry: Retry = Retry()
    own_retry: Retry | None = None
    key: SecretStr | None = None


class Store(Section):
    backend: Literal["sqlite"] = "sqlite"
    rates: dict[str, dict[str, str]] = Field({})


class Tree(Section):
    name: str | None = None
    workers: int = Field(8, ge=1, le=256)
    web: Web = Web()
    store: Store = Store()


def loaded(tmp_path: Path, text: str | None = None, env: dict[str, str] | None = None, **kwargs: Any) -> Loaded[Tree]:
    file = None
    if text is not None:
        file = tmp_path / "cd.yaml"
        file.write_text(text)
    return load(Tree, file=file, env=env or {}, **kwargs)


def problems(tmp_path: Path, text: str | None = None, env: dict[str, str] | None = None, **kwargs: Any) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        loaded(tmp_path, text, env, **kwargs)
    return caught.value.problems


@pytest.mark.requirement("CFG-1")
def test_each_layer_wins_over_those_below_it_and_is_named_as_the_origin(tmp_path: Path) -> None:
    file = "workers: 2\nweb: {proxy: from-file, timeout: 3}\n"
    env = {"DTKG_WORKERS": "3", "DTKG_WEB__PROXY": "from-env"}
    result = loaded(tmp_path, file, env, overrides={"workers": SourcedValue(4, "command line --workers")})
    assert (result.value.workers, result.value.web.proxy, result.value.web.timeout) == (4, "from-env", 3.0)
    assert result.value.web.verify is True
    assert result.origins == {
        "workers": "command line --workers",
        "web.proxy": "environment DTKG_WEB__PROXY",
        "web.timeout": "file cd.yaml",
    }
    assert result.origin("web.verify") == "default"
    assert result.origin("web") == "environment DTKG_WEB__PROXY, file cd.yaml"


@pytest.mark.requirement("CFG-2")
@pytest.mark.parametrize("name", ["DTKG_WEB__PROXY", "DOCSTOKG_CONTENT_WEB__PROXY", "dtkg_web__proxy"])
def test_both_prefixes_count_in_any_case(tmp_path: Path, name: str) -> None:
    assert loaded(tmp_path, env={name: "http://p"}).value.web.proxy == "http://p"


@pytest.mark.requirement("CFG-2")
def test_environment_values_are_json_where_they_are_json(tmp_path: Path) -> None:
    env = {
        "DTKG_WEB__HOSTS": '["a.org", "b.org"]',
        "DTKG_WEB__VERIFY": "false",
        "DTKG_WEB__TIMEOUT": "2.5",
        "DTKG_WEB__RETRY": '{"tries": 2}',
        "DTKG_WEB__PROXY": "not [json",
    }
    web = loaded(tmp_path, env=env).value.web
    assert web == Web(hosts=("a.org", "b.org"), verify=False, timeout=2.5, retry=Retry(tries=2), proxy="not [json")


@pytest.mark.requirement("CFG-2")
def test_a_text_field_keeps_what_looks_like_something_else(tmp_path: Path) -> None:
    assert loaded(tmp_path, env={"DTKG_NAME": "123"}).value.name == "123"
    assert loaded(tmp_path, "name: 0123").value.name == "0123"
    assert loaded(tmp_path, "name: 2025-10-20").value.name == "2025-10-20"
    assert loaded(tmp_path, "name: no").value.name == "no"
    assert loaded(tmp_path, "name: keep", {"DTKG_NAME": "null"}).value.name is None


def test_the_more_specific_variable_is_laid_over_the_other(tmp_path: Path) -> None:
    env = {"DTKG_WEB": '{"proxy": "a", "timeout": 1}', "DTKG_WEB__PROXY": "b"}
    web = loaded(tmp_path, env=env).value.web
    assert (web.proxy, web.timeout) == ("b", 1.0)


def test_two_variables_for_one_key_must_agree(tmp_path: Path) -> None:
    env = {"DTKG_WORKERS": "2", "DOCSTOKG_CONTENT_WORKERS": "3"}
    assert problems(tmp_path, env=env) == [
        "environment DOCSTOKG_CONTENT_WORKERS and DTKG_WORKERS say different things: remove one of them"
    ]


def test_an_empty_variable_and_an_empty_heading_say_nothing(tmp_path: Path) -> None:
    result = loaded(tmp_path, "web:\nstore:\n  rates:\n", {"DTKG_WORKERS": ""})
    assert result.value == Tree()
    assert result.origins == {}


def test_mappings_are_merged_and_lists_replaced(tmp_path: Path) -> None:
    file = "web: {hosts: [a.org]}\nstore: {rates: {a.org: {x: '1', y: '1'}, b.org: {x: '1'}}}\n"
    env = {"DTKG_STORE__RATES": '{"a.org": {"x": "2"}}', "DTKG_WEB__HOSTS": '["b.org"]'}
    value = loaded(tmp_path, file, env).value
    assert value.store.rates == {"a.org": {"x": "2", "y": "1"}, "b.org": {"x": "1"}}
    assert value.web.hosts == ("b.org",)


@pytest.mark.requirement("CFG-3")
def test_an_unknown_key_of_the_file_is_refused_with_its_line_and_the_nearest_key(tmp_path: Path) -> None:
    text = "workers: 2\nwokers: 3\nweb:\n  proxi: x\n  retry: {trys: 1}\nproxy: y\nzzz: 1\n"
    assert problems(tmp_path, text) == [
        "file cd.yaml, line 2: unknown key wokers; did you mean workers?",
        "file cd.yaml, line 4: unknown key web.proxi; did you mean web.proxy?",
        "file cd.yaml, line 5: unknown key web.retry.trys; did you mean web.retry.tries?",
        "file cd.yaml, line 6: unknown key proxy; did you mean web.proxy?",
        "file cd.yaml, line 7: unknown key zzz; known here: name, workers, web, store",
    ]


@pytest.mark.requirement("CFG-3")
@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("DTKG_WOKERS", "did you mean DTKG_WORKERS?"),
        ("DTKG_WEB_PROXY", "did you mean DTKG_WEB__PROXY?"),
        ("DOCSTOKG_CONTENT_WEB__PROXI", "did you mean DOCSTOKG_CONTENT_WEB__PROXY?"),
        ("DTKG_CONFG", "did you mean DTKG_CONFIG?"),
        ("DTKG_API_KEY_CORE", "keys of providers are read from DOCSTOKG_CONTENT_API_KEY_<PROVIDER>"),
    ],
)
def test_an_unknown_variable_is_refused_with_the_nearest_one(tmp_path: Path, name: str, hint: str) -> None:
    [problem] = problems(tmp_path, env={name: "secret-value"})
    assert problem.startswith(f"environment {name}: unknown key ")
    assert problem.endswith(hint)
    assert "secret-value" not in problem


@pytest.mark.requirement("CFG-3")
def test_an_unknown_override_is_refused(tmp_path: Path) -> None:
    overrides = {"web.tmeout": SourcedValue(1, "command line --timeout")}
    assert problems(tmp_path, overrides=overrides) == [
        "command line --timeout: unknown key web.tmeout; did you mean web.timeout?"
    ]


@pytest.mark.requirement("CFG-3")
def test_the_problems_of_all_layers_are_told_at_once_and_in_plain_words(tmp_path: Path) -> None:
    file = "workers: 0\nwebb: {}\nstore: {backend: postgres}\nweb: {verify: perhaps, hosts: 5}\n"
    env = {"DTKG_WEB__TIMEOUT": "-1", "DTKG_NAM": "x"}
    assert problems(tmp_path, file, env, overrides={"web.retry": 7}) == [
        "file cd.yaml, line 2: unknown key webb; did you mean web?",
        "environment DTKG_NAM: unknown key nam; did you mean DTKG_NAME?",
        "workers: must be greater than or equal to 1; given 0 (file cd.yaml, line 1)",
        'web.verify: must be a valid boolean; given "perhaps" (file cd.yaml, line 4)',
        "web.hosts: must be a valid list; given 5 (file cd.yaml, line 4)",
        "web.timeout: must be greater than 0; given -1 (environment DTKG_WEB__TIMEOUT)",
        "web.retry: must be a mapping of keys to values; given 7 (override)",
        "store.backend: only 'sqlite' is available in this version; given \"postgres\" (file cd.yaml, line 3)",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("workers: [1", "file cd.yaml, line 1: is not valid YAML"),
        ("a: 1\n\tb: 2\n", "file cd.yaml, line 2: is not valid YAML"),
        ("- workers\n", "file cd.yaml: must be a mapping of keys to values"),
        ("just text", "file cd.yaml: must be a mapping of keys to values"),
        ("workers: 1\nworkers: 2\n", "file cd.yaml, line 2: workers is given twice, first on line 1"),
        ("web:\n  proxy: a\n  proxy: b\n", "file cd.yaml, line 3: proxy is given twice, first on line 2"),
        ("web: &a\n  retry: *a\n", "an alias may not contain itself"),
        ("name: !!python/name:os.system x\n", "line 1: "),
        ("workers: 1\n---\nworkers: 2\n", "is not valid YAML"),
    ],
)
def test_a_file_that_cannot_be_understood_is_refused_with_its_place(tmp_path: Path, text: str, expected: str) -> None:
    assert any(expected in problem for problem in problems(tmp_path, text))


def test_anchors_and_merges_work(tmp_path: Path) -> None:
    text = "store:\n  rates:\n    a: &slow {x: '1'}\n    b: {<<: *slow, y: '2'}\n"
    assert loaded(tmp_path, text).value.store.rates == {"a": {"x": "1"}, "b": {"x": "1", "y": "2"}}


def test_an_empty_file_says_nothing(tmp_path: Path) -> None:
    assert loaded(tmp_path, "# nothing yet\n").value == Tree()


def test_a_file_that_is_missing_or_no_text_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"no\.yaml: cannot be read: No such file"):
        load(Tree, file=tmp_path / "no.yaml", env={})
    with pytest.raises(SettingsError, match="cannot be read: Is a directory"):
        load(Tree, file=tmp_path, env={})
    binary = tmp_path / "cd.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingsError, match="is not UTF-8 text"):
        load(Tree, file=binary, env={})


def test_infinite_and_undefined_numbers_are_refused(tmp_path: Path) -> None:
    assert "finite number" in problems(tmp_path, "web: {timeout: .inf}")[0]
    assert "finite number" in problems(tmp_path, env={"DTKG_WEB__TIMEOUT": "NaN"})[0]


@pytest.mark.requirement("CFG-1")
def test_all_layers_of_a_section_are_merged_and_each_value_keeps_its_origin(tmp_path: Path) -> None:
    env = {"DTKG_WEB__RETRY__TRIES": "2"}
    result = loaded(tmp_path, "web: {proxy: p}\n", env, overrides={"web.timeout": 1})
    assert result.value.web == Web(proxy="p", retry=Retry(tries=2), timeout=1)
    assert result.origins == {
        "web.proxy": "file cd.yaml",
        "web.retry.tries": "environment DTKG_WEB__RETRY__TRIES",
        "web.timeout": "override",
    }


@pytest.mark.requirement("CFG-3")
def test_unknown_keys_of_a_section_are_refused_in_all_layers_at_once(tmp_path: Path) -> None:
    assert problems(tmp_path, "web: {proxi: p, timeout: 0}\n", {"DTKG_WEB__HOST": "[]"}) == [
        "file cd.yaml, line 1: unknown key web.proxi; did you mean web.proxy?",
        "environment DTKG_WEB__HOST: unknown key web.host; did you mean DTKG_WEB__HOSTS?",
        "web.timeout: must be greater than 0; given 0 (file cd.yaml, line 1)",
    ]
    assert "web: must be a mapping" in problems(tmp_path, "web: 5\n")[0]


@pytest.mark.requirement("CFG-2")
def test_a_variable_can_stand_for_a_key(tmp_path: Path) -> None:
    aliases = {"DOCSTOKG_CONTENT_API_KEY_WEB": "web.key"}
    env = {"DOCSTOKG_CONTENT_API_KEY_WEB": "12345"}
    result = loaded(tmp_path, "web: {key: from-file}", env, aliases=aliases)
    assert result.value.web.key is not None
    assert result.value.web.key.get_secret_value() == "12345"
    assert result.origins["web.key"] == "environment DOCSTOKG_CONTENT_API_KEY_WEB"


def test_problems_show_no_secret_and_no_password(tmp_path: Path) -> None:
    told = problems(tmp_path, "web: {key: [s3cret], timeout: 'http://u:s3cret@proxy'}")
    assert len(told) == 2
    assert "s3cret" not in " ".join(told)


def test_the_environment_may_name_the_file() -> None:
    assert config_file({"DTKG_CONFIG": "a/cd.yaml"}) == Path("a/cd.yaml")
    assert config_file({"DTKG_CONFIG": ""}) is None
    assert config_file({}) is None
