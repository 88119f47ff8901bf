"""A cluster under load with an operator and helpers that wait for its state: the base of all rows of scenarios.md."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, TypeVar

from confluent_kafka import Producer

from controllerd.audit.reader import AuditReader
from controllerd.core.model import BrokerId, LeaderAndIsr, ReplicaAssignment
from controllerd.dev.cluster import BROKER_IDS, DevCluster, RealBroker, open_cluster
from controllerd.dev.load import ProducerLoad
from controllerd.dev.verification import consume_all, verify
from controllerd.record.envelope import Envelope
from controllerd.record.records import Record
from tests.real.ending import judge_ending
from tests.real.operator import Operator, tp
from tests.real.trial import Trial

T = TypeVar("T", bound=Record)
S = TypeVar("S", bound="Scene")

NO_REBALANCE: Final = {"CONTROLLERD__KAFKA__AUTO_LEADER_REBALANCE_ENABLE": "false"}
"""For rows that count leader epochs: elections take place only on request."""
SMALL_FETCHES: Final = {"replica.fetch.max.bytes": "65536"}
"""With a throttle of one byte per second, a follower makes one such fetch in eleven seconds."""
SESSION_S: Final = 6.0
MOVES_S: Final = 6.0
"""The time for elections and for the producer to find the new leaders, after a dead leader is noticed."""
ONE_ALONE: Final = {"min.insync.replicas": "1"}
_BALLAST: Final = 20
_BALLAST_BYTES: Final = 60_000


class Scene(Trial):
    """One cluster for the rows of a group, which run one after the other."""

    def __init__(self, cluster: DevCluster) -> None:
        super().__init__(cluster)
        self.operator = Operator(cluster)

    # -- rows --------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def row(self, name: str, *, within_s: float = SESSION_S + MOVES_S) -> AsyncIterator[None]:
        """Run the block as a row, and then check everything that must hold after every row.

        ``within_s`` is the longest time without an acknowledgement of the topic of all brokers.
        """
        since = time.monotonic()
        await self.all_run()
        yield
        await self.all_run()
        await self.until_whole()
        gap, took = self.load.result.worst_gap_s(since_s=since), time.monotonic() - since
        print(f"{name}: worst gap {gap:.2f} s of {within_s:.0f} s, whole again after {took:.1f} s")
        assert gap <= within_s, f"{name}: {gap:.2f} s without an acknowledgement"
        await self.judge(name)

    async def all_run(self) -> None:
        """Start the brokers and controllers that do not run."""
        for controller in self.cluster.controllers:
            if not controller.process.running:
                await controller.start()
        down = [broker for broker in self.cluster.brokers.values() if not broker.running]
        await asyncio.gather(*(broker.start() for broker in down))

    async def create(
        self, topic: str, assignments: Mapping[int, Sequence[int]], configs: Mapping[str, str] | None = None
    ) -> None:
        """A topic, known to every broker."""
        await self.cluster.observer.create_topic(topic, assignments, configs)
        await self.waiting.until(self.waiting.missing_agreement, f"every broker knows {topic}")

    @asynccontextmanager
    async def load_on(self, topic: str, partitions: int = 1) -> AsyncIterator[ProducerLoad]:
        """Produce records to a topic of a row; at the end, check that no acknowledged one is lost."""
        load = ProducerLoad(self.cluster.bootstrap, topic, partitions, records_per_s=50)
        load.start()
        try:
            await self.until(lambda: load.acknowledged > 0, f"the first record to {topic} is acknowledged")
            yield load
        finally:
            result = await asyncio.to_thread(load.stop)
        consumed = await asyncio.to_thread(consume_all, self.cluster.bootstrap, topic)
        checked = verify(result.acknowledged, consumed)
        print(f"  {topic}: worst gap {result.worst_gap_s():.2f} s, {checked}")
        assert checked.ok, topic
        assert not result.failures, topic

    async def ballast(self, topic: str, partition: int = 0) -> None:
        """Produce so many bytes, in batches of their own, that a throttled replica cannot catch up."""
        await asyncio.to_thread(self._produce_ballast, topic, partition)

    def _produce_ballast(self, topic: str, partition: int) -> None:
        failed: list[str] = []
        settings = {"bootstrap.servers": self.cluster.bootstrap, "acks": "all", "batch.num.messages": 1, "log_level": 2}
        producer = Producer(settings)
        for _ in range(_BALLAST):
            producer.produce(
                topic,
                bytes(_BALLAST_BYTES),
                partition=partition,
                on_delivery=lambda error, _: failed.append(str(error)) if error else None,
            )
        assert producer.flush(60.0) == 0
        assert not failed, failed[0]

    async def throttle(self, topic: str, *brokers: int) -> None:
        """Let these brokers hardly fetch the records of a topic; set this before there are records."""
        await self.operator.set_topic(topic, **{"follower.replication.throttled.replicas": "*"})
        for broker in brokers:
            await self.operator.set_broker(broker, **{"follower.replication.throttled.rate": "1"})

    async def unthrottle(self, *brokers: int) -> None:
        """Remove the throttle of these brokers."""
        for broker in brokers:
            await self.operator.set_broker(broker, **{"follower.replication.throttled.rate": None})

    # -- faults ------------------------------------------------------------------------------------------------------

    def broker(self, number: int) -> RealBroker:
        """A stock broker."""
        real = self.cluster.brokers[number]
        assert isinstance(real, RealBroker)
        return real

    async def kill(self, *brokers: int) -> None:
        """SIGKILL, and wait until ZooKeeper has noticed."""
        for number in brokers:
            await self.cluster.brokers[number].kill()
        await self.until_registered(*(n for n in self._running()))

    async def shut_down(self, *brokers: int) -> None:
        """A controlled shutdown, one after the other."""
        for number in brokers:
            assert await self.cluster.brokers[number].terminate() == 0
        await self.until_registered(*(n for n in self._running()))

    async def start(self, *brokers: int) -> None:
        """Start brokers, and wait until the controller knows them."""
        await asyncio.gather(*(self.cluster.brokers[number].start() for number in brokers))
        await self.until_registered(*self._running())

    def _running(self) -> list[int]:
        return [number for number, broker in self.cluster.brokers.items() if broker.running]

    async def until_registered(self, *brokers: int) -> None:
        """Exactly these are live, as ZooKeeper and the active controller have it."""

        async def missing() -> str | None:
            active = await self.cluster.active()
            status = None if active is None else await active.status()
            known = set() if status is None else {row["id"] for row in status["brokers"]}
            registered = (await self.cluster.view()).brokers
            return None if known == registered == set(brokers) else f"registered {sorted(registered)}, known {known}"

        await self.waiting.until(missing, f"brokers {sorted(brokers)} are live")

    # -- waiting -----------------------------------------------------------------------------------------------------

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait until a condition holds that the test itself can check."""

        async def missing() -> str | None:
            return None if holds() else "it does not"

        await self.waiting.until(missing, what)

    async def until_seen(self, seen: Callable[[], Awaitable[bool]], what: str) -> None:
        """Wait until a condition holds that needs a request to check."""

        async def missing() -> str | None:
            return None if await seen() else "it does not"

        await self.waiting.until(missing, what)

    async def until_gone(self, path: str) -> None:
        """Wait until there is no such znode."""

        async def gone() -> bool:
            return not await self.operator.exists(path)

        await self.until_seen(gone, f"{path} is gone")

    async def state(self, topic: str, partition: int = 0) -> LeaderAndIsr:
        """The leadership as ZooKeeper has it."""
        return await self.waiting.leadership(topic, partition)

    async def assignment(self, topic: str, partition: int = 0) -> ReplicaAssignment:
        """The assignment as ZooKeeper has it."""
        return (await self.cluster.view()).assignments[tp(topic, partition)]

    async def until_led(
        self, topic: str, leader: int, epoch: int, isr: Collection[int] | None = None, *, partition: int = 0
    ) -> None:
        """Wait for exactly this leader at exactly this leader epoch; a later epoch fails at once."""

        async def missing() -> str | None:
            state = (await self.cluster.view()).leaderships.get(tp(topic, partition))
            if state is None:
                return "it has no state"
            assert state.leader_epoch <= epoch, f"{topic}-{partition} is {state}, epoch {epoch} was to be the last"
            as_wanted = (state.leader, state.leader_epoch) == (leader, epoch)
            return None if as_wanted and (isr is None or set(state.isr) == set(isr)) else f"it is {state}"

        wanted = f"{topic}-{partition} is led by {leader} at epoch {epoch}" + ("" if isr is None else f", ISR {isr}")
        await self.waiting.until(missing, wanted)

    async def until_isr(self, topic: str, isr: Collection[int], *, partition: int = 0) -> None:
        """Wait until these are in sync."""

        async def missing() -> str | None:
            state = (await self.cluster.view()).leaderships.get(tp(topic, partition))
            return None if state is not None and set(state.isr) == set(isr) else f"it is {state}"

        await self.waiting.until(missing, f"the ISR of {topic}-{partition} is {sorted(isr)}")

    async def until_others_in_sync(self, topics: Collection[str]) -> None:
        """Wait until all replicas of other topics are in sync: a changed default concerns those topics as well."""

        async def missing() -> str | None:
            view = await self.cluster.view()
            others = {p: state for p, state in view.leaderships.items() if p.topic not in topics}
            lacking = [str(p) for p, state in others.items() if set(state.isr) != set(view.assignments[p].replicas)]
            return f"{', '.join(sorted(lacking)[:3])} lack a replica" if lacking else None

        await self.waiting.until(missing, "the other topics are in sync")

    async def until_assigned(self, topic: str, replicas: Sequence[int], *, partition: int = 0) -> None:
        """Wait until exactly these are assigned, none being added or removed."""
        wanted = ReplicaAssignment(tuple(BrokerId(broker) for broker in replicas))

        async def missing() -> str | None:
            now = (await self.cluster.view()).assignments.get(tp(topic, partition))
            return None if now == wanted else f"it is {now}"

        await self.waiting.until(missing, f"{topic}-{partition} is assigned to {list(replicas)}")

    def folders(self, broker: int, topic: str, partition: int = 0) -> list[Path]:
        """The folders of a replica on a broker, without one that the broker has renamed in order to delete it."""
        return sorted((self.cluster.directory / f"broker-{broker}").glob(f"*/{topic}-{partition}"))

    def hosts(self, topic: str, partition: int = 0) -> set[int]:
        """The brokers that have the replica on a disk."""
        return {broker for broker in BROKER_IDS if self.folders(broker, topic, partition)}

    async def until_hosted(self, topic: str, brokers: Collection[int], *, partition: int = 0) -> None:
        """Wait until exactly these have the replica on a disk."""

        async def missing() -> str | None:
            now = await asyncio.to_thread(self.hosts, topic, partition)
            return None if now == set(brokers) else f"it is on the disks of {sorted(now)}"

        await self.waiting.until(missing, f"{topic}-{partition} is on the disks of {sorted(brokers)} alone")

    async def logged(self, kind: type[T], *, since_s: float = 0.0) -> list[tuple[Envelope, T]]:
        """Records of a kind that instances wrote since then, by the monotonic clock."""
        return await asyncio.to_thread(_logged, await self.audit_logs(), kind, since_s)


def _logged(logs: Sequence[Path], kind: type[T], since_s: float) -> list[tuple[Envelope, T]]:
    entries = (entry for log in logs for entry in AuditReader(log))
    return [(e, record) for e, record in entries if isinstance(record, kind) and e.mono_ns >= since_s * 1e9]


LOGGED_IN_FULL: Final = {"CONTROLLERD__AUDIT__LEVEL": "full"}
"""Every request is logged with its partitions, which tests search and rules check at the end."""


@asynccontextmanager
async def begun(scene: S) -> AsyncIterator[S]:
    """A scene with its operator and its load; at its end the audit logs are checked and the load is stopped."""
    await scene.operator.open()
    try:
        await scene.begin()
        yield scene
        await judge_ending(scene)
    finally:
        await scene.operator.close()
        if scene.load.acknowledged:
            await asyncio.to_thread(scene.load.stop)


@asynccontextmanager
async def open_scene(
    directory: Path,
    *,
    instances: int = 1,
    session_ms: int | None = None,
    overrides: Mapping[str, str] | None = None,
    single: Mapping[int, Mapping[str, str]] | None = None,
    settings: Mapping[str, str] | None = None,
) -> AsyncIterator[Scene]:
    """A cluster with its load and its operator; at its end the audit logs are checked.

    ``overrides`` are properties of all brokers, ``single`` of some.
    """
    properties = {n: {**(overrides or {}), **(single or {}).get(n, {})} for n in BROKER_IDS}
    async with (
        open_cluster(
            "kafka",
            directory,
            print,
            instances=instances,
            controller_session_ms=session_ms,
            overrides=properties,
            settings={**LOGGED_IN_FULL, **(settings or {})},
        ) as cluster,
        begun(Scene(cluster)) as scene,
    ):
        yield scene
