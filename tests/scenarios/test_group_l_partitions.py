"""Group L: the answers to admin clients about elections and reassignments, over a socket."""

from collections.abc import Mapping, Sequence
from typing import Final

import pytest

from controllerd.core.kafka_error import KafkaError
from tests.api.cluster import Client
from tests.fakes.world import World, tp
from tests.scenarios.acts import alter_isr, bring_back, cluster, kill, leader, with_topic
from tests.scenarios.worlds import served

PREFERRED, UNCLEAN = 0, 1
NONE, NOT_NEEDED = KafkaError.NONE, KafkaError.ELECTION_NOT_NEEDED
UNKNOWN: Final = KafkaError.UNKNOWN_TOPIC_OR_PARTITION
BAD: Final = KafkaError.INVALID_REPLICA_ASSIGNMENT
Named = Mapping[str, Sequence[int]] | None


async def elected(client: Client, kind: int, partitions: Named) -> dict[str, tuple[KafkaError, str | None]]:
    """Request an election; return the answer about each partition."""
    rows = None if partitions is None else [{"topic": name, "partitions": ids} for name, ids in partitions.items()]
    entity = await client.ask(43, 2, election_type=kind, topic_partitions=rows)
    assert entity.error_code == NONE
    return {
        f"{result.topic}-{row.partition_id}": (KafkaError(row.error_code), row.error_message)
        for result in entity.replica_election_results
        for row in result.partition_result
    }


async def elect(world: World, kind: int, partitions: Named) -> dict[str, KafkaError]:
    """The errors of an election alone."""
    async with served(world) as client:
        return {key: error for key, (error, _) in (await elected(client, kind, partitions)).items()}


async def with_moved(world: World, *topics: str) -> World:
    """Create topics on 1 and 2 that 2 leads since 1 was away."""
    for topic in topics:
        await with_topic(world, topic, 1, 2)
    await kill(world, 1)
    await bring_back(world, 1)
    for topic in topics:
        await alter_isr(world, topic, 2, 1)
    return world


async def with_offline(world: World, *topics: str) -> World:
    """Create topics on 1 and 2 of which 1 alone was in sync when it died."""
    for topic in topics:
        await with_topic(world, topic, 1, 2)
        await alter_isr(world, topic, 1)
    await kill(world, 1)
    return world


async def test_l1_where_the_preferred_replica_leads_no_election_is_needed() -> None:
    world = await with_topic(await cluster(1, 2), "t", 1, 2)

    assert await elect(world, PREFERRED, {"t": [0]}) == {"t-0": NOT_NEEDED}
    assert await elect(world, PREFERRED, None) == {}


async def test_l2_only_the_named_partition_moves() -> None:
    world = await with_moved(await cluster(1, 2), "a", "b")

    assert await elect(world, PREFERRED, {"a": [0]}) == {"a-0": NONE}

    assert [leader(world, topic)[0] for topic in ("a", "b")] == [1, 2]


async def test_l2_without_names_all_that_need_it_move() -> None:
    world = await with_moved(await cluster(1, 2), "a", "b")
    await with_topic(world, "c", 2, 1)

    assert await elect(world, PREFERRED, None) == {"a-0": NONE, "b-0": NONE}

    assert [leader(world, topic)[0] for topic in ("a", "b", "c")] == [1, 1, 2]


async def test_l3_an_unknown_partition_keeps_no_other_from_moving() -> None:
    world = await with_moved(await cluster(1, 2), "t")
    missing = (UNKNOWN, "The partition does not exist.")

    async with served(world) as client:
        answer = await elected(client, PREFERRED, {"t": [0, 9], "unknown": [0]})

    assert (answer.pop("t-9"), answer.pop("unknown-0")) == (missing, missing)
    assert [error for error, _ in answer.values()] == [NONE]
    assert leader(world, "t")[0] == 1


async def test_l4_a_dead_preferred_replica_is_not_elected() -> None:
    world = await with_topic(await cluster(1, 2), "t", 1, 2)
    await kill(world, 1)
    strategy = "PreferredReplicaPartitionLeaderElectionStrategy"
    says = f"Failed to elect leader for partition t-0 under strategy {strategy}"

    async with served(world) as client:
        assert await elected(client, PREFERRED, {"t": [0]}) == {
            "t-0": (KafkaError.PREFERRED_LEADER_NOT_AVAILABLE, says),
        }
    assert leader(world, "t")[0] == 2


@pytest.mark.parametrize("named", [["a"], ["a", "b"], None], ids=["one", "many", "all"])
async def test_l5_unclean_leaders_are_elected_where_there_is_no_leader(named: list[str] | None) -> None:
    world = await with_offline(await cluster(1, 2, 3), "a", "b")
    await with_topic(world, "clean", 3, 2)
    wanted = named or ["a", "b"]

    answer = await elect(world, UNCLEAN, None if named is None else {topic: [0] for topic in named})

    assert answer == {f"{topic}-0": NONE for topic in wanted}
    assert {topic for topic in ("a", "b") if leader(world, topic)[0] == 2} == set(wanted)


async def test_l6_without_a_live_replica_no_leader_is_elected() -> None:
    world = await with_offline(await cluster(1, 2), "t")
    await kill(world, 2)

    assert await elect(world, UNCLEAN, {"t": [0]}) == {"t-0": KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE}


async def test_l7_a_partition_that_is_led_needs_no_unclean_election() -> None:
    world = await with_moved(await cluster(1, 2), "t")
    before = world.state("t")

    assert await elect(world, UNCLEAN, {"t": [0]}) == {"t-0": NOT_NEEDED}
    assert world.state("t") == before


@pytest.mark.parametrize(
    "target", [[1, 77], [-1], [1, 1], [], [1, 2_000_000_000]], ids=["unknown", "negative", "twice", "none", "ours"]
)
async def test_l8_a_bad_target_is_refused_and_the_others_proceed(target: list[int]) -> None:
    world = await with_topic(await with_topic(await cluster(1, 2, 3), "good", 1, 2), "bad", 1, 2)
    wanted: dict[str, list[int]] = {"bad": target, "good": [2, 3], "unknown": [1]}
    rows = [{"name": name, "partitions": [{"partition_index": 0, "replicas": ids}]} for name, ids in wanted.items()]

    async with served(world) as client:
        entity = await client.ask(45, 0, topics=rows)

    assert {row.name: row.partitions[0].error_code for row in entity.responses} == {
        "bad": BAD,
        "good": NONE,
        "unknown": UNKNOWN,
    }
    assert world.context.record(tp("bad")).assignment.replicas == (1, 2)
    assert world.context.record(tp("good")).assignment.target == (2, 3)


async def test_l9_nothing_is_listed_while_nothing_moves_nor_for_what_is_gone() -> None:
    world = await with_topic(await cluster(1, 2), "t", 1, 2)
    named = [{"name": name, "partition_indexes": [0]} for name in ("t", "gone")]

    async with served(world) as client:
        for wanted in (None, named):
            entity = await client.ask(46, 0, topics=wanted)
            assert (entity.error_code, entity.topics) == (NONE, ())


async def test_l9_nothing_is_listed_for_a_topic_that_was_deleted_while_another_one_moves() -> None:
    world = await with_topic(await with_topic(await cluster(1, 2, 3), "gone", 1, 2), "moving", 1, 2)
    wanted = [{"name": "moving", "partitions": [{"partition_index": 0, "replicas": [2, 3]}]}]

    async with served(world) as client:
        (moved,) = (await client.ask(45, 0, topics=wanted)).responses
        (deleted,) = (await client.ask(20, 6, topics=[{"name": "gone", "topic_id": None}])).responses
        assert (moved.partitions[0].error_code, deleted.error_code) == (NONE, NONE)
        named = await client.ask(46, 0, topics=[{"name": "gone", "partition_indexes": [0]}])
        everything = await client.ask(46, 0, topics=None)

    assert (named.error_code, named.topics) == (NONE, ())
    assert (everything.error_code, [topic.name for topic in everything.topics]) == (NONE, ["moving"])
