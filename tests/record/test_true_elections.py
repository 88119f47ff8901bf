"""No false alarm: the rules on the records of a controller's elections, log directories and features."""

from collections.abc import Awaitable, Callable

import pytest

from controllerd.core.cluster_settings import Policy
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId
from controllerd.record.fold import apply
from controllerd.record.invariants import check
from controllerd.record.state import ClusterState
from events.admin import ControlledShutdown, FeatureUpdate, UpdateFeatures
from events.elections import (
    AutoPreferredReplicaLeaderElection,
    ElectionTrigger,
    ElectionType,
    ReplicaLeaderElection,
)
from events.operator import DrainBroker, Resume, ThrottleReassignments
from tests.fakes.requester import ALICE
from tests.fakes.world import World, tp
from tests.record.logs import stamped_log
from tests.scenarios.acts import (
    PREFERRED_ELECTION,
    UNCLEAN,
    alter_isr,
    answer,
    bring_back,
    cluster,
    configure,
    fire,
    kill,
    request_election,
    with_topic,
    write_config,
)

Story = Callable[[World], Awaitable[object]]


async def go_and_return(world: World) -> None:
    """Broker 1 dies, returns, and is in sync again."""
    await kill(world, 1)
    await bring_back(world, 1)
    for topic in ("t", "u"):
        await alter_isr(world, topic, 2, 1)


async def fall_behind_and_die(world: World) -> None:
    """Of both topics 1 was the last in sync, and died."""
    for topic in ("t", "u"):
        await alter_isr(world, topic, 1)
    await kill(world, 1)


async def preferred_by_znode(world: World) -> None:
    await go_and_return(world)
    world.tree.put(PREFERRED_ELECTION, b"{")
    await world.settle()
    await request_election(world, tp("t"), tp("unknown"))
    await request_election(world, tp("u"))


async def preferred_by_timer(world: World) -> None:
    await go_and_return(world)
    await fire(world, AutoPreferredReplicaLeaderElection())


async def preferred_by_request(world: World) -> None:
    await go_and_return(world)
    await world.call(ReplicaLeaderElection(None, ElectionType.PREFERRED, ElectionTrigger.ADMIN_CLIENT))


async def unclean_by_request(world: World) -> None:
    await fall_behind_and_die(world)
    wanted = frozenset({tp("t")})
    await world.call(ReplicaLeaderElection(wanted, ElectionType.UNCLEAN, ElectionTrigger.ADMIN_CLIENT))
    await bring_back(world, 1)
    await alter_isr(world, "t", 2)
    await alter_isr(world, "t", 2, 1)


async def unclean_by_topic(world: World) -> None:
    await fall_behind_and_die(world)
    await write_config(world, "topics/u", b"{")
    await configure(world, "topics/t", {UNCLEAN: "true"})


async def unclean_by_default(world: World) -> None:
    await configure(world, "brokers/<default>", {UNCLEAN: "true"})
    await fall_behind_and_die(world)
    await bring_back(world, 1)


async def log_directory(world: World) -> None:
    world.tree.put("/log_dir_event_notification/log_dir_event_0000000000", b'{"version":1,"broker":1,"event":1}')
    await world.settle()
    await answer(world, 1, {tp("t"): KafkaError.KAFKA_STORAGE_ERROR})
    await kill(world, 1)
    await bring_back(world, 1)


async def controlled_shutdown(world: World) -> None:
    await world.call(ControlledShutdown(BrokerId(1), -1))
    await alter_isr(world, "t", 2, 1)
    await kill(world, 1)
    await bring_back(world, 1)


async def drained(world: World) -> None:
    """Relieved of what it leads, it stays in sync; it leads again when the pause that goes with it is over."""
    await world.call(DrainBroker(BrokerId(1), leaders_only=True, reason="a new disk", by="ann"))
    await fire(world, AutoPreferredReplicaLeaderElection())
    await world.call(Resume("drain-1", "the disk is in", "ann"))
    await fire(world, AutoPreferredReplicaLeaderElection())


async def drained_whole(world: World) -> None:
    await world.call(DrainBroker(BrokerId(1), leaders_only=False, reason="a new disk", by="ann"))
    await kill(world, 1)
    await bring_back(world, 1)


async def throttled(world: World) -> None:
    await bring_back(world, 3)
    await world.call(ThrottleReassignments(1_000_000, {tp("t"): (BrokerId(3), BrokerId(2))}, "ann"))
    await go_and_return(world)


async def features(world: World) -> None:
    await world.call(UpdateFeatures(ALICE, {"f": FeatureUpdate(1, allow_downgrade=False)}))
    world.tree.put("/feature", b"{")
    await bring_back(world, 3)
    world.tree.put("/feature", b'{"version":2,"status":1,"features":{"f":{"max_version_level":1}}}')
    await kill(world, 3)
    await bring_back(world, 3)
    await world.call(UpdateFeatures(ALICE, {"f": FeatureUpdate(0, allow_downgrade=True)}))


STORIES = [
    preferred_by_znode,
    preferred_by_timer,
    preferred_by_request,
    unclean_by_request,
    unclean_by_topic,
    unclean_by_default,
    log_directory,
    controlled_shutdown,
    drained,
    drained_whole,
    throttled,
    features,
]


async def played(story: Story) -> World:
    world = await cluster(1, 2, policy=Policy())
    for topic in ("t", "u"):
        await with_topic(world, topic, 1, 2)
    await story(world)
    return world


@pytest.mark.parametrize("story", STORIES)
async def test_the_log_of_a_story_is_clean(story: Story) -> None:
    world = await played(story)

    assert list(check(stamped_log(world.audit.records))) == []


@pytest.mark.parametrize("story", STORIES)
async def test_the_log_of_a_story_ends_where_zookeeper_does(story: Story) -> None:
    world = await played(story)
    state = ClusterState()
    for envelope, record in stamped_log(world.audit.records):
        apply(state, envelope, record)

    for topic in ("t", "u"):
        found = state.partition(tp(topic))
        assert found is not None
        assert found.leadership is not None
        leader, leader_epoch, isr, _, partition_epoch, _ = found.leadership
        assert (leader, leader_epoch, list(isr), partition_epoch) == world.state(topic)
