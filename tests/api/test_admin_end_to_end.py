"""An operator's requests through the socket, the queue and the handlers, to the writes in ZooKeeper."""

import json
from collections.abc import Sequence
from typing import Any

from controllerd.core.kafka_error import KafkaError
from tests.api.cluster import Client
from tests.fakes.world import World
from tests.scenarios.worlds import served, with_topic, world_of


def topic_znode(world: World) -> dict[str, Any]:
    found = json.loads(world.tree.nodes["/brokers/topics/t"].data or b"")
    assert isinstance(found, dict)
    return found


async def elect(client: Client, kind: int = 0, **partitions: Sequence[int]) -> dict[tuple[str, int], int]:
    """The errors by partition of an election, of all partitions if none is named."""
    wanted = [{"topic": topic, "partitions": numbers} for topic, numbers in partitions.items()] or None
    entity = await client.ask(43, 2, election_type=kind, topic_partitions=wanted)
    assert entity.error_code == KafkaError.NONE
    return {
        (result.topic, row.partition_id): row.error_code
        for result in entity.replica_election_results
        for row in result.partition_result
    }


async def reassign(client: Client, replicas: Sequence[int] | None, topic: str = "t") -> int:
    """The error of the first partition."""
    rows = [{"name": topic, "partitions": [{"partition_index": 0, "replicas": replicas}]}]
    entity = await client.ask(45, 0, topics=rows)
    assert entity.error_code == KafkaError.NONE
    return int(entity.responses[0].partitions[0].error_code)


async def moved_away() -> World:
    """t-0 on [1, 2] is led by 2, because 1 was down; u-0 on [1] is led by 1. All replicas are in sync again."""
    world = await world_of(1, 2, 3)
    await with_topic(world, 1, 2)
    await with_topic(world, 1, name="u")
    state = b'{"controller_epoch":1,"leader":2,"version":1,"leader_epoch":4,"isr":[2,1]}'
    world.tree.put("/brokers/topics/t/partitions/0/state", state)
    note = b'{"version":1,"partitions":[{"topic":"t","partition":0}]}'
    world.tree.put("/isr_change_notification/isr_change_0000000000", note)
    return await world.settle()


async def test_the_preferred_leader_is_elected_and_in_the_snapshot_before_the_answer() -> None:
    world = await moved_away()
    async with served(world) as client:
        assert await elect(client, t=[0, 7], u=[0]) == {
            ("t", 0): KafkaError.NONE,
            ("t", 7): KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
            ("u", 0): KafkaError.ELECTION_NOT_NEEDED,
        }
        view = world.snapshot.topics["t"].partitions[0].leadership
        assert view is not None
        assert (view.leader, world.state("t")[:2]) == (1, (1, 5))


async def test_an_election_of_all_partitions_answers_only_for_leaders_that_moved() -> None:
    world = await moved_away()
    async with served(world) as client:
        assert await elect(client) == {("t", 0): KafkaError.NONE}
        assert await elect(client) == {}


async def test_an_offline_partition_gets_an_unclean_leader() -> None:
    world = await with_topic(await world_of(1, 2), 1, 2)
    world.die(2)
    await world.settle()
    world.register(2)
    world.die(1)
    await world.settle()
    assert world.state("t")[0] == -1
    async with served(world) as client:
        assert await elect(client, kind=1, t=[0]) == {("t", 0): KafkaError.NONE}
        assert await elect(client, kind=1, t=[0]) == {("t", 0): KafkaError.ELECTION_NOT_NEEDED}
    assert world.state("t")[0] == 2


async def test_a_reassignment_is_begun_listed_and_cancelled() -> None:
    world = await with_topic(await world_of(1, 2, 3), 1, 2)
    async with served(world) as client:
        assert await reassign(client, (1, 3)) == KafkaError.NONE
        assert topic_znode(world)["adding_replicas"] == {"0": [3]}
        (row,) = (await client.ask(46, 0, topics=None)).topics[0].partitions
        assert (row.adding_replicas, row.removing_replicas, sorted(row.replicas)) == ((3,), (2,), [1, 2, 3])

        assert await reassign(client, None) == KafkaError.NONE
        assert (await client.ask(46, 0, topics=None)).topics == ()
        assert await reassign(client, None) == KafkaError.NO_REASSIGNMENT_IN_PROGRESS
    assert topic_znode(world)["partitions"] == {"0": [1, 2]}


async def test_impossible_reassignments_are_refused_one_by_one() -> None:
    world = await with_topic(await world_of(1, 2), 1, 2)
    async with served(world) as client:
        for replicas in ((), (1, 1), (1, -1), (1, 9)):
            assert await reassign(client, replicas) == KafkaError.INVALID_REPLICA_ASSIGNMENT
        assert await reassign(client, (1,), topic="unknown") == KafkaError.UNKNOWN_TOPIC_OR_PARTITION
    assert world.zk.writes == []


async def test_a_feature_that_no_broker_supports_is_refused() -> None:
    world = await world_of(1)
    async with served(world) as client:
        row = {"feature": "metadata.version", "max_version_level": 1, "upgrade_type": 1}
        entity = await client.ask(57, 1, feature_updates=[row])
    (result,) = entity.results
    assert (entity.error_code, result.error_code) == (KafkaError.NONE, KafkaError.INVALID_REQUEST)
