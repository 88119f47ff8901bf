"""Partition reassignments: asked for by znode or by request, resumed, completed (KIP-455)."""

from collections.abc import Iterable, Mapping

from controllerd.controller import Controller
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, ReplicaAssignment, TopicPartition
from controllerd.errors import NotServed
from events.reassignments import (
    ApiPartitionReassignment,
    ListPartitionReassignments,
    PartitionReassignmentIsrChange,
    ReassignmentsMayComplete,
    ZkPartitionReassignment,
)


async def initialise_reassignments(_c: Controller) -> None:
    """At the start of a term: what the znode asks for, then everything else that is under way."""


async def resume_reassignments_to(_brokers: Iterable[BrokerId], _c: Controller) -> None:
    """These brokers are back: what waits for one of them goes on."""


async def on_zk_reassignment(_event: ZkPartitionReassignment, _c: Controller) -> None:
    """``/admin/reassign_partitions`` asks for something."""


async def on_api_reassignment(_event: ApiPartitionReassignment, _c: Controller) -> Mapping[TopicPartition, KafkaError]:
    """An admin client wants other replicas, or cancels."""
    raise NotServed("reassignments")


async def on_isr_of_reassignment(
    _event: PartitionReassignmentIsrChange | ReassignmentsMayComplete, _c: Controller
) -> None:
    """New replicas may have caught up."""


async def on_list_reassignments(
    event: ListPartitionReassignments, c: Controller
) -> Mapping[TopicPartition, ReplicaAssignment]:
    """What is under way."""
    wanted = c.context.being_reassigned
    if event.partitions is not None:
        wanted = wanted & event.partitions
    return {tp: c.context.assignment(tp) for tp in sorted(wanted)}
