"""A daemon that is killed again and again while its cluster does not come to rest, and what its audit log says then."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from controllerd.audit.reader import AuditReader, fold_directory, verify
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.dev.controllers import ControllerProcess
from controllerd.record.fold import Observed, diff_with_zookeeper
from controllerd.record.invariants import check
from controllerd.record.records import SnapshotBegin, SnapshotEnd
from controllerd.zk import codecs, paths
from tests.channel_manager.stub_broker import StubBroker, stub_broker
from tests.daemon.daemons import LONG_MS, NODE, active, register, until
from tests.zk.world import Peer

BROKERS: Final = (1, 2, 3)
LONGEST_S: Final = 1.2
"""A start takes about half of this: some are killed before they lead."""
_STEP_S: Final = 0.05
"""Between two changes of the cluster."""


class Restless:
    """A cluster of stubs whose topics come and go and whose brokers die and return."""

    def __init__(self, peer: Peer, stubs: dict[int, StubBroker], seed: int) -> None:
        self._peer = peer
        self._stubs = stubs
        self._registered = set(stubs)
        self._random = random.Random(seed)
        self._topics: list[str] = []
        self._created = 0

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._random.choice((self._create, self._delete, self._die, self._return, self._create))()
            await asyncio.sleep(_STEP_S)

    async def come_to_rest(self) -> None:
        """Every broker is there, whatever ``run`` was about to do when it was cancelled."""
        for number, stub in self._stubs.items():
            if await self._peer.node(paths.broker(BrokerId(number))) is None:
                await register(self._peer, stub)

    async def _create(self) -> None:
        self._created += 1
        self._topics.append(f"topic-{self._created}")
        replicas = [self._random.sample(BROKERS, 2) for _ in range(self._random.randint(1, 4))]
        await self._peer.add_topic(self._topics[-1], replicas)

    async def _delete(self) -> None:
        if len(self._topics) > 3:
            doomed = self._topics.pop(self._random.randrange(len(self._topics)))
            await self._peer.put(paths.delete_topic(doomed))

    async def _die(self) -> None:
        if len(self._registered) > 1:
            broker = self._random.choice(sorted(self._registered))
            self._registered.remove(broker)
            await self._peer.remove(paths.broker(BrokerId(broker)))

    async def _return(self) -> None:
        gone = sorted(self._stubs.keys() - self._registered)
        if gone:
            self._registered.add(gone[0])
            await register(self._peer, self._stubs[gone[0]])


@asynccontextmanager
async def restless(peer: Peer, seed: int) -> AsyncIterator[Restless]:
    """A cluster of three stubs that answer everything well."""
    async with AsyncExitStack() as stack:
        stubs = {number: await stack.enter_async_context(stub_broker(number)) for number in BROKERS}
        for stub in stubs.values():
            await register(peer, stub)
        yield Restless(peer, stubs, seed)


async def observed(peer: Peer) -> Observed:
    """All that ZooKeeper holds."""
    topics = (await peer.store.topics.read_topics(await peer.store.topics.read_topic_names())).topics
    assignments = {TopicPartition(name, p): a for name, image in topics.items() for p, a in image.assignments.items()}
    states = (await peer.store.states.read_states(list(assignments))).states
    return Observed({name: image.topic_id for name, image in topics.items()}, assignments, dict(states))


async def kill_again_and_again(connect: str, peer: Peer, directory: Path, *, kills: int) -> None:
    """Kill a daemon so many times at random moments, let it end in order, and judge everything that it wrote."""
    chance = random.Random(kills)
    instance = ControllerProcess(NODE, connect, directory, session_timeout_ms=LONG_MS)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(instance.close)
        cluster = await stack.enter_async_context(restless(peer, kills))
        churn = asyncio.create_task(cluster.run())
        stack.callback(churn.cancel)
        for number in range(kills):
            instance.process.start()
            if number % 2:
                await active(instance)
            await asyncio.sleep(chance.uniform(0, LONGEST_S))
            await instance.process.kill()
            assert not churn.done() or churn.result() is None
        churn.cancel()
        await asyncio.gather(churn, return_exceptions=True)
        await instance.start()
        await cluster.come_to_rest()
        await active(instance)
        await _at_rest(instance, peer)
        assert await instance.process.terminate() == 0
        await _judge(instance, peer, kills)


async def _at_rest(instance: ControllerProcess, peer: Peer) -> None:
    """Nothing is to be deleted any more, and everything is led."""

    async def is_so() -> bool:
        status = await instance.status()
        if status is None or status["queue"]["depth"] or status["queue"]["current_event"]:
            return False
        found = await observed(peer)
        leaders = [state.leader for state in found.leaderships.values()]
        return len(leaders) == len(found.assignments) and -1 not in leaders and not await _doomed(peer)

    await until(is_so)


async def _doomed(peer: Peer) -> list[str]:
    return [name for name in await peer.store.topics.read_topic_names() if await peer.node(paths.delete_topic(name))]


async def _judge(instance: ControllerProcess, peer: Peer, kills: int) -> None:
    node = await peer.node(paths.CLUSTER_ID)
    assert node is not None
    log = instance.audit_directory(codecs.decode_cluster_id(node.data))
    report = verify(log)
    assert report.is_intact, report.findings
    assert len(report.torn_tails) <= kills
    assert report.gaps == ()
    records = [record for _, record in AuditReader(log)]
    assert sum(isinstance(record, SnapshotBegin) for record in records) > kills / 3
    closed = next(record for record in reversed(records) if isinstance(record, SnapshotBegin | SnapshotEnd))
    assert isinstance(closed, SnapshotEnd)
    violations = list(check(AuditReader(log)))
    assert not violations, violations[:10]
    assert diff_with_zookeeper(fold_directory(log), await observed(peer)) == []
