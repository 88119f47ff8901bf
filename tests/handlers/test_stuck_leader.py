"""Another client wrote a state znode: the leader's next AlterPartition is refused, and it waits for a new leader epoch.

A broker gives up a change of the ISR for good on INVALID_UPDATE_VERSION, and ignores a LeaderAndIsr with a leader epoch
that it has. So a controller that answers INVALID_UPDATE_VERSION must elect a leader with a newer leader epoch.
"""

from dataclasses import replace

import pytest

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, LeaderAndIsr
from controllerd.core.releases import Release
from controllerd.zk import paths
from events.cluster import QuarantineCheck
from events.replicas import ProposedIsr
from tests.fakes.world import World, ids, topic_id_of, tp
from tests.handlers.test_isr_change import ask, with_isr_of_two


async def succeeded(world: World) -> World:
    """Another instance becomes the active controller and loads the cluster."""
    successor = World(tree=world.tree, session_id=2, node_id=world.c.node_id + 1)
    world.zk.expire()
    await successor.start()
    return successor


async def test_an_isr_change_that_is_refused_for_a_newer_partition_epoch_is_followed_by_an_election(
    world: World,
) -> None:
    """The state was written without an active controller, so it was loaded with a version that its leader never got."""
    await with_isr_of_two(world)
    path = paths.partition_state(tp("t"))
    world.tree.put(path, world.tree.nodes[path].data)
    successor = await succeeded(world)
    before = successor.state("t")[1]

    reply = await successor.call(ask(successor, (2, 3, 1)))

    assert reply.partitions == {tp("t"): KafkaError.INVALID_UPDATE_VERSION}
    assert successor.state("t")[1] > before, "the leader waits for ever: no newer leader epoch will come"


@pytest.mark.parametrize("asks_before_the_repair", [True, False])
async def test_a_state_that_was_repaired_gets_a_newer_leader_epoch(world: World, asks_before_the_repair: bool) -> None:
    """While the state is broken, the leader is refused and no leader is electable. After the repair it still waits."""
    await with_isr_of_two(world)
    path = paths.partition_state(tp("t"))
    sound = world.tree.nodes[path].data
    world.tree.put(path, b"not json")
    reply = await world.call(ask(world, (2, 3, 1)))
    assert reply.partitions == {tp("t"): KafkaError.UNKNOWN_SERVER_ERROR}
    if asks_before_the_repair:
        await world.call(ask(world, (2, 3, 1)))
    world.tree.put(path, sound)
    before = world.state("t")[1]

    world.queue.put(QuarantineCheck())
    await world.settle()

    assert world.context.quarantine == {}
    assert world.state("t")[1] > before, "the leader waits for ever: no newer leader epoch will come"


async def test_a_leader_gets_a_retriable_error_while_its_state_is_in_quarantine(world: World) -> None:
    """The partition is as good as unknown, but a leader gives up for good on UNKNOWN_TOPIC_OR_PARTITION."""
    await with_isr_of_two(world)
    path = paths.partition_state(tp("t"))
    world.tree.put(path, b"not json")
    successor = await succeeded(world)

    reply = await successor.call(ask(successor, (2, 3, 1)))

    assert reply.partitions == {tp("t"): KafkaError.UNKNOWN_SERVER_ERROR}


async def test_a_leader_gets_a_retriable_error_while_a_topic_in_quarantine_may_be_its_own(world: World) -> None:
    """The id of an unreadable topic is unknown, and the leader takes UNKNOWN_TOPIC_ID as final."""
    await with_isr_of_two(world)
    world.tree.put("/brokers/topics/t", b"not json")
    successor = await succeeded(world)

    reply = await successor.call(ask(successor, (2, 3, 1)))

    assert (reply.unknown_ids, reply.unknown_error) == ({topic_id_of("t"): (0,)}, KafkaError.UNKNOWN_SERVER_ERROR)


async def test_a_leader_that_names_a_topic_in_quarantine_gets_no_answer_for_it(world: World) -> None:
    """Kafka 3.2 sends version 1, and 3.2.0 repeats its request only for a partition that the answer lacks."""
    await with_isr_of_two(world)
    world.tree.put("/brokers/topics/t", b"not json")
    successor = await succeeded(world)

    reply = await successor.call(ask(successor, (2, 3, 1), version=1))

    assert (reply.error, reply.partitions) == (KafkaError.NONE, {})


async def test_a_leader_gets_a_retriable_error_while_its_assignment_is_in_quarantine(world: World) -> None:
    await with_isr_of_two(world)
    world.put_topic("t", {0: [2, 2, 3]})
    successor = await succeeded(world)

    reply = await successor.call(ask(successor, (2, 3, 1)))

    assert reply.partitions == {tp("t"): KafkaError.UNKNOWN_SERVER_ERROR}


async def test_an_unknown_topic_id_is_final_when_every_topic_is_known(world: World) -> None:
    """A topic that was read before it broke is known, whatever its znode has now."""
    await with_isr_of_two(world)
    world.put_topic("broken", {0: [1]})
    await world.settle()
    world.tree.put("/brokers/topics/broken", b"not json")
    await world.settle()
    unknown = replace(ask(world, (2, 3)), by_id={(topic_id_of("unknown topic"), 0): ProposedIsr(0, 0, ids(2))})

    reply = await world.call(unknown)

    assert "/brokers/topics/broken" in world.context.quarantine
    assert reply.unknown_error is KafkaError.UNKNOWN_TOPIC_ID


async def with_an_unassigned_broker(world: World) -> World:
    """A fourth broker is live and has no replica."""
    await with_isr_of_two(world)
    world.register(4)
    return await world.settle()


async def test_a_leader_that_proposes_a_replica_of_a_cancelled_reassignment_is_sent_its_replicas(
    world: World,
) -> None:
    """An earlier term may have ended between the writes of the topic znode and of the newer leader epoch."""
    successor = await succeeded(await with_an_unassigned_broker(world))
    _, before, isr, _ = successor.state("t")

    reply = await successor.call(ask(successor, (2, 3, 4)))

    assert reply.partitions == {tp("t"): KafkaError.INVALID_REQUEST}
    assert successor.state("t")[:3] == (2, before + 1, isr)
    assert f"LeaderAndIsr(t-0 2/{before + 1} [2, 3])" in successor.brief(2)


@pytest.mark.parametrize(
    ("release", "version", "answer"),
    [
        (Release(2, 8), 0, KafkaError.INVALID_UPDATE_VERSION),
        (Release(3, 0), 0, KafkaError.INVALID_UPDATE_VERSION),
        (Release(3, 9), 3, KafkaError.INVALID_REQUEST),
    ],
    ids=str,
)
async def test_a_leader_with_an_accepted_isr_change_is_still_sent_a_cancelled_reassignment(
    world: World, release: Release, version: int, answer: KafkaError
) -> None:
    """The write of this term sent it no assignment: the leader epoch is still the one of the earlier term."""
    successor = await succeeded(await with_an_unassigned_broker(world))
    successor.context.releases[BrokerId(2)] = release
    await successor.call(ask(successor, (2, 3, 1), version=version))
    _, before, isr, partition_epoch = successor.state("t")

    reply = await successor.call(ask(successor, (2, 3, 1, 4), version=version, partition_epoch=partition_epoch))

    assert (isr, reply.partitions) == ([2, 3, 1], {tp("t"): answer})
    assert successor.state("t")[1:3] == (before + 1, isr), "the leader waits for ever"


@pytest.mark.parametrize("release", [Release(2, 7), Release(2, 8)], ids=str)
async def test_a_leader_with_a_refused_isr_change_is_still_sent_a_cancelled_reassignment(
    world: World, release: Release
) -> None:
    """The leader proposed a broker that shuts down, and got the committed ISR with a newer partition epoch."""
    successor = await succeeded(await with_an_unassigned_broker(world))
    successor.context.releases[BrokerId(2)] = release
    successor.context.mark_shutting_down(BrokerId(1))
    await successor.call(ask(successor, (2, 3, 1), version=0))
    _, before, isr, partition_epoch = successor.state("t")

    reply = await successor.call(ask(successor, (2, 3, 4), version=0, partition_epoch=partition_epoch))

    assert (partition_epoch, reply.partitions) == (2, {tp("t"): KafkaError.INVALID_UPDATE_VERSION})
    assert successor.state("t")[:3] == (2, before + 1, isr), "the leader waits for ever"


async def test_a_leader_gets_only_one_newer_leader_epoch_per_term_by_naming_an_unassigned_broker(world: World) -> None:
    successor = await succeeded(await with_an_unassigned_broker(world))
    await successor.call(ask(successor, (2, 3, 4)))
    _, leader_epoch, _, partition_epoch = sent = successor.state("t")

    await successor.call(ask(successor, (2, 3, 4), leader_epoch=leader_epoch, partition_epoch=partition_epoch))

    assert successor.state("t") == sent


async def test_a_leader_that_knows_its_replicas_gets_no_newer_leader_epoch_by_naming_an_unassigned_broker(
    world: World,
) -> None:
    await with_an_unassigned_broker(world)

    reply = await world.call(ask(world, (2, 3, 4)))

    assert reply.partitions == {tp("t"): KafkaError.INVALID_REQUEST}
    assert world.state("t") == (2, 1, [2, 3], 1)


async def test_a_follower_gets_no_newer_leader_epoch_by_naming_an_unassigned_broker(world: World) -> None:
    successor = await succeeded(await with_an_unassigned_broker(world))

    await successor.call(ask(successor, (2, 3, 4), by=3))

    assert successor.state("t") == (2, 1, [2, 3], 1)


# -- leaders of releases that take most error codes as final (docs/deviations.md) --------------------------------------


@pytest.mark.parametrize("release", [Release(2, 7), Release(2, 8), Release(3, 0), Release(3, 1), None], ids=str)
async def test_an_old_leader_gets_no_answer_while_its_state_is_in_quarantine(
    world: World, release: Release | None
) -> None:
    """With any error code the leader would keep the change pending for good; a missing partition it sends again."""
    await with_isr_of_two(world)
    if release is not None:
        world.context.releases[BrokerId(2)] = release
    world.tree.put(paths.partition_state(tp("t")), b"not json")

    reply = await world.call(ask(world, (2, 3, 1), version=0))

    assert (reply.error, reply.partitions) == (KafkaError.NONE, {})


async def test_an_old_leader_that_proposes_a_dead_member_gets_the_committed_isr_back(world: World) -> None:
    await with_isr_of_two(world)
    world.context.releases[BrokerId(2)] = Release(3, 0)
    world.die(1)
    await world.settle()
    writes = len(world.zk.writes)

    reply = await world.call(ask(world, (2, 3, 1), version=0))

    assert reply.partitions == {tp("t"): LeaderAndIsr(BrokerId(2), 1, ids(2, 3), 1, 1)}
    assert len(world.zk.writes) == writes


@pytest.mark.parametrize("release", [Release(2, 7), Release(2, 8), None], ids=str)
async def test_a_leader_older_than_3_0_gets_the_committed_isr_back_with_a_newer_partition_epoch(
    world: World, release: Release | None
) -> None:
    """2.7.0, 2.7.1 and 2.8.0 ignore an answer with an equal partition epoch, and keep the dead member in their ISR."""
    await with_isr_of_two(world)
    if release is not None:
        world.context.releases[BrokerId(2)] = release
    world.die(1)
    await world.settle()
    leader, leader_epoch, isr, partition_epoch = world.state("t")

    reply = await world.call(ask(world, (2, 3, 1), version=0))

    assert reply.partitions == {tp("t"): LeaderAndIsr(BrokerId(2), leader_epoch, ids(2, 3), 1, partition_epoch + 1)}
    assert world.state("t") == (leader, leader_epoch, isr, partition_epoch + 1)


@pytest.mark.parametrize("is_back", [False, True])
async def test_a_leader_older_than_3_0_that_missed_the_newer_partition_epoch_gets_it_when_it_asks_again(
    world: World, is_back: bool
) -> None:
    """An answer is lost. The leader repeats its request, and no newer leader epoch follows."""
    await with_isr_of_two(world)
    world.context.releases[BrokerId(2)] = Release(2, 8)
    world.die(1)
    await world.settle()
    request = ask(world, (2, 3, 1), version=0)
    answered = await world.call(request)
    if is_back:
        world.register(1)
        await world.settle()

    again = await world.call(request)

    assert again.partitions == answered.partitions


async def test_an_old_leader_with_an_invalid_proposal_gets_an_error_code_that_it_knows(world: World) -> None:
    await with_isr_of_two(world)

    reply = await world.call(ask(world, (3,), version=0))

    assert reply.partitions == {tp("t"): KafkaError.INVALID_UPDATE_VERSION}
