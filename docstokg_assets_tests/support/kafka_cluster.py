"""librdkafka's own cluster, inside the confluent-kafka wheel, over TCP: brokers that can be taken down."""

from __future__ import annotations

import ctypes
from pathlib import Path

import confluent_kafka


class KafkaCluster:
    """Topics are created when they are first used, with four partitions. Nothing survives `close`."""

    def __init__(self, brokers: int = 1) -> None:
        folder = Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs"
        self._lib = lib = ctypes.CDLL(str(next(folder.glob("librdkafka*.so*"))))
        for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_mock_cluster_new"):
            getattr(lib, name).restype = ctypes.c_void_p
        lib.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
        lib.rd_kafka_conf_set.argtypes = [ctypes.c_void_p, *(ctypes.c_char_p,) * 3, ctypes.c_size_t]
        error = ctypes.create_string_buffer(512)
        conf = lib.rd_kafka_conf_new()
        self._handle = ctypes.c_void_p(lib.rd_kafka_new(0, ctypes.c_void_p(conf), error, ctypes.c_size_t(512)))
        assert self._handle.value, error.value
        self._cluster = ctypes.c_void_p(lib.rd_kafka_mock_cluster_new(self._handle, brokers))
        lib.rd_kafka_mock_group_initial_rebalance_delay_ms(self._cluster, 100)

    @property
    def bootstrap(self) -> str:
        found: bytes = self._lib.rd_kafka_mock_cluster_bootstraps(self._cluster)
        return found.decode()

    def create(self, topic: str, partitions: int = 4) -> None:
        assert self._lib.rd_kafka_mock_topic_create(self._cluster, topic.encode(), partitions, 1) == 0

    def set_down(self, broker: int = 1) -> None:
        self._lib.rd_kafka_mock_broker_set_down(self._cluster, broker)

    def set_up(self, broker: int = 1) -> None:
        self._lib.rd_kafka_mock_broker_set_up(self._cluster, broker)

    def close(self) -> None:
        self._lib.rd_kafka_mock_cluster_destroy(self._cluster)
        self._lib.rd_kafka_destroy(self._handle)
