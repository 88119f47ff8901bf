"""The rules of reassignments: the replicas of a partition during one, and the replicas that may be removed (KIP-455).

PURE. The assignment during a reassignment is ``(replicas, adding, removing)``. Its origin is the replicas before it
(replicas without adding), its target the replicas after it (replicas without removing). Both follow from the three
lists, so that a new target during a reassignment keeps the origin.
"""

from collections.abc import Collection, Container, Iterable, Sequence
from collections.abc import Set as AbstractSet

from controllerd.core.model import OUR_IDS, BrokerId, LeaderAndIsr, ReplicaAssignment


def reassign_to(current: ReplicaAssignment, target: Sequence[BrokerId]) -> ReplicaAssignment:
    """Return the assignment while a partition is reassigned from the origin of ``current`` to ``target``.

    The replicas of the target come first. If the target has the same replicas as the origin, in whatever order,
    nothing is added or removed.
    """
    origin = current.origin
    replicas = tuple(dict.fromkeys((*target, *origin)))
    adding = tuple(broker for broker in replicas if broker not in origin)
    removing = tuple(broker for broker in replicas if broker not in target)
    return ReplicaAssignment(replicas, adding, removing)


def cancelled(current: ReplicaAssignment) -> ReplicaAssignment:
    """Return the assignment that goes back to the origin.

    The order of the origin may be lost: [1,2] that is reassigned to [2,3] is [2,3,1], and goes back to [2,1].
    """
    return reassign_to(current, current.origin)


def dropped(before: ReplicaAssignment, after: ReplicaAssignment) -> tuple[BrokerId, ...]:
    """Return the replicas that a new target or a cancellation removes at once, in order."""
    return tuple(broker for broker in before.replicas if broker not in after.replicas)


def is_caught_up(assignment: ReplicaAssignment, isr: Collection[BrokerId]) -> bool:
    """Whether the whole target is in sync; others may be in the ISR, too."""
    return set(assignment.target) <= set(isr)


def may_complete(assignment: ReplicaAssignment, isr: Collection[BrokerId], online: Container[BrokerId]) -> bool:
    """Whether a reassignment may complete now, which removes replicas.

    Kafka's controller completes as soon as the target is in sync, and leaves the partition without leader if no replica
    of the target is online. This controller waits: as long as another replica leads, waiting does no harm. If
    nothing is added or removed, there is nothing to wait for.
    """
    if not assignment.is_being_reassigned:
        return True
    return is_caught_up(assignment, isr) and any(broker in online for broker in assignment.target)


def target_problem(target: Sequence[BrokerId]) -> str | None:
    """Return why these can never be the replicas of a partition (error 39), in Kafka's words; None if they can."""
    if not target:
        return "Empty replica list specified in partition reassignment."
    if len(set(target)) < len(target):
        return f"Duplicate replica ids in partition reassignment replica list: {as_scala_prints(target)}"
    if min(target) < 0:
        return f"Invalid broker id in replica list: {as_scala_prints(target)}"
    if any(broker in OUR_IDS for broker in target):
        return f"controllerd itself has no replicas: {as_scala_prints(target)}"
    return None


def as_scala_prints(brokers: Iterable[BrokerId]) -> str:
    """Return a list as Kafka's error messages print it."""
    return f"ArrayBuffer({', '.join(map(str, brokers))})"


def not_live(current: ReplicaAssignment, target: Sequence[BrokerId], live: AbstractSet[BrokerId]) -> list[BrokerId]:
    """Return the brokers of the target that neither had a replica before the reassignment nor are live.

    They could not catch up, even if one of them is being added already. A broker that had a replica need not be live,
    because its replica is only kept. Kafka's controller refuses the same.
    """
    origin = current.origin
    return [broker for broker in target if broker not in origin and broker not in live]


def loss_by_dropping(
    gone: Collection[BrokerId],
    after: ReplicaAssignment,
    state: LeaderAndIsr,
    online: Container[BrokerId],
) -> str | None:
    """Return why the replicas ``gone`` must not be removed from a partition in this state, or None (KAFKA-14808).

    An adding replica may lead, or be the only ISR member. An ISR member must remain, and if the leader is removed, one
    that can lead at once. ``online`` are the online replicas of the partition, including the ones to remove.
    """
    if set(gone).isdisjoint(state.isr):
        return None
    successors = [broker for broker in state.isr if broker in after.replicas]
    if not successors:
        return f"no in-sync replica would remain: the ISR is {list(state.isr)}"
    if state.leader in gone and state.leader in online and not any(broker in online for broker in successors):
        return f"leader {state.leader} would be removed, and no in-sync replica that remains is online: {successors}"
    return None
