"""The metadata cache of a broker after UpdateMetadata requests."""

import pytest

from broker.metadata_cache import MetadataCache
from controllerd.core.model import BrokerId, TopicPartition
from tests.broker.samples import OTHER_ID, T0, T_ID, metadata

T1 = TopicPartition("t", 1)


@pytest.fixture
def cache() -> MetadataCache:
    """A cache with two partitions of one topic, three brokers and a controller."""
    cache = MetadataCache()
    cache.update(metadata(1, 2, 3, controller=9, partitions=[(T0, 1), (T1, 2)]), {"t": T_ID}, carries_ids=True)
    return cache


def leaders(cache: MetadataCache) -> dict[int, int]:
    return {index: partition.state.leader for index, partition in cache.topics.get("t", {}).items()}


def test_live_brokers_and_controller_are_replaced(cache: MetadataCache) -> None:
    cache.update(metadata(3, controller=7), {}, carries_ids=True)

    assert (set(cache.brokers), cache.controller_id) == ({3}, 7)


def test_a_negative_controller_is_none(cache: MetadataCache) -> None:
    cache.update(metadata(3, controller=-5), {}, carries_ids=True)

    assert cache.controller_id == -1


def test_partitions_are_merged(cache: MetadataCache) -> None:
    cache.update(metadata(1, 2, 3, partitions=[(T0, 3)]), {"t": T_ID}, carries_ids=True)

    assert leaders(cache) == {0: 3, 1: 2}


def test_leader_minus_two_removes_a_partition(cache: MetadataCache) -> None:
    cache.update(metadata(1, partitions=[(T0, -2)]), {"t": T_ID}, carries_ids=True)

    assert leaders(cache) == {1: 2}


def test_the_topic_and_its_id_go_with_its_last_partition(cache: MetadataCache) -> None:
    cache.update(metadata(1, partitions=[(T0, -2), (T1, -2)]), {"t": T_ID}, carries_ids=True)

    assert (dict(cache.topics), cache.topic_id("t"), cache.topic_name(T_ID)) == ({}, None, None)


def test_a_topic_listed_without_id_loses_its_id(cache: MetadataCache) -> None:
    cache.update(metadata(1, partitions=[(T0, 1)]), {"t": None}, carries_ids=True)

    assert (cache.topic_id("t"), cache.topic_name(T_ID)) == (None, None)


def test_a_version_without_ids_leaves_them_alone(cache: MetadataCache) -> None:
    cache.update(metadata(1, partitions=[(T0, 1)]), {"t": None}, carries_ids=False)

    assert cache.topic_id("t") == T_ID


def test_a_topic_that_is_not_listed_keeps_its_id(cache: MetadataCache) -> None:
    cache.update(metadata(1), {}, carries_ids=True)

    assert cache.topic_id("t") == T_ID


def test_another_id_replaces_the_one_before(cache: MetadataCache) -> None:
    cache.update(metadata(1, partitions=[(T0, 1)]), {"t": OTHER_ID}, carries_ids=True)

    assert (cache.topic_id("t"), cache.topic_name(OTHER_ID), cache.topic_name(T_ID)) == (OTHER_ID, "t", None)


def test_an_address_is_found_by_broker_and_listener(cache: MetadataCache) -> None:
    found = cache.endpoint(BrokerId(2), "PLAINTEXT")

    assert found is not None
    assert found.port == 9002
    assert cache.endpoint(BrokerId(2), "OTHER") is None
    assert cache.endpoint(BrokerId(8), "PLAINTEXT") is None
