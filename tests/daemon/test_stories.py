"""Short stories of a daemon with brokers: what its audit log says afterwards, and what a frozen one does."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controllerd.audit.reader import AuditReader, fold_directory, verify
from controllerd.core.model import BrokerId, LeaderAndIsr, TopicPartition
from controllerd.dev.controllers import ControllerProcess
from controllerd.record.fold import Observed, diff_with_zookeeper
from controllerd.record.invariants import check
from controllerd.zk import codecs, paths
from tests.channel_manager.stub_broker import Got, StubBroker, stub_broker
from tests.daemon.daemons import NODE, SHORT_MS, active, controller, daemon, register, until
from tests.zk.world import Peer

pytestmark = pytest.mark.zookeeper

TOPIC = "orders"
PARTITIONS = [TopicPartition(TOPIC, number) for number in range(3)]
REPLICAS = [[1, 2], [2, 1], [1, 2]]


@pytest.fixture
async def stubs(peer: Peer) -> AsyncIterator[list[StubBroker]]:
    """Two registered brokers that answer everything well."""
    async with stub_broker(1) as one, stub_broker(2) as two:
        await register(peer, one)
        await register(peer, two)
        yield [one, two]


async def leaderships(peer: Peer) -> dict[TopicPartition, LeaderAndIsr]:
    """The states in ZooKeeper."""
    return dict((await peer.store.states.read_states(PARTITIONS)).states)


async def led_by(peer: Peer, *leaders: int) -> None:
    """Wait until the partitions have these leaders."""

    async def is_so() -> bool:
        states = await leaderships(peer)
        return [states[tp].leader for tp in PARTITIONS if tp in states] == list(leaders)

    await until(is_so)


async def observed(peer: Peer) -> Observed:
    """All that ZooKeeper holds."""
    topics = (await peer.store.topics.read_topics([TOPIC])).topics
    assignments = {TopicPartition(name, p): a for name, image in topics.items() for p, a in image.assignments.items()}
    return Observed({name: image.topic_id for name, image in topics.items()}, assignments, await leaderships(peer))


async def log_of(instance: ControllerProcess, peer: Peer) -> Path:
    """Where the instance keeps its audit log of this cluster."""
    node = await peer.node(paths.CLUSTER_ID)
    assert node is not None
    return instance.audit_directory(codecs.decode_cluster_id(node.data))


async def tell_story(instance: ControllerProcess, peer: Peer) -> None:
    """A topic is created, a broker dies, the controller is killed and comes back, and is stopped at last."""
    await active(instance)
    await peer.add_topic(TOPIC, REPLICAS)
    await led_by(peer, 1, 2, 1)
    await peer.remove(paths.broker(BrokerId(1)))
    await led_by(peer, 2, 2, 2)
    await instance.process.kill()
    await instance.start()
    await active(instance)
    assert await instance.process.terminate() == 0


async def test_the_state_folded_from_the_audit_log_is_the_state_in_zookeeper(
    connect: str, peer: Peer, stubs: list[StubBroker], tmp_path: Path
) -> None:
    async with daemon(connect, tmp_path) as instance:
        await tell_story(instance, peer)
        folded = fold_directory(await log_of(instance, peer))

    assert diff_with_zookeeper(folded, await observed(peer)) == []
    assert folded.leaderships().keys() == set(PARTITIONS)


async def test_the_audit_log_of_a_story_with_a_sigkill_is_intact(
    connect: str, peer: Peer, stubs: list[StubBroker], tmp_path: Path
) -> None:
    async with daemon(connect, tmp_path) as instance:
        await tell_story(instance, peer)
        report = verify(await log_of(instance, peer))

    assert (report.findings, report.gaps, report.unknown_kinds) == ((), (), {})
    assert report.exit_code == 0


async def test_the_audit_log_of_a_story_violates_no_invariant(
    connect: str, peer: Peer, stubs: list[StubBroker], tmp_path: Path
) -> None:
    async with daemon(connect, tmp_path) as instance:
        await tell_story(instance, peer)
        violations = list(check(AuditReader(await log_of(instance, peer))))

    assert violations == []


# -- frozen ------------------------------------------------------------------------------------------------------------


async def freeze(instance: ControllerProcess, peer: Peer) -> None:
    """Stop the process for longer than its session lives: ZooKeeper has ended it."""
    instance.process.pause()

    async def is_gone() -> bool:
        return await peer.node(paths.CONTROLLER) is None

    await until(is_gone)
    await asyncio.sleep(SHORT_MS / 1000)  # the freeze itself: beyond the session, by the process's own clock, too


async def test_a_frozen_one_leads_with_a_higher_epoch_or_not_at_all(
    connect: str, peer: Peer, stubs: list[StubBroker], tmp_path: Path
) -> None:
    async with daemon(connect, tmp_path, session_ms=SHORT_MS) as instance:
        await active(instance)
        await peer.add_topic(TOPIC, REPLICAS)
        # Bytes on their way to a socket may leave after a freeze (ADR 0011).
        await until(lambda: have_received_topic(stubs))
        await freeze(instance, peer)
        before = [len(stub.got) for stub in stubs]
        await peer.remove(paths.broker(BrokerId(1)))
        instance.process.resume()
        await led_by(peer, 2, 2, 2)

        after = [
            got.entity.controller_epoch for stub, seen in zip(stubs, before, strict=True) for got in stub.got[seen:]
        ]
        assert set(after) <= {2}
        states = await leaderships(peer)
        assert {states[tp].controller_epoch for tp in (PARTITIONS[0], PARTITIONS[2])} == {2}


async def test_a_frozen_one_that_was_replaced_sends_nothing_more_and_stands_by(
    connect: str, peer: Peer, stubs: list[StubBroker], tmp_path: Path
) -> None:
    async with daemon(connect, tmp_path, session_ms=SHORT_MS) as instance:
        await active(instance)
        await until(lambda: have_received_something(stubs))
        await freeze(instance, peer)
        await peer.lead()
        before = [len(stub.got) for stub in stubs]
        await peer.add_topic(TOPIC, REPLICAS)
        instance.process.resume()

        async def stands_by() -> bool:
            status = await instance.status()
            return status is not None and status["role"] == "standby" and status["zookeeper"]["generation"] == 2

        await until(stands_by)
        assert [len(stub.got) for stub in stubs] == before
        assert await leaderships(peer) == {}
        holder = await controller(peer)
        assert holder is not None
        assert holder.broker_id != NODE


async def have_received_something(stubs: list[StubBroker]) -> bool:
    """Whether each broker got a request."""
    return all(stub.got for stub in stubs)


async def have_received_topic(stubs: list[StubBroker]) -> bool:
    """Whether each broker got and answered all requests about a new topic: its replicas, then the metadata."""
    return all(
        stub.waiting_for_answer == 0
        and {got.api for got in stub.got if TOPIC in named_topics(got)} == {"LeaderAndIsr", "UpdateMetadata"}
        for stub in stubs
    )


def named_topics(got: Got) -> set[str]:
    """The topics of a request."""
    return {state.topic_name for state in got.entity.topic_states}
