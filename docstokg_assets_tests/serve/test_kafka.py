"""Kafka over TCP, with librdkafka's own cluster: one row for each request, every result sent at least once, none lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from docstokg_assets.config import ContentDownloadConfig, load_config
from docstokg_assets.ingest.service import IngestService
from docstokg_assets.serve.kafka import KafkaBridge, dead_letter_topic, request_topic, result_topic
from docstokg_assets.serve.metrics import Metrics
from docstokg_assets_tests.support.kafka_cluster import KafkaCluster
from resources.catalog.catalog import Catalog
from resources.scope import Lane

FAST = {"session.timeout.ms": "1500", "heartbeat.interval.ms": "200", "topic.metadata.refresh.interval.ms": "500"}


@pytest.fixture
def cluster() -> Iterator[KafkaCluster]:
    made = KafkaCluster()
    for topic in (*(request_topic("qa", lane) for lane in Lane), result_topic("qa"), dead_letter_topic("qa")):
        made.create(topic)
    yield made
    made.close()


@pytest.fixture
def config(cluster: KafkaCluster, tmp_path: Path) -> ContentDownloadConfig:
    given = {"data_root": str(tmp_path), "ingest.kafka.brokers": [cluster.bootstrap], "ingest.kafka.env": "qa"}
    return load_config(None, {}, {**given, "ingest.kafka.options": FAST}).value


@pytest.fixture
def service(config: ContentDownloadConfig) -> Iterator[IngestService]:
    with Catalog.open(config.catalog_location) as catalog:
        yield IngestService(catalog, config)


@pytest.fixture
def bridge(config: ContentDownloadConfig, service: IngestService) -> Iterator[Callable[[], KafkaBridge]]:
    running: list[KafkaBridge] = []

    def begin() -> KafkaBridge:
        running.append(KafkaBridge(config.ingest.kafka, service, Metrics()))
        running[-1].start()
        return running[-1]

    yield begin
    for each in running:
        each.stop()


def produce(cluster: KafkaCluster, topic: str, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "message.max.bytes": 2_000_000})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(30) == 0


def request(number: int) -> bytes:
    return json.dumps({"base_url": f"https://a.example.org/{number}.pdf", "ingest_type": "dataset"}).encode()


def read(cluster: KafkaCluster, topic: str, until: Callable[[list[Any]], bool], seconds: float = 40) -> list[Any]:
    """The messages of a topic from its beginning, until there are enough."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": f"reader-{time.monotonic()}",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    found: list[Any] = []
    end = time.monotonic() + seconds
    while not until(found) and time.monotonic() < end:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(message)
    consumer.close()
    return found


def wait_until(holds: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.05)


def ids(messages: list[Any]) -> Counter[str]:
    return Counter(json.loads(message.value())["request"]["base_url"] for message in messages)


def rows(service: IngestService) -> int:
    return sum(count.requests for count in service.counts())


@pytest.mark.requirement("ING-5")
def test_requests_of_before_the_first_start_are_stored_and_their_results_sent(
    cluster: KafkaCluster, service: IngestService, bridge: Callable[[], KafkaBridge]
) -> None:
    for lane in Lane:
        produce(cluster, request_topic("qa", lane), *(request(int(lane) * 100 + n) for n in range(20)))
    bridge()
    sent = read(cluster, result_topic("qa"), lambda found: len(ids(found)) == 60)
    assert len(ids(sent)) == 60
    assert rows(service) == 60
    first = json.loads(sent[0].value())
    assert (first["status"], first["hit"]) == ("not-implemented", False)


@pytest.mark.requirement("ING-5")
def test_poison_goes_to_the_dead_letters_with_its_reason_and_the_stream_goes_on(
    cluster: KafkaCluster, service: IngestService, bridge: Callable[[], KafkaBridge]
) -> None:
    topic = request_topic("qa", Lane.DAILY)
    large = json.dumps({"base_url": "https://a.example.org/", "edit_extra": {"x": "y" * 1_200_000}}).encode()
    poison = [b"{oops", b"", b"\xff\xfe", b"[]", b'{"base_url": "http://10.0.0.1/"}', large]
    produce(cluster, topic, *poison, *(request(n) for n in range(10)))
    bridge()
    dead = read(cluster, dead_letter_topic("qa"), lambda found: len(found) == len(poison))
    assert sorted(message.value() or b"" for message in dead) == sorted(poison)
    headers = [dict(message.headers()) for message in dead]
    assert all(each["reason"] and each["topic"].decode() == topic and int(each["offset"]) >= 0 for each in headers)
    wait_until(lambda: rows(service) == 10)


@pytest.mark.requirement("ING-5")
def test_a_broker_that_goes_down_and_up_loses_nothing(
    cluster: KafkaCluster, service: IngestService, bridge: Callable[[], KafkaBridge]
) -> None:
    topic = request_topic("qa", Lane.PRIORITY)
    produce(cluster, topic, *(request(n) for n in range(10)))
    bridge()
    wait_until(lambda: rows(service) == 10)
    cluster.set_down()
    for number in range(10, 20):
        service.submit(service.validate(request(number)))  # results that cannot be sent yet
    time.sleep(1)
    cluster.set_up()
    produce(cluster, topic, *(request(n) for n in range(20, 30)))
    sent = read(cluster, result_topic("qa"), lambda found: len(ids(found)) == 30, 90)
    assert len(ids(sent)) == 30
    assert rows(service) == 30


def test_a_full_queue_holds_messages_back_and_loses_none(
    cluster: KafkaCluster, config: ContentDownloadConfig, service: IngestService
) -> None:
    small = config.model_copy(update={"ingest": config.ingest.model_copy(update={"max_open": 5})})
    tight = IngestService(service.catalog, small)
    for number in range(5):
        tight.submit(tight.validate({"base_url": f"https://b.example.org/{number}"}))
    produce(cluster, request_topic("qa", Lane.BULK), *(request(n) for n in range(7)))
    running = KafkaBridge(config.ingest.kafka, tight, Metrics())
    running.start()
    try:
        time.sleep(4)
        assert rows(service) == 5
        service.catalog.claim("me", 100, 600, _all())  # they are taken up: there is room
        wait_until(lambda: rows(service) == 12)
    finally:
        running.stop()


def _all() -> Any:
    from resources.scope import ALL_INGEST

    return ALL_INGEST


CONSUMER = """
import os, signal, sys, threading
from docstokg_assets.config import load_config
from docstokg_assets.ingest.service import IngestService
from docstokg_assets.serve import kafka
from docstokg_assets.serve.metrics import Metrics
from resources.catalog.catalog import Catalog
from resources.scope import Lane
from pathlib import Path

config = load_config(Path(sys.argv[1]), {}).value
if sys.argv[2] == "dies":
    def die(self, batch):
        print("stored", len(batch), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    kafka.RequestConsumer._commit = die
with Catalog.open(config.catalog_location) as catalog:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    service = IngestService(catalog, config)
    kafka.RequestConsumer(config.ingest.kafka, Lane.DAILY, service, Metrics(), stop).run()
"""


@pytest.mark.requirement("ING-5")
def test_two_consumers_of_which_one_is_killed_before_its_commit(
    cluster: KafkaCluster, config: ContentDownloadConfig, service: IngestService, tmp_path: Path
) -> None:
    import yaml

    kafka = {"brokers": [cluster.bootstrap], "env": "qa", "options": FAST}
    path = tmp_path / "content.yaml"
    path.write_text(yaml.safe_dump({"data_root": str(tmp_path), "ingest": {"kafka": kafka}}))
    program = tmp_path / "consumer.py"
    program.write_text(textwrap.dedent(CONSUMER))

    def start(how: str) -> subprocess.Popen[str]:
        arguments = [sys.executable, str(program), str(path), how]
        return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env={**os.environ})

    topic = request_topic("qa", Lane.DAILY)
    produce(cluster, topic, *(request(n) for n in range(60)))
    dying = start("dies")
    assert dying.wait(timeout=90) == -signal.SIGKILL
    assert dying.stdout is not None
    assert dying.stdout.read().startswith("stored")
    before = rows(service)
    assert before > 0
    steady = [start("lives"), start("lives")]
    try:
        produce(cluster, topic, *(request(n) for n in range(60, 120)))
        wait_until(lambda: rows(service) == 120, 90)
        steady[0].terminate()  # a rebalance
        steady[0].wait(timeout=30)
        produce(cluster, topic, *(request(n) for n in range(120, 150)))
        wait_until(lambda: rows(service) == 150, 90)
    finally:
        for process in steady:
            process.kill()
            process.wait()
    assert Counter(result.request["base_url"] for _, result in service.results()).most_common(1)[0][1] == 1


def test_a_result_that_is_too_large_for_the_broker_is_sent_shortened(
    cluster: KafkaCluster, config: ContentDownloadConfig, service: IngestService
) -> None:
    from docstokg_assets.serve.kafka import ResultPublisher

    raw = {"base_url": "https://a.example.org/large", "ingest_type": "dataset", "edit_extra": {"x": "y" * 500_000}}
    id = service.submit(service.validate(raw)).id
    options = {**config.ingest.kafka.model_dump()["options"], "message.max.bytes": "100000"}
    kafka = config.ingest.kafka.model_validate({"brokers": [cluster.bootstrap], "env": "qa", "options": options})
    stop = threading.Event()
    publisher = ResultPublisher(kafka, service, Metrics(), stop)
    thread = threading.Thread(target=publisher.run)
    thread.start()
    (sent,) = read(cluster, result_topic("qa"), lambda found: len(found) == 1)
    stop.set()
    thread.join()
    told = json.loads(sent.value())
    assert (told["id"], told["status"]) == (id, "not-implemented")
    assert "edit_extra" not in told["request"]
    assert dict(sent.headers())["shortened"] == b"true"
