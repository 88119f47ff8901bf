"""Derive facts from ordered raw rows: terms, lost leaders, the begin and the end of work.

At the default log levels no line says that a partition became offline. That fact is derived from two kinds of lines:
the line that says that a broker is gone, for the partitions that it led, and the first line that shows a partition
without a leader. Both are later than the event (``bound``: ``not after``). Pure.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Final

from replay.ingest.kafka import line_rules
from replay.ingest.kafka.known_cluster import KnownClusterState, Loss, Partition
from replay.ingest.kafka.parse import LOG_FILE
from replay.ingest.kafka.scala_values import Fields
from replay.ingest.kafka.timing import Latencies, Skews

NOT_AFTER: Final = "not after"
NOT_BEFORE: Final = "not before"
_OFFLINE, _ONLINE, _GONE = "OfflinePartition", "OnlinePartition", "NonExistentPartition"
_STARTUP: Final = "Startup"
_CONTROLLER_CHANGE: Final = 1
"""ControllerState of the event in which a term begins."""
_NO_LEADER: Final = -1

Handler = Callable[[Fields], Iterable[Fields]]


class Deriver:
    """Read raw rows in order and yield facts; `finish` returns the facts that need all rows."""

    def __init__(self) -> None:
        self._known = KnownClusterState()
        self._terms: dict[int, int] = {}
        self._startups: dict[int, Fields] = {}
        self._latencies = Latencies()
        self._skews = Skews()
        self._handlers: dict[str, Handler] = {
            "term": self._term,
            line_rules.READY: self._ready,
            "brokers": self._broker,
            line_rules.ACTIVE: self._active,
            line_rules.STRATEGY: self._strategy,
            "leadership": self._leadership,
            line_rules.BUMPED: self._bumped,
            line_rules.KNOWN_LEADER: self._known_leader,
            line_rules.STATE: self._state,
            "partition_state": self._partition_state,
            "refused": self._refused,
            "offline_dirs": self._offline_dirs,
            "assignment": self._assignment,
            line_rules.MOVING: self._moving,
            "deletion": self._deletion,
            line_rules.COMPLETED: self._completed,
            line_rules.SENT: self._latencies.sent,
            "response": self._latencies.answered,
            "broker_leader": self._broker_leader,
        }

    def facts(self, row: Fields) -> Iterator[Fields]:
        """Yield the facts of a raw row, without their numbers."""
        row = {**row, "epoch": self._epoch(row)}
        handler = self._handlers.get(str(row["kind"]))
        yield from (row,) if handler is None else handler(row)

    def finish(self) -> Iterator[Fields]:
        """Return the facts about the skew of clocks."""
        return self._skews.facts()

    def _epoch(self, row: Fields) -> int:
        """Return the epoch in the line, else that of the node's term, else the newest in the lines of its host.

        An epoch in a line counts as that of the node's term if none is known yet.
        """
        own, node = _int(row, "epoch"), _int(row, "node")
        if row["kind"] in {"broker_leader", LOG_FILE, "unknown_line", "torn_tail", "damaged"}:
            return 0
        if own:
            self._terms.setdefault(node, own)
            return own
        return self._terms.get(node) or _int(row, "newest_epoch")

    # -- terms -------------------------------------------------------------------------------------------------------

    def _term(self, row: Fields) -> Iterator[Fields]:
        node = _int(row, "node")
        yield row
        if row["name"] == "elected":
            self._terms[node] = _int(row, "epoch")
            self._note_loss(row, "a controller began without it")
            self._startups[node] = row
            yield {**_at(row), "kind": "event_begin", **_startup(row)}
        else:
            self._terms.pop(node, None)
            self._startups.pop(node, None)

    def _ready(self, row: Fields) -> Iterator[Fields]:
        begun = self._startups.pop(_int(row, "node"), None)
        if begun is not None:
            took = 1000 * (_int(row, "order_ms") - _int(begun, "order_ms"))
            yield {**_at(row), "kind": "event_end", **_startup(row), "after": "done", "took_us": took}

    # -- brokers -----------------------------------------------------------------------------------------------------

    def _broker(self, row: Fields) -> Iterator[Fields]:
        broker, after = _int(row, "broker"), row["after"]
        if after == "live" and "zxid" in row and broker in self._known.live:
            return  # the list of all brokers that follows every change
        yield row
        if after == "live":
            self._known.strategies.pop(broker, None)
            self._known.live.add(broker)
        elif after == "gone":
            self._known.live.discard(broker)
            yield from self._lost_broker(row, broker)

    def _active(self, row: Fields) -> Iterator[Fields]:
        """Note the brokers that a new controller found; other known brokers failed before."""
        found = set(row["isr"]) if isinstance(row["isr"], list) else set()
        known = map(self._known.leader, self._known.leaderships)
        leaders = {leader for leader in known if leader is not None and leader > _NO_LEADER}
        for broker in sorted((self._known.live | leaders) - found):
            if broker in self._known.live:
                reason = "not there when the controller began"
                yield {**_at(row), "kind": "brokers", "broker": broker, "after": "gone", "bound": NOT_AFTER} | {
                    "reason": reason
                }
            yield from self._lost_broker(row, broker)
        self._known.live = found

    def _lost_broker(self, row: Fields, broker: int) -> Iterator[Fields]:
        reason = f"broker {broker} is gone"
        self._note_loss(row, reason)
        for tp in self._known.led_by(broker):
            yield from self._went_offline(row, tp, reason)

    def _note_loss(self, row: Fields, reason: str) -> None:
        """Note that partitions may have lost their leaders at this row."""
        self._known.losses[_int(row, "node")] = Loss(_int(row, "ts_ms"), _int(row, "order_ms"), reason)

    def _offline_dirs(self, row: Fields) -> Iterator[Fields]:
        yield row
        reason = f"a log directory of broker {row['broker']} failed"
        self._note_loss(row, reason)
        if self._known.leader(_tp(row)) == row["broker"]:
            yield from self._went_offline(row, _tp(row), reason)

    def _went_offline(self, row: Fields, tp: Partition, reason: str) -> Iterator[Fields]:
        """Note that the partition has no leader since this row, or since an earlier moment."""
        if tp in self._known.offline or tp[0] in self._known.deleting:
            return
        self._known.offline.add(tp)
        self._known.awaited.pop(tp, None)
        yield _changed(row, tp, _ONLINE, _OFFLINE, NOT_AFTER, reason)

    def _was_offline(self, row: Fields, tp: Partition) -> Iterator[Fields]:
        """Note that the partition had no leader since the last loss that the controller logged, or earlier."""
        loss = self._known.losses.get(_int(row, "node"))
        if loss is None:
            yield from self._went_offline(row, tp, "it had no leader when it was first seen")
        else:
            moment = {**row, "ts_ms": loss.ts_ms, "order_ms": loss.order_ms}
            yield from self._went_offline(moment, tp, loss.reason)

    # -- leaders -----------------------------------------------------------------------------------------------------

    def _strategy(self, row: Fields) -> Iterator[Fields]:
        """Note the strategy of the elections that follow. It is no fact."""
        key = _int(row, "broker") if "broker" in row else _tp(row)
        self._known.strategies[key] = str(row["name"])
        return iter(())

    def _leadership(self, row: Fields) -> Iterator[Fields]:
        row["state_epoch"] = row.get("state_epoch") or row["epoch"]
        if "after" in row:
            yield from self._elected(row)
        else:
            yield _without(row, "reason") | {"reason": row.get("reason")}
            self._known.leaderships[_tp(row)] = row
            yield from self._shown(row)

    def _elected(self, row: Fields) -> Iterator[Fields]:
        """Take the line of a controller: a leader was elected and written, and the partition is online.

        The requests to brokers follow.
        """
        tp, before, after = _tp(row), str(row["before"]), str(row["after"])
        if before == _OFFLINE:
            yield from self._was_offline(row, tp)
        if before != "NewPartition":
            yield self._decision(row, tp, before)
        self._known.leaderships[tp] = row
        self._skews.elected(row)
        yield _without(row, "before", "after")
        bound = None
        if tp in self._known.offline:
            bound = NOT_BEFORE
            self._known.offline.discard(tp)
            self._known.awaited[tp] = _int(row, "leader"), _int(row, "leader_epoch")
        yield _changed(row, tp, before, after, bound, None)

    def _decision(self, row: Fields, tp: Partition, before: str) -> Fields:
        name = self._known.strategy(tp, before)
        unclean = before == _OFFLINE and self._known.is_unclean(tp, _int(row, "leader"))
        columns = {column: row[column] for column in ("topic", "partition", "leader", "isr")}
        return {**_at(row), "kind": "decision", "name": name, "unclean": unclean, **columns}

    def _shown(self, row: Fields) -> Iterator[Fields]:
        """Derive from a leadership that was logged for another reason whether there is a leader."""
        tp = _tp(row)
        if row["leader"] == _NO_LEADER:
            yield from self._was_offline(row, tp)
        elif tp in self._known.offline and row["leader"] in self._known.live:
            self._known.offline.discard(tp)
            yield _changed(row, tp, _OFFLINE, _ONLINE, NOT_BEFORE, "it turned out to have a leader")

    def _bumped(self, row: Fields) -> Iterator[Fields]:
        known = self._known.leaderships.get(_tp(row))
        if known is not None:
            epochs = {name: row[name] for name in ("leader_epoch", "partition_epoch", "epoch")}
            columns = ("topic", "partition", "leader", "isr", "recovery")
            changed = {**_at(row), **{name: known.get(name) for name in columns}, **epochs, "state_epoch": row["epoch"]}
            self._known.leaderships[_tp(row)] = changed
            yield {**changed, "kind": "leadership", "reason": "reassignment"}

    def _known_leader(self, row: Fields) -> Iterator[Fields]:
        """Take a leadership from a list of all partitions; only unknown ones become facts."""
        if _tp(row) not in self._known.leaderships:
            yield from self._leadership({**row, "kind": "leadership"})

    def _broker_leader(self, row: Fields) -> Iterator[Fields]:
        """Take the line of a broker: it leads from this row on."""
        yield row
        yield from self._arrived(row)
        self._skews.leads(row)
        known = self._known.leaderships.get(_tp(row))
        if known is None or _int(known, "leader_epoch") < _int(row, "leader_epoch"):
            self._known.leaderships[_tp(row)] = row

    def _arrived(self, row: Fields) -> Iterator[Fields]:
        """Find the election of a leader; LeaderAndIsr may contain a later leader epoch than that of the election."""
        broker, leader_epoch = _int(row, "broker"), _int(row, "leader_epoch")
        awaited = self._known.awaited.get(_tp(row))
        if awaited is not None and awaited[0] == broker and awaited[1] <= leader_epoch:
            del self._known.awaited[_tp(row)]
            if awaited[1] < leader_epoch:
                yield {**row, "leader_epoch": awaited[1], "reason": f"sent with leader epoch {leader_epoch}"}

    # -- states ------------------------------------------------------------------------------------------------------

    def _state(self, row: Fields) -> Iterator[Fields]:
        return self._was_offline(row, _tp(row))

    def _partition_state(self, row: Fields) -> Iterator[Fields]:
        """Take the state of a new partition, or a line at level TRACE, which has the exact time."""
        tp = _tp(row)
        if row["after"] == _OFFLINE:
            if tp in self._known.offline:
                return
            self._known.offline.add(tp)
        else:
            self._known.offline.discard(tp)
        yield row

    def _refused(self, row: Fields) -> Iterator[Fields]:
        if row.get("before") == _OFFLINE:
            yield from self._was_offline(row, _tp(row))
        yield _without(row, "before", "after")

    # -- assignments -------------------------------------------------------------------------------------------------

    def _assignment(self, row: Fields) -> Iterator[Fields]:
        tp, lists = _tp(row), tuple(row[name] for name in ("replicas", "adding", "removing"))
        is_written = row.get("after") == "written"
        if self._known.assignments.get(tp) != lists or is_written:
            yield _without(row, "after")
        before = self._known.assignments.get(tp)
        self._known.assignments[tp] = lists  # type: ignore[assignment]
        if row["adding"] or row["removing"]:
            if tp not in self._known.origins:
                self._known.origins[tp] = before[0] if before else []
                yield _step(row, "begun")
        elif is_written and tp in self._known.origins:
            del self._known.origins[tp]
            yield _step(row, "completed")

    def _moving(self, row: Fields) -> Iterator[Fields]:
        """Note a requested reassignment: the first of a partition, another target, or its cancellation."""
        tp, replicas, removing = _tp(row), row["replicas"], row["removing"]
        assert isinstance(replicas, list)
        assert isinstance(removing, list)
        origin = self._known.origins.get(tp)
        if origin is None:
            self._known.origins[tp] = row["isr"] if isinstance(row["isr"], list) else []
            yield _step(row, "begun")
        elif row["adding"] or removing:
            target = [broker for broker in replicas if broker not in removing]
            yield _step(row, "cancelled" if target == origin else "overridden")

    # -- deletions ---------------------------------------------------------------------------------------------------

    def _deletion(self, row: Fields) -> Iterator[Fields]:
        topic, after = str(row["topic"]), str(row["after"])
        before = self._known.deleting.get(topic)
        if after == before:
            return
        if after == "queued" and before is not None:
            return
        self._known.deleting[topic] = after
        yield {**row, "after": "resumed" if after == "started" and before == "halted" else after}

    def _completed(self, row: Fields) -> Iterator[Fields]:
        topic = str(row["topic"])
        if topic in self._known.deleting or any(tp[0] == topic for tp in self._known.leaderships):
            for tp, was_offline in self._known.forget(topic):
                yield _changed(row, tp, _OFFLINE if was_offline else _ONLINE, _GONE, None, "the topic is deleted")
            yield {**_at(row), "kind": "topics_forgotten", "topic": topic}


def day(ts_ms: int) -> str:
    """Return the day of a moment in UTC, as 2026-01-31."""
    return datetime.fromtimestamp(ts_ms / 1000, UTC).date().isoformat()


def _int(row: Fields, name: str) -> int:
    value = row[name]
    assert isinstance(value, int), (name, row)
    return value


def _tp(row: Fields) -> Partition:
    return str(row["topic"]), _int(row, "partition")


_PLACE: Final = ("ts_ms", "order_ms", "file", "line", "node", "epoch", "newest_epoch")


def _at(row: Fields) -> Fields:
    """Return the place columns of a row."""
    return {name: row[name] for name in _PLACE}


def _without(row: Fields, *names: str) -> Fields:
    return {name: value for name, value in row.items() if name not in names}


def _startup(row: Fields) -> Fields:
    """Return the event that begins a term, numbered by the epoch; it is the only event with a begin and an end."""
    return {"name": _STARTUP, "state": _CONTROLLER_CHANGE, "event": row["epoch"]}


def _changed(row: Fields, tp: Partition, before: str, after: str, bound: str | None, reason: str | None) -> Fields:
    states: Fields = {"topic": tp[0], "partition": tp[1], "before": before, "after": after}
    return {**_at(row), "kind": "partition_state", **states, "bound": bound, "reason": reason}


def _step(row: Fields, step: str) -> Fields:
    columns = {name: row[name] for name in ("topic", "partition", "replicas", "adding", "removing")}
    return {**_at(row), "kind": "reassignment", "after": step, **columns}
