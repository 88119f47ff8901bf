"""Requests of operators and tools to a cluster: by znode, by the admin API, and by Kafka's own tools."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError
from kazoo.retry import KazooRetry
from kio.schema.alter_partition_reassignments.v0 import request as reassign
from kio.schema.alter_partition_reassignments.v0.response import AlterPartitionReassignmentsResponse
from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1 import request as configure
from kio.schema.incremental_alter_configs.v1.response import IncrementalAlterConfigsResponse
from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest
from kio.schema.list_partition_reassignments.v0.response import ListPartitionReassignmentsResponse
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i32Timedelta
from kio.static.protocol import RequestPayload, ResponsePayload

from controllerd.core.model import TopicPartition
from controllerd.dev.cluster import DevCluster
from controllerd.dev.kafka import ToolResult, run_tool
from controllerd.dev.ports import LOOPBACK
from wire.connection import KafkaConnection
from wire.kio_codec import decode_entity, encode_entity

REASSIGN: Final = "/admin/reassign_partitions"
ELECT: Final = "/admin/preferred_replica_election"
DELETE: Final = "/admin/delete_topics"
REASSIGN_TOOL: Final = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
ELECTION_TOOL: Final = "org.apache.kafka.tools.LeaderElectionCommand"
_PATIENCE_S: Final = 30.0
_AGAIN: Final[dict[str, Any]] = {"max_tries": -1, "delay": 0.1, "max_delay": 1.0}
"""The retries of the ZooKeeper client."""
TIMEOUT: Final = i32Timedelta.parse(timedelta(seconds=_PATIENCE_S))

_TOPIC, _BROKER = 2, 4
_SET, _REMOVE = 0, 1

Target = Sequence[int] | None
"""The wanted replicas; None cancels."""
R = TypeVar("R", bound=ResponsePayload)


def tp(topic: str, partition: int = 0) -> TopicPartition:
    """A partition of a topic, by default partition 0."""
    return TopicPartition(topic, partition)


class Operator:
    """A ZooKeeper session beside a cluster; ``close`` ends it.

    It outlives restarts of ZooKeeper: a lost request is repeated, and a znode that it had created already exists then.
    """

    def __init__(self, cluster: DevCluster) -> None:
        self.cluster = cluster
        self._zk = KazooClient(cluster.connect, timeout=_PATIENCE_S, connection_retry=dict(_AGAIN))
        self._retry = KazooRetry(ignore_expire=True, deadline=2 * _PATIENCE_S, **_AGAIN)

    async def open(self) -> None:
        """Begin the session."""
        await asyncio.to_thread(self._zk.start, _PATIENCE_S)

    async def close(self) -> None:
        """End the session."""
        await asyncio.to_thread(self._zk.stop)
        await asyncio.to_thread(self._zk.close)

    # -- znodes ------------------------------------------------------------------------------------------------------

    async def _call(self, function: Callable[..., Any], *arguments: object) -> Any:
        return await asyncio.to_thread(self._retry.copy(), function, *arguments)

    async def exists(self, path: str) -> bool:
        """Whether there is such a znode."""
        return await self._call(self._zk.exists, path) is not None

    async def children(self, path: str) -> list[str]:
        """Its children, none of a znode that does not exist."""
        try:
            return sorted(await self._call(self._zk.get_children, path))
        except NoNodeError:
            return []

    async def read(self, path: str) -> Any:
        """The content of the znode. :raises NoNodeError: there is none."""
        data, _ = await self._call(self._zk.get, path)
        return json.loads(data) if data else None

    async def czxid(self, path: str) -> int:
        """The transaction that created the znode: the epoch of a broker."""
        stat = await self._call(self._zk.exists, path)
        assert stat is not None, path
        return int(stat.czxid)

    async def create(self, path: str, content: object = None, *, sequence: bool = False) -> str:
        """A new znode, as a tool makes it."""
        data = b"" if content is None else json.dumps(content).encode()
        return str(await self._call(self._zk.create, path, data, None, False, sequence, True))

    async def write(self, path: str, content: object) -> None:
        """Create the znode with this content, or replace its content."""
        try:
            await self.create(path, content)
        except NodeExistsError:
            await self._call(self._zk.set, path, json.dumps(content).encode())

    async def remove(self, path: str) -> None:
        """Delete it, if it exists."""
        await self._call(lambda: self._zk.exists(path) and self._zk.delete(path))

    # -- requests by znode -------------------------------------------------------------------------------------------

    async def reassign_by_znode(self, targets: Mapping[TopicPartition, Sequence[int]]) -> None:
        """Request reassignments as ``kafka-reassign-partitions --zookeeper`` did."""
        await self.create(REASSIGN, moves(targets))

    async def prefer_by_znode(self, *partitions: TopicPartition) -> None:
        """Request preferred leaders as ``kafka-preferred-replica-election`` did."""
        rows = [{"topic": topic, "partition": partition} for topic, partition in partitions]
        await self.create(ELECT, {"version": 1, "partitions": rows})

    async def delete_topic(self, topic: str) -> None:
        """Request a deletion as a broker does for a client. :raises NodeExistsError: the request exists."""
        await self.create(f"{DELETE}/{topic}")

    async def add_partitions(self, topic: str, added: Mapping[int, Sequence[int]]) -> None:
        """Add partitions as a broker does for a client: the whole topic znode is written again."""
        await self._call(self._add_partitions, topic, added)

    def _add_partitions(self, topic: str, added: Mapping[int, Sequence[int]]) -> None:
        path = f"/brokers/topics/{topic}"
        while True:
            data, stat = self._zk.get(path)
            content = json.loads(data)
            content["partitions"] |= {str(number): list(replicas) for number, replicas in added.items()}
            try:
                self._zk.set(path, json.dumps(content).encode(), stat.version)
            except BadVersionError:
                continue
            return

    # -- the admin API -----------------------------------------------------------------------------------------------

    async def ask(self, request: RequestPayload, answer: type[R], *, port: int | None = None) -> R:
        """One request to the active controllerd, or to the listener on ``port``.

        :raises ConnectionError: no instance leads. :raises OSError, WireError: there is no usable answer.
        """
        if port is None:
            active = await self.cluster.active()
            if active is None:
                raise ConnectionError("no instance of controllerd leads")
            port = active.kafka_port.port
        connection = await KafkaConnection.connect(LOOPBACK, port, "operator", request_timeout_s=_PATIENCE_S)
        try:
            body = await connection.request(request.__api_key__, request.__version__, encode_entity(request))
        finally:
            await connection.close()
        return decode_entity(answer, body)

    async def reassign(self, targets: Mapping[TopicPartition, Target]) -> dict[TopicPartition, ErrorCode]:
        """AlterPartitionReassignments: the error of each partition, or the top-level error for all of them."""
        topics = {one.topic: [t for t in targets if t.topic == one.topic] for one in targets}
        request = reassign.AlterPartitionReassignmentsRequest(
            timeout=TIMEOUT,
            topics=tuple(
                reassign.ReassignableTopic(
                    name=TopicName(name),
                    partitions=tuple(_reassignable(one.partition, targets[one]) for one in partitions),
                )
                for name, partitions in topics.items()
            ),
        )
        answer = await self.ask(request, AlterPartitionReassignmentsResponse)
        if answer.error_code is not ErrorCode.none:
            return dict.fromkeys(targets, answer.error_code)
        return {tp(t.name, p.partition_index): p.error_code for t in answer.responses for p in t.partitions}

    async def reassignments(self) -> dict[TopicPartition, tuple[list[int], list[int], list[int]]]:
        """ListPartitionReassignments: replicas, adding and removing of each."""
        request = ListPartitionReassignmentsRequest(timeout=TIMEOUT, topics=None)
        answer = await self.ask(request, ListPartitionReassignmentsResponse)
        assert answer.error_code is ErrorCode.none, answer
        return {
            tp(t.name, p.partition_index): (list(p.replicas), list(p.adding_replicas), list(p.removing_replicas))
            for t in answer.topics
            for p in t.partitions
        }

    # -- configurations ----------------------------------------------------------------------------------------------

    async def set_topic(self, topic: str, **configs: str | None) -> None:
        """Change configurations of a topic by a broker; None removes one."""
        await self._alter(_TOPIC, topic, configs, self._some_port())

    async def set_broker(self, broker: int | None, **configs: str | None) -> None:
        """Change configurations of a running broker, by that broker itself, or the default of all brokers."""
        port = self._some_port() if broker is None else self.cluster.brokers[broker].port
        await self._alter(_BROKER, "" if broker is None else str(broker), configs, port)

    def _some_port(self) -> int:
        return next(broker.port for broker in self.cluster.brokers.values() if broker.running)

    async def _alter(self, kind: int, name: str, configs: Mapping[str, str | None], port: int) -> None:
        entries = tuple(
            configure.AlterableConfig(name=key, config_operation=i8(_REMOVE if value is None else _SET), value=value)
            for key, value in configs.items()
        )
        resource = configure.AlterConfigsResource(resource_type=i8(kind), resource_name=name, configs=entries)
        request = configure.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
        answer = await self.ask(request, IncrementalAlterConfigsResponse, port=port)
        assert [row.error_code for row in answer.responses] == [ErrorCode.none], answer

    # -- Kafka's tools -----------------------------------------------------------------------------------------------

    async def tool(self, main_class: str, *arguments: str, bootstrap: str | None = None) -> ToolResult:
        """Run one of Kafka's tools, by default against the active controllerd."""
        if bootstrap is None:
            active = await self.cluster.active()
            assert active is not None, "no instance leads"
            bootstrap = active.kafka_port.address
        done = await run_tool(
            main_class, ["--bootstrap-server", bootstrap, *arguments], directory=self.cluster.directory
        )
        print(
            f"  {main_class.rpartition('.')[2]} {' '.join(arguments)}: exit {done.exit_status}, {done.stdout.strip()}"
        )
        if done.stderr.strip():
            print(f"    {done.stderr.strip()}")
        return done

    async def reassign_by_tool(
        self, targets: Mapping[TopicPartition, Sequence[int]], *verb: str, bootstrap: str | None = None
    ) -> ToolResult:
        """``kafka-reassign-partitions`` with a plan of these targets."""
        plan = self.cluster.directory / "plan.json"
        await asyncio.to_thread(_write, plan, json.dumps(moves(targets)))
        return await self.tool(REASSIGN_TOOL, "--reassignment-json-file", str(plan), *verb, bootstrap=bootstrap)


def moves(targets: Mapping[TopicPartition, Sequence[int]]) -> dict[str, object]:
    """A plan of reassignments, as znode and tool have it."""
    rows = [{"topic": t, "partition": p, "replicas": list(targets[tp(t, p)])} for t, p in targets]
    return {"version": 1, "partitions": rows}


def _reassignable(partition: int, target: Target) -> reassign.ReassignablePartition:
    replicas = None if target is None else tuple(BrokerId(i32(broker)) for broker in target)
    return reassign.ReassignablePartition(partition_index=i32(partition), replicas=replicas)


def _write(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")
