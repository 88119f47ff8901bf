"""Somebody else wrote a znode: the leader's next wish is refused, and it waits for a newer leader epoch.

A broker gives a change of the ISR up for good on INVALID_UPDATE_VERSION, and ignores a LeaderAndIsr of the leader epoch
that it has. So whoever answers that owes it an election.
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
    """Another instance leads, and has loaded everything."""
    successor = World(tree=world.tree, session_id=2, node_id=world.c.node_id + 1)
    world.zk.expire()
    await successor.start()
    return successor


async def test_a_wish_that_is_refused_because_we_know_a_newer_version_is_followed_by_an_election(world: World) -> None:
    """The state was touched while nobody led, so it was loaded with a version that its leader has never heard of."""
    await with_isr_of_two(world)
    path = paths.partition_state(tp("t"))
    world.tree.put(path, world.tree.nodes[path].data)
    successor = await succeeded(world)
    before = successor.state("t")[1]

    reply = await successor.call(ask(successor, (2, 3, 1)))

    assert reply.partitions == {tp("t"): KafkaError.INVALID_UPDATE_VERSION}
    assert successor.state("t")[1] > before, "the leader waits for ever: no newer leader epoch will come"


@pytest.mark.parametrize("asks_before_it_is_mended", [True, False])
async def test_a_state_that_was_mended_comes_back_with_a_newer_leader_epoch(
    world: World, asks_before_it_is_mended: bool
) -> None:
    """Broken: the leader is refused, and nobody can be elected. Mended: the leader still waits."""
    await with_isr_of_two(world)
    path = paths.partition_state(tp("t"))
    sound = world.tree.nodes[path].data
    world.tree.put(path, b"not json")
    reply = await world.call(ask(world, (2, 3, 1)))
    assert reply.partitions == {tp("t"): KafkaError.UNKNOWN_SERVER_ERROR}
    if asks_before_it_is_mended:
        await world.call(ask(world, (2, 3, 1)))
    world.tree.put(path, sound)
    before = world.state("t")[1]

    world.queue.put(QuarantineCheck())
    await world.settle()

    assert world.context.quarantine == {}
    assert world.state("t")[1] > before, "the leader waits for ever: no newer leader epoch will come"


async def test_a_leader_is_told_to_ask_again_while_its_state_is_in_quarantine(world: World) -> None:
    """Loaded in quarantine, the partition is as good as unknown; but a leader that hears so gives up for good."""
    await with_isr_of_two(world)
    path = paths.partition_state(tp("t"))
    world.tree.put(path, b"not json")
    successor = await succeeded(world)

    reply = await successor.call(ask(successor, (2, 3, 1)))

    assert reply.partitions == {tp("t"): KafkaError.UNKNOWN_SERVER_ERROR}


async def test_a_leader_is_told_to_ask_again_while_any_topic_is_in_quarantine_that_may_be_its_own(world: World) -> None:
    """Nobody knows the id of a topic that cannot be read, and UNKNOWN_TOPIC_ID would be final."""
    await with_isr_of_two(world)
    world.tree.put("/brokers/topics/t", b"not json")
    successor = await succeeded(world)

    reply = await successor.call(ask(successor, (2, 3, 1)))

    assert (reply.unknown_ids, reply.unknown_error) == ({topic_id_of("t"): (0,)}, KafkaError.UNKNOWN_SERVER_ERROR)


async def test_a_leader_that_names_a_topic_in_quarantine_is_to_ask_again(world: World) -> None:
    """Version 1 is that of 3.2, and 3.2.0 asks again for a partition that is missing in the answer alone."""
    await with_isr_of_two(world)
    world.tree.put("/brokers/topics/t", b"not json")
    successor = await succeeded(world)

    reply = await successor.call(ask(successor, (2, 3, 1), version=1))

    assert (reply.error, reply.partitions) == (KafkaError.NONE, {})


async def test_a_leader_is_told_to_ask_again_while_its_assignment_is_in_quarantine(world: World) -> None:
    await with_isr_of_two(world)
    world.put_topic("t", {0: [2, 2, 3]})
    successor = await succeeded(world)

    reply = await successor.call(ask(successor, (2, 3, 1)))

    assert reply.partitions == {tp("t"): KafkaError.UNKNOWN_SERVER_ERROR}


async def test_an_id_is_unknown_for_good_when_every_topic_can_be_read(world: World) -> None:
    """A topic that was read before it broke is known, whatever its znode has now."""
    await with_isr_of_two(world)
    world.put_topic("broken", {0: [1]})
    await world.settle()
    world.tree.put("/brokers/topics/broken", b"not json")
    await world.settle()
    stranger = replace(ask(world, (2, 3)), by_id={(topic_id_of("nobody knows"), 0): ProposedIsr(0, 0, ids(2))})

    reply = await world.call(stranger)

    assert "/brokers/topics/broken" in world.context.quarantine
    assert reply.unknown_error is KafkaError.UNKNOWN_TOPIC_ID


async def with_a_stranger(world: World) -> World:
    """A fourth broker is live and has no replica."""
    await with_isr_of_two(world)
    world.register(4)
    return await world.settle()


async def test_a_leader_that_counts_on_a_replica_of_a_cancelled_reassignment_hears_who_has_replicas(
    world: World,
) -> None:
    """An earlier term may have ended between the topic znode and the newer leader epoch that was to tell its leader."""
    successor = await succeeded(await with_a_stranger(world))
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
async def test_a_leader_that_was_granted_a_change_still_hears_that_a_reassignment_was_cancelled(
    world: World, release: Release, version: int, answer: KafkaError
) -> None:
    """What this term wrote for it has told it no assignment: the leader epoch is that of the earlier term."""
    successor = await succeeded(await with_a_stranger(world))
    successor.context.releases[BrokerId(2)] = release
    await successor.call(ask(successor, (2, 3, 1), version=version))
    _, before, isr, partition_epoch = successor.state("t")

    reply = await successor.call(ask(successor, (2, 3, 1, 4), version=version, partition_epoch=partition_epoch))

    assert (isr, reply.partitions) == ([2, 3, 1], {tp("t"): answer})
    assert successor.state("t")[1:3] == (before + 1, isr), "the leader waits for ever"


@pytest.mark.parametrize("release", [Release(2, 7), Release(2, 8)], ids=str)
async def test_a_leader_whose_state_was_written_once_more_still_hears_that_a_reassignment_was_cancelled(
    world: World, release: Release
) -> None:
    """It was refused a member that shuts down, and got the committed ISR with a newer partition epoch."""
    successor = await succeeded(await with_a_stranger(world))
    successor.context.releases[BrokerId(2)] = release
    successor.context.mark_shutting_down(BrokerId(1))
    await successor.call(ask(successor, (2, 3, 1), version=0))
    _, before, isr, partition_epoch = successor.state("t")

    reply = await successor.call(ask(successor, (2, 3, 4), version=0, partition_epoch=partition_epoch))

    assert (partition_epoch, reply.partitions) == (2, {tp("t"): KafkaError.INVALID_UPDATE_VERSION})
    assert successor.state("t")[:3] == (2, before + 1, isr), "the leader waits for ever"


async def test_a_leader_gets_one_newer_leader_epoch_in_a_term_by_naming_a_stranger(world: World) -> None:
    successor = await succeeded(await with_a_stranger(world))
    await successor.call(ask(successor, (2, 3, 4)))
    _, leader_epoch, _, partition_epoch = told = successor.state("t")

    await successor.call(ask(successor, (2, 3, 4), leader_epoch=leader_epoch, partition_epoch=partition_epoch))

    assert successor.state("t") == told


async def test_a_leader_that_we_told_who_has_replicas_gets_no_newer_leader_epoch_by_naming_a_stranger(
    world: World,
) -> None:
    await with_a_stranger(world)

    reply = await world.call(ask(world, (2, 3, 4)))

    assert reply.partitions == {tp("t"): KafkaError.INVALID_REQUEST}
    assert world.state("t") == (2, 1, [2, 3], 1)


async def test_who_does_not_lead_gets_no_newer_leader_epoch_by_naming_a_stranger(world: World) -> None:
    successor = await succeeded(await with_a_stranger(world))

    await successor.call(ask(successor, (2, 3, 4), by=3))

    assert successor.state("t") == (2, 1, [2, 3], 1)


# -- leaders of releases that take most refusals for the end (docs/deviations.md) --------------------------------------


@pytest.mark.parametrize("release", [Release(2, 7), Release(2, 8), Release(3, 0), Release(3, 1), None], ids=str)
async def test_an_old_leader_is_left_without_an_answer_while_its_state_is_in_quarantine(
    world: World, release: Release | None
) -> None:
    """With any error code the leader would keep the change pending for good; a missing partition it sends again."""
    await with_isr_of_two(world)
    if release is not None:
        world.context.releases[BrokerId(2)] = release
    world.tree.put(paths.partition_state(tp("t")), b"not json")

    reply = await world.call(ask(world, (2, 3, 1), version=0))

    assert (reply.error, reply.partitions) == (KafkaError.NONE, {})


async def test_an_old_leader_that_wants_a_dead_member_gets_the_committed_isr_back(world: World) -> None:
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
    """2.7.0, 2.7.1 and 2.8.0 ignore an answer with an equal one, and the member that is gone stays in their ISR."""
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
    """An answer is lost. The leader repeats what it asked for, and no newer leader epoch is on its way."""
    await with_isr_of_two(world)
    world.context.releases[BrokerId(2)] = Release(2, 8)
    world.die(1)
    await world.settle()
    wish = ask(world, (2, 3, 1), version=0)
    answered = await world.call(wish)
    if is_back:
        world.register(1)
        await world.settle()

    again = await world.call(wish)

    assert again.partitions == answered.partitions


async def test_an_old_leader_that_asks_for_nonsense_gets_a_code_that_it_knows(world: World) -> None:
    await with_isr_of_two(world)

    reply = await world.call(ask(world, (3,), version=0))

    assert reply.partitions == {tp("t"): KafkaError.INVALID_UPDATE_VERSION}
