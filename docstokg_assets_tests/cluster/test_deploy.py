"""What deploy/ says, held against what there is. Compose, Kubernetes and the image are read here, not run; the rest is used."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from docstokg_assets.defs.instance.celery_launcher import WatchedCeleryRunLauncher
from docstokg_assets.defs.instance.run_queue import NewestYearFirst
from docstokg_assets_tests.support.servers import Postgres

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
BIN = Path(sys.executable).parent
EXAMPLE = dict(
    line.split("=", 1) for line in (DEPLOY / ".env.example").read_text().splitlines() if line and line[0] != "#"
)

pytestmark = pytest.mark.requirement("ORC-6")


def read(name: str) -> Any:
    return yaml.safe_load((DEPLOY / name).read_text())


def variables(node: Any) -> set[str]:
    """The names in all `{env: NAME}` below."""
    if isinstance(node, list):
        return {name for each in node for name in variables(each)}
    if not isinstance(node, dict):
        return set()
    return {node["env"]} if set(node) == {"env"} else {name for each in node.values() for name in variables(each)}


def test_the_configuration_is_valid_with_the_variables_of_the_example() -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("DTKG_", "DOCSTOKG_"))}
    command = [BIN / "content", "validate-config", "-c", DEPLOY / "content.yaml"]
    done = subprocess.run(command, env={**clean, **EXAMPLE}, capture_output=True, text=True)
    assert done.returncode == 0 and "is valid" in done.stdout, done.stderr
    assert "contact_email" not in done.stderr


def test_the_instance_loads_with_our_queue_and_our_launcher(
    tmp_path: Path, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in EXAMPLE.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("DAGSTER_POSTGRES_URL", postgres.url)
    (tmp_path / "dagster.yaml").write_text((DEPLOY / "dagster.yaml").read_text())
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        assert isinstance(instance.run_coordinator, NewestYearFirst)
        assert isinstance(instance.run_launcher, WatchedCeleryRunLauncher)
        assert instance.run_launcher.supports_check_run_worker_health and instance.run_monitoring_enabled
        assert type(instance.compute_log_manager).__name__ == "S3ComputeLogManager"
        assert instance.get_runs_count() == 0


def test_every_variable_that_is_read_is_in_the_example() -> None:
    celery = re.findall(r'environ\["(\w+)"\]', (DEPLOY / "dagster_celery_config.py").read_text())
    assert celery
    compose = set(re.findall(r"\$\{(\w+)", (DEPLOY / "compose.yaml").read_text()))
    named = set(re.findall(r"\bDTKG_\w+", (DEPLOY / "content.yaml").read_text()))
    read_there = variables(read("dagster.yaml")) | variables(read("helm-values.yaml")) | set(celery) | compose | named
    assert compose and named and read_there <= set(EXAMPLE)


def test_what_compose_starts_is_there() -> None:
    services = read("compose.yaml")["services"]
    ours = {name: service for name, service in services.items() if "build" in service}
    assert set(ours) == {"prepare", "webserver", "daemon", "worker"}
    for service in ours.values():
        program, *arguments = service["command"]
        assert (BIN / program).exists(), program
        if "-m" in arguments:
            importlib.import_module(arguments[arguments.index("-m") + 1])
        assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
        assert service["env_file"] == ".env" and set(service["depends_on"]) <= set(services)


def test_there_is_a_place_for_every_run_that_may_go_at_once() -> None:
    compose, values, instance = read("compose.yaml"), read("helm-values.yaml"), read("dagster.yaml")
    most = instance["concurrency"]["runs"]["max_concurrent_runs"]
    worker = compose["services"]["worker"]
    pod = next(each["spec"] for each in values["extraManifests"] if each["kind"] == "Deployment")
    assert "--concurrency=1" in worker["command"] == pod["template"]["spec"]["containers"][0]["args"]
    assert worker["deploy"]["replicas"] == pod["replicas"] == most


def test_the_chart_is_given_what_the_instance_has() -> None:
    """The keys are those of the chart's values.schema.json; here the two files are kept together."""
    values, instance = read("helm-values.yaml"), read("dagster.yaml")
    daemon = values["dagsterDaemon"]
    given = {
        "telemetry": values["telemetry"],
        "run_launcher": values["runLauncher"]["config"]["customRunLauncher"],
        "run_coordinator": daemon["runCoordinator"]["config"]["customRunCoordinator"],
        "compute_logs": values["computeLogManager"]["config"]["s3ComputeLogManager"],
        "run_monitoring": daemon["runMonitoring"],
        "run_retries": daemon["runRetries"],
        "concurrency": without(values["concurrency"], "enabled"),
        "python_logs": values["pythonLogs"],
        "retention": without(values["retention"], "enabled"),
        **values["additionalInstanceConfig"],
    }
    wanted = {**without(instance, "storage"), "compute_logs": instance["compute_logs"]["config"]}
    as_is = {"run_launcher", "run_coordinator"}
    assert given == {name: section if name in as_is else camel(section) for name, section in wanted.items()}
    assert values["runLauncher"]["type"] == "CustomRunLauncher"
    assert daemon["runCoordinator"]["type"] == "CustomRunCoordinator"
    assert values["concurrency"]["enabled"] and values["retention"]["enabled"] and daemon["runCoordinator"]["enabled"]


def test_several_machines_have_the_settings_of_one_but_for_places_and_numbers() -> None:
    one, several = yaml.safe_load((ROOT / "dagster.yaml").read_text()), read("dagster.yaml")
    assert set(several) - set(one) == {"storage", "compute_logs"} and not set(one) - set(several)
    assert {name for name in one if one[name] != several[name]} == {"concurrency", "run_launcher", "run_monitoring"}
    assert (
        one["concurrency"]["runs"]["tag_concurrency_limits"] == several["concurrency"]["runs"]["tag_concurrency_limits"]
    )


def without(section: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in section.items() if key != name}


def camel(section: Any) -> Any:
    """The same with the names of Helm, all the way down."""
    if not isinstance(section, dict):
        return section
    return {re.sub(r"_(\w)", lambda m: m[1].upper(), name): camel(value) for name, value in section.items()}


def test_the_image_is_made_of_what_there_is() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    copied = [name for line in re.findall(r"^COPY (.+) \S+$", text, re.MULTILINE) for name in line.split()]
    used = {"content.yaml", "dagster.yaml", "dagster_celery_config.py"}
    assert {"requirements.lock", "docstokg_assets", "resources", *(f"deploy/{name}" for name in used)} <= set(copied)
    assert [name for name in copied if not (ROOT / name).exists()] == []
    assert "deploy" not in copied, "deploy/.env, with its passwords, would go into the image"
    home, data_root = re.findall(r"DAGSTER_HOME=(\S+)", text)[0], read("content.yaml")["data_root"]
    made = re.findall(r"install -d -o docstokg (.+)", text)[0].split()
    assert {home, data_root} <= set(made) and f"VOLUME {data_root}" in text
    values = read("helm-values.yaml")
    assert values["global"]["dagsterHome"] == home, "which the image's user may write to"
    pod = next(each["spec"]["template"]["spec"] for each in values["extraManifests"] if each["kind"] == "Deployment")
    assert pod["containers"][0]["volumeMounts"][0]["mountPath"] == data_root
    for path in re.findall(r"/opt/docstokg/(\S+\.yaml)", text):
        assert (ROOT / path).is_file()
    command = yaml.safe_load(re.findall(r"^CMD (.+)$", text, re.MULTILINE)[0])
    assert command == read("compose.yaml")["services"]["worker"]["command"]
