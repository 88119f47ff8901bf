"""A cluster of three brokers of one release under load, with a broker or controllerd as the active controller."""

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from kazoo.exceptions import NoNodeError
from kio.schema.errors import ErrorCode

from controllerd.dev.cluster import BROKER_IDS, FIRST_NODE_ID, DevCluster
from controllerd.dev.ports import ReservedPort
from tests.real.bounces import bounce_asleep, until_known
from tests.real.comparison.asking import CREATE, DELETE, answer_of, ms
from tests.real.handover import Handover, brokers_first, missing_broker_in_the_lead
from tests.real.scene import LOGGED_IN_FULL, NO_REBALANCE, Scene, begun
from tests.real.trial import PARTITIONS, TOPIC

PROTOCOL: Final = "inter.broker.protocol.version"
HEAP_MIB: Final = 256
SESSION_S: Final = 10.0
BROKERS: Final = {
    "min.insync.replicas": "2",
    "auto.leader.rebalance.enable": "false",
    "zookeeper.session.timeout.ms": str(int(SESSION_S * 1_000)),
    "replica.lag.time.max.ms": "3000",
}
"""Leaders move only on request, under any controller; a follower can leave an ISR while its session lives."""
ORDERLY_S: Final = SESSION_S / 2
"""The longest time that a partition may go without an acknowledgement if no session has to expire first."""
SHORTEST_SESSION_S: Final = SESSION_S * 2 / 3
"""The shortest time to a session's expiry: it counts from the last ping, up to a third of the timeout ago."""
HIGH_WATERMARK_WAITS: Final = ("2.7.2", "2.8.2", "3.0.2")
CONTROLLER_SESSION_MS: Final = 55_000
"""controllerd's session timeout. It is paused during a bounce, in which a JVM ends and another one starts."""
SHUTDOWN_S: Final = 30.0
"""The time in which a broker ends after SIGTERM. Unanswered ControlledShutdown attempts alone take as long."""
_PATIENCE: Final = ms(30_000)
_SHUTDOWN_ANSWERED: Final = ("Controlled shutdown succeeded", "Controlled shutdown request returned successfully")
"""The line that a broker logs when it leads no partition any more: before 3.0, and from 3.0 on."""
_SHUTDOWN_UNANSWERED: Final = "Proceeding to do an unclean shutdown"


class ReleaseScene(Scene):
    """A cluster whose release, protocol version and active controller change during a test."""

    def __init__(self, cluster: DevCluster) -> None:
        super().__init__(cluster)
        self.handover = Handover(self.waiting, self.operator)
        self.controller = self.handover.controller

    # -- the active controller -----------------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Wait until a broker is the controller, create a topic and start the load."""
        await self.handover.until_brokers_lead()
        await self.create(TOPIC, {p: [1 + (p + i) % 3 for i in range(3)] for p in range(PARTITIONS)})
        self.load.start()
        await self.until_acknowledged_again()

    async def take_over(self) -> None:
        """Run ``controllerctl takeover``, unless controllerd is the active controller already."""
        if not self.controller.process.running:
            await self.controller.start()
        if await self.handover.leads() != FIRST_NODE_ID:
            await self.handover.take_over()

    async def give_back(self) -> None:
        """Run ``controllerctl resign``; a broker becomes the controller."""
        await self.handover.resign()

    # -- topics, by requests to the active controller ------------------------------------------------------------------

    async def create(
        self, topic: str, assignments: Mapping[int, Sequence[int]], configs: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic by CreateTopics, and wait until every broker has it in its metadata."""
        rows = [{"partition_index": p, "broker_ids": tuple(brokers)} for p, brokers in assignments.items()]
        settings = [{"name": name, "value": value} for name, value in (configs or {}).items()]
        creation = {
            "name": topic,
            "num_partitions": -1,
            "replication_factor": -1,
            "assignments": rows,
            "configs": settings,
        }
        answer = await self._ask(CREATE, 5, {"topics": [creation], "timeout": _PATIENCE, "validate_only": False})
        assert [row.error_code for row in answer.topics] == [ErrorCode.none], answer
        await self.waiting.until(self.missing_agreement, f"every broker knows {topic}")

    async def delete(self, topic: str) -> None:
        """Delete a topic by DeleteTopics, and wait until it is gone from ZooKeeper and from every disk."""
        answer = await self._ask(DELETE, 4, {"topic_names": (topic,), "timeout": _PATIENCE})
        assert [row.error_code for row in answer.responses] == [ErrorCode.none], answer
        await self.until_gone(f"/brokers/topics/{topic}")
        await self.until_hosted(topic, [])

    async def _ask(self, api: int, version: int, values: Mapping[str, object]) -> Any:
        return await answer_of((await self._controller_port()).port, api, version, values)

    async def _controller_port(self) -> ReservedPort | Any:
        leader = await self.handover.leads()
        return self.controller.kafka_port if leader == FIRST_NODE_ID else self.cluster.brokers[leader]

    async def missing_agreement(self) -> str | None:
        """Return why the brokers' metadata is not yet that of ZooKeeper, under any controller; None if it is."""
        try:
            leader = await self.handover.leads()
        except NoNodeError:
            return "there is no controller"
        if leader == FIRST_NODE_ID:
            return await self.waiting.missing_agreement()
        return await missing_broker_in_the_lead(self.cluster)

    def own(self, name: str) -> str:
        """Return the name of an act's topic at the current protocol version."""
        return f"{name}-{self.protocol()}"

    # -- brokers -------------------------------------------------------------------------------------------------------

    async def shut_down_in_order(self, number: int) -> None:
        """Stop a broker by SIGTERM, and assert that the controller moved its leaderships before it ended."""
        broker, began = self.broker(number), time.monotonic()
        assert await broker.terminate(timeout_s=SHUTDOWN_S) == 0
        print(f"  broker {number} ({broker.version}) ended {time.monotonic() - began:.1f} s after SIGTERM")
        assert not broker.process.wrote(_SHUTDOWN_UNANSWERED), (
            f"the controlled shutdown of broker {number} was not answered"
        )
        assert any(map(broker.process.wrote, _SHUTDOWN_ANSWERED)), f"broker {number} did not log a controlled shutdown"
        led = [str(p) for p, state in (await self.cluster.view()).leaderships.items() if state.leader == number]
        assert not led, f"broker {number} was gone before its leaders moved: {led[:3]}"

    async def bounce_unseen(self, number: int) -> None:
        """Restart a broker while controllerd's process is paused: all that controllerd sees is another czxid.

        The former process's registration is deleted here, so that the test need not wait for its session to expire.
        """

        async def end() -> None:
            await self.broker(number).kill()
            await self.operator.remove(f"/brokers/ids/{number}")

        await bounce_asleep(self.cluster, await self.waiting.active(), {number: end})
        await until_known(self)

    @property
    def orderly_s(self) -> float:
        """The longest time that a partition may go without an acknowledgement if no session has to expire first.

        Leaders of 2.7, 2.8 and 3.0 do not move the high watermark when a change of the ISR is answered
        (KAFKA-13091, fixed in 3.1), under any controller. A producer whose record arrives at this
        moment waits for its request timeout, which is 5 s here.
        """
        waits = any(self.broker(number).version in HIGH_WATERMARK_WAITS for number in BROKER_IDS)
        return SHORTEST_SESSION_S if waits else ORDERLY_S

    async def roll(self, *, version: str | None = None, overrides: Mapping[str, str | None] | None = None) -> None:
        """Restart broker after broker, with another release or other properties; wait for full ISRs after each.

        This works under any controller. It does not check, as ``shut_down_in_order`` does, that the controller answers.
        """
        for number in BROKER_IDS:
            assert await self.broker(number).terminate() == 0
            self.broker(number).install(version=version, overrides=overrides)
            await self.cluster.brokers[number].start()
            await self.waiting.until(self.waiting.missing_isr, "the ISRs are full")
            await self.waiting.until(self.missing_agreement, "every broker shows what ZooKeeper has")
            await self.until_acknowledged_again()

    def protocols(self) -> set[str]:
        """Return the protocol versions that the brokers are configured for."""
        return {self.broker(number).properties()[PROTOCOL] for number in BROKER_IDS}

    def protocol(self) -> str:
        """Return the one protocol version of all brokers."""
        (protocol,) = self.protocols()
        return protocol


@asynccontextmanager
async def open_release(directory: Path, release: str, protocol: str) -> AsyncIterator[ReleaseScene]:
    """Open a cluster of three brokers of a release, one of them the controller, under load; controllerd stands by."""
    async with (
        brokers_first(
            directory,
            when_broker_holds="standby",
            overrides={**BROKERS, PROTOCOL: protocol},
            settings={**LOGGED_IN_FULL, **NO_REBALANCE},
            version=release,
            heap_mib=HEAP_MIB,
            session_ms=CONTROLLER_SESSION_MS,
        ) as cluster,
        begun(ReleaseScene(cluster)) as scene,
    ):
        yield scene
