"""Group A, zombies: a controller stalls, the role moves, the controller goes on: none of its writes takes effect."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from controllerd.core.kafka_error import KafkaError
from controllerd.daemon.node import ControllerNode
from controllerd.zk import paths
from tests.broker.cluster import cluster
from tests.broker.stub_controller import StubController
from tests.channel_manager.stub_broker import Act
from tests.scenarios.nodes import NODE, RecordedEvents, Rig, last_sent, session_of
from tests.zk.proxy import MULTI
from tests.zk.world import THEIRS, until
from wire.versions import ApiKey

pytestmark = pytest.mark.zookeeper

NO_REQUEST = "nobody"


@asynccontextmanager
async def stalled_at_its_next_write(rig: Rig, cause: Awaitable[object]) -> AsyncIterator[None]:
    """Stall the controller right before its first write because of ``cause``; afterwards it goes on."""
    gate = rig.proxy.held[MULTI] = asyncio.Event()
    rig.proxy.requests.clear()
    await cause
    await until(lambda: MULTI in rig.proxy.requests)
    try:
        yield
    finally:
        del rig.proxy.held[MULTI]
        gate.set()


async def survives_a_zombie(rig: Rig, request: str = NO_REQUEST, data: bytes | None = None) -> None:
    """Move the role while the controller serves ``request``, or else a new topic: it resigns, and changes nothing."""
    async with rig.brokers(1, 2) as stubs, rig.node() as zombie:
        await rig.peer.add_topic("before", [[1, 2]])
        await rig.led_by("before", 1)
        is_asked = request != NO_REQUEST
        cause = rig.peer.put(request, data) if is_asked else rig.peer.add_topic("t", [[1, 2], [2, 1]])
        async with stalled_at_its_next_write(rig, cause):
            won = await rig.peer.lead()
            left, topic = await rig.peer.node(request), await rig.peer.node(paths.topic("before"))
            moved_at, sent = rig.written()[-1].zxid, {broker: len(stub.got) for broker, stub in stubs.items()}
        await until(lambda: not zombie.snapshot.is_active)
        await until(lambda: str(zombie.snapshot.holder) == f"controllerd {THEIRS.node_id}")

        session = session_of(zombie).session_id
        assert rig.written_by(session, since=moved_at) == []
        assert [found.operations[0].error for found in rig.refused_to(session, since=moved_at)] == ["BadVersion"]
        assert (await rig.epoch(), await rig.holder()) == (won.epoch, THEIRS.node_id)
        assert await rig.states("t", 2) == {}
        assert await rig.peer.node(request) == left
        assert await rig.peer.node(paths.topic("before")) == topic
        assert {broker: len(stub.got) for broker, stub in stubs.items()} == sent


async def test_a4_a_zombie_does_not_create_the_state_of_a_new_topic_kafka_6082(rig: Rig) -> None:
    await survives_a_zombie(rig)


async def test_a5_a_zombie_does_not_touch_a_deletion(rig: Rig) -> None:
    await survives_a_zombie(rig, f"{paths.DELETE_TOPICS}/before")


async def test_a6_a_zombie_does_not_touch_a_preferred_election(rig: Rig) -> None:
    wanted = {"version": 1, "partitions": [{"topic": "before", "partition": 0}]}
    await survives_a_zombie(rig, paths.PREFERRED_REPLICA_ELECTION, json.dumps(wanted).encode())


async def test_a7_a_zombie_does_not_touch_a_reassignment(rig: Rig) -> None:
    wanted = {"version": 1, "partitions": [{"topic": "before", "partition": 0, "replicas": [2, 1]}]}
    await survives_a_zombie(rig, paths.REASSIGN_PARTITIONS, json.dumps(wanted).encode())


async def test_a12_a_broker_refuses_an_older_controller_kafka_532(rig: Rig, tmp_path: Path) -> None:
    async with (
        cluster(rig.server + rig.chroot, tmp_path, StubController(epoch=5), 1) as brokers,
        rig.node(),
    ):
        refusal = await brokers.ask(
            1,
            ApiKey.LEADER_AND_ISR,
            7,
            controller_id=NODE,
            is_k_raft_controller=False,
            controller_epoch=0,
            broker_epoch=brokers.brokers[1].epoch,
            type_=0,
            topic_states=(),
            live_leaders=(),
        )

        assert refusal.error_code == KafkaError.STALE_CONTROLLER_EPOCH


async def wait_until_all_is_sent(rig: Rig, topic: str) -> None:
    """Wait until the broker has everything about a topic, so that its next request is about something else."""
    await rig.stubs[1].until(lambda: bool(last_sent(rig.stubs[1], "UpdateMetadata", topic)))


def leader_and_isrs(rig: Rig, topic: str) -> int:
    """How many LeaderAndIsr about a topic the broker has got."""
    asked = [got.entity.topic_states for got in rig.stubs[1].got if got.api == "LeaderAndIsr"]
    return sum(state.topic_name == topic for states in asked for state in states)


async def test_a12_a_refused_request_is_not_repeated_while_the_role_is_still_ours(rig: Rig) -> None:
    async with rig.brokers(1) as stubs, rig.node() as node:
        recorded = RecordedEvents(node)
        await rig.peer.add_topic("before", [[1]])
        await wait_until_all_is_sent(rig, "before")
        stubs[1].acts.append(Act(error=KafkaError.STALE_CONTROLLER_EPOCH))
        await rig.peer.add_topic("t", [[1]])
        await wait_until_all_is_sent(rig, "t")

        assert recorded.errors("LeaderAndIsr") == [KafkaError.NONE, KafkaError.STALE_CONTROLLER_EPOCH]
        assert leader_and_isrs(rig, "t") == 1
        assert (node.snapshot.is_active, node.snapshot.controller_epoch) == (True, 1)


async def test_a12_a_deposed_sender_sends_no_more(rig: Rig) -> None:
    async with rig.brokers(1) as stubs, rig.node() as node:
        await rig.peer.add_topic("before", [[1]])
        await wait_until_all_is_sent(rig, "before")
        stubs[1].gate.clear()
        await rig.peer.add_topic("t", [[1]])
        await stubs[1].until(lambda: leader_and_isrs(rig, "t") == 1)
        await until(lambda: requests_left(node) == 2)  # the one without an answer, and an UpdateMetadata behind it
        await rig.peer.lead()
        await until(lambda: not node.snapshot.is_active)
        sent = len(stubs[1].got)
        stubs[1].gate.set()
        await stubs[1].until(lambda: stubs[1].open_now == 0)

        assert len(stubs[1].got) == sent


def requests_left(node: ControllerNode) -> int:
    """How many requests to brokers are under way or wait."""
    assert node.instance.channels is not None
    return sum(sender.depth for sender in node.instance.channels.stats())
