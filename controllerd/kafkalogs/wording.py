"""Converts audit records into the lines that Kafka's own controller would have written. Pure.

The wording is that of Kafka 3.9 at its default levels, and in addition the line of level TRACE for a partition that
becomes offline.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from controllerd.kafkalogs.texts import (
    CONTROLLER,
    STATE_CHANGE,
    Leadership,
    Line,
    assignment,
    commas,
    scala_set,
)
from controllerd.record.records import (
    AlarmRecord,
    AssignmentRecord,
    BrokersRecord,
    DecisionRecord,
    DeletionRecord,
    EventBegin,
    EventEnd,
    LeadershipRecord,
    OfflineDirsRecord,
    PartitionStateRecord,
    ReassignmentRecord,
    Record,
    RefusedRecord,
    RequestRecord,
    ResponseRecord,
    SnapshotBegin,
    SnapshotEnd,
    TermRecord,
    TopicsForgotten,
    TopicsRecord,
)

_NEW, _ONLINE, _OFFLINE, _NONE = "NewPartition", "OnlinePartition", "OfflinePartition", "NonExistentPartition"
_BEGINS: Final = frozenset({"elected", "renewed"})
_NOT_A_TERM: Final = frozenset({"held", "refused"})
Partition = tuple[str, int]


class Wording:
    """Converts records into lines. Keeps state of earlier records: leaderships, assignments, live brokers."""

    def __init__(self, node: int) -> None:
        self._node = node
        self._epoch = 0
        self._event = ""
        self._in_snapshot = False
        self._is_starting = False
        self._live: set[int] = set()
        self._held: list[Line] = []
        """Lines about started and failed brokers, written together with their consequences, so that the times agree."""
        self._offline: set[Partition] = set()
        self._leaderships: dict[Partition, Leadership] = {}
        self._unlogged: dict[Partition, Leadership] = {}
        self._decided: set[Partition] = set()
        self._replicas: dict[Partition, list[int]] = {}
        self._handlers: dict[type[Record], Callable[[Any], Iterator[Line]]] = {
            TermRecord: self._term,
            SnapshotBegin: self._snapshot_begin,
            SnapshotEnd: self._snapshot_end,
            EventBegin: self._event_begin,
            EventEnd: self._event_end,
            BrokersRecord: self._brokers,
            TopicsRecord: self._topics,
            TopicsForgotten: self._forgotten,
            AssignmentRecord: self._assignments,
            LeadershipRecord: self._leaders,
            DecisionRecord: self._decisions,
            PartitionStateRecord: self._states,
            RefusedRecord: self._refused,
            OfflineDirsRecord: self._offline_dirs,
            DeletionRecord: self._deletion,
            ReassignmentRecord: self._reassignment,
            RequestRecord: self._request,
            ResponseRecord: self._response,
            AlarmRecord: self._alarm,
        }

    def lines(self, record: Record) -> Iterator[Line]:
        """The lines of one record; most kinds have none."""
        handler = self._handlers.get(type(record))
        return iter(()) if handler is None else handler(record)

    # -- formats of lines -------------------------------------------------------------------------------------------

    def _state(self, text: str, level: str = "INFO", cause: str = "") -> Line:
        prefix = f"[Controller id={self._node} epoch={self._epoch}] "
        return Line(STATE_CHANGE, level, prefix + _one_line(text), "state.change.logger", _one_line(cause))

    def _controller(self, text: str, level: str = "INFO") -> Line:
        prefix = f"[Controller id={self._node}] "
        return Line(CONTROLLER, level, prefix + _one_line(text), "kafka.controller.KafkaController")

    def _deleter(self, text: str) -> Line:
        prefix = f"[Topic Deletion Manager {self._node}] "
        return Line(CONTROLLER, "INFO", prefix + _one_line(text), "kafka.controller.TopicDeletionManager")

    # -- terms and events --------------------------------------------------------------------------------------------

    def _term(self, record: TermRecord) -> Iterator[Line]:
        if record.change in _NOT_A_TERM:
            return
        self._forget()
        if record.change in _BEGINS:
            self._epoch, self._is_starting = record.controller_epoch, True
            yield self._controller(
                f"{self._node} successfully elected as the controller. Epoch incremented to {record.controller_epoch} "
                f"and epoch zk version is now {record.epoch_zk_version}"
            )
        else:
            yield self._controller("Resigned")

    def _forget(self) -> None:
        for known in (self._live, self._offline, self._leaderships, self._unlogged, self._decided, self._replicas):
            known.clear()

    def _snapshot_begin(self, _: SnapshotBegin) -> Iterator[Line]:
        self._in_snapshot = True
        yield from ()

    def _snapshot_end(self, _: SnapshotEnd) -> Iterator[Line]:
        self._in_snapshot = False
        if self._is_starting:
            yield self._controller(f"Currently active brokers in the cluster: {scala_set(sorted(self._live))}")

    def _event_begin(self, record: EventBegin) -> Iterator[Line]:
        self._event = record.name
        yield from ()

    def _release(self) -> Iterator[Line]:
        held, self._held = self._held, []
        yield from held

    def _event_end(self, record: EventEnd) -> Iterator[Line]:
        yield from self._release()
        for tp, leadership in self._unlogged.items():
            yield self._leadership_line(tp, leadership)
        self._unlogged.clear()
        self._decided.clear()
        if record.outcome == "moved":
            yield self._controller(f"Controller moved to another broker when processing {record.name}.")
        elif record.outcome == "error":
            yield self._controller(f"Error processing event {record.name}: {record.error}", "ERROR")
        if self._is_starting and self._epoch:
            self._is_starting = False
            yield self._controller(f"Ready to serve as the new controller with epoch {self._epoch}")

    # -- brokers -----------------------------------------------------------------------------------------------------

    def _brokers(self, record: BrokersRecord) -> Iterator[Line]:
        live, gone = {row.id for row in record.live}, set(record.gone)
        new, bounced, changed = live - self._live - gone, live & gone, (live & self._live) - gone
        self._live = (self._live - gone) | live
        if self._in_snapshot:
            return
        if new or gone:
            added, dead, again = (commas(sorted(brokers)) for brokers in (new, gone - bounced, bounced))
            text = f"Newly added brokers: {added}, deleted brokers: {dead}, bounced brokers: {again}, "
            self._held.append(self._controller(f"{text}all live brokers: {commas(sorted(self._live))}"))
        for broker in sorted(changed):
            yield self._controller(f"Updated broker: {broker}")
        for broker in record.shutting_down:
            yield self._controller(f"Shutting down broker {broker}")

    def _offline_dirs(self, record: OfflineDirsRecord) -> Iterator[Line]:
        if record.topics and not self._in_snapshot:
            named = commas(f"{topic}-{p}" for topic, p in zip(record.topics, record.partitions, strict=True))
            yield self._state(f"Mark replicas {named} on broker {record.broker} as offline")

    # -- topics ------------------------------------------------------------------------------------------------------

    def _topics(self, record: TopicsRecord) -> Iterator[Line]:
        if not self._in_snapshot:
            yield self._controller(
                f"New topics: [{scala_set(record.names)}], deleted topics: [Set()], "
                "new partition replica assignment [Set()]"
            )

    def _forgotten(self, record: TopicsForgotten) -> Iterator[Line]:
        gone = set(record.names)
        for tp in [tp for tp in self._replicas if tp[0] in gone]:
            del self._replicas[tp]
            self._leaderships.pop(tp, None)
            self._offline.discard(tp)
        for name in record.names:
            yield self._deleter(f"Deletion of topic {name} successfully completed")

    def _assignments(self, record: AssignmentRecord) -> Iterator[Line]:
        rows = zip(record.topics, record.partitions, record.replicas, record.adding, record.removing, strict=True)
        for topic, partition, replicas, adding, removing in rows:
            is_known = (topic, partition) in self._replicas
            self._replicas[topic, partition] = replicas
            if is_known and not self._in_snapshot:
                text = assignment(replicas, adding, removing)
                yield self._controller(f"Successfully updated assignment of partition {topic}-{partition} to {text}")

    def _reassignment(self, record: ReassignmentRecord) -> Iterator[Line]:
        if record.step == "completing":
            for topic, partition in zip(record.topics, record.partitions, strict=True):
                replicas = commas(self._replicas.get((topic, partition), ()))
                yield self._controller(
                    f"Target replicas {replicas} have all caught up with the leader for reassigning partition "
                    f"{topic}-{partition}"
                )

    def _deletion(self, record: DeletionRecord) -> Iterator[Line]:
        for topic, change, reason in zip(record.topics, record.changes, record.reasons, strict=True):
            if change == "queued":
                yield self._controller(f"Starting topic deletion for topics {topic}")
            elif change == "halted":
                yield self._deleter(f"Halted deletion of topics {topic} due to {reason}")
            else:
                yield self._deleter(f"Deletion of topic {topic} (re)started")

    # -- leaders and states ------------------------------------------------------------------------------------------

    def _leaders(self, record: LeadershipRecord) -> Iterator[Line]:
        rows = zip(
            record.leaders,
            record.leader_epochs,
            record.isrs,
            record.controller_epochs,
            record.partition_epochs,
            record.recovery_states,
            strict=True,
        )
        for tp, row in zip(
            zip(record.topics, record.partitions, strict=True), map(Leadership._make, rows), strict=True
        ):
            self._leaderships[tp] = row
            if not self._in_snapshot:
                self._unlogged[tp] = row
        yield from ()

    def _decisions(self, record: DecisionRecord) -> Iterator[Line]:
        self._decided.update(zip(record.topics, record.partitions, strict=True))
        yield from ()

    def _leadership_line(self, tp: Partition, row: Leadership) -> Line:
        """The line for a leadership that was written without a change of the partition's state."""
        name = f"{tp[0]}-{tp[1]}"
        if tp in self._decided and row.leader >= 0:
            return self._state(
                f"Changed partition {name} from {_ONLINE} to {_ONLINE} with state {row.as_leader_and_isr()}"
            )
        if self._event.startswith("AlterPartition"):
            return self._controller(f"ISR for partition {name} updated to {row.as_leader_and_isr()}.", "DEBUG")
        return self._state(f"Partition {name} state changed to {row.as_leader_isr_and_controller_epoch()}")

    def _states(self, record: PartitionStateRecord) -> Iterator[Line]:
        yield from self._release()
        if self._is_starting:
            yield from self._first_states(record)
        rows = zip(record.topics, record.partitions, record.before, record.after, strict=True)
        for topic, partition, before, after in rows:
            if not (self._is_starting and before == _NONE):  # first states are in a line of their own
                yield self._changed((topic, partition), before, after)

    def _first_states(self, record: PartitionStateRecord) -> Iterator[Line]:
        rows = zip(record.topics, record.partitions, record.before, record.after, strict=True)
        offline = [(topic, p) for topic, p, before, after in rows if before == _NONE and after == _OFFLINE]
        if offline:
            self._offline.update(offline)
            named = ", ".join(f"{topic}-{partition} -> {_OFFLINE}" for topic, partition in offline)
            yield Line(
                CONTROLLER,
                "INFO",
                f"[PartitionStateMachine controllerId={self._node}] "
                f"Started partition state machine with initial state -> Map({named})",
                "kafka.controller.ZkPartitionStateMachine",
            )

    def _changed(self, tp: Partition, before: str, after: str) -> Line:
        name = f"{tp[0]}-{tp[1]}"
        if after == _OFFLINE:
            self._offline.add(tp)
        else:
            self._offline.discard(tp)
        if after == _NEW:
            replicas = commas(self._replicas.get(tp, ()))
            return self._state(
                f"Changed partition {name} state from {before} to {_NEW} with assigned replicas {replicas}"
            )
        row = self._leaderships.get(tp)
        if after == _ONLINE and row is not None:
            self._unlogged.pop(tp, None)
            return self._state(
                f"Changed partition {name} from {before} to {_ONLINE} with state {row.as_leader_and_isr()}"
            )
        return self._state(f"Changed partition {name} state from {before} to {after}", "TRACE")

    def _refused(self, record: RefusedRecord) -> Iterator[Line]:
        if not record.what.startswith("election"):
            return
        for topic, partition, reason in zip(record.topics, record.partitions, record.reasons, strict=True):
            before = _OFFLINE if (topic, partition) in self._offline else _ONLINE
            yield self._state(
                f"Controller {self._node} epoch {self._epoch} failed to change state for partition "
                f"{topic}-{partition} from {before} to {_ONLINE}",
                "ERROR",
                f"kafka.common.StateChangeFailedException: {reason}",
            )

    # -- requests ----------------------------------------------------------------------------------------------------

    def _request(self, record: RequestRecord) -> Iterator[Line]:
        yield from self._release()
        if record.continues:
            return
        count = len(record.partitions) + record.unnamed
        if record.api == "UpdateMetadata":
            brokers = scala_set(record.brokers)
            yield self._state(f"Sending UpdateMetadata request to brokers {brokers} for {count} partitions")
            return
        for place, broker in enumerate(record.brokers):
            if record.api == "StopReplica":
                yield self._state(f"Sending StopReplica request for {count} replicas to broker {broker}")
                continue
            leads = record.leaders.count(broker) + (record.led[place] if record.led else 0)
            yield self._state(
                f"Sending LeaderAndIsr request to broker {broker} with {leads} become-leader and {count - leads} "
                "become-follower partitions"
            )

    def _response(self, record: ResponseRecord) -> Iterator[Line]:
        if record.error:
            yield self._state(
                f"Received error {record.error} in {record.api} response (errorCode={record.error}) "
                f"from broker {record.broker}",
                "ERROR",
            )

    def _alarm(self, record: AlarmRecord) -> Iterator[Line]:
        yield self._controller(f"Error {record.what}: {record.detail}", "ERROR")


def _one_line(text: str) -> str:
    return " ".join(text.splitlines())
