"""Send log records to an OpenTelemetry collector over OTLP/HTTP.

Keys for a collector are given as OpenTelemetry wants them, in OTEL_EXPORTER_OTLP_HEADERS; they are never in our settings.
The library is imported only where a collector is configured.
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
_EXPORTER_LOG.addHandler(logging.NullHandler())  # else its messages after shutdown go to the terminal
_EXPORTER_LOG.propagate = False


class OtlpError(ExplainedError):
    """The collector did not accept the records; the message has its address and the exporter's reason."""


@dataclass(frozen=True, slots=True)
class Event:
    name: str
    time_ns: int
    body: str
    attributes: Mapping[str, Value]
    warns: bool = False


class _LastMessage(logging.Handler):
    """Keeps the exporter's last log message: only there it says why it failed. The error shows it, not the terminal."""

    text = "no reason given"

    def emit(self, record: logging.LogRecord) -> None:
        self.text = record.getMessage()


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
        self._last_message = _LastMessage()
        _EXPORTER_LOG.addHandler(self._last_message)

    def send(self, events: Sequence[Event]) -> None:
        from opentelemetry.sdk._logs import ReadableLogRecord
        from opentelemetry.sdk._logs.export import LogRecordExportResult

        batch = [ReadableLogRecord(_record(event), self._resource, self._scope) for event in events]
        if self._exporter.export(batch) is not LogRecordExportResult.SUCCESS:
            raise OtlpError(
                f"the collector {redact_url(self.endpoint)} did not take {len(batch)} records: {self._last_message.text}"
            )

    def close(self) -> None:
        self._exporter.shutdown()  # type: ignore[no-untyped-call]  # the library gives it no types
        _EXPORTER_LOG.removeHandler(self._last_message)


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
