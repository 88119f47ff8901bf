"""The algebra of reassignments: which replicas a partition has on its way to a target, and who may be let go (KIP-455).

PURE. An assignment in progress is ``(replicas, adding, removing)``. Its origin is what it had before (replicas without
adding), its target what it will have (replicas without removing); both follow from the three lists, so that a change of
mind in the middle keeps the origin.
"""

from collections.abc import Collection, Container, Iterable, Sequence
from collections.abc import Set as AbstractSet

from controllerd.core.model import OUR_IDS, BrokerId, LeaderAndIsr, ReplicaAssignment


def reassign_to(current: ReplicaAssignment, target: Sequence[BrokerId]) -> ReplicaAssignment:
    """The assignment on the way from the origin of ``current`` to ``target``: the target first, then what will go.

    The same replicas in another order, and the origin itself, need no way: nothing is added or removed then.
    """
    origin = current.origin
    replicas = tuple(dict.fromkeys((*target, *origin)))
    adding = tuple(broker for broker in replicas if broker not in origin)
    removing = tuple(broker for broker in replicas if broker not in target)
    return ReplicaAssignment(replicas, adding, removing)


def cancelled(current: ReplicaAssignment) -> ReplicaAssignment:
    """Back to the origin. Its order may be lost: [1,2] on its way to [2,3] is [2,3,1], and goes back to [2,1]."""
    return reassign_to(current, current.origin)


def dropped(before: ReplicaAssignment, after: ReplicaAssignment) -> tuple[BrokerId, ...]:
    """The replicas that a change of mind takes away at once, in their order."""
    return tuple(broker for broker in before.replicas if broker not in after.replicas)


def is_caught_up(assignment: ReplicaAssignment, isr: Collection[BrokerId]) -> bool:
    """Whether the whole target is in sync; others may be in the ISR, too."""
    return set(assignment.target) <= set(isr)


def may_complete(assignment: ReplicaAssignment, isr: Collection[BrokerId], online: Container[BrokerId]) -> bool:
    """Whether the replicas that go may go now.

    Kafka's controller completes as soon as the target is in sync, and leaves the partition without leader if no replica
    of the target is online. This controller waits: as long as another replica leads, that costs nothing. Where nothing
    is added or removed there is nothing to wait for.
    """
    if not assignment.is_being_reassigned:
        return True
    return is_caught_up(assignment, isr) and any(broker in online for broker in assignment.target)


def target_problem(target: Sequence[BrokerId]) -> str | None:
    """Why these can never be the replicas of a partition (error 39), in the words of Kafka's controller, or None."""
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
    """A list as the sentences of Kafka's controller end with it."""
    return f"ArrayBuffer({', '.join(map(str, brokers))})"


def not_live(current: ReplicaAssignment, target: Sequence[BrokerId], live: AbstractSet[BrokerId]) -> list[BrokerId]:
    """The brokers of the target that neither had a replica before the reassignment nor are live.

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
    """Why ``gone`` must not be taken away from a partition in this state, or None (KAFKA-14808).

    An adding replica may lead, or be the only ISR member. An ISR member must remain, and if the leader goes, one that
    can lead at once. ``online`` are the live replicas of the partition, including the replicas that go.
    """
    if set(gone).isdisjoint(state.isr):
        return None
    successors = [broker for broker in state.isr if broker in after.replicas]
    if not successors:
        return f"nobody who is in sync would remain: the ISR is {list(state.isr)}"
    if state.leader in gone and state.leader in online and not any(broker in online for broker in successors):
        return f"leader {state.leader} would go, and of those in sync that remain, {successors}, nobody is online"
    return None
