"""Log records to an OpenTelemetry collector over OTLP/HTTP. What a record says is its maker's business.

Keys for a collector are given as OpenTelemetry wants them, in OTEL_EXPORTER_OTLP_HEADERS; they are never in our settings.
Its library is imported only by those who have a collector.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING

from resources.errors import ExplainedError
from resources.http.redact import redact_url

if TYPE_CHECKING:
    from opentelemetry._logs import LogRecord

Value = str | int | float | bool | Sequence[str]
_PROJECT = "docstokg-contentdownload"
_EXPORTER_LOG = logging.getLogger("opentelemetry.exporter.otlp")
_EXPORTER_LOG.addHandler(logging.NullHandler())  # else what it says after its end goes to the terminal
_EXPORTER_LOG.propagate = False


class OtlpError(ExplainedError):
    """The collector did not take what was sent; the message says which one and what the exporter said."""


@dataclass(frozen=True, slots=True)
class Event:
    name: str
    time_ns: int
    body: str
    attributes: Mapping[str, Value]
    warns: bool = False


class _Said(logging.Handler):
    """The exporter tells only its log why it failed. Kept here, it is on the error, and not on the terminal besides."""

    last = "no reason given"

    def emit(self, record: logging.LogRecord) -> None:
        self.last = record.getMessage()


class OtlpLogs:
    """`send` blocks for at most `timeout_s`, the exporter's own retries included."""

    def __init__(self, endpoint: str, timeout_s: float) -> None:
        from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        self.endpoint, self.timeout_s = endpoint, timeout_s
        self._exporter = OTLPLogExporter(endpoint=endpoint, timeout=timeout_s)
        self._resource = Resource.create({"service.name": _PROJECT, "service.version": version(_PROJECT)})
        self._scope = InstrumentationScope(_PROJECT)
        self._said = _Said()
        _EXPORTER_LOG.addHandler(self._said)

    def send(self, events: Sequence[Event]) -> None:
        from opentelemetry.sdk._logs import ReadableLogRecord
        from opentelemetry.sdk._logs.export import LogRecordExportResult

        batch = [ReadableLogRecord(_record(event), self._resource, self._scope) for event in events]
        if self._exporter.export(batch) is not LogRecordExportResult.SUCCESS:
            raise OtlpError(
                f"the collector {redact_url(self.endpoint)} did not take {len(batch)} records: {self._said.last}"
            )

    def close(self) -> None:
        self._exporter.shutdown()  # type: ignore[no-untyped-call]  # the library gives it no types
        _EXPORTER_LOG.removeHandler(self._said)


def _record(event: Event) -> LogRecord:
    from opentelemetry._logs import LogRecord, SeverityNumber

    severity = SeverityNumber.WARN if event.warns else SeverityNumber.INFO
    return LogRecord(
        timestamp=event.time_ns,
        observed_timestamp=event.time_ns,
        severity_number=severity,
        severity_text=severity.name,
        body=event.body,
        attributes=dict(event.attributes),
        event_name=event.name,
    )
