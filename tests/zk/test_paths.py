"""Paths are built and parsed; what is no path of ours parses to nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllerd.core.model import BrokerId, TopicPartition
from controllerd.zk import paths

ORDERS_3 = TopicPartition("orders", 3)


@pytest.mark.parametrize(
    ("built", "path"),
    [
        (paths.broker(BrokerId(1)), "/brokers/ids/1"),
        (paths.topic("orders"), "/brokers/topics/orders"),
        (paths.topic_partitions("orders"), "/brokers/topics/orders/partitions"),
        (paths.partition(ORDERS_3), "/brokers/topics/orders/partitions/3"),
        (paths.partition_state(ORDERS_3), "/brokers/topics/orders/partitions/3/state"),
        (paths.delete_topic("orders"), "/admin/delete_topics/orders"),
        (paths.topic_config("orders"), "/config/topics/orders"),
        (paths.broker_config(BrokerId(1)), "/config/brokers/1"),
        (paths.isr_change("isr_change_0000000007"), "/isr_change_notification/isr_change_0000000007"),
        (paths.log_dir_event("log_dir_event_0000000007"), "/log_dir_event_notification/log_dir_event_0000000007"),
        (paths.config_change("config_change_0000000007"), "/config/changes/config_change_0000000007"),
    ],
)
def test_built_path(built: str, path: str) -> None:
    assert built == path


def test_the_producer_id_block_is_never_created_ahead() -> None:
    assert paths.LATEST_PRODUCER_ID_BLOCK not in paths.PERSISTENT_PATHS


def test_persistent_paths_hold_every_parent_whose_children_are_watched() -> None:
    watched = {paths.BROKER_IDS, paths.BROKER_TOPICS, paths.DELETE_TOPICS, paths.ISR_CHANGES, paths.LOG_DIR_EVENTS}

    assert watched | {paths.CONFIG_CHANGES} <= set(paths.PERSISTENT_PATHS)


@pytest.mark.parametrize(
    ("path", "topic"),
    [
        ("/brokers/topics/orders", "orders"),
        ("/brokers/topics/orders/partitions/3/state", "orders"),
        ("/config/topics/orders", "orders"),
        ("/admin/delete_topics/orders", "orders"),
        ("/brokers/topics", None),
        ("/brokers/topics/", None),
        ("/brokers/ids/1", None),
    ],
)
def test_topic_of_a_path(path: str, topic: str | None) -> None:
    assert paths.parse_topic(path) == topic


@pytest.mark.parametrize(
    ("path", "tp"),
    [
        ("/brokers/topics/orders/partitions/3/state", ORDERS_3),
        ("/brokers/topics/orders/partitions/3", ORDERS_3),
        ("/brokers/topics/orders/partitions", None),
        ("/brokers/topics/orders/partitions/x/state", None),
        ("/brokers/topics/orders/partitions/-1/state", None),
        ("/brokers/topics/orders/partitions/03/state", None),
        ("/brokers/topics/orders/partitions/2147483648/state", None),
        ("/brokers/topics/orders/partitions/3/other", None),
    ],
)
def test_partition_of_a_path(path: str, tp: TopicPartition | None) -> None:
    assert paths.parse_partition(path) == tp


@given(st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True), st.integers(0, 2**31 - 1))
def test_a_partition_survives_its_path(topic: str, partition: int) -> None:
    tp = TopicPartition(topic, partition)

    assert paths.parse_partition(paths.partition_state(tp)) == tp
    assert paths.parse_topic(paths.partition_state(tp)) == topic


@pytest.mark.parametrize(
    ("child", "broker"),
    [("0", 0), ("1001", 1001), ("01", None), ("-1", None), ("", None), ("x", None), ("٣", None), ("9" * 5000, None)],
    ids=lambda value: str(value)[:10],
)
def test_broker_id_of_a_child(child: str, broker: int | None) -> None:
    assert paths.parse_broker_id(child) == broker


@pytest.mark.parametrize(
    ("child", "sequence"),
    [("isr_change_0000000042", 42), ("isr_change_", None), ("0000000042", None), ("isr_change_00000000x2", None)],
)
def test_sequence_of_a_child(child: str, sequence: int | None) -> None:
    assert paths.parse_sequence(child) == sequence
