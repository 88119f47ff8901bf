"""A minimal correct controller, for tests of the simulated brokers alone: states in a dict, no ZooKeeper.

It uses the product's encoder and connection, so that frames are real, and judges ISR changes by the
product's rules. Its attributes make it wrong on purpose.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from controllerd.core.alter_partition import Accepted, AlreadySo, Proposal, judge
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import Broker, BrokerId, Endpoint, LeaderAndIsr, ReplicaAssignment, TopicPartition
from controllerd.core.requests import (
    ControlRequest,
    ControlResponse,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataBody,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
)
from controllerd.errors import NotController
from events.admin import AllocateProducerIds, ControlledShutdown, ControlledShutdownReply, ProducerIdBlock
from events.base import Call
from events.replicas import AlterPartitionReceived, AlterPartitionReply
from tests.sim.broker_cluster import SimCluster
from tests.sim.broker_frames import id_text
from tests.sim.loop import VirtualLoop
from tests.sim.network import SimNetwork
from tests.sim.zk_server import SimZooKeeper
from wire import control_requests
from wire.connection import KafkaConnection
from wire.errors import WireError
from wire.versions import VersionRange, choose_control

CONTROLLER_ID = 2_000_000_000
OWNER = "scribe"


class ScriptedController:
    """A controller over some simulated brokers, which it creates."""

    def __init__(self, loop: VirtualLoop, brokers: Sequence[int] = (1, 2, 3)) -> None:
        self.loop = loop
        self.network = SimNetwork(loop, loop.rng("network"))
        self.zookeeper = SimZooKeeper(loop)
        self.zookeeper.put("/brokers/ids")
        self.cluster = SimCluster(loop, self.network, self.zookeeper, loop.rng("brokers"), self.ask)
        for broker in brokers:
            self.cluster.add(broker)
        self.epoch = 1
        self.states: dict[TopicPartition, LeaderAndIsr] = {}
        self.assignments: dict[TopicPartition, tuple[BrokerId, ...]] = {}
        self.topic_ids: dict[str, str] = {}
        self.asked: list[Call[Any]] = []
        self.loses_answers = 0
        """How many of the next calls are carried out without an answer."""
        self.refuses = 0
        """How many of the next calls are answered NOT_CONTROLLER."""
        self.live: set[int] | None = None
        """The brokers that it believes to be live; None: the registered ones."""
        self._blocks = 0
        self._connections: dict[int, KafkaConnection] = {}
        self._spoken: dict[int, Mapping[int, VersionRange]] = {}
        self._correlation_id = 1000

    # -- calls of brokers --------------------------------------------------------------------------------------------

    async def ask(self, call: Call[Any]) -> Any:
        """Answer a call of a broker."""
        await asyncio.sleep(0.002)
        self.asked.append(call)
        if self.refuses:
            self.refuses -= 1
            raise NotController("not now")
        reply = self._reply(call)
        if self.loses_answers:
            self.loses_answers -= 1
            raise TimeoutError("the answer was lost")
        return reply

    def _reply(self, call: Call[Any]) -> object:
        match call:
            case AlterPartitionReceived():
                return self._alter(call)
            case ControlledShutdown():
                led = [tp for tp, state in self.states.items() if state.leader == call.broker]
                for tp in led:
                    self.elect(tp, without=call.broker)
                remaining = frozenset(tp for tp in led if self.states[tp].leader == call.broker)
                return ControlledShutdownReply(KafkaError.NONE, remaining)
            case AllocateProducerIds():
                self._blocks += 1
                return ProducerIdBlock(KafkaError.NONE, self._blocks * 1000, 1000)
            case _:
                raise AssertionError(call)

    def _alter(self, call: AlterPartitionReceived) -> AlterPartitionReply:
        if call.broker_epoch != self.epochs().get(call.broker):
            return AlterPartitionReply(KafkaError.STALE_BROKER_EPOCH, {}, {})
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        asked = {TopicPartition(names[topic_id], index): each for (topic_id, index), each in call.by_id.items()}
        outcomes: dict[TopicPartition, LeaderAndIsr | KafkaError] = {}
        for tp, each in {**call.by_name, **asked}.items():
            verdict = judge(
                Proposal(call.broker, each.leader_epoch, each.partition_epoch, each.isr, each.recovery_state),
                self.states.get(tp),
                ReplicaAssignment(self.assignments[tp]),
                {BrokerId(broker) for broker in self.live_brokers()},
                self.epoch,
            )
            match verdict:
                case Accepted(wanted=wanted):
                    outcomes[tp] = self.states[tp] = wanted._replace(partition_epoch=wanted.partition_epoch + 1)
                case AlreadySo(current=current):
                    outcomes[tp] = current
                case KafkaError():
                    outcomes[tp] = verdict
        return AlterPartitionReply(KafkaError.NONE, outcomes, {})

    # -- decisions ---------------------------------------------------------------------------------------------------

    def epochs(self) -> dict[int, int]:
        """Broker epochs as ZooKeeper has them."""
        ids = self.zookeeper.children("/brokers/ids") or []
        return {int(name): self.zookeeper.nodes[f"/brokers/ids/{name}"].czxid for name in ids}

    def live_brokers(self) -> set[int]:
        """The brokers that it believes to be live."""
        return set(self.epochs()) if self.live is None else self.live

    def create(self, topic: str, replicas: Sequence[int], partition: int = 0) -> TopicPartition:
        """Create a partition led by its first live replica, with all live replicas in the ISR."""
        tp = TopicPartition(topic, partition)
        self.topic_ids.setdefault(topic, id_text(topic.encode().ljust(16, b"-")[:16]))
        self.assignments[tp] = tuple(map(BrokerId, replicas))
        isr = tuple(replica for replica in self.assignments[tp] if replica in self.live_brokers())
        self.states[tp] = LeaderAndIsr(isr[0], 0, isr, self.epoch, 0)
        return tp

    def elect(self, tp: TopicPartition, without: int = -1, leader: int | None = None) -> LeaderAndIsr:
        """Elect a new leader from the ISR (or the given broker, in the ISR or not); dead brokers leave the ISR."""
        before = self.states[tp]
        able = [member for member in before.isr if member in self.live_brokers() and member != without]
        chosen = BrokerId(leader) if leader is not None else next(iter(able), BrokerId(-1))
        isr = (chosen,) if chosen not in before.isr and chosen >= 0 else tuple(able) or before.isr
        after = before._replace(
            leader=chosen, leader_epoch=before.leader_epoch + 1, isr=isr, partition_epoch=before.partition_epoch + 1
        )
        self.states[tp] = after
        return after

    # -- requests ----------------------------------------------------------------------------------------------------

    async def send_to_all(self, *partitions: TopicPartition) -> None:
        """Send metadata to all live brokers, the roles of these partitions to their replicas, and metadata again."""
        sent = partitions or tuple(self.states)
        await self._to_all(self.metadata)
        await self._to_all(lambda broker: self.leader_and_isr(broker, *sent))
        await self._to_all(lambda broker: self.metadata(broker, *sent))

    async def _to_all(self, make: Any) -> None:
        for broker in sorted(self.epochs()):
            request = make(broker) if broker in self.epochs() else None
            if request is not None:
                await self.try_to_send(broker, request)

    def leader_and_isr(self, broker: int, *partitions: TopicPartition, **head: int) -> LeaderAndIsrRequest | None:
        """The LeaderAndIsr about these partitions for this broker; ``head`` overrides epochs."""
        rows = {
            tp: LeaderAndIsrPartition(self.states[tp], ReplicaAssignment(self.assignments[tp]), is_new=False)
            for tp in partitions
            if broker in self.assignments[tp]
        }
        if not rows:
            return None
        ids = {tp.topic: self.topic_ids[tp.topic] for tp in rows if tp.topic in self.topic_ids}
        return LeaderAndIsrRequest(*self._head(broker, head), partitions=rows, topic_ids=ids, live_leaders=())

    def metadata(self, broker: int, *partitions: TopicPartition, **head: int) -> UpdateMetadataRequest:
        """The UpdateMetadata with the live brokers and the state of these partitions; ``head`` overrides epochs."""
        rows = {tp: UpdateMetadataPartition(self.states[tp], self.assignments[tp], ()) for tp in partitions}
        live = tuple(
            Broker(BrokerId(each), 1, (Endpoint("PLAINTEXT", "127.0.0.1", 9000 + each),))
            for each in sorted(self.live_brokers())
        )
        ids = {tp.topic: self.topic_ids[tp.topic] for tp in rows if tp.topic in self.topic_ids}
        return UpdateMetadataRequest(*self._head(broker, head), body=UpdateMetadataBody(rows, ids, live))

    def stop_replica(self, broker: int, tp: TopicPartition, leader_epoch: int, *, delete: bool) -> StopReplicaRequest:
        """The StopReplica of one replica."""
        return StopReplicaRequest(*self._head(broker, {}), partitions={tp: StopReplicaPartition(leader_epoch, delete)})

    def _head(self, broker: int, head: dict[str, int]) -> tuple[int, int, int]:
        broker_epoch = head["broker_epoch"] if "broker_epoch" in head else self.epochs()[broker]
        return CONTROLLER_ID, head.get("controller_epoch", self.epoch), broker_epoch

    async def send(self, broker: int, request: ControlRequest, timeout_s: float = 2.0) -> ControlResponse:
        """Send a request over the connection to this broker. :raises OSError, WireError: no answer."""
        connection = self._connections.get(broker)
        if connection is None or not connection.is_open:
            connection = self._connections[broker] = await KafkaConnection.connect(
                *self.cluster.brokers[broker].address,
                str(CONTROLLER_ID),
                connect_timeout_s=timeout_s,
                request_timeout_s=timeout_s,
                transport=self.network.transport(OWNER),
            )
            self._spoken[broker] = await connection.api_versions()
        version = choose_control(
            control_requests.api_key(request), self._spoken[broker], topic_ids=control_requests.has_topic_ids(request)
        )
        self._correlation_id += 1
        api_key, body = control_requests.api_key(request), control_requests.encode(request, version)
        answer = await connection.request(api_key, version, *body, correlation_id=self._correlation_id)
        return control_requests.decode_response(request, version, answer)

    async def try_to_send(self, broker: int, request: ControlRequest, attempts: int = 3) -> ControlResponse | None:
        """Send a request until it is answered; None after so many attempts."""
        for _ in range(attempts):
            try:
                return await self.send(broker, request)
            except (OSError, WireError):
                await asyncio.sleep(0.1)
        return None

    # -- the beginning of most stories -------------------------------------------------------------------------------

    async def started(self, *, boot_s: float = 0.01) -> "ScriptedController":
        """Start all brokers and send them their metadata."""
        for broker in self.cluster.brokers.values():
            broker.start(boot_s)
        await asyncio.sleep(boot_s + 0.1)
        await self.send_to_all()
        return self

    def broker(self, broker: int) -> Any:
        """The simulated broker with this id."""
        return self.cluster.brokers[broker]
