"""One partition from the assignment that it had to the one that it has, and what that does to its replicas."""

from collections.abc import Collection
from typing import NamedTuple

from controllerd.core.context import ControllerContext
from controllerd.core.model import BrokerId, ReplicaAssignment
from controllerd.core.reassignment import dropped, loss_by_dropping
from controllerd.core.records import PartitionRecord


class Move(NamedTuple):
    """A partition and the assignments that it had and has."""

    record: PartitionRecord
    before: ReplicaAssignment
    after: ReplicaAssignment

    @property
    def dropped(self) -> tuple[BrokerId, ...]:
        """The replicas that go at once."""
        return dropped(self.before, self.after)

    @property
    def called_off(self) -> list[BrokerId]:
        """Replicas that were being added, and are not wanted any more."""
        return [broker for broker in self.dropped if broker in self.before.adding]

    @property
    def forgotten(self) -> list[BrokerId]:
        """Other replicas that are not named any more."""
        return [broker for broker in self.dropped if broker not in self.before.adding]

    @property
    def newcomers(self) -> list[BrokerId]:
        """Replicas that appear out of nothing, without being added the usual way."""
        known = {*self.before.replicas, *self.after.adding}
        return [broker for broker in self.after.replicas if broker not in known]


def loss_by(
    context: ControllerContext, record: PartitionRecord, gone: Collection[BrokerId], after: ReplicaAssignment
) -> str | None:
    """Why these must not be taken away from the partition as it is now, or None (KAFKA-14808)."""
    if not gone or record.leadership is None:
        return None
    return loss_by_dropping(gone, after, record.leadership, context.liveness.online(record))
