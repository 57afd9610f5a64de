"""What people are told about a failed run: a page, a message to a webhook, and whether Dagster tries it again."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import boto3
import dagster as dg
import pytest
import yaml

from docstokg_assets.definitions import defs
from docstokg_assets.defs.failures import failure_summary


class Webhook:
    """A server that keeps what it is sent."""

    def __init__(self) -> None:
        received = self.received = list[dict[str, Any]]()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(204)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/secret-token"


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    hook = Webhook()
    thread = threading.Thread(target=hook.server.serve_forever)
    thread.start()
    yield hook
    hook.server.shutdown()
    thread.join()
    hook.server.server_close()


@pytest.fixture
def fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Lets a run of 2024 fail under a configuration, evaluates the sensor, and returns the run's id."""

    def failed(config: dict[str, Any] | str, **tags: str) -> str:
        file = tmp_path / "content.yaml"
        file.write_text(config if isinstance(config, str) else yaml.safe_dump(config))
        monkeypatch.setenv("DTKG_CONFIG", str(file))
        monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
        with dg.DagsterInstance.ephemeral() as instance:
            job = defs.resolve_job_def("collect_year")
            result = job.execute_in_process(partition_key="2024", instance=instance, raise_on_error=False, tags=tags)
            context = dg.build_run_status_sensor_context(
                "failure_summary",
                dagster_event=result.get_run_failure_event(),
                dagster_instance=instance,
                dagster_run=instance.get_run_by_id(result.run_id) or result.dagster_run,
                resources=dict(defs.resources or {}),
            )
            failure_summary(context.for_run_failure())
        return result.run_id

    return failed


def settings(tmp_path: Path, **alerts: Any) -> dict[str, Any]:
    return {
        "data_root": str(tmp_path / "data"),
        "http": {"contact_email": "crawler@library-of-tests.edu"},
        "openalex": {"filter": ""},
        "alerts": alerts,
    }


@pytest.mark.requirement("ORC-2")
def test_a_webhook_is_told_the_cause_and_the_repair(tmp_path: Path, fail: Callable[..., str], webhook: Webhook) -> None:
    run_id = fail(settings(tmp_path, webhook=webhook.url))
    (message,) = webhook.received
    assert "openalex.filter is not set" in message["text"] and "make materialize YEAR=2024" in message["text"]
    assert (message["run_id"], message["year"], message["will_retry"]) == (run_id, "2024", False)
    page = Path(message["page"])
    assert page == tmp_path / "data/reports/failures" / f"{run_id}.md" and "secret-token" not in page.read_text()


@pytest.mark.requirement("ORC-2")
def test_a_run_that_dagster_starts_again_needs_nobody(
    tmp_path: Path, fail: Callable[..., str], webhook: Webhook
) -> None:
    fail(settings(tmp_path, webhook=webhook.url), **{"dagster/will_retry": "true"})
    (message,) = webhook.received
    assert message["will_retry"] and "no action needed" in message["text"] and "make materialize" not in message["text"]


@pytest.mark.requirement("ORC-2", "CFG-1")
def test_a_configuration_that_cannot_be_read_is_told_too(tmp_path: Path, fail: Callable[..., str]) -> None:
    run_id = fail("colour: blue\n")
    page = (tmp_path / "home" / "failures" / f"{run_id}.md").read_text()
    assert "unknown key colour" in page and "re-execute" in page


@pytest.mark.requirement("ORC-2", "ORC-6")
def test_pages_can_go_to_a_bucket(moto: str, aws_credentials: None, tmp_path: Path, fail: Callable[..., str]) -> None:
    place = f"s3://papers/{tmp_path.name}"
    config = settings(tmp_path, pages=place) | {"telemetry": {"lake_endpoint_url": moto}}
    run_id = fail(config)
    stored = boto3.client("s3", endpoint_url=moto).get_object(Bucket="papers", Key=f"{tmp_path.name}/{run_id}.md")
    assert "openalex.filter is not set" in stored["Body"].read().decode()
