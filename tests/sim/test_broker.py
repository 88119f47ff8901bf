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
from tests.sim.broker_socket import Fault
from tests.sim.loop import VirtualLoop, run
from tests.sim.network import Range
from tests.sim.scripted_controller import OWNER, ScriptedController
from wire.errors import CorrelationMismatch, MalformedMessage, NegativeFrame, PeerClosed, TruncatedFrame

Story = Callable[[ScriptedController], Coroutine[Any, Any, None]]


def on_virtual_time(story: Story, seed: int = 1) -> None:
    """Run a story with a controller over three brokers that run and know each other."""

    async def main(loop: VirtualLoop) -> None:
        controller = await ScriptedController(loop).started()
        await story(controller)
        assert controller.cluster.malformed == []

    run(main, seed)


def role(controller: ScriptedController, broker: int, tp: TopicPartition) -> tuple[str, int, int]:
    """Role, leader and leader epoch of a replica."""
    replica = controller.broker(broker).life.replicas[tp]
    return replica.role.value, replica.leader, replica.leader_epoch


# -- epochs ------------------------------------------------------------------------------------------------------------


def test_it_registers_as_a_broker_does() -> None:
    async def story(controller: ScriptedController) -> None:
        node = controller.zookeeper.nodes["/brokers/ids/2"]
        assert json.loads(node.data or b"")["endpoints"] == ["PLAINTEXT://127.0.0.1:9002"]
        assert controller.broker(2).epoch == node.czxid

    on_virtual_time(story)


def test_a_lower_controller_epoch_is_fenced_for_the_request_and_each_partition() -> None:
    async def story(controller: ScriptedController) -> None:
        tp = controller.create("t", [1, 2])
        controller.epoch = 5
        await controller.send_to_all()
        request = controller.leader_and_isr(1, tp, controller_epoch=4)
        assert request is not None
        response = await controller.send(1, request)
        assert response.error is KafkaError.STALE_CONTROLLER_EPOCH
        assert response.partition_errors == {tp: KafkaError.STALE_CONTROLLER_EPOCH}
        assert (await controller.send(1, controller.metadata(1, controller_epoch=4))).error is response.error

    on_virtual_time(story)


@pytest.mark.parametrize(
    ("beside", "error"),
    [(-1, KafkaError.STALE_BROKER_EPOCH), (0, KafkaError.NONE), (1, KafkaError.NONE)],
)
def test_only_a_lower_broker_epoch_is_stale(beside: int, error: KafkaError) -> None:
    async def story(controller: ScriptedController) -> None:
        request = controller.metadata(1, broker_epoch=controller.epochs()[1] + beside)
        assert (await controller.send(1, request)).error is error

    on_virtual_time(story)


def test_the_controller_epoch_is_forgotten_by_a_restart() -> None:
    async def story(controller: ScriptedController) -> None:
        controller.epoch = 5
        await controller.send_to_all()
        controller.broker(1).bounce(boot_s=0.01)
        await asyncio.sleep(0.1)
        response = await controller.try_to_send(1, controller.metadata(1, controller_epoch=2))
        assert response is not None
        assert response.error is KafkaError.NONE

    on_virtual_time(story)


# -- roles -------------------------------------------------------------------------------------------------------------


def test_it_leads_and_follows_as_leader_and_isr_says() -> None:
    async def story(controller: ScriptedController) -> None:
        tp = controller.create("t", [1, 2])
        await controller.send_to_all()
        assert role(controller, 1, tp) == ("leader", 1, 0)
        assert role(controller, 2, tp) == ("follower", 1, 0)
        assert controller.cluster.brokers[3].life.metadata.partitions[tp].leader == 1  # type: ignore[union-attr]

    on_virtual_time(story)


def test_an_equal_leader_epoch_is_nothing_new() -> None:
    async def story(controller: ScriptedController) -> None:
        tp = controller.create("t", [1, 2])
        await controller.send_to_all()
        response = await controller.send(1, controller.leader_and_isr(1, tp))  # type: ignore[arg-type]
        assert response.error is KafkaError.NONE
        assert response.partition_errors == {tp: KafkaError.STALE_CONTROLLER_EPOCH}

    on_virtual_time(story)


def test_a_leader_that_is_not_live_is_not_followed_and_its_epoch_is_not_kept() -> None:
    async def story(controller: ScriptedController) -> None:
        tp = controller.create("t", [1, 2])
        controller.live = {2, 3}
        await controller.send_to_all(tp)
        assert role(controller, 2, tp) == ("none", -1, -1)
        controller.live = None
        await controller.send_to_all(tp)
        assert role(controller, 2, tp) == ("follower", 1, 0)

    on_virtual_time(story)


def test_an_older_partition_epoch_is_ignored() -> None:
    async def story(controller: ScriptedController) -> None:
        tp = controller.create("t", [1, 2])
        controller.states[tp] = controller.states[tp]._replace(partition_epoch=5)
        await controller.send_to_all()
        controller.states[tp] = controller.states[tp]._replace(partition_epoch=4, leader_epoch=1)
        response = await controller.send(1, controller.leader_and_isr(1, tp))  # type: ignore[arg-type]
        assert response.partition_errors == {}
        assert role(controller, 1, tp) == ("leader", 1, 0)

    on_virtual_time(story)


def test_a_broker_without_replica_does_not_know_the_partition() -> None:
    async def story(controller: ScriptedController) -> None:
        tp = controller.create("t", [1, 2])
        request = controller.leader_and_isr(1, tp)
        assert request is not None
        response = await controller.send(3, type(request)(*controller._head(3, {}), request.partitions, {}, ()))
        assert response.partition_errors == {tp: KafkaError.UNKNOWN_TOPIC_OR_PARTITION}

    on_virtual_time(story)


def test_another_topic_id_than_that_of_the_log_is_refused() -> None:
    async def story(controller: ScriptedController) -> None:
        tp = controller.create("t", [1, 2])
        await controller.send_to_all()
        controller.topic_ids["t"] = "A" * 21 + "Q"
        controller.elect(tp)
        response = await controller.send(1, controller.leader_and_isr(1, tp))  # type: ignore[arg-type]
        assert response.partition_errors == {tp: KafkaError.INCONSISTENT_TOPIC_ID}

    on_virtual_time(story)


def test_a_topic_without_id_goes_by_versions_without_ids() -> None:
    async def story(controller: ScriptedController) -> None:
        versions: list[int] = []
        controller.cluster.on_request.append(lambda _b, _o, _a, request, _e: versions.append(request.version))
        tp = controller.create("t", [1, 2])
        controller.topic_ids.clear()
        await controller.send_to_all()
        assert role(controller, 1, tp) == ("leader", 1, 0)
        assert set(versions) == {4, 6, 8}

    on_virtual_time(story)


def test_a_stopped_replica_stays_and_a_deleted_one_goes_with_its_log() -> None:
    async def story(controller: ScriptedController) -> None:
        tp = controller.create("t", [1, 2])
        await controller.send_to_all()
        await controller.send(2, controller.stop_replica(2, tp, 0, delete=False))
        assert not controller.broker(2).life.replicas[tp].fetching
        await controller.send(2, controller.stop_replica(2, tp, -2, delete=True))
        assert tp not in controller.broker(2).life.replicas
        assert tp not in controller.broker(2).disk

    on_virtual_time(story)


def test_a_stop_of_an_older_leader_epoch_is_fenced() -> None:
    async def story(controller: ScriptedController) -> None:
        tp = controller.create("t", [1, 2])
        controller.elect(tp)
        await controller.send_to_all()
        response = await controller.send(2, controller.stop_replica(2, tp, 0, delete=True))
        assert response.partition_errors == {tp: KafkaError.FENCED_LEADER_EPOCH}

    on_virtual_time(story)


def test_metadata_is_merged_and_minus_two_removes() -> None:
    async def story(controller: ScriptedController) -> None:
        one, two = controller.create("t", [1, 2]), controller.create("u", [2, 3])
        await controller.send_to_all()
        controller.states[one] = controller.states[one]._replace(leader=-2)  # type: ignore[arg-type]
        await controller.send(3, controller.metadata(3, one))
        assert list(controller.broker(3).life.metadata.partitions) == [two]

    on_virtual_time(story)


def test_the_id_of_a_topic_goes_with_its_last_partition_even_if_minus_two_repeats_it() -> None:
    async def story(controller: ScriptedController) -> None:
        tp = controller.create("t", [1, 2])
        await controller.send_to_all()
        there = controller.states[tp]
        controller.states[tp] = there._replace(leader=-2)  # type: ignore[arg-type]
        await controller.send(3, controller.metadata(3, tp))
        assert controller.broker(3).life.metadata.topic_ids == {}
        controller.topic_ids.clear()
        controller.states[tp] = there
        await controller.send(3, controller.metadata(3, tp))

    on_virtual_time(story)


def test_a_topic_that_goes_by_a_version_without_ids_loses_its_id_rightly() -> None:
    async def story(controller: ScriptedController) -> None:
        tp = controller.create("t", [1, 2])
        await controller.send_to_all()
        controller.topic_ids.clear()
        controller.states[tp] = controller.states[tp]._replace(leader=-2)  # type: ignore[arg-type]
        await controller.send(3, controller.metadata(3, tp))
        assert controller.broker(3).life.metadata.topic_ids == {}

    on_virtual_time(story)


def test_a_topic_that_stays_must_not_lose_its_id() -> None:
    async def main(loop: VirtualLoop) -> None:
        controller = await ScriptedController(loop).started()
        tp = controller.create("t", [1, 2])
        await controller.send_to_all()
        controller.topic_ids.clear()
        await controller.send(3, controller.metadata(3, tp))
        assert controller.cluster.malformed == ["broker 3 was made to forget the id of t by UpdateMetadata 6"]

    run(main, 1)


def test_a_failed_disk_answers_storage_error() -> None:
    async def story(controller: ScriptedController) -> None:
        tp = controller.create("t", [1, 2])
        await controller.send_to_all()
        controller.broker(2).fail_disk("t", 0)
        controller.elect(tp)
        response = await controller.send(2, controller.leader_and_isr(2, tp))  # type: ignore[arg-type]
        assert response.partition_errors == {tp: KafkaError.KAFKA_STORAGE_ERROR}

    on_virtual_time(story)


def test_observers_see_each_request_with_its_sender_and_its_answer() -> None:
    async def story(controller: ScriptedController) -> None:
        tp, seen = controller.create("t", [1, 2]), []
        controller.cluster.on_request.append(
            lambda broker, owner, _, request, error: seen.append(controller.cluster.seen(broker, owner, request, error))
        )
        await controller.send(1, controller.leader_and_isr(1, tp))  # type: ignore[arg-type]
        [request] = seen
        assert (request.broker, request.owner, request.api, request.error) == (1, OWNER, "LeaderAndIsr", 0)
        [row] = request.rows
        assert (row.topic, row.partition, row.leader, row.isr, row.replicas) == ("t", 0, 1, (1, 2), (1, 2))

    on_virtual_time(story)


# -- faults ------------------------------------------------------------------------------------------------------------


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
    async def story(controller: ScriptedController) -> None:
        tp = controller.create("t", [1, 2])
        controller.broker(1).inject(fault, LEADER_AND_ISR)
        await controller.send(1, controller.metadata(1))
        with pytest.raises(error):
            await controller.send(1, controller.leader_and_isr(1, tp), timeout_s=0.5)  # type: ignore[arg-type]
        assert (tp in controller.broker(1).life.replicas) is processed
        assert (await controller.try_to_send(1, controller.metadata(1))) is not None

    on_virtual_time(story)


def test_a_duplicate_answer_is_found_at_the_next_request() -> None:
    async def story(controller: ScriptedController) -> None:
        controller.broker(1).inject(Fault.DUPLICATE, UPDATE_METADATA)
        await controller.send(1, controller.metadata(1))
        with pytest.raises(CorrelationMismatch):
            await controller.send(1, controller.metadata(1))

    on_virtual_time(story)


def test_an_injected_error_is_answered_instead_of_the_work() -> None:
    async def story(controller: ScriptedController) -> None:
        tp = controller.create("t", [1, 2])
        controller.broker(1).inject_error(KafkaError.CLUSTER_AUTHORIZATION_FAILED)
        response = await controller.send(1, controller.leader_and_isr(1, tp))  # type: ignore[arg-type]
        assert response.error is KafkaError.CLUSTER_AUTHORIZATION_FAILED
        assert tp not in controller.broker(1).life.replicas

    on_virtual_time(story)


def test_a_silent_broker_accepts_and_does_nothing() -> None:
    async def story(controller: ScriptedController) -> None:
        controller.broker(1).is_silent = True
        with pytest.raises(TimeoutError):
            await controller.send(1, controller.metadata(1))
        controller.broker(1).heal()
        assert (await controller.send(1, controller.metadata(1))).error is KafkaError.NONE

    on_virtual_time(story)


def test_a_refusing_broker_refuses_new_connections_only() -> None:
    async def story(controller: ScriptedController) -> None:
        controller.broker(1).is_refusing = True
        assert (await controller.send(1, controller.metadata(1))).error is KafkaError.NONE
        controller.network.cut(OWNER, 1)
        with pytest.raises(ConnectionRefusedError):
            await controller.send(1, controller.metadata(1))

    on_virtual_time(story)


def test_a_slow_broker_works_off_one_request_after_the_other() -> None:
    async def story(controller: ScriptedController) -> None:
        controller.broker(1).work_s = Range(1.0, 1.0)
        begun = controller.loop.time()
        await controller.send(1, controller.metadata(1))
        assert controller.loop.time() - begun > 1

    on_virtual_time(story)


def test_a_waiting_request_is_not_overtaken_when_the_broker_is_fast_again() -> None:
    async def story(controller: ScriptedController) -> None:
        broker, tp = controller.broker(1), controller.create("t", [2, 3])
        broker.work_s = Range(1.0, 1.0)
        await controller.send(1, controller.metadata(1))
        slow = asyncio.ensure_future(controller.send(1, controller.metadata(1, tp)))
        await asyncio.sleep(0.5)
        broker.heal()
        controller.network.cut(OWNER, 1)
        with pytest.raises(ConnectionResetError):
            await slow
        controller.elect(tp)
        await controller.send(1, controller.metadata(1, tp))
        await asyncio.sleep(5)
        assert broker.life.metadata.partitions[tp].leader_epoch == 1

    on_virtual_time(story)


def test_a_new_run_of_a_broker_does_not_serve_requests_of_the_earlier_run() -> None:
    async def story(controller: ScriptedController) -> None:
        broker = controller.broker(1)
        broker.work_s = Range(1.0, 1.0)
        await controller.send(1, controller.metadata(1))
        lost = asyncio.ensure_future(controller.send(1, controller.metadata(1)))
        await asyncio.sleep(0.5)
        broker.bounce(boot_s=0.01)
        with pytest.raises(PeerClosed):
            await lost
        broker.heal()
        await asyncio.sleep(0.1)
        begun = controller.loop.time()
        await controller.send(1, controller.metadata(1))
        assert controller.loop.time() - begun < 0.1

    on_virtual_time(story)


# -- life cycle --------------------------------------------------------------------------------------------------------


def test_a_crash_breaks_links_and_loses_memory_and_the_session_goes_later() -> None:
    async def story(controller: ScriptedController) -> None:
        tp = controller.create("t", [1, 2])
        await controller.send_to_all()
        controller.broker(1).crash()
        with pytest.raises((PeerClosed, ConnectionRefusedError)):
            await controller.send(1, controller.metadata(1))
        assert 1 in controller.epochs()
        await asyncio.sleep(7)
        assert 1 not in controller.epochs()
        controller.broker(1).restart(boot_s=0.01)
        assert controller.broker(1).life.replicas == {}
        assert tp in controller.broker(1).disk

    on_virtual_time(story)


def test_a_machine_that_dies_closes_no_connection() -> None:
    async def story(controller: ScriptedController) -> None:
        controller.broker(1).crash(unplugged=True)
        for _ in range(2):
            with pytest.raises(TimeoutError):
                await controller.send(1, controller.metadata(2))

    on_virtual_time(story)


def test_a_restart_waits_until_the_old_registration_is_gone() -> None:
    async def story(controller: ScriptedController) -> None:
        before = controller.epochs()[1]
        controller.broker(1).crash()
        controller.broker(1).restart(boot_s=0.01)
        await asyncio.sleep(5)
        assert controller.epochs()[1] == before
        assert not controller.broker(1).is_running
        await asyncio.sleep(3)
        assert controller.epochs()[1] == controller.broker(1).epoch > before

    on_virtual_time(story)


def test_a_bounce_without_gap_is_never_seen_absent() -> None:
    async def story(controller: ScriptedController) -> None:
        before = controller.epochs()[1]
        controller.broker(1).bounce()
        assert controller.epochs()[1] > before

    on_virtual_time(story)


def test_a_bounce_with_gap_is_absent_for_so_long() -> None:
    async def story(controller: ScriptedController) -> None:
        controller.broker(1).bounce(gap_s=2.0)
        await asyncio.sleep(1.9)
        assert 1 not in controller.epochs()
        await asyncio.sleep(0.2)
        assert 1 in controller.epochs()

    on_virtual_time(story)


def test_between_registration_and_boot_connections_are_refused() -> None:
    async def story(controller: ScriptedController) -> None:
        controller.broker(1).bounce(boot_s=1.0)
        await asyncio.sleep(0.5)
        controller.network.cut()
        with pytest.raises(ConnectionRefusedError):
            await controller.send(1, controller.metadata(1))

    on_virtual_time(story)


def test_a_paused_broker_comes_back_with_its_old_belief_and_a_new_epoch() -> None:
    async def story(controller: ScriptedController) -> None:
        tp, before = controller.create("t", [1, 2]), controller.epochs()[1]
        await controller.send_to_all()
        controller.broker(1).pause()
        await asyncio.sleep(8)
        assert 1 not in controller.epochs()
        controller.broker(1).resume()
        assert (role(controller, 1, tp), controller.broker(1).epoch) == (("leader", 1, 0), before)
        await asyncio.sleep(1)
        assert controller.broker(1).epoch == controller.epochs()[1] > before

    on_virtual_time(story)


def test_a_short_pause_keeps_the_session_and_bytes_wait() -> None:
    async def story(controller: ScriptedController) -> None:
        before = controller.epochs()[1]
        await controller.send(1, controller.metadata(1))
        controller.broker(1).pause()
        sending = controller.loop.create_task(controller.send(1, controller.metadata(1)))
        await asyncio.sleep(1.5)
        assert not sending.done()
        controller.broker(1).resume()
        assert (await sending).error is KafkaError.NONE
        await asyncio.sleep(10)
        assert controller.epochs()[1] == before

    on_virtual_time(story)


def test_a_lost_session_brings_a_new_epoch_and_keeps_the_memory() -> None:
    async def story(controller: ScriptedController) -> None:
        tp, before = controller.create("t", [1, 2]), controller.epochs()[1]
        await controller.send_to_all()
        controller.broker(1).lose_session(back_after_s=1.0)
        assert 1 not in controller.epochs()
        await asyncio.sleep(2)
        assert controller.broker(1).epoch == controller.epochs()[1] > before
        assert controller.broker(1).life.replicas[tp].role is Role.LEADER

    on_virtual_time(story)


def test_a_session_that_the_server_ends_brings_a_new_epoch_too() -> None:
    async def story(controller: ScriptedController) -> None:
        before = controller.epochs()[1]
        controller.zookeeper.expire(controller.zookeeper.nodes["/brokers/ids/1"].owner)
        await asyncio.sleep(1)
        assert controller.broker(1).epoch == controller.epochs()[1] > before

    on_virtual_time(story)


def test_links_to_a_machine_that_died_end_when_it_is_back() -> None:
    async def story(controller: ScriptedController) -> None:
        await controller.send(1, controller.metadata(1))
        [link] = controller.network.links(OWNER, 1)
        controller.broker(1).crash(unplugged=True)
        await asyncio.sleep(7)
        assert link.is_open
        controller.broker(1).restart(boot_s=0.01)
        await asyncio.sleep(0.1)
        assert not link.is_open

    on_virtual_time(story)


def test_a_broker_stops_when_the_controller_agrees() -> None:
    async def story(controller: ScriptedController) -> None:
        tp = controller.create("t", [1, 2])
        await controller.send_to_all()
        controller.loses_answers = 1
        assert await controller.broker(1).stop()
        assert (controller.states[tp].leader, sorted(controller.epochs())) == (2, [2, 3])
        assert not controller.broker(1).is_running

    on_virtual_time(story)


def test_a_broker_stops_without_agreement_in_the_end() -> None:
    async def story(controller: ScriptedController) -> None:
        controller.refuses = 3
        assert not await controller.broker(1).stop()
        assert 1 not in controller.epochs()

    on_virtual_time(story)


def test_a_crash_ends_a_stop() -> None:
    async def story(controller: ScriptedController) -> None:
        controller.refuses = 100
        stopping = controller.loop.create_task(controller.broker(1).stop())
        await asyncio.sleep(0.5)
        controller.broker(1).crash()
        assert not await stopping

    on_virtual_time(story)


def test_it_registers_once_there_is_a_zookeeper() -> None:
    async def story(controller: ScriptedController) -> None:
        controller.broker(1).crash(expires_after_s=0.1)
        await asyncio.sleep(1)
        controller.zookeeper.down_for(3)
        controller.broker(1).restart(boot_s=0.01)
        await asyncio.sleep(2)
        assert not controller.broker(1).is_running
        await asyncio.sleep(2)
        assert controller.broker(1).is_serving

    on_virtual_time(story)


def test_producer_ids_are_asked_for_until_there_is_a_block() -> None:
    async def story(controller: ScriptedController) -> None:
        controller.refuses, controller.loses_answers = 2, 1
        controller.broker(1).ask_for_producer_ids()
        await asyncio.sleep(5)
        assert controller.cluster.blocks == [(2000, 2999, 1)]
        controller.cluster.blocks.append((2500, 2600, 2))
        assert len(controller.cluster.overlapping_blocks()) == 1

    on_virtual_time(story)


def test_producer_ids_are_asked_for_now_and_then() -> None:
    async def main(loop: VirtualLoop) -> None:
        controller = ScriptedController(loop, brokers=())
        controller.cluster.add(1, settings=BrokerSettings(producer_ids_s=Range(2.0, 4.0)))
        await controller.started()
        await asyncio.sleep(20)
        assert 4 <= len(controller.cluster.blocks) <= 10
        assert controller.cluster.overlapping_blocks() == []

    run(main, seed=1)


def test_the_judge_gets_the_state_that_brokers_believe_in() -> None:
    async def story(controller: ScriptedController) -> None:
        tp = controller.create("t", [1, 2])
        await controller.send_to_all()
        first, *_ = controller.cluster.at_rest()
        assert (first.id, first.controller_id, list(first.live_brokers)) == (1, 2_000_000_000, [1, 2, 3])
        assert first.metadata[tp] == first.replicas[tp] == (1, 0, (1, 2), 0)

    on_virtual_time(story)
