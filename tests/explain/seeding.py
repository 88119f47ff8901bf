"""A controller on fakes that keeps its recent records, and questions about its partitions and topics."""

import json
from collections.abc import Sequence
from typing import Any, Final, TypeVar

from controllerd.core.cluster_settings import Policy
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import TopicPartition
from controllerd.explain.answers import Why, lines
from controllerd.explain.history import Steps
from controllerd.explain.inputs import ExplanationInputs
from controllerd.explain.partition import explain_partition
from controllerd.explain.topic import explain_topic
from controllerd.recent import Recent
from controllerd.zk.access import SetData
from events.elections import ElectionTrigger, ElectionType, ReplicaLeaderElection
from tests.fakes.disks import Disks
from tests.fakes.world import ManualClock, World, tp
from tests.scenarios.acts import alter_isr, answer

TEN: Final = 1_700_042_400.0
"""10:00:00 UTC, in seconds."""
T = TypeVar("T")
NO_OVERRIDES: Final[dict[str, dict[str, str]]] = {"payments": {}}


class Seeded:
    """One cluster; the clock stops unless a test moves it."""

    def __init__(self, *brokers: int, policy: Policy | None = None) -> None:
        self.clock = ManualClock()
        self.clock.now = TEN
        self.policy = policy or Policy()
        self.recent = Recent(self.clock)
        self.world = World(readers=[self.recent], policy=self.policy)
        for broker in brokers:
            self.world.register(broker)
        self.disks = Disks(self.world)

    async def start(self, replicas: Sequence[int] = (), *, topic: str = "payments", partitions: int = 1) -> "Seeded":
        """Start the controller, and create a topic on these replicas if there are any."""
        await self.disks.start()
        if replicas:
            await self.create(topic, *[replicas] * partitions)
        return self

    async def create(self, topic: str, *assignments: Sequence[int]) -> None:
        """Create a topic."""
        self.world.put_topic(topic, dict(enumerate(assignments)))
        await self.disks.settle()

    async def grow(self, partition: int, replicas: Sequence[int], topic: str = "payments") -> None:
        """Add a partition in ZooKeeper, as older tools do."""
        path = f"/brokers/topics/{topic}"
        body = json.loads(self.world.tree.nodes[path].data or b"")
        body["partitions"][str(partition)] = list(replicas)
        self.world.tree.outsider(SetData(path, json.dumps(body).encode(), -1))
        await self.disks.settle()

    async def kill(self, *brokers: int) -> None:
        """Kill brokers one after the other, a minute apart."""
        for broker in brokers:
            self.clock.now += 60
            self.world.die(broker)
            await self.disks.settle()

    async def bring_back(self, broker: int) -> None:
        """Register the broker again, a minute later."""
        self.clock.now += 60
        self.world.register(broker)
        await self.disks.settle()

    async def isr(self, *isr: int, topic: str = "payments") -> None:
        """Report this ISR as the leader of partition 0, a minute later."""
        self.clock.now += 60
        await alter_isr(self.world, topic, *isr)
        await self.disks.settle()

    async def elect_preferred(self, topic: str, *partitions: int) -> None:
        """Request preferred elections, as an operator does."""
        wanted = frozenset(TopicPartition(topic, partition) for partition in partitions)
        await self.world.call(ReplicaLeaderElection(wanted, ElectionType.PREFERRED, ElectionTrigger.ADMIN_CLIENT))
        await self.disks.settle()

    async def fail_dir(self, broker: int, topic: str = "payments") -> None:
        """Answer a minute later, as this broker, that the disk with partition 0 failed."""
        self.clock.now += 60
        await answer(self.world, broker, {tp(topic): KafkaError.KAFKA_STORAGE_ERROR})
        await self.disks.settle()

    def inputs(self, **known: Any) -> ExplanationInputs:
        """The inputs, a minute after the last change."""
        return ExplanationInputs(
            snapshot=self.world.snapshot,
            now_ms=self.clock.now_ms() + 60_000,
            **({"policy": self.policy, "entries": tuple(self.recent.newest_first())} | known),
        )

    async def why(self, topic: str = "payments", partition: int = 0, **known: Any) -> Why:
        """Explain a partition."""
        return finish(explain_partition(self.inputs(**known), TopicPartition(topic, partition)))

    async def why_topic(self, topic: str = "payments", **known: Any) -> Why:
        """Explain a topic."""
        return finish(explain_topic(self.inputs(**known), topic))


def finish(steps: Steps[T]) -> T:
    """Take every step at once, as a caller without an event loop does."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def codes(why: Why) -> list[str]:
    """The codes of the causes, the decisive one first."""
    return [cause.code for cause in why.causes]


def text(why: Why) -> str:
    """The whole answer."""
    return "\n".join(lines(why))
