"""The cluster at a moment of the past, from the logs of one node or of several. Pure.

Terms come in the order of their epochs, because an epoch is won once. What was written outside of a term is placed by
the wall clock: it says who was there and why he did not lead, and nothing about the cluster.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from controllerd.record.envelope import Envelope
from controllerd.record.fold import apply
from controllerd.record.moments import moment
from controllerd.record.records import Record, SnapshotBegin, SnapshotEnd
from controllerd.record.state import ClusterState

Logged = tuple[Envelope, Record]
SKEW_MS: Final = 60_000
"""How far wall clocks of nodes may differ before a term could be missed that begins behind records without one."""


class NoSuchMoment(LookupError):
    """The logs have no record at or before what was asked for; the message says what they have."""


class Moment(NamedTuple):
    """The cluster after a record; ``at`` is its envelope."""

    state: ClusterState
    at: Envelope


def merged(logs: Sequence[Iterable[Logged]], *, skew_ms: int = SKEW_MS) -> Iterator[Logged]:
    """The records of several nodes as one log, lazily; each log is in its own order and stays in it."""
    lanes = [lane for lane in map(_Lane, logs) if lane.has_more()]
    while len(lanes) > 1:
        lane = _next(lanes, skew_ms)
        yield lane.take()
        if not lane.has_more():
            lanes.remove(lane)
    for lane in lanes:
        yield from lane.rest()


class Traveller:
    """Folds a log (``merged``, if several nodes wrote it) and always has a complete state at hand.

    While a snapshot is being read the state is the one before it. Of the records without a term only those of the
    node that led last are folded: what others do meanwhile is not the controller's state. Nor is what somebody writes
    in an older term, because he had not yet heard that it was over.
    """

    def __init__(self) -> None:
        self._state = ClusterState()
        self._complete: ClusterState | None = None
        self._epoch, self._leader = 0, -1

    @property
    def state(self) -> ClusterState:
        """The newest complete state."""
        return self._state if self._complete is None else self._complete

    def see(self, envelope: Envelope, record: Record) -> None:
        """The next record."""
        if envelope.epoch < self._epoch and (envelope.epoch or envelope.node != self._leader):
            return
        if envelope.epoch:
            self._epoch, self._leader = envelope.epoch, envelope.node
        if isinstance(record, SnapshotBegin) and not (record.periodic and self._state.is_whole):
            self._complete, self._state = self.state, _emptied(self.state)
        apply(self._state, envelope, record)
        if isinstance(record, SnapshotEnd):
            self._complete = None


def state_at(
    entries: Iterable[Logged],
    *,
    time_ms: int | None = None,
    seq: int | None = None,
    epoch: int | None = None,
    node: int | None = None,
    boot: str | None = None,
) -> Moment:
    """The cluster as the controller knew it at a moment; with nothing given, at the end.

    :param entries: one log, or several that are ``merged``; read no further than the moment, and it is enough that
        they begin at the last snapshot before it
    :param time_ms: after the last record before the first one that is later (wall clock, milliseconds since 1970)
    :param seq: after the record of this number; ``epoch``, ``node`` and ``boot`` say of which, where several have it
    :param epoch: at the end of this term, unless ``seq`` or ``time_ms`` come before
    :raises NoSuchMoment: there is no such record
    """
    wanted = _Wanted(time_ms, seq, epoch, node, boot)
    traveller, last, has_met = Traveller(), None, False
    for envelope, record in entries:
        if wanted.is_before(envelope):
            wanted.missed = envelope
            break
        traveller.see(envelope, record)
        last = envelope
        if wanted.is_met_by(envelope):
            has_met = True
            if seq is not None:
                break
    if last is None or not has_met:
        raise NoSuchMoment(wanted.refusal(last))
    return Moment(traveller.state, last)


@dataclass(slots=True)
class _Wanted:
    time_ms: int | None
    seq: int | None
    epoch: int | None
    node: int | None
    boot: str | None
    missed: Envelope | None = None
    """The first record beyond it."""

    def is_before(self, envelope: Envelope) -> bool:
        """Whether the moment has passed when this record comes."""
        is_late = self.time_ms is not None and envelope.ts_ms > self.time_ms
        return is_late or (self.epoch is not None and envelope.epoch > self.epoch)

    def is_met_by(self, envelope: Envelope) -> bool:
        """Whether this is the record, or one of those, that was asked for."""
        asked = (self.seq, self.epoch, self.node, self.boot)
        found = (envelope.seq, envelope.epoch, envelope.node, envelope.boot)
        return all(want is None or want == has for want, has in zip(asked, found, strict=True))

    def refusal(self, last: Envelope | None) -> str:
        """Why there is no such moment, and what there is."""
        time = moment(self.time_ms) if self.time_ms is not None else None
        names = {"seq": self.seq, "epoch": self.epoch, "node": self.node, "boot": self.boot, "time": time}
        asked = ", ".join(f"{name} {value}" for name, value in names.items() if value is not None) or "any record"
        if last is not None:
            return f"no record of {asked}: the last one before is {_place(last)}"
        if self.missed is not None:
            return f"no record of {asked}: the log begins later, with {_place(self.missed)}"
        return f"no record of {asked}: the log is empty"


def _place(envelope: Envelope) -> str:
    return (
        f"seq {envelope.seq} of node {envelope.node}, boot {envelope.boot}, epoch {envelope.epoch},"
        f" written at {moment(envelope.ts_ms)}"
    )


def _emptied(state: ClusterState) -> ClusterState:
    """The same role and session, and nothing known of the cluster."""
    fresh = ClusterState()
    cluster = {name: getattr(fresh, name) for name in _CLUSTER_FIELDS}
    return replace(state, **cluster)


_CLUSTER_FIELDS: Final = (
    "brokers", "shutting_down", "topics", "offline_dirs", "quarantine", "deletions", "pending_deletions",
)  # fmt: skip


# -- merging -----------------------------------------------------------------------------------------------------------


class _Lane:
    """One log, and as much of it read ahead as is needed to know its next term."""

    def __init__(self, log: Iterable[Logged]) -> None:
        self._source = iter(log)
        self._ahead: deque[Logged] = deque()
        self._next_epoch = 0
        """The first epoch among what was read ahead, 0 if none has one."""
        self._pull()

    def has_more(self) -> bool:
        """Whether anything is left."""
        return bool(self._ahead)

    @property
    def head(self) -> Envelope:
        """The next record's envelope."""
        return self._ahead[0][0]

    def take(self) -> Logged:
        """The next record."""
        entry = self._ahead.popleft()
        if not self._ahead:
            self._pull()
        if entry[0].epoch:
            self._next_epoch = next((envelope.epoch for envelope, _ in self._ahead if envelope.epoch), 0)
        return entry

    def rest(self) -> Iterator[Logged]:
        """Everything that is left."""
        yield from self._ahead
        yield from self._source

    def epoch_until(self, ts_ms: int) -> int:
        """The epoch of its next term, as far as it begins by then; 0: none."""
        while not self._next_epoch and self._ahead[-1][0].ts_ms <= ts_ms:
            if not self._pull():
                break
        return self._next_epoch

    def _pull(self) -> bool:
        entry = next(self._source, None)
        if entry is None:
            return False
        self._ahead.append(entry)
        self._next_epoch = self._next_epoch or entry[0].epoch
        return True


def _next(lanes: Sequence[_Lane], skew_ms: int) -> _Lane:
    """Whose record comes next: of the oldest term, unless one without a term was written before it."""
    until = min(lane.head.ts_ms for lane in lanes) + skew_ms
    terms = [(epoch, number) for number, lane in enumerate(lanes) if (epoch := lane.epoch_until(until))]
    outside = [(lane.head.ts_ms, number) for number, lane in enumerate(lanes) if not lane.head.epoch]
    if not terms:
        return lanes[min(outside)[1]]
    oldest = lanes[min(terms)[1]]
    if outside and (oldest.head.epoch == 0 or min(outside)[0] <= oldest.head.ts_ms):
        return lanes[min(outside)[1]]
    return oldest
