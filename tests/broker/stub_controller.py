"""A controller for brokers under test: it keeps partition states, sends them, and takes ISR changes.

Control requests go out over the controller's real encoders and kio reads what brokers ask: two independent codecs meet.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from broker.decode import id_text, id_value
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import (
    Broker,
    BrokerId,
    Endpoint,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicPartition,
)
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
from wire import control_requests
from wire.api_codec import respond
from wire.connection import KafkaConnection
from wire.framing import RequestHeader, encode_frame, read_frame
from wire.kio_codec import decode_request
from wire.versions import CONTROL_VERSIONS, ApiKey

VERSIONS: Final = {
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.CONTROLLED_SHUTDOWN: (0, 3),
    ApiKey.ALTER_PARTITION: (0, 3),
    ApiKey.ALLOCATE_PRODUCER_IDS: (0, 0),
}


@dataclass
class StubController:
    """The cluster state of the controller and the requests it received; tests change both freely."""

    id: int = 2_000_000_000
    epoch: int = 1
    endpoint: Endpoint = field(default_factory=lambda: Endpoint("PLAINTEXT", "127.0.0.1", 0))
    active: bool = True
    hidden: bool = False
    """Not among the live brokers of UpdateMetadata: neither brokers nor clients find it."""
    brokers: dict[int, Broker] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    states: dict[TopicPartition, LeaderAndIsr] = field(default_factory=dict)
    replicas: dict[TopicPartition, tuple[BrokerId, ...]] = field(default_factory=dict)
    refusals: list[tuple[int, KafkaError]] = field(default_factory=list)
    """API and error of requests to refuse at top level, each once, in order."""
    remaining: list[tuple[TopicPartition, ...]] = field(default_factory=list)
    """The answers to ControlledShutdown, one by one; then no partition remains."""
    got: list[tuple[RequestHeader, Any]] = field(default_factory=list)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    next_producer_id: int = 0
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)

    # -- the requests it sends -----------------------------------------------------------------------------------------

    def place(self, topic: str, partition: int, replicas: Iterable[int], isr: Iterable[int] | None = None) -> None:
        """A partition led by the first of its ISR."""
        tp = TopicPartition(topic, partition)
        self.replicas[tp] = tuple(BrokerId(replica) for replica in replicas)
        members = self.replicas[tp] if isr is None else tuple(BrokerId(replica) for replica in isr)
        self.states[tp] = LeaderAndIsr(members[0], 0, members, self.epoch, 0)

    async def send_to_all(self) -> None:
        """UpdateMetadata to all brokers, then LeaderAndIsr to all replicas, as a controller begins its term."""
        for broker in self.brokers:
            await self.send(broker, self.update_metadata(broker))
        for broker in self.brokers:
            await self.send(broker, self.leader_and_isr(broker))

    async def send(self, broker: int, request: ControlRequest, version: int | None = None) -> ControlResponse:
        """Send a control request and give the answer; the highest version unless one is named."""
        endpoint = self.brokers[broker].endpoints[0]
        key = control_requests.api_key(request)
        if version is None:
            version = CONTROL_VERSIONS[key].highest
        connection = await KafkaConnection.connect(endpoint.host, endpoint.port, "controller", request_timeout_s=10)
        try:
            body = await connection.request(key, version, *control_requests.encode(request, version))
        finally:
            await connection.close()
        return control_requests.decode_response(request, version, body)

    def update_metadata(self, broker: int) -> UpdateMetadataRequest:
        """The live brokers, the controller among them unless it is hidden, and every partition state."""
        ourselves = () if self.hidden else (Broker(BrokerId(self.id), -1, (self.endpoint,)),)
        partitions = {tp: UpdateMetadataPartition(state, self.replicas[tp], ()) for tp, state in self.states.items()}
        body = UpdateMetadataBody(partitions, self.topic_ids, (*self.brokers.values(), *ourselves))
        return UpdateMetadataRequest(self.id, self.epoch, self.brokers[broker].epoch, body)

    def leader_and_isr(self, broker: int) -> LeaderAndIsrRequest:
        """The partitions that the broker leads and follows."""
        partitions = {
            tp: LeaderAndIsrPartition(state, ReplicaAssignment(self.replicas[tp]), is_new=False)
            for tp, state in self.states.items()
            if broker in self.replicas[tp]
        }
        epoch = self.brokers[broker].epoch
        return LeaderAndIsrRequest(self.id, self.epoch, epoch, partitions, self.topic_ids, ())

    def stop_replica(
        self, broker: int, partitions: Mapping[TopicPartition, StopReplicaPartition]
    ) -> StopReplicaRequest:
        """Partitions to stop."""
        return StopReplicaRequest(self.id, self.epoch, self.brokers[broker].epoch, partitions)

    # -- the requests it receives --------------------------------------------------------------------------------------

    async def until(self, met: Callable[[], bool]) -> None:
        """Wait until ``met`` holds; it is checked after every answered request."""
        async with asyncio.timeout(20), self.changed:
            await self.changed.wait_for(met)

    def of(self, api: ApiKey) -> list[tuple[RequestHeader, Any]]:
        """The requests of one API, in order."""
        return [(header, entity) for header, entity in self.got if header.api_key == api]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of a broker."""
        self._writers.add(writer)
        try:
            while (frame := await read_frame(reader)) is not None:
                writer.write(encode_frame(self._answer(frame)))
                async with self.changed:
                    self.changed.notify_all()
        except ConnectionError:
            return
        finally:
            self._writers.discard(writer)
            writer.close()
            async with self.changed:
                self.changed.notify_all()

    async def hang_up(self) -> None:
        """Close every connection and wait until all are gone."""
        for writer in self._writers:
            writer.close()
        await self.until(lambda: not self._writers)

    def _answer(self, frame: bytes) -> bytes:
        header, entity = decode_request(frame)
        self.got.append((header, entity))
        if self.refusals and self.refusals[0][0] == header.api_key:
            error = self.refusals.pop(0)[1]
            return respond(header, self._values(header.api_key, entity) | {"error_code": error})
        return respond(header, self._values(header.api_key, entity))

    def _values(self, api: int, entity: Any) -> dict[str, object]:
        if api == ApiKey.API_VERSIONS:
            keys = [{"api_key": int(k), "min_version": low, "max_version": high} for k, (low, high) in VERSIONS.items()]
            return {"error_code": KafkaError.NONE, "api_keys": keys}
        if not self.active:
            empty = {"topics": (), "remaining_partitions": (), "producer_id_start": -1, "producer_id_len": 0}
            return {"error_code": KafkaError.NOT_CONTROLLER, **empty}
        if api == ApiKey.CONTROLLED_SHUTDOWN:
            left = self.remaining.pop(0) if self.remaining else ()
            rows = [{"topic_name": tp.topic, "partition_index": tp.partition} for tp in left]
            return {"error_code": KafkaError.NONE, "remaining_partitions": rows}
        if api == ApiKey.ALLOCATE_PRODUCER_IDS:
            start, self.next_producer_id = self.next_producer_id, self.next_producer_id + 2
            return {"error_code": KafkaError.NONE, "producer_id_start": start, "producer_id_len": 2}
        return {"error_code": KafkaError.NONE, "topics": [self._altered(topic) for topic in entity.topics]}

    def _altered(self, topic: Any) -> dict[str, object]:
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        name = topic.topic_name if hasattr(topic, "topic_name") else names[id_text(topic.topic_id) or ""]
        rows = [
            self._alter(TopicPartition(name, partition.partition_index), partition) for partition in topic.partitions
        ]
        return {"topic_name": name, "topic_id": id_value(self.topic_ids.get(name)), "partitions": rows}

    def _alter(self, tp: TopicPartition, asked: Any) -> dict[str, object]:
        state, error = self.states[tp], KafkaError.NONE
        if asked.partition_epoch != state.partition_epoch or asked.leader_epoch != state.leader_epoch:
            error = KafkaError.INVALID_UPDATE_VERSION
        else:
            isr = tuple(member.broker_id for member in getattr(asked, "new_isr_with_epochs", ()))
            isr = isr or tuple(getattr(asked, "new_isr", ()))
            state = self.states[tp] = state._replace(isr=isr, partition_epoch=state.partition_epoch + 1)
        return {
            "partition_index": tp.partition,
            "error_code": error,
            "leader_id": state.leader,
            "leader_epoch": state.leader_epoch,
            "isr": state.isr,
            "leader_recovery_state": 0,
            "partition_epoch": state.partition_epoch,
        }


@asynccontextmanager
async def stub_controller(node_id: int = 2_000_000_000) -> AsyncIterator[StubController]:
    """A controller that listens."""
    stub = StubController(node_id)
    server = await asyncio.start_server(stub.serve, "127.0.0.1", 0)
    stub.endpoint = stub.endpoint._replace(port=server.sockets[0].getsockname()[1])
    try:
        yield stub
    finally:
        server.close()
        await stub.hang_up()
        await server.wait_closed()
