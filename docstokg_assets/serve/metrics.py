"""Counters and gauges in the text format of Prometheus. Safe for use by several threads."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

Labels = tuple[tuple[str, str], ...]
Samples = Iterable[tuple[Mapping[str, str], float]]

HELP = {
    "docstokg_http_responses_total": "HTTP answers by status code.",
    "docstokg_ingest_submitted_total": "Ingest requests that were accepted, by way in.",
    "docstokg_ingest_refused_total": "Ingest requests that were refused, by way in and cause.",
    "docstokg_kafka_messages_total": "Kafka messages by topic and what was done with them.",
    "docstokg_ingest_open_items": "Ingest items that wait for their turn.",
    "docstokg_ingest_due_items": "Ingest items that could be claimed now, by lane; at most 10,000 are counted.",
    "docstokg_ingest_requests": "Ingest requests by status; pending: no answer yet.",
    "docstokg_ingest_watched": "Requests that somebody watches.",
    "docstokg_engine_up": "1 while this process searches for the requested files.",
}


class Metrics:
    """`gauge` names a function that is called when the metrics are read; one that is slow is cached."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._counters: dict[str, dict[Labels, float]] = defaultdict(lambda: defaultdict(float))
        self._gauges: dict[str, Callable[[], Samples]] = {}
        self._lock, self._clock = threading.Lock(), clock

    def count(self, name: str, by: float = 1, **labels: str) -> None:
        with self._lock:
            self._counters[name][tuple(sorted(labels.items()))] += by

    def gauge(self, name: str, read: Callable[[], Samples], *, cache_s: float = 0.0) -> None:
        self._gauges[name] = _Cached(read, cache_s, self._clock) if cache_s else read

    def text(self) -> str:
        with self._lock:
            counters = {name: dict(samples) for name, samples in self._counters.items()}
        lines: list[str] = []
        for name, samples in sorted(counters.items()):
            lines += _lines(name, "counter", ((dict(labels), value) for labels, value in samples.items()))
        for name, read in sorted(self._gauges.items()):
            lines += _lines(name, "gauge", read())
        return "\n".join(lines) + "\n"


class _Cached:
    """Reads again after `cache_s`, and never spends more than a twentieth of the time on reading."""

    def __init__(self, read: Callable[[], Samples], cache_s: float, clock: Callable[[], float]) -> None:
        self._read, self._cache_s, self._clock = read, cache_s, clock
        self._until, self._kept, self._lock = float("-inf"), list[tuple[Mapping[str, str], float]](), threading.Lock()

    def __call__(self) -> Samples:
        with self._lock:
            began = self._clock()
            if began >= self._until:
                self._kept = list(self._read())
                ended = self._clock()
                self._until = ended + max(self._cache_s, 20 * (ended - began))
            return self._kept


def _lines(name: str, kind: str, samples: Samples) -> list[str]:
    head = [f"# HELP {name} {HELP[name]}", f"# TYPE {name} {kind}"]
    return head + [f"{name}{_labels(labels)} {value:g}" for labels, value in samples]


def _labels(labels: Mapping[str, str]) -> str:
    escaped = (
        (name, text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")) for name, text in labels.items()
    )
    return "{" + ",".join(f'{name}="{text}"' for name, text in escaped) + "}" if labels else ""
