"""The state machines of one controller, put together in one place."""

from typing import NamedTuple

from controllerd.core.context import ControllerContext
from controllerd.core.invariants import Invariants
from controllerd.machines.deletions import TopicDeletionManager
from controllerd.machines.outbox import Outbox
from controllerd.machines.partitions import PartitionStateMachine
from controllerd.machines.pending_deletions import PendingReplicaDeletions
from controllerd.machines.reassignment.reassigner import Reassigner
from controllerd.machines.replicas import ReplicaStateMachine
from controllerd.ports import AuditLog, MetadataStore, Metrics, TopicConfigs


class Machines(NamedTuple):
    """What changes the state of partitions, replicas, topics and reassignments."""

    partitions: PartitionStateMachine
    replicas: ReplicaStateMachine
    deletions: TopicDeletionManager
    reassigner: Reassigner
    pending_deletions: PendingReplicaDeletions


def build_machines(
    context: ControllerContext,
    store: MetadataStore,
    outbox: Outbox,
    audit: AuditLog,
    configs: TopicConfigs,
    metrics: Metrics,
) -> Machines:
    """The machines of one controller; they share its context and its outbox.

    What they write and send is looked at once more before it leaves.
    """
    invariants = Invariants(context)
    store.guard_writes(invariants)
    outbox.guard = invariants
    partitions = PartitionStateMachine(context, store, outbox, audit, configs, metrics)
    replicas = ReplicaStateMachine(context, store, outbox, audit)
    debts = PendingReplicaDeletions(context, store, audit, outbox.pace)
    return Machines(
        partitions,
        replicas,
        TopicDeletionManager(context, store, outbox, partitions, replicas, audit),
        Reassigner(context, store, outbox, partitions, replicas, audit, debts),
        debts,
    )
