"""Turn the steps of an exchange into AttemptRecords. The recorder stores them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from resources.clock import Clock, utc
from resources.http.canonical import canonical_url, host_of
from resources.http.messages import Request, parse_length
from resources.http.redact import redact_url
from resources.records import AttemptRecord, Reason, Status

_LEAST_SECRET = 8  # letters; what is shorter keeps nothing secret, and may stand in any URL by chance


@dataclass(frozen=True, slots=True)
class AttemptLog:
    """`emit` receives every record; `next_seq` and `worker_id` together make each one unique in its run."""

    emit: Callable[[AttemptRecord], None]
    clock: Clock
    run_id: str | None
    worker_id: str
    next_seq: Callable[[], int]
    work_id: str | None = None
    year: int | None = None

    def write(
        self,
        request: Request,
        url: str,
        status: Status,
        reason: Reason | None,
        *,
        verb: str | None = None,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> None:
        """`url` is the hop that was asked; `fields` are further fields of the record."""
        received = headers or {}
        shown = redact_url(url)
        # a server may repeat the key that it was given in the address that it redirects to
        for secret in (*request.secret_params.values(), *request.secret_headers.values()):
            if len(secret) >= _LEAST_SECRET:
                shown = shown.replace(secret, "***").replace(quote(secret, safe=""), "***")
        self.emit(
            AttemptRecord(
                ts=utc(self.clock.wall()),
                run_id=self.run_id,
                resolver=request.resolver,
                url=shown,
                verb=verb or request.verb,
                status=status,
                reason=reason,
                content_type=received.get("content-type"),
                content_length_hdr=parse_length(received.get("content-length")),
                extra=extra or {},
                work_id=self.work_id,
                year=self.year,
                tier=request.tier,
                role=str(request.role),
                host=host_of(url),
                canonical_url=canonical_url(shown),
                worker_id=self.worker_id,
                seq=self.next_seq(),
                **fields,
            )
        )
