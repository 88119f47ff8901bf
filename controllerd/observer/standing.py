"""The state that a partition has under a controller at work, as far as znodes tell: a start reaches it by writing."""

from controllerd.core.context import ControllerContext
from controllerd.core.model import PartitionState
from controllerd.core.records import PartitionRecord
from controllerd.core.soundness import leadership_flaw


def standing_of(record: PartitionRecord, context: ControllerContext) -> PartitionState:
    """Online under a leader that is there, Offline without one, New before the first."""
    leadership = record.leadership
    if leadership is None:
        return PartitionState.NON_EXISTENT if record.tp.state_path in context.quarantine else PartitionState.NEW
    is_sound = leadership_flaw(leadership, record.assignment.replicas) is None
    is_led = leadership.leader in context.liveness.online(record)
    return PartitionState.ONLINE if is_sound and is_led else PartitionState.OFFLINE
