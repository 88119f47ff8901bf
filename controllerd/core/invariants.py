"""The cheap invariants of writes and requests, checked immediately before each of them is sent.

PURE. The decisions of the state machines keep these rules; the checks look only at the result. A breach is a defect of
this controller. So only its own changes are checked, never the content that another client wrote to ZooKeeper.
"""

from collections.abc import Collection, Iterable
from typing import Final

from controllerd.core.context import ControllerContext
from controllerd.core.deletion_progress import has_unsent_of_earlier_topic
from controllerd.core.model import (
    INITIAL_LEADER_EPOCH,
    NO_LEADER,
    OUR_IDS,
    BrokerId,
    LeaderAndIsr,
    LeaderRecoveryState,
    ReplicaAssignment,
    ReplicaState,
    TopicImage,
    TopicPartition,
)
from controllerd.core.records import PartitionRecord
from controllerd.core.requests import ControlRequest, StopReplicaRequest
from controllerd.errors import InvariantBroken

_GONE: Final = frozenset({ReplicaState.DELETION_SUCCESSFUL, ReplicaState.NON_EXISTENT})
_NONE: Final[frozenset[TopicPartition]] = frozenset()

Rows = Iterable[tuple[TopicPartition, LeaderAndIsr]]


class Invariants:
    """Checks of writes and requests. Each method raises ``InvariantBroken`` for one that must not be sent."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    # -- partition states --------------------------------------------------------------------------------------------

    def check_new_states(self, rows: Rows) -> None:
        """Check state znodes that are about to be created."""
        judged: set[object] = set()
        for tp, state in rows:
            self._check_not_in_quarantine(tp.state_path)
            replicas = self._context.assignment(tp).replicas
            if (state, replicas) not in judged:
                self._check_first_state(tp, state, replicas)
                judged.add((state, replicas))

    def _check_first_state(self, tp: TopicPartition, state: LeaderAndIsr, replicas: tuple[BrokerId, ...]) -> None:
        _check_leader_in_isr(tp, state)
        self._check_controller_epoch(tp, state)
        if state.leader_epoch != INITIAL_LEADER_EPOCH:
            raise InvariantBroken("I-12", f"{tp} would begin with leader epoch {state.leader_epoch}")
        if stray := set(state.isr) - set(replicas):
            raise InvariantBroken("I-07", f"{tp} would begin with {sorted(stray)} in its ISR, which are no replicas")
        self._check_live(tp, state.isr)

    def check_states(
        self, rows: Rows, *, by_leaders: bool = False, unclean: Collection[TopicPartition] = _NONE
    ) -> None:
        """Check state znodes that are about to be rewritten.

        ``by_leaders``: the leaders of the partitions requested the change. Only ``unclean`` partitions may get a leader
        from outside their ISR.
        """
        find, judged = self._context.find, dict[object, bool]()
        has_quarantine = bool(self._context.quarantine)
        for tp, state in rows:  # the hot loop of an election: few calls, and fields by number
            if has_quarantine:
                self._check_not_in_quarantine(tp.state_path)
            record = find(tp)
            before = None if record is None else record.leadership
            if before is None or before[4] != state[4]:
                self._check_after_read(tp, state, before)
                continue
            if by_leaders or state[1] <= before[1]:
                _check_leader_epoch(tp, state, before, by_leaders=by_leaders)
            alike = (state[0], state[2], state[3], state[5], before[0], before[2])
            is_unclean = judged.get(alike)
            if is_unclean is None:
                is_unclean = judged[alike] = self._check_change(tp, state, before)
            if is_unclean and tp not in unclean:
                raise InvariantBroken("I-14", f"{tp} would be led by {state.leader} from outside its ISR {before.isr}")

    def _check_after_read(self, tp: TopicPartition, state: LeaderAndIsr, before: LeaderAndIsr | None) -> None:
        """Check a change that was decided on a state which the context does not have; not every rule can be checked."""
        _check_leader_in_isr(tp, state)
        self._check_controller_epoch(tp, state)
        # The write of a state older than the one in the context fails on its version, so it need not be refused.
        is_older = before is not None and state.partition_epoch < before.partition_epoch
        if before is not None and not is_older and state.leader_epoch <= before.leader_epoch:
            raise InvariantBroken("I-12", f"{tp} would go from leader epoch {before.leader_epoch} to {state}")

    def _check_change(self, tp: TopicPartition, state: LeaderAndIsr, before: LeaderAndIsr) -> bool:
        """Check a change; return whether it elects a leader from outside the ISR, which must be permitted."""
        if (state.leader, state.isr) != (before.leader, before.isr):
            _check_leader_in_isr(tp, state)
        self._check_controller_epoch(tp, state)
        self._check_live(tp, set(state.isr) - set(before.isr))
        if state.leader in {NO_LEADER, before.leader, *before.isr}:
            return False
        recovers = state.recovery_state is LeaderRecoveryState.RECOVERING or not self._context.features.leader_recovery
        if state.isr != (state.leader,) or not recovers:
            raise InvariantBroken("I-14", f"{tp} would be led by {state.leader} without a mark of data loss: {state}")
        return True

    def _check_controller_epoch(self, tp: TopicPartition, state: LeaderAndIsr) -> None:
        if state.controller_epoch != self._context.epoch:
            evidence = f"{tp} would be written with controller epoch {state.controller_epoch}"
            raise InvariantBroken("I-03", f"{evidence}, ours is {self._context.epoch}")

    def _check_live(self, tp: TopicPartition, members: Iterable[BrokerId]) -> None:
        if dead := set(members) - self._context.live:
            raise InvariantBroken("I-08", f"{tp} would get {sorted(dead)} into its ISR, which are not live")

    def _check_not_in_quarantine(self, path: str) -> None:
        if path in self._context.quarantine:
            raise InvariantBroken("I-37", f"{path} would be touched, which is in quarantine")

    # -- topics ------------------------------------------------------------------------------------------------------

    def check_topics(self, written: Iterable[tuple[TopicImage, TopicImage]], *, growing: Collection[str] = ()) -> None:
        """Check topic znodes that are about to be rewritten: each new image beside the image that the write replaces.

        Only ``growing`` topics may get more partitions, with the next numbers.
        """
        for image, now in written:
            self._check_not_in_quarantine(f"/brokers/topics/{image.name}")
            if now.topic_id is not None and image.topic_id not in (now.topic_id, self._known_id(image)):
                raise InvariantBroken("I-26", f"{image.name} would get the id {image.topic_id} for {now.topic_id}")
            if now.extra != image.extra:
                raise InvariantBroken("I-17", f"{image.name} would lose or change fields that we do not know")
            self._check_partitions_kept(image, now, is_growing=image.name in growing)
            for partition, before in now.assignments.items():
                after = image.assignments.get(partition)
                if after is not None and after != before:
                    self._check_reassigned(TopicPartition(image.name, partition), before, after)

    def _known_id(self, image: TopicImage) -> str | None:
        """Return the id that brokers have for this topic, and not for an earlier one of the name; None if unknown.

        A write may restore this id if another client changed it.
        """
        known = self._context.topics.get(image.name)
        return known.topic_id if known is not None and known.czxid == image.czxid else None

    def _check_partitions_kept(self, image: TopicImage, now: TopicImage, *, is_growing: bool) -> None:
        lost = now.assignments.keys() - image.assignments.keys()
        # Partitions that were added to a topic during its deletion may be dropped (``late_partitions.py``).
        if lost and image.name in self._context.queued_for_deletion:
            lost = {partition for partition in lost if TopicPartition(image.name, partition) in self._context}
        added = image.assignments.keys() - now.assignments.keys()
        if is_growing and added == set(range(len(now.assignments), len(image.assignments))):
            added = set()
        if lost or added:
            evidence = f"{image.name} has {len(now.assignments)} partitions and would have {len(image.assignments)}"
            raise InvariantBroken("I-17", evidence)

    def _check_reassigned(self, tp: TopicPartition, before: ReplicaAssignment, after: ReplicaAssignment) -> None:
        """Check that new replicas are adding, and that lost ones were adding, removing or ids of controllerd."""
        known = self._context.assignment(tp)
        # The replacement of an id of controllerd by a broker adds a replica without a reassignment.
        came = set(after.replicas) - set(before.replicas) - set(after.adding)
        if came and OUR_IDS.start > max(before.replicas, default=0):
            raise InvariantBroken("I-16", f"{tp} would get the replicas {sorted(came)} without a reassignment")
        went = {broker for broker in before.replicas if broker not in after.replicas and broker not in OUR_IDS}
        cancelled = {*before.adding, *known.adding}
        if stray := went - cancelled - {*before.removing, *known.removing}:
            raise InvariantBroken("I-16", f"{tp} would lose the replicas {sorted(stray)} without a reassignment")
        leadership = self._context.leadership(tp)
        if leadership is not None and (synced := (went - cancelled) & set(leadership.isr)):
            raise InvariantBroken("I-16", f"{tp} would lose the replicas {sorted(synced)}, which are in its ISR")

    def check_deletions(self, topics: Iterable[str]) -> None:
        """Check topics that are about to be deleted with all their znodes."""
        for name in topics:
            self._check_not_in_quarantine(f"/brokers/topics/{name}")
            known = self._context.topics.get(name)
            if known is None:
                continue
            if name not in self._context.queued_for_deletion:
                raise InvariantBroken("I-22", f"{name} would be deleted, but its deletion was not requested")
            judged: set[object] = set()
            for record in known.partitions.values():
                if (alike := (record.assignment.replicas, record.replica_states)) not in judged:
                    self._check_replicas_deleted(record)
                    # With pending deletions the result differs from partition to partition: each is checked.
                    if not self._context.pending_deletions.brokers():
                        judged.add(alike)

    def _check_replicas_deleted(self, record: PartitionRecord) -> None:
        """Check that every replica was deleted, or that its deletion is pending for a broker that is away.

        A replica on an id of ours never existed: controllerd has no disk.
        """
        for broker in record.assignment.replicas:
            if broker in OUR_IDS:
                continue
            state = record.replica_states[broker]
            is_pending = broker not in self._context.brokers and record.tp in self._context.pending_deletions.of(broker)
            if state not in _GONE and not is_pending:
                raise InvariantBroken("I-22", f"{record.tp} would be deleted with replica {broker} in {state.value}")

    # -- requests ----------------------------------------------------------------------------------------------------

    def check_requests(self, requests: Iterable[tuple[BrokerId, ControlRequest]]) -> None:
        """Check requests that are about to be handed to the senders."""
        for broker, request in requests:
            registered = self._context.brokers.get(broker)
            if registered is None or request.broker_epoch != registered.epoch:
                evidence = f"broker {broker} would be sent a request with broker epoch {request.broker_epoch}"
                raise InvariantBroken("I-27", evidence)
            if request.controller_epoch != self._context.epoch:
                evidence = f"broker {broker} would be sent a request with controller epoch {request.controller_epoch}"
                raise InvariantBroken("I-03", evidence)
            if isinstance(request, StopReplicaRequest):
                for tp, stopped in request.partitions.items():
                    if stopped.delete:
                        self._check_may_delete(tp, broker)

    def _check_may_delete(self, tp: TopicPartition, broker: BrokerId) -> None:
        """Guard against data loss: the topic is being deleted, or the replica is not assigned (I-20, I-21)."""
        if tp.topic in self._context.deletions.started:
            return
        record = self._context.find(tp)
        if self._context.quarantine:
            self._check_not_in_quarantine(f"/brokers/topics/{tp.topic}")
            if record is None:
                self._check_not_in_quarantine(f"/brokers/topics/{tp.topic}/partitions/{tp.partition}")
        if record is None:
            return
        assignment, leadership = record.assignment, record.leadership
        is_wanted = broker in assignment.replicas and broker not in assignment.removing
        if is_wanted and not has_unsent_of_earlier_topic(self._context, broker, tp):
            raise InvariantBroken("I-21", f"broker {broker} would delete its replica of {tp}, which is assigned to it")
        if leadership is not None and broker in leadership.isr:
            raise InvariantBroken("I-20", f"broker {broker} would delete its replica of {tp}, which is in the ISR")


def check_sent_epoch(record: PartitionRecord, leader_epoch: int) -> None:
    """Check a leadership that brokers are about to get: never an older one than they got before (I-10)."""
    if leader_epoch < record.sent_epoch:
        evidence = f"brokers would be sent leader epoch {leader_epoch} of {record.tp} after {record.sent_epoch}"
        raise InvariantBroken("I-10", evidence)


def _check_leader_in_isr(tp: TopicPartition, state: LeaderAndIsr) -> None:
    if not state.isr:
        raise InvariantBroken("I-06", f"{tp} would have an empty ISR")
    if state.leader != NO_LEADER and state.leader not in state.isr:
        raise InvariantBroken("I-09", f"{tp} would be led by {state.leader}, which is not in the ISR {state.isr}")


def _check_leader_epoch(tp: TopicPartition, state: LeaderAndIsr, before: LeaderAndIsr, *, by_leaders: bool) -> None:
    is_same = (state.leader, state.leader_epoch) == (before.leader, before.leader_epoch)
    if not (by_leaders and is_same):
        evidence = f"{tp} would go from leader {before.leader}, epoch {before.leader_epoch}"
        raise InvariantBroken("I-12", f"{evidence} to leader {state.leader}, epoch {state.leader_epoch}")
