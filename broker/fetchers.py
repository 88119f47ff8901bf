"""The fetchers of a broker: one connection and one loop for each leader.

They never receive a record; their requests show the leaders that this follower is alive.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

import structlog
from kio.static.primitive import i32Timedelta

from broker import decode
from broker.background import Background
from broker.metadata_cache import MetadataCache
from broker.replicas import FollowedPartition, ReplicaManager
from broker.settings import BrokerSettings
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, TopicPartition
from wire.api_codec import fill
from wire.connection import KafkaConnection
from wire.errors import PeerClosed, WireError
from wire.kio_codec import decode_entity, encode_entity, request_type, response_type
from wire.versions import ApiKey

log = structlog.get_logger(__name__)

_BY_NAME: Final = 12
_BY_ID: Final = 13
_PARTITION_MAX_BYTES: Final = 2**20
_TIMEOUT_S: Final = 5.0


class Fetchers:
    """Run one fetcher for each leader that this broker follows."""

    def __init__(
        self, settings: BrokerSettings, cache: MetadataCache, replicas: ReplicaManager, background: Background
    ) -> None:
        self._settings = settings
        self._cache = cache
        self._replicas = replicas
        self._background = background
        self._running: dict[BrokerId, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Start and end fetchers as roles change, for ever."""
        while True:
            self._reconcile()
            await self._replicas.roles_changed.wait()

    def _reconcile(self) -> None:
        wanted = self._replicas.leaders()
        for leader in self._running.keys() - wanted:
            self._running.pop(leader).cancel()
        for leader in wanted - self._running.keys():
            self._running[leader] = self._background.spawn(f"fetcher-{leader}", self._follow(leader))

    async def _follow(self, leader: BrokerId) -> None:
        before = ""
        while True:
            try:
                await self._fetch_until_failure(leader)
            except (OSError, WireError) as error:  # TimeoutError is an OSError
                if repr(error) != before:
                    log.info("could not reach leader, retrying", leader=leader, error=repr(error))
                before = repr(error)
            await asyncio.sleep(self._settings.fetch_backoff_ms / 1000)

    async def _fetch_until_failure(self, leader: BrokerId) -> None:
        """Fetch over one connection until it breaks; pause after a refused fetch."""
        connection = await self._connect(leader)
        try:
            while True:
                partitions = self._replicas.followed(leader)
                if not partitions:
                    await self._replicas.roles_changed.wait()
                elif not await self._fetch(connection, partitions):
                    await asyncio.sleep(self._settings.fetch_backoff_ms / 1000)
        finally:
            connection.abort()

    async def _connect(self, leader: BrokerId) -> KafkaConnection:
        endpoint = self._cache.endpoint(leader, self._settings.listener.listener)
        if endpoint is None:
            raise PeerClosed(f"broker {leader} is not live")
        client_id = f"broker-{self._settings.broker_id}-fetcher-{leader}"
        return await KafkaConnection.connect(
            endpoint.host, endpoint.port, client_id, connect_timeout_s=_TIMEOUT_S, request_timeout_s=_TIMEOUT_S
        )

    async def _fetch(self, connection: KafkaConnection, partitions: Sequence[FollowedPartition]) -> bool:
        """Send one Fetch; return whether the leader served every partition."""
        version = _BY_NAME if any(partition.topic_id is None for partition in partitions) else _BY_ID
        body = encode_entity(build_fetch(self._settings, partitions, version))
        raw = await connection.request(ApiKey.FETCH, version, body)
        answer: Any = decode_entity(response_type(ApiKey.FETCH, version), raw)
        return self._process_response(answer, partitions)

    def _process_response(self, answer: Any, partitions: Sequence[FollowedPartition]) -> bool:
        asked = {partition.tp: partition for partition in partitions}
        names = {decode.id_value(partition.topic_id): partition.tp.topic for partition in partitions}
        all_served = bool(answer.error_code.value == KafkaError.NONE)
        for topic in answer.responses:
            name = topic.topic if hasattr(topic, "topic") else names.get(topic.topic_id, "")
            for row in topic.partitions:
                followed = asked.get(TopicPartition(name, row.partition_index))
                if followed is not None and row.error_code.value == KafkaError.FENCED_LEADER_EPOCH:
                    self._replicas.fenced(followed.tp, followed.leader_epoch)
                elif row.error_code.value != KafkaError.NONE:
                    log.debug(
                        "leader refused fetch", topic=name, partition=row.partition_index, error=row.error_code.value
                    )
                    all_served = False
        return all_served


def build_fetch(settings: BrokerSettings, partitions: Sequence[FollowedPartition], version: int) -> Any:
    """Build a Fetch of empty logs from their beginning, without fetch session."""
    topics: dict[str, list[FollowedPartition]] = {}
    for partition in partitions:
        topics.setdefault(partition.tp.topic, []).append(partition)
    values = {
        "replica_id": settings.broker_id,
        "max_wait": i32Timedelta.parse(timedelta(milliseconds=settings.fetch_wait_ms)),
        "min_bytes": 1,
        "session_id": 0,
        "session_epoch": -1,
        "forgotten_topics_data": [],
        "topics": [
            {
                "topic": topic,
                "topic_id": decode.id_value(members[0].topic_id),
                "partitions": [_row(member) for member in members],
            }
            for topic, members in topics.items()
        ],
    }
    return fill(request_type(ApiKey.FETCH, version), values)


def _row(partition: FollowedPartition) -> dict[str, object]:
    return {
        "partition": partition.tp.partition,
        "current_leader_epoch": partition.leader_epoch,
        "fetch_offset": 0,
        "last_fetched_epoch": -1,
        "log_start_offset": 0,
        "partition_max_bytes": _PARTITION_MAX_BYTES,
    }
