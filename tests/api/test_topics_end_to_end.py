"""An admin client's topic requests through the socket, the queue and the handlers, to ZooKeeper and back."""

import json
from datetime import timedelta
from typing import Any

import pytest

from controllerd.core.kafka_error import KafkaError
from tests.api.cluster import Client
from tests.fakes.world import World
from tests.scenarios.worlds import served, with_topic, world_of


def wanted(name: str, partitions: int = 2, replication_factor: int = 2, **configs: str) -> dict[str, object]:
    rows = [{"name": key, "value": value} for key, value in configs.items()]
    counts = {"num_partitions": partitions, "replication_factor": replication_factor}
    return {"name": name, **counts, "assignments": (), "configs": rows}


def znode(world: World, path: str) -> Any:
    return json.loads(world.tree.nodes[path].data or b"")


async def errors(client: Client, api_key: int, version: int, **values: object) -> dict[str, int]:
    entity = await client.ask(api_key, version, **values)
    field = {19: "topics", 20: "responses", 37: "results"}[api_key]
    return {row.name: row.error_code for row in getattr(entity, field)}


async def test_a_created_topic_has_leaders_in_the_snapshot_before_the_answer() -> None:
    world = await world_of(1, 2)
    async with served(world) as client:
        entity = await client.ask(19, 7, topics=[wanted("new", retention_ms="1"), wanted("fine")])

        assert [(row.name, row.error_code) for row in entity.topics] == [
            ("new", KafkaError.INVALID_CONFIG),
            ("fine", KafkaError.NONE),
        ]
        assert (entity.topics[1].num_partitions, entity.topics[1].replication_factor) == (2, 2)
        shown = world.snapshot.topics["fine"].partitions
        assert all(view.leadership is not None and view.leadership.leader in {1, 2} for view in shown)
        assert znode(world, "/brokers/topics/fine")["partitions"].keys() == {"0", "1"}
        assert znode(world, "/config/topics/fine") == {"version": 1, "config": {}}


async def test_a_topic_that_exists_is_refused_with_kafkas_text() -> None:
    world = await with_topic(await world_of(1), 1)
    async with served(world) as client:
        (row,) = (await client.ask(19, 7, topics=[wanted("t", 1, 1)])).topics
        assert (row.error_code, row.error_message) == (KafkaError.TOPIC_ALREADY_EXISTS, "Topic 't' already exists.")


async def test_a_validated_topic_is_not_created() -> None:
    world = await world_of(1)
    async with served(world) as client:
        assert await errors(client, 19, 7, topics=[wanted("new", 1, 1)], validate_only=True) == {"new": 0}
        assert "/brokers/topics/new" not in world.tree.nodes


async def test_added_partitions_have_leaders_in_the_snapshot_before_the_answer() -> None:
    world = await with_topic(await world_of(1, 2), 1)
    async with served(world) as client:
        grow = {"name": "t", "count": 3, "assignments": None}
        assert await errors(client, 37, 3, topics=[grow]) == {"t": KafkaError.NONE}
        shown = world.snapshot.topics["t"].partitions
        assert [view.partition for view in shown] == [0, 1, 2]
        assert all(view.leadership is not None and view.leadership.leader >= 0 for view in shown)


@pytest.mark.parametrize("version", [1, 6])
async def test_a_deleted_topic_is_hidden_from_clients_before_the_answer(version: int) -> None:
    world = await with_topic(await world_of(1), 1)
    both = {"topic_names": ("t", "unknown"), "topics": [{"name": name, "topic_id": None} for name in ("t", "unknown")]}
    async with served(world) as client:
        assert await errors(client, 20, version, **both) == {
            "t": KafkaError.NONE,
            "unknown": KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
        }
        topic = world.snapshot.topics.get("t")
        assert topic is None or topic.is_hidden


async def test_a_users_credential_is_stored_without_the_password() -> None:
    world = await world_of(1)
    new = {"name": "al ice", "mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": b"secret"}
    gone = {"name": "nobody", "mechanism": 1}
    async with served(world) as client:
        entity = await client.ask(51, 0, deletions=[gone], upsertions=[new])
        assert {row.user: row.error_code for row in entity.results} == {
            "nobody": KafkaError.RESOURCE_NOT_FOUND,
            "al ice": KafkaError.NONE,
        }
        stored = znode(world, "/config/users/al%20ice")["config"]["SCRAM-SHA-256"]
        assert stored.endswith(",iterations=4096")
        assert "secret" not in stored


async def test_a_client_over_its_quota_is_refused_with_a_throttle_time() -> None:
    world = World()
    world.tree.put("/config/clients/test", b'{"version":1,"config":{"controller_mutation_rate":"2"}}')
    world.register(1)
    await world.start()
    async with served(world) as client:
        first = await client.ask(19, 7, topics=[wanted("new", 26, 1), wanted("other", 1, 1)])
        assert [row.error_code for row in first.topics] == [KafkaError.NONE, KafkaError.THROTTLING_QUOTA_EXCEEDED]
        assert first.throttle_time == timedelta(seconds=2)
        assert "/brokers/topics/other" not in world.tree.nodes
