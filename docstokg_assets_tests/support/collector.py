"""An OpenTelemetry collector as small as can be: takes OTLP logs over HTTP on loopback and decodes them."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest


class Collector(ThreadingHTTPServer):
    """Takes OTLP logs and decodes them; answers with `status`, and not before `answers` is set."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status, self.answers = 200, threading.Event()
        self.answers.set()
        self.requests: list[ExportLogsServiceRequest] = []

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1/logs"

    def records(self) -> list[Any]:
        return [
            log
            for request in self.requests
            for resource in request.resource_logs
            for scope in resource.scope_logs
            for log in scope.log_records
        ]


class Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        body = gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body
        self.server.answers.wait(20)
        if self.server.status == 200:
            self.server.requests.append(ExportLogsServiceRequest.FromString(body))
        self.send_response(self.server.status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        return


@contextmanager
def running() -> Iterator[Collector]:
    with Collector() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.answers.set()
        server.shutdown()
