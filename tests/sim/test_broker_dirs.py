"""A simulated broker loses log directories, refuses deletions, and takes what moves to it, as a 3.9 broker does."""

import asyncio
import json

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, ReplicaAssignment, TopicPartition
from controllerd.core.requests import ControlResponse, LeaderAndIsrPartition, LeaderAndIsrRequest
from tests.sim.broker_dirs import NOTIFICATIONS
from tests.sim.broker_scribe import SCRIBE, Scribe
from tests.sim.test_broker import on_virtual_time, role


def two_dirs(scribe: Scribe, broker: int) -> None:
    scribe.broker(broker).dirs.count = 2


async def tell(scribe: Scribe, broker: int, tp: TopicPartition, *, is_new: bool) -> ControlResponse:
    """LeaderAndIsr for one replica."""
    row = LeaderAndIsrPartition(scribe.states[tp], ReplicaAssignment(scribe.assignments[tp]), is_new=is_new)
    ids = {tp.topic: scribe.topic_ids[tp.topic]}
    epoch = scribe.epochs()[broker]
    return await scribe.send(broker, LeaderAndIsrRequest(SCRIBE, scribe.epoch, epoch, {tp: row}, ids, ()))


def test_replicas_are_spread_over_the_directories() -> None:
    async def story(scribe: Scribe) -> None:
        two_dirs(scribe, 2)
        one, two = scribe.create("t", [1, 2]), scribe.create("u", [1, 2])
        await scribe.tell_all()
        assert scribe.broker(2).dirs.fail(0)
        assert list(scribe.broker(2).offline) == [one]
        assert role(scribe, 2, two) == ("follower", 1, 0)

    on_virtual_time(story)


def test_a_failed_directory_is_told_by_a_sequential_znode_and_ends_what_the_replica_did() -> None:
    async def story(scribe: Scribe) -> None:
        two_dirs(scribe, 1)
        tp = scribe.create("t", [1, 2])
        await scribe.tell_all()
        reported: list[int] = []
        scribe.cluster.on_bad_dirs.append(reported.append)
        scribe.broker(1).dirs.fail(0)
        (child,) = scribe.zookeeper.children(NOTIFICATIONS) or []
        data = scribe.zookeeper.nodes[f"{NOTIFICATIONS}/{child}"].data or b""
        assert (child, json.loads(data)["broker"]) == ("log_dir_event_0000000000", 1)
        assert reported == [1]
        assert tp not in scribe.broker(1).life.replicas
        assert (await tell(scribe, 1, tp, is_new=False)).partition_errors == {tp: KafkaError.KAFKA_STORAGE_ERROR}

    on_virtual_time(story)


def test_the_notification_waits_for_zookeeper() -> None:
    async def story(scribe: Scribe) -> None:
        two_dirs(scribe, 1)
        scribe.zookeeper.down_for(1.0)
        scribe.broker(1).dirs.fail(0)
        assert NOTIFICATIONS not in scribe.zookeeper.nodes
        await asyncio.sleep(2.0)
        assert len(scribe.zookeeper.children(NOTIFICATIONS) or []) == 1

    on_virtual_time(story)


def test_the_last_good_directory_does_not_fail_alone() -> None:
    async def story(scribe: Scribe) -> None:
        assert not scribe.broker(1).dirs.fail(0)
        two_dirs(scribe, 1)
        assert scribe.broker(1).dirs.fail(1)
        assert not scribe.broker(1).dirs.fail(0)

    on_virtual_time(story)


def test_with_a_directory_lost_only_what_is_new_finds_a_place() -> None:
    """KAFKA-10314: what is not new might be on the bad directory."""

    async def story(scribe: Scribe) -> None:
        two_dirs(scribe, 2)
        scribe.broker(2).dirs.fail(0)
        one, two = scribe.create("t", [1, 2]), scribe.create("u", [1, 2])
        assert (await tell(scribe, 2, one, is_new=False)).partition_errors == {one: KafkaError.KAFKA_STORAGE_ERROR}
        assert not (await tell(scribe, 2, two, is_new=True)).partition_errors

    on_virtual_time(story)


def test_a_mended_directory_has_what_it_had_after_the_next_start() -> None:
    async def story(scribe: Scribe) -> None:
        two_dirs(scribe, 2)
        tp = scribe.create("t", [1, 2])
        await scribe.tell_all()
        scribe.broker(2).dirs.fail(0)
        scribe.broker(2).bounce(boot_s=0.01)
        assert list(scribe.broker(2).offline) == [tp]
        scribe.broker(2).dirs.mend()
        scribe.broker(2).bounce(boot_s=0.01)
        await asyncio.sleep(0.1)
        assert not scribe.broker(2).offline
        assert not (await tell(scribe, 2, tp, is_new=False)).partition_errors

    on_virtual_time(story)


def test_a_deletion_that_fails_leaves_the_log_and_is_remembered() -> None:
    async def story(scribe: Scribe) -> None:
        tp = scribe.create("t", [1, 2])
        await scribe.tell_all()
        scribe.broker(2).dirs.refusals = 1
        refused = await scribe.send(2, scribe.stop_replica(2, tp, -2, delete=True))
        assert refused.partition_errors == {tp: KafkaError.KAFKA_STORAGE_ERROR}
        assert tp in scribe.broker(2).disk
        assert tp not in scribe.broker(2).life.replicas
        assert tp in scribe.broker(2).at_rest().refused
        done = await scribe.send(2, scribe.stop_replica(2, tp, -2, delete=True))
        assert done.partition_errors == {tp: KafkaError.NONE}
        assert not scribe.broker(2).at_rest().logs
        assert not scribe.broker(2).at_rest().refused

    on_virtual_time(story)


def test_a_replica_that_is_not_there_is_deleted_without_complaint() -> None:
    async def story(scribe: Scribe) -> None:
        tp = TopicPartition("t", 0)
        answer = await scribe.send(2, scribe.stop_replica(2, tp, -1, delete=True))
        assert answer.partition_errors == {tp: KafkaError.NONE}

    on_virtual_time(story)


def test_a_replica_that_is_added_catches_up_and_is_let_into_the_isr() -> None:
    async def story(scribe: Scribe) -> None:
        tp = scribe.create("t", [1, 2])
        await scribe.tell_all()
        for _ in range(5):
            scribe.cluster.produce("t", 0)
        await asyncio.sleep(1.0)
        scribe.assignments[tp] = (BrokerId(3), BrokerId(1), BrokerId(2))
        scribe.elect(tp, leader=1)
        await scribe.tell_all()
        await asyncio.sleep(3.0)
        assert set(scribe.states[tp].isr) == {1, 2, 3}
        assert scribe.broker(3).disk[tp].records == scribe.broker(1).disk[tp].records

    on_virtual_time(story)


def test_what_is_deleted_with_its_topic_was_never_promised() -> None:
    async def story(scribe: Scribe) -> None:
        tp = scribe.create("t", [1])
        await scribe.tell_all()
        scribe.cluster.produce("t", 0)
        scribe.cluster.ledger.doomed.add("t")
        scribe.broker(1).disk[tp].truncate_to(0)
        assert scribe.cluster.lost_records() == []
        scribe.cluster.ledger.doomed.clear()
        assert len(scribe.cluster.lost_records()) == 1
        scribe.cluster.ledger.forget_topic("t")
        assert scribe.cluster.lost_records() == []

    on_virtual_time(story)
