"""Controlled shutdowns (scenarios.md, group E), on stock brokers under load."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from typing import Final

import pytest
import pytest_asyncio
from kio.schema.alter_partition.v3 import request as alter
from kio.schema.alter_partition.v3.response import AlterPartitionResponse
from kio.schema.controlled_shutdown.v3.request import ControlledShutdownRequest
from kio.schema.controlled_shutdown.v3.response import ControlledShutdownResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId
from kio.static.primitive import i8, i32, i64

from controllerd.core.model import TopicPartition
from controllerd.record.records import ReplyRecord, RequestRecord
from tests.real.operator import tp
from tests.real.scene import NO_REBALANCE, SESSION_S, Scene, open_scene
from wire.primitives import topic_id_bytes

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.real,
    pytest.mark.timeout(300),
    pytest.mark.asyncio(loop_scope="module"),
]

ALL_DOWN_S: Final = 60.0
"""With all brokers down, no record is acknowledged."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    directory = tmp_path_factory.mktemp("controlled-shutdown")
    async with open_scene(directory, settings=NO_REBALANCE) as scene:
        yield scene


async def ask(scene: Scene, broker: int, epoch: int) -> ControlledShutdownResponse:
    """Send a ControlledShutdown as a broker does."""
    request = ControlledShutdownRequest(broker_id=BrokerId(i32(broker)), broker_epoch=i64(epoch))
    return await scene.operator.ask(request, ControlledShutdownResponse)


async def test_e1_e3_e4_e6_brokers_leave_one_after_the_other_and_return(scene: Scene) -> None:
    async with scene.row("E1, E3, E4, E6", within_s=ALL_DOWN_S):
        await scene.create("e1", {0: [3, 1, 2]}, {"min.insync.replicas": "1"})
        since = time.monotonic()
        await scene.shut_down(3)
        await scene.until_led("e1", 1, 1, [1, 2])
        await stepped_down(scene, "e1", former=3, leader=1, since=since)

        since = time.monotonic()
        await scene.shut_down(2)
        await scene.until_led("e1", 1, 2, [1])
        assert await were_stopped(scene, 2, since) >= {tp("e1")}

        since = time.monotonic()
        await scene.cluster.brokers[1].terminate()
        remaining = [r.summary for _, r in await scene.logged(ReplyRecord, since_s=since)]
        print(f"  the last broker was answered: {remaining}")
        assert remaining
        state = await scene.state("e1")
        assert (set(state.isr), state.leader) in [({1}, 1), ({1}, -1)], "the last leader stays in the metadata"

        await scene.start(1, 2, 3)
        await scene.until_isr("e1", [1, 2, 3])
        status = await (await scene.waiting.active()).status()
        assert status is not None
        assert {(row["id"], row["shutting_down"]) for row in status["brokers"]} == {(n, False) for n in (1, 2, 3)}


async def stepped_down(scene: Scene, topic: str, *, former: int, leader: int, since: float) -> None:
    """Both the broker that leaves and the new leader are sent the new leadership (KAFKA-7482)."""
    sent = [
        set(record.brokers)
        for _, record in await scene.logged(RequestRecord, since_s=since)
        if record.api == "LeaderAndIsr" and (topic, leader) in zip(record.topics, record.leaders, strict=True)
    ]
    assert {former, leader} <= set().union(*sent), sent


async def were_stopped(scene: Scene, broker: int, since: float) -> set[TopicPartition]:
    """The replicas that the broker was sent StopReplica for, without deletion."""
    requests = [r for _, r in await scene.logged(RequestRecord, since_s=since) if r.api == "StopReplica"]
    mine = [r for r in requests if broker in r.brokers]
    assert not any(flag for record in mine for flag in record.delete)
    return {tp(t, p) for record in mine for t, p in zip(record.topics, record.partitions, strict=True)}


async def test_e2_a_stale_broker_epoch_is_refused_and_nothing_moves(scene: Scene) -> None:
    async with scene.row("E2", within_s=SESSION_S):
        epoch = await scene.operator.czxid("/brokers/ids/2")
        before = (await scene.cluster.view()).leaderships

        answer = await ask(scene, 2, epoch - 1)

        assert answer.error_code is ErrorCode.stale_broker_epoch
        after = (await scene.cluster.view()).leaderships
        assert {t: s.leader_epoch for t, s in after.items()} == {t: s.leader_epoch for t, s in before.items()}


async def test_e5_a_broker_that_shuts_down_is_refused_in_an_isr(scene: Scene) -> None:
    """KAFKA-14140. The request names broker 3, which itself goes on running; its restart ends the mark."""
    async with scene.row("E5"):
        await scene.create("e5", {0: [1, 2, 3]})
        answer = await ask(scene, 3, await scene.operator.czxid("/brokers/ids/3"))
        assert (answer.error_code, answer.remaining_partitions) == (ErrorCode.none, ())
        await scene.until_led("e5", 1, 1, [1, 2])

        outcome = await propose(scene, "e5", [1, 2, 3])

        assert outcome is ErrorCode.ineligible_replica
        await scene.until_led("e5", 1, 1, [1, 2])
        await scene.kill(3)
        await scene.start(3)
        await scene.until_led("e5", 1, 1, [1, 2, 3])


async def propose(scene: Scene, topic: str, isr: list[int]) -> ErrorCode:
    """Send an AlterPartition as the leader does, and return its error."""
    view, state = await scene.cluster.view(), await scene.state(topic)
    epochs = await asyncio.gather(*(scene.operator.czxid(f"/brokers/ids/{broker}") for broker in isr))
    members = zip(isr, epochs, strict=True)
    partition = alter.PartitionData(
        partition_index=i32(0),
        leader_epoch=i32(state.leader_epoch),
        new_isr_with_epochs=tuple(
            alter.BrokerState(broker_id=BrokerId(i32(broker)), broker_epoch=i64(epoch)) for broker, epoch in members
        ),
        leader_recovery_state=i8(0),
        partition_epoch=i32(state.partition_epoch),
    )
    topic_id = uuid.UUID(bytes=topic_id_bytes(view.topic_ids[topic]))
    request = alter.AlterPartitionRequest(
        broker_id=BrokerId(i32(state.leader)),
        broker_epoch=i64(await scene.operator.czxid(f"/brokers/ids/{state.leader}")),
        topics=(alter.TopicData(topic_id=topic_id, partitions=(partition,)),),
    )
    answer = await scene.operator.ask(request, AlterPartitionResponse)
    if answer.error_code is not ErrorCode.none:
        return answer.error_code
    return answer.topics[0].partitions[0].error_code
