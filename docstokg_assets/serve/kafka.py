"""Kafka: request topics are consumed into the catalog, results are produced from it.

A message counts as consumed when its rows are stored: offsets are committed after that. Results are marked as sent, by the
position of the last one, when the broker has acknowledged them. So every request has one row, and every result is sent at least
once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from docstokg_assets.config.ingest import KafkaSettings
from docstokg_assets.ingest.records import FileIngestResult, IngestRequest, InvalidRequest
from docstokg_assets.ingest.service import IngestService
from docstokg_assets.serve.metrics import Metrics
from resources.errors import ExplainedError
from resources.scope import Lane

log = logging.getLogger(__name__)

MAX_MESSAGE_BYTES = 30_000_000
_BATCH = 500
_POLL_S = 0.5
_PAUSE_S = 2.0  # after an error that passes
_FLUSH_S = 30.0
_GROUPS = {Lane.PRIORITY: "-priority", Lane.DAILY: "", Lane.BULK: "-bulk"}


class KafkaUnavailable(ExplainedError):
    """The broker did not acknowledge what was sent."""


def request_topic(env: str, lane: Lane) -> str:
    return f"sandcrawler-{env}.ingest-file-requests-{lane.name.lower()}"


def result_topic(env: str) -> str:
    return f"sandcrawler-{env}.ingest-file-results"


def dead_letter_topic(env: str) -> str:
    return f"sandcrawler-{env}.ingest-file-requests-dead-letter"


def position_name(env: str) -> str:
    """The name of the export position of the results."""
    return f"kafka.{env}.results"


def options_of(settings: KafkaSettings, **own: Any) -> dict[str, Any]:
    given = {name: value.get_secret_value() for name, value in settings.options.items()}
    return {"bootstrap.servers": ",".join(settings.brokers), **own, **given}


class Sender:
    """Produces messages and waits for their acknowledgement. For one thread."""

    def __init__(self, settings: KafkaSettings) -> None:
        own = {"acks": "all", "enable.idempotence": True, "message.max.bytes": MAX_MESSAGE_BYTES, "linger.ms": 5}
        self._producer = Producer(options_of(settings, **own, **{"delivery.timeout.ms": int(_FLUSH_S * 1000)}))

    def send(self, topic: str, messages: list[tuple[bytes, dict[str, str]]]) -> list[int]:
        """Send messages with their headers; returns the numbers of those that the broker found too large. KafkaUnavailable when
        one was not acknowledged; then all must be sent again."""
        failed: list[KafkaError] = []
        too_large: list[int] = []

        def on_delivery(number: int) -> Callable[[KafkaError | None, Message], None]:
            def note(error: KafkaError | None, message: Message) -> None:
                if error is not None and error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
                    too_large.append(number)
                elif error is not None:
                    failed.append(error)

            return note

        for number, (value, headers) in enumerate(messages):
            while True:
                try:
                    self._producer.produce(topic, value, headers=dict(headers), on_delivery=on_delivery(number))
                    break
                except BufferError:
                    self._producer.poll(0.5)
                except KafkaException as error:
                    if error.args[0].code() != KafkaError.MSG_SIZE_TOO_LARGE:
                        raise KafkaUnavailable(f"Kafka does not take messages: {error.args[0].str()}.") from None
                    too_large.append(number)
                    break
        left = self._producer.flush(_FLUSH_S)
        if left:
            self._producer.purge()
            self._producer.flush(1)
        if left or failed:
            cause = failed[0].str() if failed else "no acknowledgement in time"
            raise KafkaUnavailable(f"Kafka did not take {left or len(failed)} messages for {topic}: {cause}.")
        return sorted(too_large)


class RequestConsumer:
    """Consumes one request topic: rows first, then offsets. Messages that are no request go to the dead-letter topic."""

    def __init__(
        self, settings: KafkaSettings, lane: Lane, service: IngestService, metrics: Metrics, stop: threading.Event
    ) -> None:
        self._lane, self._service, self._metrics, self._stop = lane, service, metrics, stop
        self.topic, self._dead = request_topic(settings.env, lane), dead_letter_topic(settings.env)
        self._sender = Sender(settings)
        own = {
            "group.id": f"sandcrawler-{settings.env}-ingest-file{_GROUPS[lane]}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "fetch.message.max.bytes": MAX_MESSAGE_BYTES,
        }
        self._consumer = Consumer(options_of(settings, **own))

    def run(self) -> None:
        """Until `stop` is set. An error that passes is waited for, with the messages in hand."""
        self._consumer.subscribe([self.topic])
        try:
            while not self._stop.is_set():
                batch = self._usable(self._consumer.consume(_BATCH, _POLL_S))
                if batch:
                    self._take(batch)
        finally:
            self._consumer.close()

    def _usable(self, messages: list[Message]) -> list[Message]:
        for message in messages:
            if (error := message.error()) is not None and error.code() != KafkaError._PARTITION_EOF:
                log.warning("Kafka topic %s: %s", self.topic, error.str())
                self._stop.wait(_PAUSE_S)
        return [message for message in messages if message.error() is None]

    def _take(self, batch: list[Message]) -> None:
        """Store a batch, however long that takes, and commit its offsets."""
        while not self._stop.is_set():
            try:
                self._store(batch)
                break
            except ExplainedError as error:
                log.warning("requests from Kafka wait: %s", error)
                batch = batch + self._wait()
        else:
            return
        self._commit(batch)

    def _wait(self) -> list[Message]:
        """Keep the membership in the group while nothing can be stored; returns messages of partitions that came meanwhile."""
        came: list[Message] = []
        self._consumer.pause(self._consumer.assignment())
        for _ in range(max(1, int(_PAUSE_S / _POLL_S))):
            if (message := self._consumer.poll(_POLL_S)) is not None:
                came += self._usable([message])
                self._consumer.pause(self._consumer.assignment())
            if self._stop.is_set():
                break
        self._consumer.resume(self._consumer.assignment())
        return came

    def _store(self, batch: list[Message]) -> None:
        valid: list[IngestRequest] = []
        dead: list[tuple[bytes, dict[str, str]]] = []
        for message in batch:
            value = message.value()
            try:
                valid.append(self._service.validate(value if value is not None else b""))
            except InvalidRequest as error:
                place = {"topic": self.topic, "partition": str(message.partition()), "offset": str(message.offset())}
                dead.append((value or b"", {"reason": str(error)[:1_000], **place}))
        if valid:  # again changes nothing, where the dead letters are not taken
            self._service.submit_many(valid, self._lane)
        if dead:
            lost = self._sender.send(self._dead, dead)
            if lost:  # the reason is kept, the message is not
                self._sender.send(self._dead, [(b"", dead[number][1]) for number in lost])
        self._count("stored", len(valid))
        self._count("dead-letter", len(dead))

    def _commit(self, batch: list[Message]) -> None:
        """After a rebalance another consumer may have the partitions; it reads these messages again, which changes nothing."""
        ends: dict[int, int] = {}
        for message in batch:
            partition, offset = message.partition() or 0, message.offset() or 0
            ends[partition] = max(ends.get(partition, 0), offset + 1)
        try:
            offsets = [TopicPartition(self.topic, partition, end) for partition, end in ends.items()]
            self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            log.warning("offsets of %s were not committed: %s", self.topic, error.args[0].str())

    def _count(self, what: str, number: int) -> None:
        if number:
            self._metrics.count("docstokg_kafka_messages_total", number, topic=self.topic, what=what)


class ResultPublisher:
    """Produces the results in the order in which they were recorded."""

    def __init__(
        self, settings: KafkaSettings, service: IngestService, metrics: Metrics, stop: threading.Event
    ) -> None:
        self._service, self._metrics, self._stop = service, metrics, stop
        self._topic, self._name = result_topic(settings.env), position_name(settings.env)
        self._sender = Sender(settings)

    def run(self) -> None:
        while not self._stop.is_set():
            try:
                if not self._publish():
                    self._stop.wait(_POLL_S)
            except ExplainedError as error:
                log.warning("results for Kafka wait: %s", error)
                self._stop.wait(_PAUSE_S)

    def _publish(self) -> int:
        catalog = self._service.catalog
        found = list(self._service.results(catalog.export_position(self._name), limit=_BATCH))
        if not found:
            return 0
        messages = [(result.model_dump_json().encode(), dict[str, str]()) for _, result in found]
        too_large = self._sender.send(self._topic, messages)
        shortened = [(_shortened(found[number][1]), {"shortened": "true"}) for number in too_large]
        if shortened and self._sender.send(self._topic, shortened):
            log.warning("%d results are too large for %s even without their details", len(shortened), self._topic)
        catalog.set_export_position(self._name, found[-1][0])
        self._metrics.count("docstokg_kafka_messages_total", len(found), topic=self._topic, what="sent")
        return len(found)


def _shortened(result: FileIngestResult) -> bytes:
    """The result without what callers may have made large; the whole one is in the catalog."""
    kept = ("base_url", "ingest_type", "link_source", "link_source_id")
    request = {name: str(result.request[name])[:2_000] for name in kept if name in result.request}
    return result.model_copy(update={"request": request, "hops": result.hops[-1:]}).model_dump_json().encode()


class KafkaBridge:
    """All topics, each in a thread of its own. A thread that fails is started again."""

    def __init__(self, settings: KafkaSettings, service: IngestService, metrics: Metrics) -> None:
        self._stop = threading.Event()
        consumers = [
            (lane.name.lower(), partial(RequestConsumer, settings, lane, service, metrics, self._stop)) for lane in Lane
        ]
        publisher = "results", partial(ResultPublisher, settings, service, metrics, self._stop)
        self._threads = [
            threading.Thread(target=self._keep, args=(make,), name=f"kafka-{name}")
            for name, make in (*consumers, publisher)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _keep(self, make: Callable[[], RequestConsumer | ResultPublisher]) -> None:
        while not self._stop.is_set():
            try:
                make().run()
            except Exception:
                log.exception("a Kafka thread stopped and starts again in %.0f s", _PAUSE_S)
                self._stop.wait(_PAUSE_S)
