"""The data plane of the simulated brokers: no acknowledged record can be lost, and ISRs follow the followers."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, LeaderAndIsr, TopicPartition
from events.replicas import AlterPartitionReceived
from tests.sim.broker_log import ReplicaLog
from tests.sim.broker_replica import Role, SimReplica
from tests.sim.loop import VirtualLoop, run
from tests.sim.network import Range
from tests.sim.scripted_controller import ScriptedController

Story = Callable[[ScriptedController, TopicPartition], Coroutine[Any, Any, None]]


def on_virtual_time(story: Story, *, lossy: bool = False) -> None:
    """Run a story with one partition, led by 1 and followed by 2 and 3."""

    async def main(loop: VirtualLoop) -> None:
        controller = await ScriptedController(loop).started()
        tp = controller.create("t", [1, 2, 3])
        await controller.send_to_all()
        await asyncio.sleep(1)
        await story(controller, tp)
        assert (controller.cluster.lost_records() != []) is lossy

    run(main, seed=1)


def values(controller: ScriptedController, broker: int) -> list[int]:
    """The values in the log of a broker."""
    return [record.value for record in controller.broker(broker).disk["t", 0].records]


def isr(controller: ScriptedController, tp: TopicPartition) -> list[int]:
    """The ISR, in order of ids."""
    return sorted(controller.states[tp].isr)


def test_a_record_is_acknowledged_once_all_of_the_isr_have_it() -> None:
    async def story(controller: ScriptedController, tp: TopicPartition) -> None:
        controller.broker(3).fetch_s = Range(1.0, 1.0)
        assert controller.cluster.produce(*tp) == 1
        await asyncio.sleep(0.9)
        assert (controller.cluster.acknowledged, values(controller, 2)) == (0, [1])
        await asyncio.sleep(3)
        assert (controller.cluster.acknowledged, values(controller, 3)) == (1, [1])
        assert controller.cluster.diverged() == []

    on_virtual_time(story)


def test_a_follower_that_is_stuck_leaves_the_isr_and_joins_it_again() -> None:
    async def story(controller: ScriptedController, tp: TopicPartition) -> None:
        controller.broker(3).is_stuck = True
        controller.cluster.produce(*tp)
        await asyncio.sleep(1)
        assert controller.cluster.acknowledged == 0
        await asyncio.sleep(10)
        assert (isr(controller, tp), controller.cluster.acknowledged) == ([1, 2], 1)
        controller.broker(3).is_stuck = False
        await asyncio.sleep(5)
        assert (isr(controller, tp), values(controller, 3)) == ([1, 2, 3], [1])

    on_virtual_time(story)


def test_a_dead_follower_leaves_the_isr_and_joins_it_when_it_is_back() -> None:
    async def story(controller: ScriptedController, tp: TopicPartition) -> None:
        controller.broker(3).crash()
        controller.cluster.produce(*tp)
        await asyncio.sleep(10)
        assert isr(controller, tp) == [1, 2]
        controller.broker(3).restart(boot_s=0.1)
        await asyncio.sleep(1)
        await controller.send_to_all()
        await asyncio.sleep(3)
        assert isr(controller, tp) == [1, 2, 3]

    on_virtual_time(story)


def test_an_idle_partition_keeps_its_isr() -> None:
    async def story(controller: ScriptedController, tp: TopicPartition) -> None:
        await asyncio.sleep(60)
        controller.cluster.produce(*tp)
        await asyncio.sleep(10)
        assert controller.asked == []

    on_virtual_time(story)


def test_an_isr_change_is_asked_for_until_it_is_answered() -> None:
    async def story(controller: ScriptedController, tp: TopicPartition) -> None:
        controller.loses_answers, controller.refuses = 2, 1
        controller.broker(3).is_stuck = True
        controller.cluster.produce(*tp)
        await asyncio.sleep(12)
        assert len(controller.asked) == 4
        assert controller.broker(1).life.replicas[tp].isr == (1, 2)
        assert controller.states[tp].partition_epoch == 1

    on_virtual_time(story)


def test_a_change_counts_as_made_for_the_high_watermark_only_where_that_is_safe() -> None:
    async def story(controller: ScriptedController, tp: TopicPartition) -> None:
        controller.refuses = 10**6
        controller.broker(3).is_stuck = True
        controller.cluster.produce(*tp)
        await asyncio.sleep(20)
        assert controller.cluster.acknowledged == 0
        controller.refuses = 0
        await asyncio.sleep(2)
        assert controller.cluster.acknowledged == 1

    on_virtual_time(story)


def test_after_a_fencing_answer_the_leader_waits_for_the_next_leader_epoch() -> None:
    async def story(controller: ScriptedController, tp: TopicPartition) -> None:
        controller.elect(tp, leader=2)  # the old leader gets no request about it
        controller.broker(3).is_stuck = True
        controller.cluster.produce(*tp)
        await asyncio.sleep(30)
        assert len(controller.asked) == 1
        assert controller.broker(1).life.replicas[tp].pending.stuck
        await controller.send_to_all()
        assert controller.broker(1).life.replicas[tp].pending is None

    on_virtual_time(story)


def test_a_refused_member_is_asked_for_again_later() -> None:
    async def story(controller: ScriptedController, tp: TopicPartition) -> None:
        controller.states[tp] = controller.states[tp]._replace(isr=(controller.states[tp].isr[0],), partition_epoch=1)
        controller.elect(tp)
        controller.live = {1, 2}
        await controller.send_to_all()
        await asyncio.sleep(4)
        assert isr(controller, tp) == [1, 2]
        controller.live = None
        await controller.send_to_all()
        await asyncio.sleep(4)
        assert isr(controller, tp) == [1, 2, 3]

    on_virtual_time(story)


def test_changes_without_topic_ids_go_by_name() -> None:
    async def story(controller: ScriptedController, tp: TopicPartition) -> None:
        other = controller.create("u", [1, 2])
        del controller.topic_ids["u"]
        await controller.send_to_all(other)
        controller.broker(2).is_stuck = True
        controller.cluster.produce(*tp)
        controller.cluster.produce(*other)
        await asyncio.sleep(10)
        [asked] = [call for call in controller.asked if isinstance(call, AlterPartitionReceived)]
        assert (asked.version, set(asked.by_name), asked.by_id) == (1, {tp, other}, {})
        assert isr(controller, other) == [1]

    on_virtual_time(story)


def test_a_new_leader_has_what_was_acknowledged_and_followers_drop_the_rest() -> None:
    async def story(controller: ScriptedController, tp: TopicPartition) -> None:
        controller.cluster.produce(*tp)
        await asyncio.sleep(1)
        controller.cluster.separate(1, 2)
        controller.cluster.separate(1, 3)
        controller.cluster.produce(*tp)  # no other broker gets it
        controller.broker(1).crash(expires_after_s=0.1)
        await asyncio.sleep(0.2)
        controller.elect(tp)
        await controller.send_to_all()
        controller.cluster.reunite()
        controller.cluster.produce(*tp)
        controller.broker(1).restart(boot_s=0.1)
        await asyncio.sleep(1)
        await controller.send_to_all()
        await asyncio.sleep(5)
        assert [values(controller, broker) for broker in (1, 2, 3)] == [[1, 3]] * 3
        assert controller.cluster.diverged() == []
        assert isr(controller, tp) == [1, 2, 3]

    on_virtual_time(story)


def test_a_zombie_leader_takes_records_but_acknowledges_none() -> None:
    async def story(controller: ScriptedController, tp: TopicPartition) -> None:
        controller.broker(1).pause()
        await asyncio.sleep(7)
        controller.elect(tp)
        await controller.send_to_all()
        controller.broker(1).resume()
        assert controller.cluster.believed_leaders(*tp) == [1, 2]
        assert controller.cluster.produce(*tp) == 2
        await asyncio.sleep(3)
        acknowledged = [each.leader for each in next(iter(controller.cluster.ledger.acknowledged.values()))]
        assert acknowledged == [2]
        await controller.send_to_all()
        await asyncio.sleep(5)
        assert values(controller, 1) == values(controller, 2) == [2]

    on_virtual_time(story)


def test_with_too_small_an_isr_no_records_are_taken() -> None:
    async def story(controller: ScriptedController, tp: TopicPartition) -> None:
        controller.cluster.min_insync["t"] = 3
        controller.broker(3).is_stuck = True
        assert controller.cluster.produce(*tp) == 1
        await asyncio.sleep(10)
        assert isr(controller, tp) == [1, 2]
        assert controller.cluster.acknowledged == 0
        assert controller.cluster.produce(*tp) == 0

    on_virtual_time(story)


def test_a_replica_that_does_not_lead_takes_no_records() -> None:
    async def story(controller: ScriptedController, tp: TopicPartition) -> None:
        assert controller.broker(2).append(*tp, 99) is KafkaError.NOT_LEADER_OR_FOLLOWER
        assert controller.broker(2).append("unknown", 0, 99) is KafkaError.NOT_LEADER_OR_FOLLOWER

    on_virtual_time(story)


def test_an_election_outside_of_the_isr_loses_records_and_is_found_out() -> None:
    async def story(controller: ScriptedController, tp: TopicPartition) -> None:
        controller.broker(3).is_stuck = True
        controller.cluster.produce(*tp)
        await asyncio.sleep(10)
        controller.elect(tp, leader=3)
        await controller.send_to_all()

    on_virtual_time(story, lossy=True)


def test_an_unclean_election_that_is_allowed_is_reported_apart() -> None:
    async def story(controller: ScriptedController, tp: TopicPartition) -> None:
        controller.cluster.ledger.unclean_allowed.add("t")
        controller.broker(3).is_stuck = True
        controller.cluster.produce(*tp)
        await asyncio.sleep(10)
        controller.elect(tp, leader=3)
        await controller.send_to_all()
        assert len(controller.cluster.records_lost_uncleanly()) == 1

    on_virtual_time(story)


def test_a_replica_that_is_deleted_under_its_leader_is_found_out_at_the_end() -> None:
    async def story(controller: ScriptedController, tp: TopicPartition) -> None:
        controller.cluster.produce(*tp)
        await asyncio.sleep(1)
        await controller.send(1, controller.stop_replica(1, tp, 0, delete=True))

    on_virtual_time(story, lossy=True)


def test_records_of_a_deleted_topic_may_be_lost() -> None:
    async def story(controller: ScriptedController, tp: TopicPartition) -> None:
        controller.cluster.produce(*tp)
        await asyncio.sleep(1)
        for broker in (1, 2, 3):
            await controller.send(broker, controller.stop_replica(broker, tp, -2, delete=True))

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
def test_the_isr_change_of_a_3_0_leader_is_stuck_after_every_refusal(
    release: tuple[int, int], code: KafkaError, waits: bool
) -> None:
    replica = SimReplica(("t", 0), 1, ReplicaLog(None), role=Role.LEADER, isr=(1, 2))
    replica.propose((1,))
    assert replica.pending is not None

    replica.answered(replica.pending, code, release)

    assert replica.is_isr_change_stuck is waits


@pytest.mark.parametrize(
    ("release", "partition_epoch", "waits"),
    [((2, 8), 4, True), ((2, 8), 5, False), ((3, 0), 4, False), ((3, 0), 3, True)],
)
def test_the_isr_change_of_a_2_8_leader_is_stuck_after_a_success_with_its_own_partition_epoch(
    release: tuple[int, int], partition_epoch: int, waits: bool
) -> None:
    replica = SimReplica(("t", 0), 1, ReplicaLog(None), role=Role.LEADER, isr=(1, 2), partition_epoch=4)
    replica.propose((1,))
    assert replica.pending is not None

    replica.answered(replica.pending, LeaderAndIsr(BrokerId(1), -1, (BrokerId(1),), 1, partition_epoch), release)

    assert replica.is_isr_change_stuck is waits
