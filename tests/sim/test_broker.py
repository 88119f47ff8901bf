"""A simulated broker takes control requests as a 3.9 broker does (wire.md B.3 to B.6), whatever happens to it."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import TopicPartition
from tests.sim.broker import BrokerSettings
from tests.sim.broker_frames import LEADER_AND_ISR, UPDATE_METADATA
from tests.sim.broker_replica import Role
from tests.sim.broker_scribe import OWNER, Scribe
from tests.sim.broker_socket import Fault
from tests.sim.loop import VirtualLoop, run
from tests.sim.network import Range
from wire.errors import CorrelationMismatch, MalformedMessage, NegativeFrame, PeerClosed, TruncatedFrame

Story = Callable[[Scribe], Coroutine[Any, Any, None]]


def on_virtual_time(story: Story, seed: int = 1) -> None:
    """Run a story that gets a scribe over three brokers that run and know each other."""

    async def main(loop: VirtualLoop) -> None:
        scribe = await Scribe(loop).started()
        await story(scribe)
        assert scribe.cluster.malformed == []

    run(main, seed)


def role(scribe: Scribe, broker: int, tp: TopicPartition) -> tuple[str, int, int]:
    """Role, leader and leader epoch of a replica."""
    replica = scribe.broker(broker).life.replicas[tp]
    return replica.role.value, replica.leader, replica.leader_epoch


# -- the gate ----------------------------------------------------------------------------------------------------------


def test_it_registers_as_a_broker_does() -> None:
    async def story(scribe: Scribe) -> None:
        node = scribe.zookeeper.nodes["/brokers/ids/2"]
        assert json.loads(node.data or b"")["endpoints"] == ["PLAINTEXT://127.0.0.1:9002"]
        assert scribe.broker(2).epoch == node.czxid

    on_virtual_time(story)


def test_a_lower_controller_epoch_is_fenced_for_the_request_and_each_partition() -> None:
    async def story(scribe: Scribe) -> None:
        tp = scribe.create("t", [1, 2])
        scribe.epoch = 5
        await scribe.tell_all()
        request = scribe.leader_and_isr(1, tp, controller_epoch=4)
        assert request is not None
        response = await scribe.send(1, request)
        assert response.error is KafkaError.STALE_CONTROLLER_EPOCH
        assert response.partition_errors == {tp: KafkaError.STALE_CONTROLLER_EPOCH}
        assert (await scribe.send(1, scribe.metadata(1, controller_epoch=4))).error is response.error

    on_virtual_time(story)


@pytest.mark.parametrize(
    ("beside", "error"),
    [(-1, KafkaError.STALE_BROKER_EPOCH), (0, KafkaError.NONE), (1, KafkaError.NONE)],
)
def test_only_a_lower_broker_epoch_is_stale(beside: int, error: KafkaError) -> None:
    async def story(scribe: Scribe) -> None:
        request = scribe.metadata(1, broker_epoch=scribe.epochs()[1] + beside)
        assert (await scribe.send(1, request)).error is error

    on_virtual_time(story)


def test_the_controller_epoch_is_forgotten_by_a_restart() -> None:
    async def story(scribe: Scribe) -> None:
        scribe.epoch = 5
        await scribe.tell_all()
        scribe.broker(1).bounce(boot_s=0.01)
        await asyncio.sleep(0.1)
        response = await scribe.try_to_send(1, scribe.metadata(1, controller_epoch=2))
        assert response is not None
        assert response.error is KafkaError.NONE

    on_virtual_time(story)


# -- roles -------------------------------------------------------------------------------------------------------------


def test_it_leads_and_follows_as_told() -> None:
    async def story(scribe: Scribe) -> None:
        tp = scribe.create("t", [1, 2])
        await scribe.tell_all()
        assert role(scribe, 1, tp) == ("leader", 1, 0)
        assert role(scribe, 2, tp) == ("follower", 1, 0)
        assert scribe.cluster.brokers[3].life.metadata.partitions[tp].leader == 1  # type: ignore[union-attr]

    on_virtual_time(story)


def test_an_equal_leader_epoch_is_nothing_new() -> None:
    async def story(scribe: Scribe) -> None:
        tp = scribe.create("t", [1, 2])
        await scribe.tell_all()
        response = await scribe.send(1, scribe.leader_and_isr(1, tp))  # type: ignore[arg-type]
        assert response.error is KafkaError.NONE
        assert response.partition_errors == {tp: KafkaError.STALE_CONTROLLER_EPOCH}

    on_virtual_time(story)


def test_a_leader_that_is_not_live_is_not_followed_and_its_epoch_is_not_kept() -> None:
    async def story(scribe: Scribe) -> None:
        tp = scribe.create("t", [1, 2])
        scribe.live = {2, 3}
        await scribe.tell_all(tp)
        assert role(scribe, 2, tp) == ("none", -1, -1)
        scribe.live = None
        await scribe.tell_all(tp)
        assert role(scribe, 2, tp) == ("follower", 1, 0)

    on_virtual_time(story)


def test_an_older_partition_epoch_is_skipped_in_silence() -> None:
    async def story(scribe: Scribe) -> None:
        tp = scribe.create("t", [1, 2])
        scribe.states[tp] = scribe.states[tp]._replace(partition_epoch=5)
        await scribe.tell_all()
        scribe.states[tp] = scribe.states[tp]._replace(partition_epoch=4, leader_epoch=1)
        response = await scribe.send(1, scribe.leader_and_isr(1, tp))  # type: ignore[arg-type]
        assert response.partition_errors == {}
        assert role(scribe, 1, tp) == ("leader", 1, 0)

    on_virtual_time(story)


def test_a_broker_without_replica_does_not_know_the_partition() -> None:
    async def story(scribe: Scribe) -> None:
        tp = scribe.create("t", [1, 2])
        request = scribe.leader_and_isr(1, tp)
        assert request is not None
        response = await scribe.send(3, type(request)(*scribe._head(3, {}), request.partitions, {}, ()))
        assert response.partition_errors == {tp: KafkaError.UNKNOWN_TOPIC_OR_PARTITION}

    on_virtual_time(story)


def test_another_topic_id_than_that_of_the_log_is_refused() -> None:
    async def story(scribe: Scribe) -> None:
        tp = scribe.create("t", [1, 2])
        await scribe.tell_all()
        scribe.topic_ids["t"] = "A" * 21 + "Q"
        scribe.elect(tp)
        response = await scribe.send(1, scribe.leader_and_isr(1, tp))  # type: ignore[arg-type]
        assert response.partition_errors == {tp: KafkaError.INCONSISTENT_TOPIC_ID}

    on_virtual_time(story)


def test_a_topic_without_id_goes_by_versions_without_ids() -> None:
    async def story(scribe: Scribe) -> None:
        versions: list[int] = []
        scribe.cluster.on_request.append(lambda _b, _o, _a, request, _e: versions.append(request.version))
        tp = scribe.create("t", [1, 2])
        scribe.topic_ids.clear()
        await scribe.tell_all()
        assert role(scribe, 1, tp) == ("leader", 1, 0)
        assert set(versions) == {4, 6, 8}

    on_virtual_time(story)


def test_a_stopped_replica_stays_and_a_deleted_one_goes_with_its_log() -> None:
    async def story(scribe: Scribe) -> None:
        tp = scribe.create("t", [1, 2])
        await scribe.tell_all()
        await scribe.send(2, scribe.stop_replica(2, tp, 0, delete=False))
        assert not scribe.broker(2).life.replicas[tp].fetching
        await scribe.send(2, scribe.stop_replica(2, tp, -2, delete=True))
        assert tp not in scribe.broker(2).life.replicas
        assert tp not in scribe.broker(2).disk

    on_virtual_time(story)


def test_a_stop_of_an_older_leader_epoch_is_fenced() -> None:
    async def story(scribe: Scribe) -> None:
        tp = scribe.create("t", [1, 2])
        scribe.elect(tp)
        await scribe.tell_all()
        response = await scribe.send(2, scribe.stop_replica(2, tp, 0, delete=True))
        assert response.partition_errors == {tp: KafkaError.FENCED_LEADER_EPOCH}

    on_virtual_time(story)


def test_metadata_is_merged_and_minus_two_removes() -> None:
    async def story(scribe: Scribe) -> None:
        one, two = scribe.create("t", [1, 2]), scribe.create("u", [2, 3])
        await scribe.tell_all()
        scribe.states[one] = scribe.states[one]._replace(leader=-2)  # type: ignore[arg-type]
        await scribe.send(3, scribe.metadata(3, one))
        assert list(scribe.broker(3).life.metadata.partitions) == [two]

    on_virtual_time(story)


def test_the_id_of_a_topic_goes_with_its_last_partition_even_if_minus_two_repeats_it() -> None:
    async def story(scribe: Scribe) -> None:
        tp = scribe.create("t", [1, 2])
        await scribe.tell_all()
        there = scribe.states[tp]
        scribe.states[tp] = there._replace(leader=-2)  # type: ignore[arg-type]
        await scribe.send(3, scribe.metadata(3, tp))
        assert scribe.broker(3).life.metadata.topic_ids == {}
        scribe.topic_ids.clear()
        scribe.states[tp] = there
        await scribe.send(3, scribe.metadata(3, tp))

    on_virtual_time(story)


def test_a_topic_that_goes_by_a_version_without_ids_loses_its_id_rightly() -> None:
    async def story(scribe: Scribe) -> None:
        tp = scribe.create("t", [1, 2])
        await scribe.tell_all()
        scribe.topic_ids.clear()
        scribe.states[tp] = scribe.states[tp]._replace(leader=-2)  # type: ignore[arg-type]
        await scribe.send(3, scribe.metadata(3, tp))
        assert scribe.broker(3).life.metadata.topic_ids == {}

    on_virtual_time(story)


def test_a_topic_that_stays_must_not_lose_its_id() -> None:
    async def main(loop: VirtualLoop) -> None:
        scribe = await Scribe(loop).started()
        tp = scribe.create("t", [1, 2])
        await scribe.tell_all()
        scribe.topic_ids.clear()
        await scribe.send(3, scribe.metadata(3, tp))
        assert scribe.cluster.malformed == ["broker 3 was made to forget the id of t by UpdateMetadata 6"]

    run(main, 1)


def test_a_failed_disk_answers_storage_error() -> None:
    async def story(scribe: Scribe) -> None:
        tp = scribe.create("t", [1, 2])
        await scribe.tell_all()
        scribe.broker(2).fail_disk("t", 0)
        scribe.elect(tp)
        response = await scribe.send(2, scribe.leader_and_isr(2, tp))  # type: ignore[arg-type]
        assert response.partition_errors == {tp: KafkaError.KAFKA_STORAGE_ERROR}

    on_virtual_time(story)


def test_observers_are_told_who_asked_what_and_what_was_answered() -> None:
    async def story(scribe: Scribe) -> None:
        tp, seen = scribe.create("t", [1, 2]), []
        scribe.cluster.on_request.append(
            lambda broker, owner, _, request, error: seen.append(scribe.cluster.seen(broker, owner, request, error))
        )
        await scribe.send(1, scribe.leader_and_isr(1, tp))  # type: ignore[arg-type]
        [request] = seen
        assert (request.broker, request.owner, request.api, request.error) == (1, OWNER, "LeaderAndIsr", 0)
        [row] = request.rows
        assert (row.topic, row.partition, row.leader, row.isr, row.replicas) == ("t", 0, 1, (1, 2), (1, 2))

    on_virtual_time(story)


# -- what can go wrong -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "error", "processed"),
    [
        (Fault.CUT_BEFORE, ConnectionResetError, False),
        (Fault.CUT_AFTER, ConnectionResetError, True),
        (Fault.NO_ANSWER, TimeoutError, True),
        (Fault.CLOSE_MID_FRAME, TruncatedFrame, True),
        (Fault.SHORT, MalformedMessage, True),
        (Fault.GARBAGE, MalformedMessage, True),
        (Fault.NEGATIVE_SIZE, NegativeFrame, True),
        (Fault.WRONG_CORRELATION, CorrelationMismatch, True),
        (Fault.LATE, TimeoutError, True),
    ],
)
def test_a_fault_looks_like_one(fault: Fault, error: type[Exception], *, processed: bool) -> None:
    async def story(scribe: Scribe) -> None:
        tp = scribe.create("t", [1, 2])
        scribe.broker(1).inject(fault, LEADER_AND_ISR)
        await scribe.send(1, scribe.metadata(1))
        with pytest.raises(error):
            await scribe.send(1, scribe.leader_and_isr(1, tp), timeout_s=0.5)  # type: ignore[arg-type]
        assert (tp in scribe.broker(1).life.replicas) is processed
        assert (await scribe.try_to_send(1, scribe.metadata(1))) is not None

    on_virtual_time(story)


def test_a_duplicate_answer_is_found_at_the_next_request() -> None:
    async def story(scribe: Scribe) -> None:
        scribe.broker(1).inject(Fault.DUPLICATE, UPDATE_METADATA)
        await scribe.send(1, scribe.metadata(1))
        with pytest.raises(CorrelationMismatch):
            await scribe.send(1, scribe.metadata(1))

    on_virtual_time(story)


def test_an_injected_error_is_answered_instead_of_the_work() -> None:
    async def story(scribe: Scribe) -> None:
        tp = scribe.create("t", [1, 2])
        scribe.broker(1).inject_error(KafkaError.CLUSTER_AUTHORIZATION_FAILED)
        response = await scribe.send(1, scribe.leader_and_isr(1, tp))  # type: ignore[arg-type]
        assert response.error is KafkaError.CLUSTER_AUTHORIZATION_FAILED
        assert tp not in scribe.broker(1).life.replicas

    on_virtual_time(story)


def test_a_silent_broker_accepts_and_does_nothing() -> None:
    async def story(scribe: Scribe) -> None:
        scribe.broker(1).is_silent = True
        with pytest.raises(TimeoutError):
            await scribe.send(1, scribe.metadata(1))
        scribe.broker(1).heal()
        assert (await scribe.send(1, scribe.metadata(1))).error is KafkaError.NONE

    on_virtual_time(story)


def test_a_refusing_broker_refuses_new_connections_only() -> None:
    async def story(scribe: Scribe) -> None:
        scribe.broker(1).is_refusing = True
        assert (await scribe.send(1, scribe.metadata(1))).error is KafkaError.NONE
        scribe.network.cut(OWNER, 1)
        with pytest.raises(ConnectionRefusedError):
            await scribe.send(1, scribe.metadata(1))

    on_virtual_time(story)


def test_a_slow_broker_works_off_one_request_after_the_other() -> None:
    async def story(scribe: Scribe) -> None:
        scribe.broker(1).work_s = Range(1.0, 1.0)
        begun = scribe.loop.time()
        await scribe.send(1, scribe.metadata(1))
        assert scribe.loop.time() - begun > 1

    on_virtual_time(story)


def test_what_a_broker_works_on_is_not_overtaken_by_what_comes_when_it_is_fast_again() -> None:
    async def story(scribe: Scribe) -> None:
        broker, tp = scribe.broker(1), scribe.create("t", [2, 3])
        broker.work_s = Range(1.0, 1.0)
        await scribe.send(1, scribe.metadata(1))
        slow = asyncio.ensure_future(scribe.send(1, scribe.metadata(1, tp)))
        await asyncio.sleep(0.5)
        broker.heal()
        scribe.network.cut(OWNER, 1)
        with pytest.raises(ConnectionResetError):
            await slow
        scribe.elect(tp)
        await scribe.send(1, scribe.metadata(1, tp))
        await asyncio.sleep(5)
        assert broker.life.metadata.partitions[tp].leader_epoch == 1

    on_virtual_time(story)


def test_a_new_run_of_a_broker_does_not_work_on_what_the_earlier_one_left() -> None:
    async def story(scribe: Scribe) -> None:
        broker = scribe.broker(1)
        broker.work_s = Range(1.0, 1.0)
        await scribe.send(1, scribe.metadata(1))
        lost = asyncio.ensure_future(scribe.send(1, scribe.metadata(1)))
        await asyncio.sleep(0.5)
        broker.bounce(boot_s=0.01)
        with pytest.raises(PeerClosed):
            await lost
        broker.heal()
        await asyncio.sleep(0.1)
        begun = scribe.loop.time()
        await scribe.send(1, scribe.metadata(1))
        assert scribe.loop.time() - begun < 0.1

    on_virtual_time(story)


# -- life and death ----------------------------------------------------------------------------------------------------


def test_a_crash_breaks_links_and_loses_memory_and_the_session_goes_later() -> None:
    async def story(scribe: Scribe) -> None:
        tp = scribe.create("t", [1, 2])
        await scribe.tell_all()
        scribe.broker(1).crash()
        with pytest.raises((PeerClosed, ConnectionRefusedError)):
            await scribe.send(1, scribe.metadata(1))
        assert 1 in scribe.epochs()
        await asyncio.sleep(7)
        assert 1 not in scribe.epochs()
        scribe.broker(1).restart(boot_s=0.01)
        assert scribe.broker(1).life.replicas == {}
        assert tp in scribe.broker(1).disk

    on_virtual_time(story)


def test_a_machine_that_dies_says_nothing() -> None:
    async def story(scribe: Scribe) -> None:
        scribe.broker(1).crash(unplugged=True)
        for _ in range(2):
            with pytest.raises(TimeoutError):
                await scribe.send(1, scribe.metadata(2))

    on_virtual_time(story)


def test_a_restart_waits_until_the_old_registration_is_gone() -> None:
    async def story(scribe: Scribe) -> None:
        before = scribe.epochs()[1]
        scribe.broker(1).crash()
        scribe.broker(1).restart(boot_s=0.01)
        await asyncio.sleep(5)
        assert scribe.epochs()[1] == before
        assert not scribe.broker(1).is_running
        await asyncio.sleep(3)
        assert scribe.epochs()[1] == scribe.broker(1).epoch > before

    on_virtual_time(story)


def test_a_bounce_without_gap_is_never_seen_absent() -> None:
    async def story(scribe: Scribe) -> None:
        before = scribe.epochs()[1]
        scribe.broker(1).bounce()
        assert scribe.epochs()[1] > before

    on_virtual_time(story)


def test_a_bounce_with_gap_is_absent_for_so_long() -> None:
    async def story(scribe: Scribe) -> None:
        scribe.broker(1).bounce(gap_s=2.0)
        await asyncio.sleep(1.9)
        assert 1 not in scribe.epochs()
        await asyncio.sleep(0.2)
        assert 1 in scribe.epochs()

    on_virtual_time(story)


def test_between_registration_and_boot_connections_are_refused() -> None:
    async def story(scribe: Scribe) -> None:
        scribe.broker(1).bounce(boot_s=1.0)
        await asyncio.sleep(0.5)
        scribe.network.cut()
        with pytest.raises(ConnectionRefusedError):
            await scribe.send(1, scribe.metadata(1))

    on_virtual_time(story)


def test_a_paused_broker_comes_back_with_its_old_belief_and_a_new_epoch() -> None:
    async def story(scribe: Scribe) -> None:
        tp, before = scribe.create("t", [1, 2]), scribe.epochs()[1]
        await scribe.tell_all()
        scribe.broker(1).pause()
        await asyncio.sleep(8)
        assert 1 not in scribe.epochs()
        scribe.broker(1).resume()
        assert (role(scribe, 1, tp), scribe.broker(1).epoch) == (("leader", 1, 0), before)
        await asyncio.sleep(1)
        assert scribe.broker(1).epoch == scribe.epochs()[1] > before

    on_virtual_time(story)


def test_a_short_pause_keeps_the_session_and_bytes_wait() -> None:
    async def story(scribe: Scribe) -> None:
        before = scribe.epochs()[1]
        await scribe.send(1, scribe.metadata(1))
        scribe.broker(1).pause()
        sending = scribe.loop.create_task(scribe.send(1, scribe.metadata(1)))
        await asyncio.sleep(1.5)
        assert not sending.done()
        scribe.broker(1).resume()
        assert (await sending).error is KafkaError.NONE
        await asyncio.sleep(10)
        assert scribe.epochs()[1] == before

    on_virtual_time(story)


def test_a_lost_session_brings_a_new_epoch_and_keeps_the_memory() -> None:
    async def story(scribe: Scribe) -> None:
        tp, before = scribe.create("t", [1, 2]), scribe.epochs()[1]
        await scribe.tell_all()
        scribe.broker(1).lose_session(back_after_s=1.0)
        assert 1 not in scribe.epochs()
        await asyncio.sleep(2)
        assert scribe.broker(1).epoch == scribe.epochs()[1] > before
        assert scribe.broker(1).life.replicas[tp].role is Role.LEADER

    on_virtual_time(story)


def test_a_session_that_the_server_ends_brings_a_new_epoch_too() -> None:
    async def story(scribe: Scribe) -> None:
        before = scribe.epochs()[1]
        scribe.zookeeper.expire(scribe.zookeeper.nodes["/brokers/ids/1"].owner)
        await asyncio.sleep(1)
        assert scribe.broker(1).epoch == scribe.epochs()[1] > before

    on_virtual_time(story)


def test_links_to_a_machine_that_died_end_when_it_is_back() -> None:
    async def story(scribe: Scribe) -> None:
        await scribe.send(1, scribe.metadata(1))
        [link] = scribe.network.links(OWNER, 1)
        scribe.broker(1).crash(unplugged=True)
        await asyncio.sleep(7)
        assert link.is_open
        scribe.broker(1).restart(boot_s=0.01)
        await asyncio.sleep(0.1)
        assert not link.is_open

    on_virtual_time(story)


def test_a_broker_stops_when_the_controller_agrees() -> None:
    async def story(scribe: Scribe) -> None:
        tp = scribe.create("t", [1, 2])
        await scribe.tell_all()
        scribe.loses_answers = 1
        assert await scribe.broker(1).stop()
        assert (scribe.states[tp].leader, sorted(scribe.epochs())) == (2, [2, 3])
        assert not scribe.broker(1).is_running

    on_virtual_time(story)


def test_a_broker_stops_without_agreement_in_the_end() -> None:
    async def story(scribe: Scribe) -> None:
        scribe.refuses = 3
        assert not await scribe.broker(1).stop()
        assert 1 not in scribe.epochs()

    on_virtual_time(story)


def test_a_crash_ends_a_stop() -> None:
    async def story(scribe: Scribe) -> None:
        scribe.refuses = 100
        stopping = scribe.loop.create_task(scribe.broker(1).stop())
        await asyncio.sleep(0.5)
        scribe.broker(1).crash()
        assert not await stopping

    on_virtual_time(story)


def test_it_registers_once_there_is_a_zookeeper() -> None:
    async def story(scribe: Scribe) -> None:
        scribe.broker(1).crash(expires_after_s=0.1)
        await asyncio.sleep(1)
        scribe.zookeeper.down_for(3)
        scribe.broker(1).restart(boot_s=0.01)
        await asyncio.sleep(2)
        assert not scribe.broker(1).is_running
        await asyncio.sleep(2)
        assert scribe.broker(1).is_serving

    on_virtual_time(story)


def test_producer_ids_are_asked_for_until_there_is_a_block() -> None:
    async def story(scribe: Scribe) -> None:
        scribe.refuses, scribe.loses_answers = 2, 1
        scribe.broker(1).ask_for_producer_ids()
        await asyncio.sleep(5)
        assert scribe.cluster.blocks == [(2000, 2999, 1)]
        scribe.cluster.blocks.append((2500, 2600, 2))
        assert len(scribe.cluster.overlapping_blocks()) == 1

    on_virtual_time(story)


def test_producer_ids_are_asked_for_now_and_then() -> None:
    async def main(loop: VirtualLoop) -> None:
        scribe = Scribe(loop, brokers=())
        scribe.cluster.add(1, settings=BrokerSettings(producer_ids_s=Range(2.0, 4.0)))
        await scribe.started()
        await asyncio.sleep(20)
        assert 4 <= len(scribe.cluster.blocks) <= 10
        assert scribe.cluster.overlapping_blocks() == []

    run(main, seed=1)


def test_the_judge_is_shown_what_brokers_believe() -> None:
    async def story(scribe: Scribe) -> None:
        tp = scribe.create("t", [1, 2])
        await scribe.tell_all()
        first, *_ = scribe.cluster.at_rest()
        assert (first.id, first.controller_id, list(first.live_brokers)) == (1, 2_000_000_000, [1, 2, 3])
        assert first.metadata[tp] == first.replicas[tp] == (1, 0, (1, 2), 0)

    on_virtual_time(story)
