"""A controller that was frozen for too long writes nothing, sends nothing, and is refused by all brokers.

Two instances, three reference brokers, proxies that see every byte. The victim is frozen with a request unanswered by a
slow broker, with others queued behind it, and with a transaction on its way to ZooKeeper.
"""

import asyncio
import json
import time
import urllib.request
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from controllerd.audit.reader import AuditReader
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.dev.cluster import EmbeddedBrokerProcess
from controllerd.dev.controllers import ControllerProcess
from controllerd.dev.observe import audit_violations
from controllerd.dev.proxy import Chunk
from controllerd.dev.txnlog import LoggedTransaction, TransactionLog
from controllerd.dev.zookeeper import EmbeddedZooKeeper
from controllerd.record.records import AlarmRecord
from controllerd.zk import codecs, paths
from controllerd.zk.access import ANY_VERSION, SetData
from tests.daemon.daemons import NODE, STARTS_S, active, until
from tests.daemon.taps import BrokerTap, ControlRequest, Look, ZooKeeperTap
from tests.zk.world import THEIRS, Peer, connected

pytestmark = [pytest.mark.zookeeper, pytest.mark.asyncio(loop_scope="module")]

CHROOT: Final = "/late"
SESSION_MS: Final = 4_000
GUARD_S: Final = SESSION_MS / 1000 * 2 / 3
"""After so long a pause an instance trusts its role no more."""
BEYOND_GUARD_S: Final = 0.4
BROKER_SESSION_MS: Final = 1_500
SLOW, QUICK, DYING = 1, 2, 3
ROUNDS: Final = [1, 2, 3]


class Stage:
    """Everything that runs, and what was seen of it."""

    def __init__(
        self,
        peer: Peer,
        log: TransactionLog,
        brokers: dict[int, EmbeddedBrokerProcess],
        taps: dict[int, BrokerTap],
        zookeeper: dict[int, ZooKeeperTap],
        controllers: list[ControllerProcess],
    ) -> None:
        self.peer = peer
        self.brokers = brokers
        self.taps, self.zookeeper = taps, zookeeper
        self.controllers = controllers
        self._log = log
        self.transactions: list[LoggedTransaction] = []
        self._topics = 0

    async def pair(self) -> tuple[ControllerProcess, ControllerProcess]:
        """The active one and the standby."""
        roles: dict[str, ControllerProcess] = {}

        async def settled() -> bool:
            roles.update({await controller.role(): controller for controller in self.controllers})
            return {"active", "standby"} <= roles.keys()

        await until(settled)
        return roles["active"], roles["standby"]

    async def begin_topic(self) -> TopicPartition:
        """Create a topic with replicas on all brokers; the active controller must elect its leader."""
        self._topics += 1
        name = f"topic-{self._topics}"
        await self.peer.add_topic(name, [[SLOW, QUICK, DYING]])
        return TopicPartition(name, 0)

    async def state_epoch(self, tp: TopicPartition) -> int:
        """The controller epoch in which the partition was last written, -1 if it never was."""
        states = (await self.peer.store.states.read_states([tp])).states
        return states[tp].controller_epoch if tp in states else -1

    async def until_written(self, tp: TopicPartition, epoch: int) -> None:
        async def is_written() -> bool:
            return await self.state_epoch(tp) == epoch

        await until(is_written)

    async def epoch(self) -> int:
        """As ZooKeeper has it."""
        node = await self.peer.node(paths.CONTROLLER_EPOCH)
        assert node is not None
        return codecs.decode_controller_epoch(node.data)

    def logged(self) -> list[LoggedTransaction]:
        """All that ZooKeeper's own log holds by now."""
        self.transactions += self._log.read_new()
        return self.transactions

    def requests(self, node_id: int) -> list[ControlRequest]:
        """The control requests of one controller that the taps saw."""
        return [request for tap in self.taps.values() for request in tap.requests if request.client == str(node_id)]

    def sent_to_brokers(self, node_id: int, *, since_s: float) -> list[Chunk]:
        """The chunks that one controller sent to the tapped brokers from a time on, in order."""
        return sorted(chunk for tap in self.taps.values() for chunk in tap.chunks_from(node_id, since_s=since_s))

    async def audit_log(self, controller: ControllerProcess) -> Path:
        node = await self.peer.node(paths.CLUSTER_ID)
        assert node is not None
        return controller.audit_directory(codecs.decode_cluster_id(node.data))


class Victim:
    """The active instance, burdened with unfinished work and then frozen."""

    def __init__(self, stage: Stage, controller: ControllerProcess, epoch: int) -> None:
        self.stage, self.controller, self.epoch = stage, controller, epoch
        self.session = 0
        self.frozen_at_s = self.resumed_at_s = 0.0
        self.unfinished: list[TopicPartition] = []

    @property
    def node_id(self) -> int:
        return self.controller.node_id

    @property
    def zookeeper(self) -> ZooKeeperTap:
        return self.stage.zookeeper[self.node_id]

    @property
    def slow(self) -> BrokerTap:
        return self.stage.taps[SLOW]

    async def burden(self) -> None:
        """A request that the slow broker has not got yet, and others that wait for its answer."""
        self.session = await self.session_id()
        self.slow.hold_client(self.node_id)
        for _ in range(2):
            await self.stage.until_written(await self.stage.begin_topic(), self.epoch)
        await until(self._waits_for_slow_broker_only)

    async def _waits_for_slow_broker_only(self) -> bool:
        """The freeze begins while the victim waits: after the last check of the clock, no code could stop a send."""
        status = await self.controller.status()
        if status is None or status["queue"]["depth"] or status["queue"]["current_event"]:
            return False
        waiting = {broker["id"] for broker in status["brokers"] if broker["queue_depth"]}
        return self.slow.holds and waiting == {SLOW}

    async def begin_a_transaction(self) -> None:
        """One that has left the process and has not reached ZooKeeper."""
        self.zookeeper.hold_transactions()
        self.unfinished.append(await self.stage.begin_topic())

        async def holds() -> bool:
            return self.zookeeper.holds

        await until(holds)

    async def session_id(self) -> int:
        return int((await self.status())["session_id"], 16)

    async def generation(self) -> int:
        """Which of its sessions it uses."""
        return int((await self.status())["generation"])

    async def status(self) -> dict[str, str]:
        status = await self.controller.status()
        assert status is not None
        zookeeper: dict[str, str] = status["zookeeper"]
        return zookeeper

    def freeze(self) -> None:
        self.frozen_at_s = time.monotonic()
        self.controller.process.pause()

    async def sleep_beyond_guard(self) -> None:
        """Until it has been frozen for longer than it may trust its role; the freeze itself, nothing is awaited."""
        await asyncio.sleep(self.frozen_at_s + GUARD_S + BEYOND_GUARD_S - time.monotonic())

    def deliver(self) -> None:
        """Deliver the held bytes."""
        self.slow.let_go()
        self.zookeeper.let_go()

    def wake(self) -> None:
        self.resumed_at_s = time.monotonic()
        self.controller.process.resume()

    async def stands_by(self) -> bool:
        return await self.controller.role() == "standby"


async def new_epoch_is_known(stage: Stage, successor: ControllerProcess, epoch: int) -> bool:
    """Whether both tapped brokers have answered NONE to the successor."""

    def knows(tap: BrokerTap) -> bool:
        return any((r.client, r.epoch, r.error) == (str(successor.node_id), epoch, 0) for r in tap.requests)

    return all(knows(tap) for tap in stage.taps.values())


async def is_gone(stage: Stage, broker: int) -> bool:
    return await stage.peer.node(paths.broker(BrokerId(broker))) is None


async def take_over(controller: ControllerProcess) -> None:
    """Request a takeover, as ``controllerctl takeover`` does."""
    await asyncio.to_thread(_post, f"http://{controller.http}/v1/takeover")


def _post(url: str) -> None:
    body = json.dumps({"reason": "the other one does not answer"}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=STARTS_S) as answer:
        assert answer.status == 200


# -- what must hold ----------------------------------------------------------------------------------------------------


def assert_sent_nothing(victim: Victim) -> None:
    """No byte was sent. A connection without a byte would not be noticed, and would have no effect on a broker."""
    assert victim.stage.sent_to_brokers(victim.node_id, since_s=victim.resumed_at_s) == []


def assert_refused_by_brokers(victim: Victim, epoch: int) -> None:
    """Once a broker has answered NONE under the new epoch, it answers STALE_CONTROLLER_EPOCH under the old one."""
    late = []
    for tap in victim.stage.taps.values():
        known_at = min(r.answered_at_s for r in tap.requests if r.epoch == epoch and r.error == KafkaError.NONE)
        late += [r for r in tap.requests if r.epoch < epoch and r.error is not None and r.answered_at_s > known_at]
    assert late, "no request of the late one came to a broker that knew the new epoch: nothing was shown"
    assert {r.error for r in late} == {KafkaError.STALE_CONTROLLER_EPOCH}


def assert_wrote_nothing(victim: Victim, epoch: int) -> None:
    """By ZooKeeper's own log: of its session nothing took effect after the election of the successor."""
    logged = victim.stage.logged()
    raised = paths.CONTROLLER_EPOCH
    elected = [
        transaction.zxid
        for transaction in logged
        for operation in transaction.operations
        if not transaction.was_refused
        and operation.path == CHROOT + raised
        and operation.data == codecs.encode_controller_epoch(epoch)
    ]
    assert len(elected) == 1
    after = [t for t in logged if t.session_id == victim.session and t.zxid > elected[0] and not t.was_refused]
    assert [t for t in after if any(operation.op != "closeSession" for operation in t.operations)] == []


async def assert_logs_agree(stage: Stage) -> None:
    logs = [await stage.audit_log(controller) for controller in stage.controllers]
    assert await asyncio.to_thread(audit_violations, *logs) == []


# -- the stage ---------------------------------------------------------------------------------------------------------


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(server: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """Two instances behind taps of their own, and three brokers, two of them behind taps."""
    directory = tmp_path_factory.mktemp("late")
    async with AsyncExitStack() as stack:
        connect = f"{server.connect}{CHROOT}"
        peer = await stack.enter_async_context(connected(connect, THEIRS, timeout_ms=30_000))
        brokers = {
            n: EmbeddedBrokerProcess(n, connect, directory / f"broker-{n}", BROKER_SESSION_MS) for n in (1, 2, 3)
        }
        for broker in brokers.values():
            stack.push_async_callback(broker.close)
        await asyncio.gather(*(broker.start() for broker in brokers.values()))
        taps = {n: await stack.enter_async_context(BrokerTap(f"127.0.0.1:{brokers[n].port}")) for n in (SLOW, QUICK)}
        for number, tap in taps.items():
            await register_at(peer, number, tap.port)
        nodes = (NODE, NODE + 1)
        zookeeper = {
            n: await stack.enter_async_context(ZooKeeperTap(server.connect, CHROOT + paths.CONTROLLER)) for n in nodes
        }
        controllers = []
        for node_id in nodes:
            home = directory / f"controllerd-{node_id}"
            through = f"{zookeeper[node_id].connect}{CHROOT}"
            controller = ControllerProcess(node_id, through, home, session_timeout_ms=SESSION_MS)
            stack.push_async_callback(controller.close)
            await controller.start()
            controllers.append(controller)
        yield Stage(peer, TransactionLog(server.data_directory), brokers, taps, zookeeper, controllers)


async def register_at(peer: Peer, broker: int, port: int) -> None:
    """Have the registration of a broker name another port, in the same znode and so with the same broker epoch."""
    path = paths.broker(BrokerId(broker))
    node = await peer.node(path)
    assert node is not None
    found = codecs.decode_broker(BrokerId(broker), node.data, node.czxid)
    moved = replace(found, endpoints=tuple(endpoint._replace(port=port) for endpoint in found.endpoints))
    await peer.act(SetData(path, codecs.encode_broker(moved, timestamp_ms=0), ANY_VERSION))


@pytest_asyncio.fixture(loop_scope="module")
async def victim(stage: Stage) -> AsyncIterator[Victim]:
    """The active instance with a slow broker; afterwards everything is as it was before."""
    controller, _ = await stage.pair()
    victim = Victim(stage, controller, await stage.epoch())
    await victim.burden()
    yield victim
    victim.deliver()
    controller.process.resume()
    if not stage.brokers[DYING].running:
        await stage.brokers[DYING].start()
    await stage.pair()


# -- stories -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", ROUNDS)
async def test_one_whose_session_ended_does_no_harm(stage: Stage, victim: Victim, number: int) -> None:
    """A topic is created, a broker dies, and the standby leads, all while the victim is frozen."""
    _, successor = await stage.pair()
    generation = await victim.generation()
    await victim.begin_a_transaction()
    victim.freeze()
    await stage.brokers[DYING].kill()
    victim.unfinished.append(await stage.begin_topic())
    await active(successor)
    await until(lambda: new_epoch_is_known(stage, successor, victim.epoch + 1))
    await until(lambda: is_gone(stage, DYING))
    victim.deliver()
    await until(lambda: all_answered(victim))

    victim.wake()

    async def is_back() -> bool:
        return await victim.stands_by() and await victim.generation() == generation + 1

    await until(is_back)
    for tp in victim.unfinished:
        await stage.until_written(tp, victim.epoch + 1)
    assert await stage.epoch() == victim.epoch + 1
    assert_sent_nothing(victim)
    assert_refused_by_brokers(victim, victim.epoch + 1)
    assert_wrote_nothing(victim, victim.epoch + 1)
    await assert_logs_agree(stage)


@pytest.mark.parametrize("number", ROUNDS)
async def test_one_that_was_replaced_within_its_session_does_no_harm(stage: Stage, victim: Victim, number: int) -> None:
    """Its session lives, so ZooKeeper takes its late transaction and has nothing but the epoch to refuse it by."""
    _, successor = await stage.pair()
    generation = await victim.generation()
    await victim.begin_a_transaction()
    victim.freeze()
    await take_over(successor)
    await until(lambda: new_epoch_is_known(stage, successor, victim.epoch + 1))
    refused = len(refusals(victim))
    victim.deliver()
    await until(lambda: all_answered(victim))

    async def is_refused() -> bool:
        return len(refusals(victim)) > refused

    await until(is_refused)
    await victim.sleep_beyond_guard()

    victim.wake()

    await until(victim.stands_by)
    for tp in victim.unfinished:
        await stage.until_written(tp, victim.epoch + 1)
    assert await victim.generation() == generation, "its session was to live"
    assert await stage.epoch() == victim.epoch + 1
    assert_sent_nothing(victim)
    assert_refused_by_brokers(victim, victim.epoch + 1)
    assert_wrote_nothing(victim, victim.epoch + 1)
    await assert_logs_agree(stage)


@pytest.mark.parametrize("number", ROUNDS)
async def test_one_that_still_leads_sends_nothing_before_it_has_read_the_epoch(
    stage: Stage, victim: Victim, number: int
) -> None:
    """Frozen for longer than it may trust its role, and for less than its session lives."""
    generation = await victim.generation()
    victim.freeze()
    created = await stage.begin_topic()
    victim.deliver()
    await until(lambda: all_answered(victim))
    await victim.sleep_beyond_guard()

    victim.wake()

    await stage.until_written(created, victim.epoch)

    async def has_sent() -> bool:
        return bool(stage.sent_to_brokers(victim.node_id, since_s=victim.resumed_at_s))

    await until(has_sent)
    assert await victim.generation() == generation, "its session was to live"
    assert await stage.epoch() == victim.epoch
    first = stage.sent_to_brokers(victim.node_id, since_s=victim.resumed_at_s)[0]
    look, noticed = first_look(victim), await noticed_at(victim)
    times = [at - victim.resumed_at_s for at in (noticed, look.asked_at_s, look.answered_at_s, first.at_s)]
    print("noticed {:.3f} s after it woke, asked {:.3f} s, was answered {:.3f} s, sent {:.3f} s".format(*times))
    assert victim.resumed_at_s < noticed < look.answered_at_s
    assert look.answered_at_s < first.at_s, first
    await assert_logs_agree(stage)


async def all_answered(victim: Victim) -> bool:
    """Whether the brokers have answered all that the victim had sent."""
    return all(request.error is not None for request in victim.stage.requests(victim.node_id))


def refusals(victim: Victim) -> list[LoggedTransaction]:
    """The transactions of the victim that ZooKeeper refused."""
    return [t for t in victim.stage.logged() if t.session_id == victim.session and t.was_refused]


def first_look(victim: Victim) -> Look:
    """The first reading of ``/controller`` that the victim asked for after it woke."""
    return next(look for look in victim.zookeeper.looks if look.asked_at_s >= victim.resumed_at_s)


async def noticed_at(victim: Victim) -> float:
    """When the victim wrote down that it had slept, by the clock that all processes of a machine share."""
    log = await victim.stage.audit_log(victim.controller)
    alarms = [
        envelope.mono_ns / 1e9
        for envelope, record in AuditReader(log)
        if isinstance(record, AlarmRecord) and record.what == "the process was suspended"
    ]
    return next(at for at in alarms if at >= victim.resumed_at_s)
