"""The cheap invariants of writes and requests, checked at the last moment before each of them leaves.

PURE. The state machines keep these rules by the way they decide; the checks look only at the result. A breach is a
defect of this controller. So only its own changes are judged, never what another writer left in ZooKeeper.
"""

from collections.abc import Collection, Iterable
from typing import Final

from controllerd.core.context import ControllerContext
from controllerd.core.deletion_progress import has_earlier
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
    """Each method raises ``InvariantBroken`` for what must not leave, and costs as much as there is to look at."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    # -- partition states --------------------------------------------------------------------------------------------

    def check_new_states(self, rows: Rows) -> None:
        """State znodes that are about to be created."""
        judged: set[object] = set()
        for tp, state in rows:
            self._is_not_in_quarantine(tp.state_path)
            replicas = self._context.assignment(tp).replicas
            if (state, replicas) not in judged:
                self._begins_well(tp, state, replicas)
                judged.add((state, replicas))

    def _begins_well(self, tp: TopicPartition, state: LeaderAndIsr, replicas: tuple[BrokerId, ...]) -> None:
        _is_led_from_its_isr(tp, state)
        self._is_in_our_name(tp, state)
        if state.leader_epoch != INITIAL_LEADER_EPOCH:
            raise InvariantBroken("I-12", f"{tp} would begin with leader epoch {state.leader_epoch}")
        if stray := set(state.isr) - set(replicas):
            raise InvariantBroken("I-07", f"{tp} would begin with {sorted(stray)} in its ISR, which are no replicas")
        self._are_live(tp, state.isr)

    def check_states(
        self, rows: Rows, *, by_leaders: bool = False, unclean: Collection[TopicPartition] = _NONE
    ) -> None:
        """State znodes that are about to be written over.

        ``by_leaders``: it is what their leaders asked for. ``unclean`` partitions may be led from outside their ISR.
        """
        find, judged = self._context.find, dict[object, bool]()
        has_quarantine = bool(self._context.quarantine)
        for tp, state in rows:  # the hot loop of an election: no call that can be spared, and fields by number
            if has_quarantine:
                self._is_not_in_quarantine(tp.state_path)
            record = find(tp)
            before = None if record is None else record.leadership
            if before is None or before[4] != state[4]:
                self._was_just_read(tp, state, before)
                continue
            if by_leaders or state[1] <= before[1]:
                _has_the_right_leader_epoch(tp, state, before, by_leaders=by_leaders)
            alike = (state[0], state[2], state[3], state[5], before[0], before[2])
            is_unclean = judged.get(alike)
            if is_unclean is None:
                is_unclean = judged[alike] = self._is_led_from_elsewhere(tp, state, before)
            if is_unclean and tp not in unclean:
                raise InvariantBroken("I-14", f"{tp} would be led by {state.leader} from outside its ISR {before.isr}")

    def _was_just_read(self, tp: TopicPartition, state: LeaderAndIsr, before: LeaderAndIsr | None) -> None:
        """The decision was made on a state that the context does not know: the change can be judged in part only."""
        _is_led_from_its_isr(tp, state)
        self._is_in_our_name(tp, state)
        is_older = before is not None and state.partition_epoch < before.partition_epoch  # such a write will lose
        if before is not None and not is_older and state.leader_epoch <= before.leader_epoch:
            raise InvariantBroken("I-12", f"{tp} would go from leader epoch {before.leader_epoch} to {state}")

    def _is_led_from_elsewhere(self, tp: TopicPartition, state: LeaderAndIsr, before: LeaderAndIsr) -> bool:
        """Judge a change; whether it gives the partition a leader that was not in the ISR, which needs a permission."""
        if (state.leader, state.isr) != (before.leader, before.isr):
            _is_led_from_its_isr(tp, state)
        self._is_in_our_name(tp, state)
        self._are_live(tp, set(state.isr) - set(before.isr))
        if state.leader in {NO_LEADER, before.leader, *before.isr}:
            return False
        recovers = state.recovery_state is LeaderRecoveryState.RECOVERING or not self._context.features.leader_recovery
        if state.isr != (state.leader,) or not recovers:
            raise InvariantBroken("I-14", f"{tp} would go on with the data of {state.leader} and not say so: {state}")
        return True

    def _is_in_our_name(self, tp: TopicPartition, state: LeaderAndIsr) -> None:
        if state.controller_epoch != self._context.epoch:
            evidence = f"{tp} would be written with controller epoch {state.controller_epoch}"
            raise InvariantBroken("I-03", f"{evidence}, ours is {self._context.epoch}")

    def _are_live(self, tp: TopicPartition, members: Iterable[BrokerId]) -> None:
        if dead := set(members) - self._context.live:
            raise InvariantBroken("I-08", f"{tp} would get {sorted(dead)} into its ISR, which are not live")

    def _is_not_in_quarantine(self, path: str) -> None:
        if path in self._context.quarantine:
            raise InvariantBroken("I-37", f"{path} would be touched, which is in quarantine")

    # -- topics ------------------------------------------------------------------------------------------------------

    def check_topics(self, written: Iterable[tuple[TopicImage, TopicImage]], *, growing: Collection[str] = ()) -> None:
        """Topic znodes that are about to be written, each with what it says now, at the version of the write.

        Only ``growing`` topics may get more partitions, numbered on from the ones that they have.
        """
        for image, now in written:
            self._is_not_in_quarantine(f"/brokers/topics/{image.name}")
            if now.topic_id is not None and image.topic_id not in (now.topic_id, self._known_id(image)):
                raise InvariantBroken("I-26", f"{image.name} would get the id {image.topic_id} for {now.topic_id}")
            if now.extra != image.extra:
                raise InvariantBroken("I-17", f"{image.name} would lose or change fields that we do not know")
            self._keeps_its_partitions(image, now, is_growing=image.name in growing)
            for partition, before in now.assignments.items():
                after = image.assignments.get(partition)
                if after is not None and after != before:
                    self._is_reassigned(TopicPartition(image.name, partition), before, after)

    def _known_id(self, image: TopicImage) -> str | None:
        """The id that brokers have for this very topic: it may be restored where another writer changed it."""
        known = self._context.topics.get(image.name)
        return known.topic_id if known is not None and known.czxid == image.czxid else None

    def _keeps_its_partitions(self, image: TopicImage, now: TopicImage, *, is_growing: bool) -> None:
        lost = now.assignments.keys() - image.assignments.keys()
        if lost and image.name in self._context.queued_for_deletion:  # partitions that were added too late are dropped
            lost = {partition for partition in lost if TopicPartition(image.name, partition) in self._context}
        added = image.assignments.keys() - now.assignments.keys()
        if is_growing and added == set(range(len(now.assignments), len(image.assignments))):
            added = set()
        if lost or added:
            evidence = f"{image.name} has {len(now.assignments)} partitions and would have {len(image.assignments)}"
            raise InvariantBroken("I-17", evidence)

    def _is_reassigned(self, tp: TopicPartition, before: ReplicaAssignment, after: ReplicaAssignment) -> None:
        """Replicas come as adding ones and go as adding or removing ones; but our own id may be replaced."""
        known = self._context.assignment(tp)
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
        """Topics that are about to be deleted with all their znodes."""
        for name in topics:
            self._is_not_in_quarantine(f"/brokers/topics/{name}")
            known = self._context.topics.get(name)
            if known is None:
                continue
            if name not in self._context.queued_for_deletion:
                raise InvariantBroken("I-22", f"{name} would be deleted, though nobody asked for it")
            judged: set[object] = set()
            for record in known.partitions.values():
                if (alike := (record.assignment.replicas, record.replica_states)) not in judged:
                    self._is_gone_everywhere(record)
                    if not self._context.pending_deletions.brokers():
                        judged.add(alike)

    def _is_gone_everywhere(self, record: PartitionRecord) -> None:
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
        """Requests that are about to be handed to the senders."""
        for broker, request in requests:
            registered = self._context.brokers.get(broker)
            if registered is None or request.broker_epoch != registered.epoch:
                evidence = f"broker {broker} would be told something at broker epoch {request.broker_epoch}"
                raise InvariantBroken("I-27", evidence)
            if request.controller_epoch != self._context.epoch:
                evidence = f"broker {broker} would be told something by controller epoch {request.controller_epoch}"
                raise InvariantBroken("I-03", evidence)
            if isinstance(request, StopReplicaRequest):
                for tp, stopped in request.partitions.items():
                    if stopped.delete:
                        self._may_be_deleted(tp, broker)

    def _may_be_deleted(self, tp: TopicPartition, broker: BrokerId) -> None:
        """Guard against data loss: the topic is being deleted, or the replica is not assigned (I-20, I-21)."""
        if tp.topic in self._context.deletions.started:
            return
        record = self._context.find(tp)
        if self._context.quarantine:
            self._is_not_in_quarantine(f"/brokers/topics/{tp.topic}")
            if record is None:
                self._is_not_in_quarantine(f"/brokers/topics/{tp.topic}/partitions/{tp.partition}")
        if record is None:
            return
        assignment, leadership = record.assignment, record.leadership
        is_wanted = broker in assignment.replicas and broker not in assignment.removing
        if is_wanted and not has_earlier(self._context, broker, tp):
            raise InvariantBroken("I-21", f"broker {broker} would delete its replica of {tp}, which is assigned to it")
        if leadership is not None and broker in leadership.isr:
            raise InvariantBroken("I-20", f"broker {broker} would delete its replica of {tp}, which is in the ISR")


def check_sent_epoch(record: PartitionRecord, leader_epoch: int) -> None:
    """Check a leadership that brokers are about to get: never an older one than they got before (I-10)."""
    if leader_epoch < record.sent_epoch:
        evidence = f"brokers would be sent leader epoch {leader_epoch} of {record.tp} after {record.sent_epoch}"
        raise InvariantBroken("I-10", evidence)


def _is_led_from_its_isr(tp: TopicPartition, state: LeaderAndIsr) -> None:
    if not state.isr:
        raise InvariantBroken("I-06", f"{tp} would have an empty ISR")
    if state.leader != NO_LEADER and state.leader not in state.isr:
        raise InvariantBroken("I-09", f"{tp} would be led by {state.leader}, which is not in the ISR {state.isr}")


def _has_the_right_leader_epoch(
    tp: TopicPartition, state: LeaderAndIsr, before: LeaderAndIsr, *, by_leaders: bool
) -> None:
    is_same = (state.leader, state.leader_epoch) == (before.leader, before.leader_epoch)
    if not (by_leaders and is_same):
        evidence = f"{tp} would go from leader {before.leader}, epoch {before.leader_epoch}"
        raise InvariantBroken("I-12", f"{evidence} to leader {state.leader}, epoch {state.leader_epoch}")
