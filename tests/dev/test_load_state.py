"""What a producer that waits is waiting for: librdkafka's own statistics, and what is told of them."""

import json
import re

import pytest

from controllerd.dev.load_state import describe


def statistics(**partition: int) -> str:
    """The part of librdkafka's statistics that is read."""
    row = {"broker": 2, "msgq_cnt": 0, "xmit_msgq_cnt": 0, "msgs_inflight": 0}
    return json.dumps(
        {
            "eos": {"idemp_state": "Assigned"},
            "topics": {"orders": {"partitions": {"0": row, "1": {**row, **partition}}}},
            "brokers": {
                "bootstrap": {"nodeid": -1, "state": "UP", "waitresp_cnt": 0},
                "two": {"nodeid": 2, "state": "TRY_CONNECT", "waitresp_cnt": 1},
            },
        }
    )


def test_partitions_with_records_and_brokers_with_a_number_are_named() -> None:
    assert describe(statistics(msgq_cnt=3, xmit_msgq_cnt=2, msgs_inflight=1)) == (
        "producer id Assigned; orders-1 on broker 2 has 3 + 2 waiting, 1 sent; "
        "broker 2 is TRY_CONNECT, requests under way: 1"
    )


def test_partitions_without_records_are_not_named() -> None:
    assert describe(statistics()) == "producer id Assigned; broker 2 is TRY_CONNECT, requests under way: 1"


def test_before_the_first_statistics_that_is_said() -> None:
    assert describe("") == "no statistics yet"


def test_the_statistics_of_librdkafka_can_be_read() -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    told: list[str] = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": "127.0.0.1:1",
            "enable.idempotence": True,
            "statistics.interval.ms": 100,
            "stats_cb": told.append,
            "log_level": 0,
        }
    )
    producer.produce("orders", b"a record", partition=0)
    while not told or "orders" not in json.loads(told[-1])["topics"]:
        producer.poll(1)

    assert re.fullmatch(r"producer id \w+; orders-\S+ on broker -1 has 1 \+ 0 waiting, 0 sent", describe(told[-1]))
    producer.purge()
    producer.flush(5)
