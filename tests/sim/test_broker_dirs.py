"""A simulated broker loses log directories, refuses deletions and hosts moved replicas as a 3.9 broker does."""

import asyncio
import json

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, ReplicaAssignment, TopicPartition
from controllerd.core.requests import ControlResponse, LeaderAndIsrPartition, LeaderAndIsrRequest
from tests.sim.broker_dirs import NOTIFICATIONS
from tests.sim.scripted_controller import CONTROLLER_ID, ScriptedController
from tests.sim.test_broker import on_virtual_time, role


def two_dirs(controller: ScriptedController, broker: int) -> None:
    controller.broker(broker).dirs.count = 2


async def send_leader_and_isr(
    controller: ScriptedController, broker: int, tp: TopicPartition, *, is_new: bool
) -> ControlResponse:
    """Send LeaderAndIsr for one replica."""
    row = LeaderAndIsrPartition(controller.states[tp], ReplicaAssignment(controller.assignments[tp]), is_new=is_new)
    ids = {tp.topic: controller.topic_ids[tp.topic]}
    epoch = controller.epochs()[broker]
    return await controller.send(
        broker, LeaderAndIsrRequest(CONTROLLER_ID, controller.epoch, epoch, {tp: row}, ids, ())
    )


def test_replicas_are_spread_over_the_directories() -> None:
    async def story(controller: ScriptedController) -> None:
        two_dirs(controller, 2)
        one, two = controller.create("t", [1, 2]), controller.create("u", [1, 2])
        await controller.send_to_all()
        assert controller.broker(2).dirs.fail(0)
        assert list(controller.broker(2).offline) == [one]
        assert role(controller, 2, two) == ("follower", 1, 0)

    on_virtual_time(story)


def test_a_failed_directory_is_reported_by_a_sequential_znode_and_stops_its_replicas() -> None:
    async def story(controller: ScriptedController) -> None:
        two_dirs(controller, 1)
        tp = controller.create("t", [1, 2])
        await controller.send_to_all()
        reported: list[int] = []
        controller.cluster.on_bad_dirs.append(reported.append)
        controller.broker(1).dirs.fail(0)
        (child,) = controller.zookeeper.children(NOTIFICATIONS) or []
        data = controller.zookeeper.nodes[f"{NOTIFICATIONS}/{child}"].data or b""
        assert (child, json.loads(data)["broker"]) == ("log_dir_event_0000000000", 1)
        assert reported == [1]
        assert tp not in controller.broker(1).life.replicas
        assert (await send_leader_and_isr(controller, 1, tp, is_new=False)).partition_errors == {
            tp: KafkaError.KAFKA_STORAGE_ERROR
        }

    on_virtual_time(story)


def test_the_notification_waits_for_zookeeper() -> None:
    async def story(controller: ScriptedController) -> None:
        two_dirs(controller, 1)
        controller.zookeeper.down_for(1.0)
        controller.broker(1).dirs.fail(0)
        assert NOTIFICATIONS not in controller.zookeeper.nodes
        await asyncio.sleep(2.0)
        assert len(controller.zookeeper.children(NOTIFICATIONS) or []) == 1

    on_virtual_time(story)


def test_the_last_good_directory_does_not_fail_alone() -> None:
    async def story(controller: ScriptedController) -> None:
        assert not controller.broker(1).dirs.fail(0)
        two_dirs(controller, 1)
        assert controller.broker(1).dirs.fail(1)
        assert not controller.broker(1).dirs.fail(0)

    on_virtual_time(story)


def test_with_a_failed_directory_only_new_replicas_are_placed() -> None:
    """KAFKA-10314: a replica that is not new might be on the bad directory."""

    async def story(controller: ScriptedController) -> None:
        two_dirs(controller, 2)
        controller.broker(2).dirs.fail(0)
        one, two = controller.create("t", [1, 2]), controller.create("u", [1, 2])
        assert (await send_leader_and_isr(controller, 2, one, is_new=False)).partition_errors == {
            one: KafkaError.KAFKA_STORAGE_ERROR
        }
        assert not (await send_leader_and_isr(controller, 2, two, is_new=True)).partition_errors

    on_virtual_time(story)


def test_a_repaired_directory_has_its_logs_after_the_next_start() -> None:
    async def story(controller: ScriptedController) -> None:
        two_dirs(controller, 2)
        tp = controller.create("t", [1, 2])
        await controller.send_to_all()
        controller.broker(2).dirs.fail(0)
        controller.broker(2).bounce(boot_s=0.01)
        assert list(controller.broker(2).offline) == [tp]
        controller.broker(2).dirs.mend()
        controller.broker(2).bounce(boot_s=0.01)
        await asyncio.sleep(0.1)
        assert not controller.broker(2).offline
        assert not (await send_leader_and_isr(controller, 2, tp, is_new=False)).partition_errors

    on_virtual_time(story)


def test_a_deletion_that_fails_leaves_the_log_and_is_remembered() -> None:
    async def story(controller: ScriptedController) -> None:
        tp = controller.create("t", [1, 2])
        await controller.send_to_all()
        controller.broker(2).dirs.refusals = 1
        refused = await controller.send(2, controller.stop_replica(2, tp, -2, delete=True))
        assert refused.partition_errors == {tp: KafkaError.KAFKA_STORAGE_ERROR}
        assert tp in controller.broker(2).disk
        assert tp not in controller.broker(2).life.replicas
        assert tp in controller.broker(2).at_rest().refused
        done = await controller.send(2, controller.stop_replica(2, tp, -2, delete=True))
        assert done.partition_errors == {tp: KafkaError.NONE}
        assert not controller.broker(2).at_rest().logs
        assert not controller.broker(2).at_rest().refused

    on_virtual_time(story)


def test_a_replica_that_is_not_there_is_deleted_without_complaint() -> None:
    async def story(controller: ScriptedController) -> None:
        tp = TopicPartition("t", 0)
        answer = await controller.send(2, controller.stop_replica(2, tp, -1, delete=True))
        assert answer.partition_errors == {tp: KafkaError.NONE}

    on_virtual_time(story)


def test_a_replica_that_is_added_catches_up_and_is_let_into_the_isr() -> None:
    async def story(controller: ScriptedController) -> None:
        tp = controller.create("t", [1, 2])
        await controller.send_to_all()
        for _ in range(5):
            controller.cluster.produce("t", 0)
        await asyncio.sleep(1.0)
        controller.assignments[tp] = (BrokerId(3), BrokerId(1), BrokerId(2))
        controller.elect(tp, leader=1)
        await controller.send_to_all()
        await asyncio.sleep(3.0)
        assert set(controller.states[tp].isr) == {1, 2, 3}
        assert controller.broker(3).disk[tp].records == controller.broker(1).disk[tp].records

    on_virtual_time(story)


def test_records_deleted_with_their_topic_are_no_loss() -> None:
    async def story(controller: ScriptedController) -> None:
        tp = controller.create("t", [1])
        await controller.send_to_all()
        controller.cluster.produce("t", 0)
        controller.cluster.ledger.being_deleted.add("t")
        controller.broker(1).disk[tp].truncate_to(0)
        assert controller.cluster.lost_records() == []
        controller.cluster.ledger.being_deleted.clear()
        assert len(controller.cluster.lost_records()) == 1
        controller.cluster.ledger.forget_topic("t")
        assert controller.cluster.lost_records() == []

    on_virtual_time(story)
