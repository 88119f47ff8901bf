"""The state machines of one controller, put together in one place."""

from typing import NamedTuple

from controllerd.core.context import ControllerContext
from controllerd.core.invariants import Invariants
from controllerd.machines.deletions import TopicDeletionManager
from controllerd.machines.outbox import Outbox
from controllerd.machines.partitions import PartitionStateMachine
from controllerd.machines.pending_deletions import PendingReplicaDeletions
from controllerd.machines.reassignment.dependencies import Dependencies
from controllerd.machines.reassignment.reassigner import Reassigner
from controllerd.machines.replicas import ReplicaStateMachine
from controllerd.ports.audit import AuditLog, ElectionMetrics
from controllerd.ports.configs import TopicConfigs
from controllerd.ports.metadata import MetadataStore


class Machines(NamedTuple):
    """The machines that change the states of partitions, replicas, topics and reassignments."""

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
    metrics: ElectionMetrics,
) -> Machines:
    """The machines of one controller; they share its context and its outbox.

    The invariants check every write and every request of theirs before it leaves.
    """
    invariants = Invariants(context)
    store.guard_writes(invariants)
    outbox.guard = invariants
    partitions = PartitionStateMachine(context, store.states, outbox, audit, store.configs, configs, metrics)
    replicas = ReplicaStateMachine(context, store.states, outbox, audit)
    pending_deletions = PendingReplicaDeletions(context, store.pending_deletions, audit, outbox.slicer)
    return Machines(
        partitions,
        replicas,
        TopicDeletionManager(context, store.topics, outbox, partitions, replicas, audit),
        Reassigner(Dependencies(context, store, outbox, partitions, replicas, audit, pending_deletions)),
        pending_deletions,
    )
