"""The controller retries a write of a reassignment that ZooKeeper refused, because no event reports the end of a cause.

In these tests, the cause is a znode that is read-only.
"""

from structlog.testing import capture_logs

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import TopicPartition
from controllerd.machines.reassignment.dependencies import FIRST_RETRY_S
from controllerd.record.records import AlarmRecord, RefusedRecord
from events.cluster import Expire, RegisterBrokerAndReelect
from events.reassignments import ReassignmentRetry, ZkPartitionReassignment
from tests.fakes.reassigning import (
    REASSIGN,
    ask_by_znode,
    assigned,
    change_isr,
    deleted_on,
    deletions_answered,
    pending_deletions_of,
    reassign,
    requested,
)
from tests.fakes.world import World, tp

TOPIC = "/brokers/topics/t"
STATE = f"{TOPIC}/partitions/0/state"


async def with_topic(world: World, *replicas: int, partitions: int = 1) -> World:
    world.put_topic("t", dict.fromkeys(range(partitions), replicas))
    await world.settle()
    world.forget()
    return world


def pause(world: World) -> float | None:
    """Seconds until the next retry; None without one."""
    return next((delay_s for delay_s, event in world.timers.later if event == ReassignmentRetry()), None)


async def time_passes(world: World) -> None:
    """Let the timer of the next retry fire, and handle the retry."""
    assert ReassignmentRetry() in world.timers.fire()
    world.queue.put(ReassignmentRetry())
    await world.settle()


async def caught_up_but_refused(world: World, partitions: int = 1) -> World:
    """Partitions move from [1] to [2], which is in sync, and the topic znode cannot be written."""
    await with_topic(world, 1, partitions=partitions)
    await reassign(world, {tp("t", partition): [2] for partition in range(partitions)})
    world.zk.read_only.add(TOPIC)
    await change_isr(world, "t", 1, 2, partitions=range(partitions))
    return world


# -- topic znodes ------------------------------------------------------------------------------------------------------


async def test_the_end_of_a_reassignment_that_a_topic_znode_refuses_is_tried_again(world: World) -> None:
    await caught_up_but_refused(world)
    assert assigned(world, "t") == ([2, 1], [2], [1])
    assert pause(world) == FIRST_RETRY_S

    world.zk.read_only.clear()
    await time_passes(world)

    assert assigned(world, "t") == ([2], [], [])
    assert world.state("t")[0] == 2
    assert pause(world) is None


async def test_a_retry_repeats_no_replica_transition_that_is_done(world: World) -> None:
    await caught_up_but_refused(world)
    await deletions_answered(world)
    world.forget()

    world.zk.read_only.clear()
    await time_passes(world)

    assert world.audit.of(RefusedRecord) == []
    await deletions_answered(world)
    assert pending_deletions_of(world, 1) == []


async def test_retries_become_less_and_less_frequent(world: World) -> None:
    await caught_up_but_refused(world)

    pauses = []
    for _ in range(7):
        pauses.append(pause(world))
        await time_passes(world)

    assert pauses == [30.0, 60.0, 120.0, 240.0, 480.0, 600.0, 600.0]


async def test_retries_end_with_the_term(world: World) -> None:
    await caught_up_but_refused(world)
    await time_passes(world)

    world.queue.clear_and_put(Expire(1))
    await world.settle()
    assert pause(world) is None

    world.forget()
    world.queue.put(ReassignmentRetry())
    await world.settle()
    assert world.zk.transactions == []
    assert world.channels.sent == []
    assert pause(world) is None


async def test_the_next_term_resumes_and_starts_with_the_first_retry_delay(world: World) -> None:
    await caught_up_but_refused(world)
    await time_passes(world)
    world.zk.expire()
    world.queue.clear_and_put(Expire(1))
    await world.settle()
    world.zk.reconnect_as(9)
    world.queue.put(RegisterBrokerAndReelect())
    await world.settle()

    assert world.c.is_active
    assert pause(world) == FIRST_RETRY_S


async def test_a_topic_whose_deletion_has_begun_meanwhile_is_left_alone(world: World) -> None:
    await caught_up_but_refused(world)
    world.context.deletions.queue("t")
    world.context.deletions.begin("t")
    world.zk.read_only.clear()
    world.forget()

    await time_passes(world)

    assert assigned(world, "t") == ([2, 1], [2], [1])
    assert pause(world) is None


async def test_a_failure_of_the_old_replica_in_the_meantime_changes_nothing(world: World) -> None:
    await caught_up_but_refused(world)
    world.die(1)
    await world.settle()
    world.zk.read_only.clear()

    await time_passes(world)

    assert assigned(world, "t") == ([2], [], [])
    assert pending_deletions_of(world, 1) == ["t-0"]


async def test_the_reassignment_waits_for_a_new_replica_that_fails_in_the_meantime(world: World) -> None:
    await caught_up_but_refused(world)
    world.die(2)
    await world.settle()
    world.zk.read_only.clear()

    await time_passes(world)

    assert assigned(world, "t") == ([2, 1], [2], [1])
    assert pause(world) is None
    world.register(2)
    await world.settle()
    assert assigned(world, "t") == ([2], [], [])


async def lines_of(partitions: int) -> int:
    """Lines of the log from the refusal to the end."""
    world = World()
    for broker in (1, 2, 3):
        world.register(broker)
    with capture_logs() as lines:
        await caught_up_but_refused(await world.start(), partitions)
        world.zk.read_only.clear()
        await time_passes(world)
    assert assigned(world, "t", partitions - 1) == ([2], [], [])
    return len(lines)


async def test_a_thousand_partitions_log_as_many_lines_as_ten() -> None:
    assert await lines_of(1_000) == await lines_of(10)


# -- the request by znode ----------------------------------------------------------------------------------------------


async def test_an_entry_that_could_not_be_removed_is_removed_later(world: World) -> None:
    await with_topic(world, 1)
    await ask_by_znode(world, {tp("t"): [2]})
    world.zk.read_only.add(REASSIGN)
    await change_isr(world, "t", 1, 2)
    assert assigned(world, "t") == ([2], [], [])
    assert requested(world) == {"t-0": [2]}

    await time_passes(world)
    assert [record.what for record in world.audit.of(AlarmRecord)] == ["reassignment request was not rewritten"] * 2
    assert pause(world) == 2 * FIRST_RETRY_S

    world.zk.read_only.clear()
    await time_passes(world)
    assert requested(world) is None
    assert pause(world) is None


async def test_an_entry_that_a_request_replaced_is_not_served_again_though_it_is_still_there(world: World) -> None:
    await with_topic(world, 1)
    await ask_by_znode(world, {tp("t"): [2]})
    world.zk.read_only.add(REASSIGN)
    assert await reassign(world, {tp("t"): [3]}) == {tp("t"): KafkaError.NONE}

    world.queue.put(ZkPartitionReassignment())
    await world.settle()
    assert assigned(world, "t") == ([3, 1], [3], [1])

    world.zk.read_only.clear()
    await time_passes(world)
    assert requested(world) is None
    assert assigned(world, "t") == ([3, 1], [3], [1])


async def test_the_removal_of_an_entry_that_an_operator_removed_is_not_retried(world: World) -> None:
    await with_topic(world, 1)
    await ask_by_znode(world, {tp("t"): [2]})
    world.zk.read_only.add(REASSIGN)
    await change_isr(world, "t", 1, 2)
    world.tree.remove(REASSIGN)

    await time_passes(world)

    assert pause(world) is None


# -- partition states --------------------------------------------------------------------------------------------------


async def test_a_leader_epoch_that_could_not_rise_for_new_replicas_rises_later(world: World) -> None:
    await with_topic(world, 1)
    world.zk.read_only.add(STATE)
    await reassign(world, {tp("t"): [2]})
    assert world.state("t")[1] == 0

    world.zk.read_only.clear()
    await time_passes(world)

    assert world.state("t")[:3] == (1, 1, [1])
    assert "LeaderAndIsr(t-0 1/1 [1])" in world.brief(1)
    assert pause(world) is None


async def test_an_old_replica_is_stopped_only_after_the_leader_epoch_could_rise(world: World) -> None:
    await with_topic(world, 1, 2)
    await reassign(world, {tp("t"): [1, 3]})
    await _in_sync_and_state_refused(world)
    assert not any(text.startswith("StopReplica") for text in world.brief(2))
    assert pending_deletions_of(world, 2) == []

    world.zk.read_only.clear()
    await time_passes(world)

    assert assigned(world, "t") == ([1, 3], [], [])
    assert world.state("t")[2] == [1, 3]
    assert set(deleted_on(world, 2)) == {"t-0"}


async def _in_sync_and_state_refused(world: World) -> None:
    """The ISR grows, and the state cannot be written from then on."""
    world.zk.after_transaction[len(world.zk.transactions) + 1] = lambda: world.zk.read_only.add(STATE)
    await change_isr(world, "t", 1, 2, 3)


async def test_a_dropped_replica_that_could_not_leave_the_isr_leaves_it_later_and_is_deleted(world: World) -> None:
    await with_topic(world, 1, 2)
    await reassign(world, {tp("t"): [2, 3]})
    epoch = world.state("t")[1]
    world.zk.read_only.add(TOPIC)
    await change_isr(world, "t", 1, 2, 3)
    world.zk.read_only.clear()
    world.zk.read_only.add(STATE)
    world.forget()
    assert epoch < world.state("t")[1]

    await reassign(world, {tp("t"): [1, 2]})
    assert 3 in world.state("t")[2]
    assert deleted_on(world, 3) == []

    world.zk.read_only.clear()
    await time_passes(world)
    assert 3 not in world.state("t")[2]
    assert deleted_on(world, 3) == ["t-0"]
    assert pause(world) is None


async def test_a_reassignment_whose_state_is_in_quarantine_is_not_retried_by_the_timer(
    world: World,
) -> None:
    await with_topic(world, 1)
    world.context.put_in_quarantine(TopicPartition("t", 0).state_path, "not JSON")

    await reassign(world, {tp("t"): [2]})

    assert pause(world) is None
