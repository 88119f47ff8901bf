"""Which partition states need not be read before they are changed.

Since 2.7-IV2 nobody but the controller writes them while it leads (KIP-497), so what we know is what ZooKeeper has.
Every write demands the version that it was decided on: should it not be so, the write loses, and the partition is read
and decided anew. Before, leaders wrote ISRs by themselves, and what we know may be older than what they wrote. A state
that names a later controller than us is read as well: whoever reads it refuses to touch it. A state in quarantine is
left alone until it was looked at again.
"""

from collections.abc import Sequence
from typing import NamedTuple

from controllerd.core.context import ControllerContext
from controllerd.core.model import LeaderAndIsr, TopicPartition
from controllerd.core.records import PartitionRecord
from controllerd.machines.outbox import SLICE
from controllerd.pace import Pace, sliced


class KnownStates(NamedTuple):
    """The states that may be taken as they are known, the partitions that must be read, and those to leave alone."""

    known: dict[TopicPartition, LeaderAndIsr]
    unknown: list[TopicPartition]
    quarantined: dict[TopicPartition, str]


async def known_states(records: Sequence[PartitionRecord], context: ControllerContext, pace: Pace) -> KnownStates:
    """What is known of the states of these partitions."""
    found = KnownStates({}, [], {})
    trusted, epoch = context.features.alter_partition, context.epoch
    for part in sliced(records, SLICE):
        for record in part:
            state = record.leadership
            if context.quarantine and (reason := context.quarantine.get(record.tp.state_path)) is not None:
                found.quarantined[record.tp] = f"in quarantine: {reason}"
            elif trusted and state is not None and state.controller_epoch <= epoch:
                found.known[record.tp] = state
            else:
                found.unknown.append(record.tp)
        await pace.breathe()
    return found
