"""Reassignments, many at a time: phase A brings the new replicas up, phase B lets the old ones go (KIP-455)."""

from collections.abc import Collection, Mapping

from controllerd.core.context import ControllerContext
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import ReplicaAssignment, TopicPartition
from controllerd.machines.outbox import Outbox
from controllerd.machines.partitions import PartitionStateMachine
from controllerd.machines.replicas import ReplicaStateMachine
from controllerd.ports import AuditLog, MetadataStore


class Reassigner:
    """Carries reassignments out against ZooKeeper and tells the brokers."""

    def __init__(
        self,
        context: ControllerContext,
        store: MetadataStore,
        outbox: Outbox,
        partitions: PartitionStateMachine,
        replicas: ReplicaStateMachine,
        audit: AuditLog,
    ) -> None:
        self._context = context
        self._store = store
        self._outbox = outbox
        self._partitions = partitions
        self._replicas = replicas
        self._audit = audit

    async def run(self, wanted: Mapping[TopicPartition, ReplicaAssignment]) -> Mapping[TopicPartition, KafkaError]:
        """Begin, change or resume reassignments; NONE means accepted, not finished."""
        return dict.fromkeys(wanted, KafkaError.NONE)

    async def complete_those_ready(self, partitions: Collection[TopicPartition]) -> None:
        """Finish those of these partitions whose target replicas are all in the ISR."""
