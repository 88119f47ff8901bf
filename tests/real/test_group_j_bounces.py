"""Brokers bounce, and their epochs change (scenarios.md, group J), on stock brokers under load."""

import time
from collections.abc import AsyncIterator, Collection
from typing import Final

import pytest
import pytest_asyncio

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import Broker, BrokerId, Endpoint
from controllerd.core.requests import (
    ControlRequest,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataBody,
    UpdateMetadataRequest,
)
from controllerd.dev.cluster import BROKER_IDS
from controllerd.dev.ports import LOOPBACK
from controllerd.record.records import BrokersRecord, EventBegin
from tests.real.bounces import bounce_asleep, bounces_by_event, epochs, judge_new_life, until_known
from tests.real.scene import NO_REBALANCE, Scene, open_scene
from wire import control_requests
from wire.connection import KafkaConnection
from wire.versions import CONTROL_VERSIONS

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.real,
    pytest.mark.timeout(300),
    pytest.mark.asyncio(loop_scope="module"),
]

WITHOUT_CONTROLLED_SHUTDOWN: Final = {"controlled.shutdown.enable": "false"}
"""Such a broker stops at once on SIGTERM: it does not wait for a controller whose process is paused."""
SESSION_MS: Final = 55_000
"""The session timeout of controllerd, which is paused while two brokers restart."""
TWO_AWAY_S: Final = 40.0
"""While two of three brokers are down, records that need two replicas are not acknowledged."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    directory = tmp_path_factory.mktemp("bounces")
    hasty = {2: WITHOUT_CONTROLLED_SHUTDOWN, 3: WITHOUT_CONTROLLED_SHUTDOWN}
    async with open_scene(directory, session_ms=SESSION_MS, single=hasty, settings=NO_REBALANCE) as scene:
        yield scene


async def bounce_while_paused(scene: Scene, *brokers: int) -> None:
    """Restart brokers while the controller's process is paused: the controller sees other czxids only."""
    ends = {number: scene.cluster.brokers[number].terminate for number in brokers}
    await bounce_asleep(scene.cluster, await scene.waiting.active(), ends)
    await until_known(scene)
    await scene.waiting.until(scene.waiting.missing_isr, "the ISRs are full")


async def test_j1_a_bounce_faster_than_an_event_is_a_failure_and_a_startup(scene: Scene) -> None:
    async with scene.row("J1", within_s=TWO_AWAY_S):
        since = time.monotonic()
        await bounce_while_paused(scene, 3)

        assert await bounces_by_event(scene, since) == [{3}]
        await judge_new_life(scene, 3, since)


async def test_j2_the_broker_epochs_are_the_czxids_of_the_registrations(scene: Scene) -> None:
    async with scene.row("J2"):
        seen = []
        for act in (scene.until_registered, lambda *_: scene.shut_down(2), lambda *_: scene.start(2)):
            await act(*BROKER_IDS)
            known, real = await epochs(scene)
            assert known == real
            seen.append(known)
        assert seen[1] == {number: epoch for number, epoch in seen[0].items() if number != 2}
        assert seen[2][2] > seen[0][2]


async def test_j3_brokers_refuse_requests_to_an_earlier_epoch_only(scene: Scene) -> None:
    """Each control request with the broker's epoch less one, its epoch, and one more."""
    async with scene.row("J3"):
        real = await scene.operator.czxid("/brokers/ids/1")
        answers = {offset: await send_all(scene, 1, real + offset) for offset in (-1, 0, 1)}

        assert answers[-1] == [KafkaError.STALE_BROKER_EPOCH] * 3
        assert answers[0] == answers[1] == [KafkaError.NONE] * 3


async def send_all(scene: Scene, broker: int, broker_epoch: int) -> list[KafkaError]:
    """Send LeaderAndIsr, UpdateMetadata and StopReplica without partitions, and return their errors."""
    active, epoch = await scene.waiting.active(), await scene.epoch()
    brokers: list[tuple[int, int]] = [(n, b.port) for n, b in scene.cluster.brokers.items()]
    brokers.append((active.node_id, active.kafka_port.port))
    live = tuple(Broker(BrokerId(n), 0, (Endpoint("PLAINTEXT", LOOPBACK, port),)) for n, port in brokers)
    requests: list[ControlRequest] = [
        LeaderAndIsrRequest(active.node_id, epoch, broker_epoch, {}, {}, ()),
        UpdateMetadataRequest(active.node_id, epoch, broker_epoch, UpdateMetadataBody({}, {}, live)),
        StopReplicaRequest(active.node_id, epoch, broker_epoch, {}),
    ]
    connection = await KafkaConnection.connect(LOOPBACK, scene.cluster.brokers[broker].port, "test")
    try:
        return [await send(connection, request) for request in requests]
    finally:
        await connection.close()


async def send(connection: KafkaConnection, request: ControlRequest) -> KafkaError:
    key = control_requests.api_key(request)
    version = CONTROL_VERSIONS[key].highest
    body = await connection.request(key, version, *control_requests.encode(request, version))
    return control_requests.decode_response(request, version, body).error


async def test_j4_a_broker_whose_session_expired_registers_again(scene: Scene) -> None:
    """KAFKA-7165: the same process registers with another epoch."""
    async with scene.row("J4"):
        broker, former = scene.broker(1), await scene.operator.czxid("/brokers/ids/1")
        pid = broker.process.pid
        broker.pause()
        try:
            await scene.until_registered(2, 3)
        finally:
            broker.resume()
        await scene.until_registered(*BROKER_IDS)
        await scene.waiting.until(scene.waiting.missing_isr, "the ISRs are full")

        assert await scene.operator.czxid("/brokers/ids/1") > former
        assert (broker.running, broker.process.pid) == (True, pid)


async def test_j5_a_rolling_bounce_of_all_brokers_leaves_every_partition_online(scene: Scene) -> None:
    async with scene.row("J5", within_s=TWO_AWAY_S):
        for number in BROKER_IDS:
            await scene.shut_down(number)
            await scene.start(number)
            await scene.waiting.until(scene.waiting.missing_isr, "the ISRs are full")

        view = await scene.cluster.view()
        away = sum(state.leader != view.assignments[t].replicas[0] for t, state in view.leaderships.items())

        async def settled() -> bool:
            counts = (await (await scene.waiting.active()).status() or {}).get("counts", {})
            return (counts.get("offline"), counts.get("under_replicated"), counts.get("non_preferred")) == (0, 0, away)

        await scene.until_seen(settled, f"{away} partitions are counted as led by others")


async def test_j6_two_brokers_bounce_within_one_event(scene: Scene) -> None:
    async with scene.row("J6", within_s=TWO_AWAY_S):
        since = time.monotonic()
        await bounce_while_paused(scene, 2, 3)

        assert await bounces_by_event(scene, since) == [{2, 3}]
        assert await events_named(scene, since, {2, 3}) == {"BrokerChange"}


async def events_named(scene: Scene, since: float, brokers: Collection[int]) -> set[str]:
    """The events in which these brokers failed."""
    names = {(e.boot, record.number): record.name for e, record in await scene.logged(EventBegin, since_s=since)}
    rows = await scene.logged(BrokersRecord, since_s=since)
    return {names[e.boot, e.event] for e, record in rows if set(brokers) <= set(record.gone)}
