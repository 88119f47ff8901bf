"""The data plane of the simulated brokers: nothing is acknowledged that could be lost, ISRs follow the followers."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, LeaderAndIsr, TopicPartition
from events.replicas import AlterPartitionReceived
from tests.sim.broker_log import ReplicaLog
from tests.sim.broker_replica import Role, SimReplica
from tests.sim.broker_scribe import Scribe
from tests.sim.loop import VirtualLoop, run
from tests.sim.network import Range

Story = Callable[[Scribe, TopicPartition], Coroutine[Any, Any, None]]


def on_virtual_time(story: Story, *, lossy: bool = False) -> None:
    """Run a story that gets one partition, led by 1 and followed by 2 and 3."""

    async def main(loop: VirtualLoop) -> None:
        scribe = await Scribe(loop).started()
        tp = scribe.create("t", [1, 2, 3])
        await scribe.tell_all()
        await asyncio.sleep(1)
        await story(scribe, tp)
        assert (scribe.cluster.lost_records() != []) is lossy

    run(main, seed=1)


def values(scribe: Scribe, broker: int) -> list[int]:
    """What is in the log of a broker."""
    return [record.value for record in scribe.broker(broker).disk["t", 0].records]


def isr(scribe: Scribe, tp: TopicPartition) -> list[int]:
    """The ISR, in order of ids."""
    return sorted(scribe.states[tp].isr)


def test_a_record_is_acknowledged_once_all_of_the_isr_have_it() -> None:
    async def story(scribe: Scribe, tp: TopicPartition) -> None:
        scribe.broker(3).fetch_s = Range(1.0, 1.0)
        assert scribe.cluster.produce(*tp) == 1
        await asyncio.sleep(0.9)
        assert (scribe.cluster.acknowledged, values(scribe, 2)) == (0, [1])
        await asyncio.sleep(3)
        assert (scribe.cluster.acknowledged, values(scribe, 3)) == (1, [1])
        assert scribe.cluster.diverged() == []

    on_virtual_time(story)


def test_a_follower_that_is_stuck_leaves_the_isr_and_joins_it_again() -> None:
    async def story(scribe: Scribe, tp: TopicPartition) -> None:
        scribe.broker(3).is_stuck = True
        scribe.cluster.produce(*tp)
        await asyncio.sleep(1)
        assert scribe.cluster.acknowledged == 0
        await asyncio.sleep(10)
        assert (isr(scribe, tp), scribe.cluster.acknowledged) == ([1, 2], 1)
        scribe.broker(3).is_stuck = False
        await asyncio.sleep(5)
        assert (isr(scribe, tp), values(scribe, 3)) == ([1, 2, 3], [1])

    on_virtual_time(story)


def test_a_dead_follower_leaves_the_isr_and_joins_it_when_it_is_back() -> None:
    async def story(scribe: Scribe, tp: TopicPartition) -> None:
        scribe.broker(3).crash()
        scribe.cluster.produce(*tp)
        await asyncio.sleep(10)
        assert isr(scribe, tp) == [1, 2]
        scribe.broker(3).restart(boot_s=0.1)
        await asyncio.sleep(1)
        await scribe.tell_all()
        await asyncio.sleep(3)
        assert isr(scribe, tp) == [1, 2, 3]

    on_virtual_time(story)


def test_an_idle_partition_keeps_its_isr() -> None:
    async def story(scribe: Scribe, tp: TopicPartition) -> None:
        await asyncio.sleep(60)
        scribe.cluster.produce(*tp)
        await asyncio.sleep(10)
        assert scribe.asked == []

    on_virtual_time(story)


def test_an_isr_change_is_asked_for_until_it_is_answered() -> None:
    async def story(scribe: Scribe, tp: TopicPartition) -> None:
        scribe.loses_answers, scribe.refuses = 2, 1
        scribe.broker(3).is_stuck = True
        scribe.cluster.produce(*tp)
        await asyncio.sleep(12)
        assert len(scribe.asked) == 4
        assert scribe.broker(1).life.replicas[tp].isr == (1, 2)
        assert scribe.states[tp].partition_epoch == 1

    on_virtual_time(story)


def test_a_change_counts_as_made_for_the_high_watermark_only_where_that_is_safe() -> None:
    async def story(scribe: Scribe, tp: TopicPartition) -> None:
        scribe.refuses = 10**6
        scribe.broker(3).is_stuck = True
        scribe.cluster.produce(*tp)
        await asyncio.sleep(20)
        assert scribe.cluster.acknowledged == 0
        scribe.refuses = 0
        await asyncio.sleep(2)
        assert scribe.cluster.acknowledged == 1

    on_virtual_time(story)


def test_after_a_fencing_answer_the_leader_waits_for_the_next_leader_epoch() -> None:
    async def story(scribe: Scribe, tp: TopicPartition) -> None:
        scribe.elect(tp, leader=2)  # the old leader does not hear of it
        scribe.broker(3).is_stuck = True
        scribe.cluster.produce(*tp)
        await asyncio.sleep(30)
        assert len(scribe.asked) == 1
        assert scribe.broker(1).life.replicas[tp].pending.stuck
        await scribe.tell_all()
        assert scribe.broker(1).life.replicas[tp].pending is None

    on_virtual_time(story)


def test_a_refused_member_is_asked_for_again_later() -> None:
    async def story(scribe: Scribe, tp: TopicPartition) -> None:
        scribe.states[tp] = scribe.states[tp]._replace(isr=(scribe.states[tp].isr[0],), partition_epoch=1)
        scribe.elect(tp)
        scribe.live = {1, 2}
        await scribe.tell_all()
        await asyncio.sleep(4)
        assert isr(scribe, tp) == [1, 2]
        scribe.live = None
        await scribe.tell_all()
        await asyncio.sleep(4)
        assert isr(scribe, tp) == [1, 2, 3]

    on_virtual_time(story)


def test_changes_without_topic_ids_go_by_name() -> None:
    async def story(scribe: Scribe, tp: TopicPartition) -> None:
        other = scribe.create("u", [1, 2])
        del scribe.topic_ids["u"]
        await scribe.tell_all(other)
        scribe.broker(2).is_stuck = True
        scribe.cluster.produce(*tp)
        scribe.cluster.produce(*other)
        await asyncio.sleep(10)
        [asked] = [call for call in scribe.asked if isinstance(call, AlterPartitionReceived)]
        assert (asked.version, set(asked.by_name), asked.by_id) == (1, {tp, other}, {})
        assert isr(scribe, other) == [1]

    on_virtual_time(story)


def test_a_new_leader_has_what_was_acknowledged_and_followers_drop_the_rest() -> None:
    async def story(scribe: Scribe, tp: TopicPartition) -> None:
        scribe.cluster.produce(*tp)
        await asyncio.sleep(1)
        scribe.cluster.separate(1, 2)
        scribe.cluster.separate(1, 3)
        scribe.cluster.produce(*tp)  # only the old leader will have it
        scribe.broker(1).crash(expires_after_s=0.1)
        await asyncio.sleep(0.2)
        scribe.elect(tp)
        await scribe.tell_all()
        scribe.cluster.reunite()
        scribe.cluster.produce(*tp)
        scribe.broker(1).restart(boot_s=0.1)
        await asyncio.sleep(1)
        await scribe.tell_all()
        await asyncio.sleep(5)
        assert [values(scribe, broker) for broker in (1, 2, 3)] == [[1, 3]] * 3
        assert scribe.cluster.diverged() == []
        assert isr(scribe, tp) == [1, 2, 3]

    on_virtual_time(story)


def test_a_zombie_leader_takes_records_but_acknowledges_none() -> None:
    async def story(scribe: Scribe, tp: TopicPartition) -> None:
        scribe.broker(1).pause()
        await asyncio.sleep(7)
        scribe.elect(tp)
        await scribe.tell_all()
        scribe.broker(1).resume()
        assert scribe.cluster.believed_leaders(*tp) == [1, 2]
        assert scribe.cluster.produce(*tp) == 2
        await asyncio.sleep(3)
        acknowledged = [each.leader for each in next(iter(scribe.cluster.ledger.acknowledged.values()))]
        assert acknowledged == [2]
        await scribe.tell_all()
        await asyncio.sleep(5)
        assert values(scribe, 1) == values(scribe, 2) == [2]

    on_virtual_time(story)


def test_under_too_small_an_isr_nothing_is_taken() -> None:
    async def story(scribe: Scribe, tp: TopicPartition) -> None:
        scribe.cluster.min_insync["t"] = 3
        scribe.broker(3).is_stuck = True
        assert scribe.cluster.produce(*tp) == 1
        await asyncio.sleep(10)
        assert isr(scribe, tp) == [1, 2]
        assert scribe.cluster.acknowledged == 0
        assert scribe.cluster.produce(*tp) == 0

    on_virtual_time(story)


def test_who_does_not_lead_takes_nothing() -> None:
    async def story(scribe: Scribe, tp: TopicPartition) -> None:
        assert scribe.broker(2).append(*tp, 99) is KafkaError.NOT_LEADER_OR_FOLLOWER
        assert scribe.broker(2).append("unknown", 0, 99) is KafkaError.NOT_LEADER_OR_FOLLOWER

    on_virtual_time(story)


def test_an_election_outside_of_the_isr_loses_records_and_is_found_out() -> None:
    async def story(scribe: Scribe, tp: TopicPartition) -> None:
        scribe.broker(3).is_stuck = True
        scribe.cluster.produce(*tp)
        await asyncio.sleep(10)
        scribe.elect(tp, leader=3)
        await scribe.tell_all()

    on_virtual_time(story, lossy=True)


def test_an_unclean_election_that_is_allowed_is_reported_apart() -> None:
    async def story(scribe: Scribe, tp: TopicPartition) -> None:
        scribe.cluster.ledger.unclean_allowed.add("t")
        scribe.broker(3).is_stuck = True
        scribe.cluster.produce(*tp)
        await asyncio.sleep(10)
        scribe.elect(tp, leader=3)
        await scribe.tell_all()
        assert len(scribe.cluster.records_lost_uncleanly()) == 1

    on_virtual_time(story)


def test_a_replica_that_is_deleted_under_its_leader_is_found_out_at_the_end() -> None:
    async def story(scribe: Scribe, tp: TopicPartition) -> None:
        scribe.cluster.produce(*tp)
        await asyncio.sleep(1)
        await scribe.send(1, scribe.stop_replica(1, tp, 0, delete=True))

    on_virtual_time(story, lossy=True)


def test_a_deleted_topic_promises_nothing() -> None:
    async def story(scribe: Scribe, tp: TopicPartition) -> None:
        scribe.cluster.produce(*tp)
        await asyncio.sleep(1)
        for broker in (1, 2, 3):
            await scribe.send(broker, scribe.stop_replica(broker, tp, -2, delete=True))

    on_virtual_time(story)


@pytest.mark.parametrize(
    ("release", "code", "waits"),
    [
        ((3, 0), KafkaError.UNKNOWN_SERVER_ERROR, True),
        ((3, 0), KafkaError.OPERATION_NOT_ATTEMPTED, True),
        ((3, 0), KafkaError.INVALID_REQUEST, True),
        ((3, 0), KafkaError.INVALID_UPDATE_VERSION, True),
        ((3, 3), KafkaError.UNKNOWN_SERVER_ERROR, False),
        ((3, 3), KafkaError.OPERATION_NOT_ATTEMPTED, False),
    ],
)
def test_a_leader_of_3_0_waits_in_vain_after_every_refusal(
    release: tuple[int, int], code: KafkaError, waits: bool
) -> None:
    replica = SimReplica(("t", 0), 1, ReplicaLog(None), role=Role.LEADER, isr=(1, 2))
    replica.propose((1,))
    assert replica.pending is not None

    replica.answered(replica.pending, code, release)

    assert replica.waits_in_vain is waits


@pytest.mark.parametrize(
    ("release", "partition_epoch", "waits"),
    [((2, 8), 4, True), ((2, 8), 5, False), ((3, 0), 4, False), ((3, 0), 3, True)],
)
def test_a_leader_of_2_8_waits_in_vain_after_a_success_with_the_partition_epoch_that_it_has(
    release: tuple[int, int], partition_epoch: int, waits: bool
) -> None:
    replica = SimReplica(("t", 0), 1, ReplicaLog(None), role=Role.LEADER, isr=(1, 2), partition_epoch=4)
    replica.propose((1,))
    assert replica.pending is not None

    replica.answered(replica.pending, LeaderAndIsr(BrokerId(1), -1, (BrokerId(1),), 1, partition_epoch), release)

    assert replica.waits_in_vain is waits
