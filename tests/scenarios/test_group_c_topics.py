"""Group C: topics and partitions are created, and each topic gets its id once and for all."""

import json

import pytest

from controllerd.core.model import Features, LeaderRecoveryState, PartitionState
from controllerd.core.protocol_versions import features_of
from controllerd.core.requests import LeaderAndIsrRequest
from controllerd.record.records import AlarmRecord
from controllerd.zk.access import Create
from events.reassignments import ApiPartitionReassignment
from tests.fakes.requester import ALICE
from tests.fakes.world import World, ids, topic_id_of, tp
from tests.scenarios.worlds import Brokers, with_topic, world_of
from wire.versions import ApiKey, VersionRange, choose_control

BEFORE_IDS = features_of("2.7")
STRANGE_ID = topic_id_of("somebody else made this up")


def state_of(world: World, topic: str = "t", partition: int = 0) -> dict[str, object]:
    """The state znode as it is written."""
    data = json.loads(world.tree.nodes[f"/brokers/topics/{topic}/partitions/{partition}/state"].data or b"")
    assert isinstance(data, dict)
    return data


def topic_of(world: World, topic: str = "t") -> dict[str, object]:
    """The topic znode as it is written."""
    data = json.loads(world.tree.nodes[f"/brokers/topics/{topic}"].data or b"")
    assert isinstance(data, dict)
    return data


def put_without_id(world: World, name: str, *replicas: int) -> None:
    """Create a topic as brokers before 2.8 do."""
    body = {"version": 2, "partitions": {"0": list(replicas)}, "adding_replicas": {}, "removing_replicas": {}}
    world.tree.put(f"/brokers/topics/{name}", json.dumps(body).encode())


def sent_ids(world: World, broker: int, topic: str = "t") -> set[str | None]:
    """The ids of a topic in every LeaderAndIsr for a broker."""
    return {
        request.topic_ids.get(topic)
        for request in world.channels.to(broker)
        if isinstance(request, LeaderAndIsrRequest) and any(each.topic == topic for each in request.partitions)
    }


async def failover(before: World, features: Features | None = None) -> World:
    """Start the next controller of the cluster, perhaps with another protocol version."""
    before.zk.expire()
    return await World(tree=before.tree, session_id=before.zk.session_id + 1, features=features).start()


# -- creation and expansion --------------------------------------------------------------------------------------------


async def test_c1_a_new_partition_starts_at_epoch_zero_led_by_its_replica() -> None:
    world = await world_of(1)

    await with_topic(world, 1)

    assert state_of(world) == {"controller_epoch": 1, "leader": 1, "version": 1, "leader_epoch": 0, "isr": [1]}


async def test_c2_the_first_isr_holds_only_replicas_that_are_live() -> None:
    world = await world_of(2, 3)

    await with_topic(world, 1, 2, 3)

    assert world.state("t") == (2, 0, [2, 3], 0)


async def test_c3_without_live_replica_a_partition_stays_new_until_one_comes_up() -> None:
    world = await world_of(1)
    await with_topic(world, 2, 3)
    waiting = (world.context.partition_state(tp("t")), "/brokers/topics/t/partitions/0/state" in world.tree.nodes)

    world.register(3)
    await world.settle()

    assert waiting == (PartitionState.NEW, False)
    assert world.state("t") == (3, 0, [3], 0)


async def test_c4_an_added_partition_starts_and_the_old_ones_are_untouched() -> None:
    world = await with_topic(await world_of(1, 2), 1, 2)
    before = world.tree.nodes["/brokers/topics/t/partitions/0/state"]

    world.put_topic("t", {0: [1, 2], 1: [2, 1]})
    await world.settle()

    assert world.state("t", 1) == (2, 0, [2, 1], 0)
    assert world.tree.nodes["/brokers/topics/t/partitions/0/state"] == before
    assert [row for request in world.brief(1) for row in [request] if "t-0" in row] == []


@pytest.mark.parametrize("written", [STRANGE_ID, None])
async def test_c4_a_topic_keeps_the_id_that_its_brokers_know_whatever_the_writer_put(written: str | None) -> None:
    world = await with_topic(await world_of(1, 2), 1, 2)

    world.put_topic("t", {0: [1, 2], 1: [2, 1]}, topic_id=written)
    await world.settle()

    assert world.context.topic_id("t") == topic_id_of("t")
    assert sent_ids(world, 1) == sent_ids(world, 2) == {topic_id_of("t")}
    assert topic_of(world)["topic_id"] == topic_id_of("t")
    assert topic_of(world)["partitions"] == {"0": [1, 2], "1": [2, 1]}
    assert [record.what for record in world.audit.of(AlarmRecord)] == ["topic id was changed in ZooKeeper"]


async def test_c4_an_id_that_was_overwritten_is_put_back_before_the_next_controller_reads_it() -> None:
    world = await with_topic(await world_of(1, 2), 1, 2)
    world.put_topic("t", {0: [1, 2]}, topic_id=STRANGE_ID)
    await world.settle()

    later = await failover(world)

    assert later.context.topic_id("t") == topic_id_of("t")


async def test_c4_a_topic_that_was_created_anew_has_its_own_id() -> None:
    world = await with_topic(await world_of(1, 2), 1, 2)
    world.tree.remove("/brokers/topics/t")

    world.put_topic("t", {0: [1, 2]}, topic_id=STRANGE_ID)
    await world.settle()

    assert world.context.topic_id("t") == STRANGE_ID


async def test_c5_an_added_partition_without_its_first_replica_starts_with_the_live_ones() -> None:
    world = await with_topic(await world_of(1, 2), 1, 2)

    world.put_topic("t", {0: [1, 2], 1: [3, 2, 1]})
    await world.settle()

    assert world.state("t", 1) == (2, 0, [2, 1], 0)


async def test_c6_a_state_znode_that_is_there_already_is_led_on_from_and_poisons_nothing() -> None:
    """Unlike Kafka, where the partition stays New: the writer of the state elected a leader, so the epoch goes on."""
    world = await world_of(1, 2)
    taken = b'{"controller_epoch":1,"leader":2,"version":1,"leader_epoch":5,"isr":[2]}'

    def another_writer_is_faster() -> None:
        parents = ("/brokers/topics/t/partitions", "/brokers/topics/t/partitions/0")
        world.tree.outsider(
            *(Create(path, None) for path in parents), Create("/brokers/topics/t/partitions/0/state", taken)
        )

    world.zk.before_transaction[len(world.zk.transactions) + 1] = another_writer_is_faster
    world.put_topic("t", {0: [1, 2]})
    await world.settle()

    await with_topic(world, 1, name="next")

    assert world.state("t") == (2, 6, [2], 1)
    assert world.state("next") == (1, 0, [1], 0)
    assert world.snapshot.is_active


# -- topic ids ---------------------------------------------------------------------------------------------------------


async def test_c7_a_topic_without_id_gets_one_and_others_keep_theirs() -> None:
    world = await with_topic(await world_of(1, 2), 1, 2, name="old")
    put_without_id(world, "t", 1, 2)
    await world.settle()

    given = world.context.topic_id("t")

    assert given is not None
    assert topic_of(world)["topic_id"] == given
    assert sent_ids(world, 1) == {given}
    assert Brokers(world).cache(2).topic_id("t") == given
    assert topic_of(world, "old")["topic_id"] == world.context.topic_id("old") == topic_id_of("old")


async def test_c8_with_protocol_2_7_no_topic_gets_an_id() -> None:
    world = await world_of(1, 2, features=BEFORE_IDS)

    put_without_id(world, "t", 1, 2)
    await world.settle()

    assert world.state("t") == (1, 0, [1, 2], 0)
    assert "topic_id" not in topic_of(world)
    assert world.context.topic_id("t") is None
    assert sent_ids(world, 1) == {None}


async def test_c9_an_id_outlives_elections_and_controllers() -> None:
    world = await world_of(1, 2)
    put_without_id(world, "t", 1, 2)
    await world.settle()
    given = world.context.topic_id("t")

    world.die(1)
    await world.settle()
    world.register(1)
    await world.settle()
    later = await failover(world)

    assert given == world.context.topic_id("t") == later.context.topic_id("t") == topic_of(later)["topic_id"]


async def test_c10_an_upgrade_gives_ids_and_sends_them_to_every_replica() -> None:
    old = await world_of(1, 2, 3, features=BEFORE_IDS)
    put_without_id(old, "t", 2, 3)
    put_without_id(old, "u", 1)
    await old.settle()

    world = await failover(old)

    given = {topic: world.context.topic_id(topic) for topic in ("t", "u")}
    assert None not in given.values()
    assert sent_ids(world, 2) == sent_ids(world, 3) == {given["t"]}
    assert sent_ids(world, 1, "u") == {given["u"]}


async def test_c11_an_id_survives_a_downgrade_a_reassignment_and_an_upgrade_kafka_12835() -> None:
    old = await world_of(1, 2, 3, features=BEFORE_IDS)
    put_without_id(old, "t", 1, 2)
    await old.settle()
    upgraded = await failover(old)
    given = topic_of(upgraded)["topic_id"]

    downgraded = await failover(upgraded, BEFORE_IDS)
    await downgraded.call(ApiPartitionReassignment(ALICE, {tp("t"): ids(1, 3)}))
    again = await failover(downgraded)

    assert topic_of(downgraded)["adding_replicas"] == {"0": [3]}
    assert given == topic_of(again)["topic_id"] == again.context.topic_id("t")


# -- versions ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("release", "broker", "expected"),
    [
        ("3.9", (7, 8, 4), (7, 8, 4)),
        ("3.4", (7, 8, 4), (7, 8, 4)),
        ("3.2", (6, 7, 3), (6, 7, 3)),
        ("2.8", (5, 7, 3), (5, 7, 3)),
        ("2.7", (7, 8, 4), (4, 6, 4)),  # a new broker that still runs the old protocol
        ("2.7", (4, 6, 3), (4, 6, 3)),
        ("2.4", (4, 6, 2), (4, 6, 2)),
        ("2.2", (2, 5, 1), (2, 5, 1)),
        ("1.0", (1, 4, 0), (1, 4, 0)),
        ("0.10.2", (0, 3, 0), (0, 3, 0)),
    ],
)
def test_c12_in_a_partial_roll_each_broker_gets_the_highest_version_that_both_know(
    release: str, broker: tuple[int, int, int], expected: tuple[int, int, int]
) -> None:
    """Unlike Kafka, which uses the versions of its own protocol, the controller asks each broker for its API versions.

    The cluster's protocol decides only about topic ids, which change the meaning of a request.
    """
    apis = (ApiKey.LEADER_AND_ISR, ApiKey.UPDATE_METADATA, ApiKey.STOP_REPLICA)
    speaks: dict[int, VersionRange] = {api: VersionRange(0, highest) for api, highest in zip(apis, broker, strict=True)}
    has_ids = release not in {"2.7", "2.4", "2.2", "1.0", "0.10.2"}

    chosen = tuple(choose_control(api, speaks, topic_ids=has_ids) for api in apis)

    assert chosen == expected


@pytest.mark.parametrize(
    ("version", "recovering"),
    [("3.1", LeaderRecoveryState.RECOVERED), ("3.2", LeaderRecoveryState.RECOVERING)],
)
async def test_c13_recovery_is_sent_from_protocol_3_2_on(version: str, recovering: LeaderRecoveryState) -> None:
    world = await with_topic(await world_of(1, 2, features=features_of(version)), 1, 2)
    world.tree.put("/config/topics/t", b'{"version":1,"config":{"unclean.leader.election.enable":"true"}}')
    world.die(2)
    await world.settle()
    world.register(2)
    await world.settle()
    world.forget()

    world.die(1)
    await world.settle()

    elected = next(each for each in world.channels.to(2) if isinstance(each, LeaderAndIsrRequest))
    assert elected.partitions[tp("t")].state.recovery_state is recovering
    assert state_of(world).get("leader_recovery_state", 0) == recovering
