"""Send ISR changes to the controller (KIP-497): one AlterPartition in flight, for all partitions that wait."""

import asyncio
import uuid
from collections.abc import Mapping
from contextlib import closing
from typing import Any, Final

import structlog
from kio.static.protocol import RequestPayload

from broker import decode
from broker.controller_channel import ControllerChannel
from broker.gate import ControlGate
from broker.partition import PendingIsrChange
from broker.replicas import ReplicaManager
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, LeaderAndIsr, LeaderRecoveryState, TopicPartition
from wire.api_codec import fill
from wire.kio_codec import request_type
from wire.versions import ApiKey, VersionRange, choose

log = structlog.get_logger(__name__)

_BY_NAME: Final = VersionRange(0, 1)
_BY_ID: Final = VersionRange(2, 3)
_RETRY_S: Final = 0.05

Changes = Mapping[TopicPartition, PendingIsrChange]


class IsrUpdater:
    """Send the ISR changes that the leaders of this broker propose to the controller."""

    def __init__(
        self, broker: BrokerId, gate: ControlGate, replicas: ReplicaManager, channel: ControllerChannel
    ) -> None:
        self._broker = broker
        self._gate = gate
        self._replicas = replicas
        self._channel = channel

    async def run(self) -> None:
        """Send waiting changes, and wait for new ones, until cancelled."""
        with closing(self._channel):
            while True:
                changes = self._replicas.isr_changes()
                if not changes:
                    await self._replicas.isr_wanted.wait()
                elif not await self._send(changes):
                    await asyncio.sleep(_RETRY_S)

    async def _send(self, changes: Changes) -> bool:
        """Send changes; return whether each was accepted or refused. The others are sent again after a pause."""
        ids = {tp.topic: self._replicas.partitions[tp].topic_id for tp in changes}
        answer = await self._channel.ask(
            ApiKey.ALTER_PARTITION,
            lambda versions: build_alter_partition(self._broker, self._gate.broker_epoch, changes, ids, versions),
        )
        error = answer.error_code.value
        if error != KafkaError.NONE:
            log.warning("controller refused ISR changes, retrying", error=error, partitions=len(changes))
            return False
        for tp, (refusal, state) in _results(answer, ids).items():
            if tp in changes:
                self._settle(tp, changes[tp], refusal, state)
        waiting = self._replicas.isr_changes()
        return not any(waiting.get(tp) is change for tp, change in changes.items())

    def _settle(self, tp: TopicPartition, change: PendingIsrChange, error: int, state: LeaderAndIsr) -> None:
        partition = self._replicas.partitions.get(tp)
        if partition is None:
            return
        known = error in KafkaError.__members__.values()
        partition.answered(change, KafkaError(error) if known else KafkaError.UNKNOWN_SERVER_ERROR, state)
        log.info("received answer to ISR change", partition=str(tp), error=error, wanted=change.isr, isr=partition.isr)


def build_alter_partition(
    broker: BrokerId,
    broker_epoch: int,
    changes: Changes,
    ids: Mapping[str, str | None],
    versions: VersionRange | None,
) -> RequestPayload | None:
    """Build the request in the highest version that the controller supports too; None if there is none.

    Topics are named by id (versions 2 and 3) only if every topic has an id.
    """
    version = choose(versions, _BY_ID if None not in ids.values() else _BY_NAME)
    if version is None:
        return None
    topics: dict[str, list[Mapping[str, object]]] = {}
    for tp, change in changes.items():
        topics.setdefault(tp.topic, []).append(_row(tp, change))
    rows = [
        {"topic_name": topic, "topic_id": decode.id_value(ids[topic]), "partitions": partitions}
        for topic, partitions in topics.items()
    ]
    kind: Any = request_type(ApiKey.ALTER_PARTITION, version)
    request: RequestPayload = fill(kind, {"broker_id": broker, "broker_epoch": broker_epoch, "topics": rows})
    return request


def _row(tp: TopicPartition, change: PendingIsrChange) -> Mapping[str, object]:
    return {
        "partition_index": tp.partition,
        "leader_epoch": change.leader_epoch,
        "new_isr": change.isr,
        # Brokers in ZooKeeper mode do not know each other's epochs.
        "new_isr_with_epochs": [{"broker_id": replica, "broker_epoch": -1} for replica in change.isr],
        "leader_recovery_state": int(change.recovery_state),
        "partition_epoch": change.partition_epoch,
    }


def _results(answer: Any, ids: Mapping[str, str | None]) -> dict[TopicPartition, tuple[int, LeaderAndIsr]]:
    names = {decode.id_value(topic_id): topic for topic, topic_id in ids.items()}
    return {
        TopicPartition(topic, partition.partition_index): (partition.error_code.value, _state(partition))
        for rows in answer.topics
        if (topic := _name(rows, names)) is not None
        for partition in rows.partitions
    }


def _name(rows: Any, names: Mapping[uuid.UUID | None, str]) -> str | None:
    name: str | None = rows.topic_name if hasattr(rows, "topic_name") else names.get(rows.topic_id)
    return name


def _state(partition: Any) -> LeaderAndIsr:
    recovery = LeaderRecoveryState(getattr(partition, "leader_recovery_state", 0))
    leader, isr = BrokerId(partition.leader_id), tuple(partition.isr)
    # The response does not contain the controller epoch of the decision.
    return LeaderAndIsr(leader, partition.leader_epoch, isr, -1, partition.partition_epoch, recovery)
