"""The topic deletion manager: which replicas are deleted, what waits and why, and when a topic is gone."""

from collections.abc import Collection, Iterable, Mapping

from controllerd.core.context import ControllerContext
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.core.policy import Policy
from controllerd.machines.outbox import Outbox
from controllerd.machines.partitions import PartitionStateMachine
from controllerd.machines.replicas import ReplicaStateMachine
from controllerd.ports import AuditLog, MetadataStore


class TopicDeletionManager:
    """Deletes topics as far as it can, and goes on whenever something that held it up is over."""

    def __init__(
        self,
        context: ControllerContext,
        store: MetadataStore,
        outbox: Outbox,
        partitions: PartitionStateMachine,
        replicas: ReplicaStateMachine,
        audit: AuditLog,
        policy: Policy,
    ) -> None:
        self._context = context
        self._store = store
        self._outbox = outbox
        self._partitions = partitions
        self._replicas = replicas
        self._audit = audit
        self._policy = policy

    async def resume(self) -> None:
        """Go on with every deletion that can."""

    async def resume_for(self, topics: Iterable[str]) -> None:
        """What held these topics up may be over: look again, and go on."""

    async def fail(self, replicas: Mapping[BrokerId, Collection[TopicPartition]]) -> None:
        """These replicas of queued topics cannot be deleted now."""

    async def complete(self, broker: BrokerId, partitions: Collection[TopicPartition]) -> None:
        """The broker deleted these replicas of queued topics."""
