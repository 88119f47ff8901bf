"""The state of the cluster at a past moment, from the logs of one node or of several. Pure.

The logs are merged in the order of controller epochs, because each epoch is won once. Records outside a term are placed
by the wall clock: they are about the instance that wrote them, and not about the cluster.
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
"""The tolerated difference between wall clocks: with a larger one, a term behind records without term may be missed."""


class NoSuchMoment(LookupError):
    """The logs have no record at or before the requested moment. The message names the nearest record."""


class Moment(NamedTuple):
    """The state after a record, and the envelope of that record."""

    state: ClusterState
    at: Envelope


def merged(logs: Sequence[Iterable[Logged]], *, skew_ms: int = SKEW_MS) -> Iterator[Logged]:
    """Merge the records of several nodes into one log, lazily. Each log keeps its own order."""
    buffered_logs = [buffered for buffered in map(_BufferedLog, logs) if buffered.has_more()]
    while len(buffered_logs) > 1:
        buffered = _next(buffered_logs, skew_ms)
        yield buffered.take()
        if not buffered.has_more():
            buffered_logs.remove(buffered)
    for buffered in buffered_logs:
        yield from buffered.rest()


class StateFold:
    """Folds a log (``merged``, if several nodes wrote it). Its state is always complete.

    While a snapshot is being read, the state is the one before the snapshot. Of the records without a term, only those
    of the latest controller are folded: the others are not about the controller's state. Records of an older term are
    skipped: their writer had not yet noticed the end of its term.
    """

    def __init__(self) -> None:
        self._state = ClusterState()
        self._complete: ClusterState | None = None
        self._epoch, self._leader = 0, -1

    @property
    def state(self) -> ClusterState:
        """The newest complete state."""
        return self._state if self._complete is None else self._complete

    def apply(self, envelope: Envelope, record: Record) -> None:
        """Apply the next record of the log."""
        if envelope.epoch < self._epoch and (envelope.epoch or envelope.node != self._leader):
            return
        if envelope.epoch:
            self._epoch, self._leader = envelope.epoch, envelope.node
        if isinstance(record, SnapshotBegin) and not (record.periodic and self._state.is_whole):
            self._complete = self.state
            self._state = replace(self._complete)
            self._state.clear()
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
    """The cluster as the controller knew it at a moment; without arguments, at the end of the log.

    :param entries: one log, or several that are ``merged``; they are read up to the moment, and may begin at the last
        snapshot before it
    :param time_ms: the moment before the first later record (wall clock, milliseconds since 1970)
    :param seq: the moment after the record of this number; ``epoch``, ``node`` and ``boot`` select one of several
    :param epoch: the end of this term, unless ``seq`` or ``time_ms`` are earlier
    :raises NoSuchMoment: there is no such record
    """
    wanted = _Wanted(time_ms, seq, epoch, node, boot)
    fold, last, has_met = StateFold(), None, False
    for envelope, record in entries:
        if wanted.is_before(envelope):
            wanted.missed = envelope
            break
        fold.apply(envelope, record)
        last = envelope
        if wanted.is_met_by(envelope):
            has_met = True
            if seq is not None:
                break
    if last is None or not has_met:
        raise NoSuchMoment(wanted.refusal(last))
    return Moment(fold.state, last)


@dataclass(slots=True)
class _Wanted:
    time_ms: int | None
    seq: int | None
    epoch: int | None
    node: int | None
    boot: str | None
    missed: Envelope | None = None
    """The first record after the moment."""

    def is_before(self, envelope: Envelope) -> bool:
        """Whether the moment is before this record."""
        is_late = self.time_ms is not None and envelope.ts_ms > self.time_ms
        return is_late or (self.epoch is not None and envelope.epoch > self.epoch)

    def is_met_by(self, envelope: Envelope) -> bool:
        """Whether the record has all requested values."""
        asked = (self.seq, self.epoch, self.node, self.boot)
        found = (envelope.seq, envelope.epoch, envelope.node, envelope.boot)
        return all(want is None or want == has for want, has in zip(asked, found, strict=True))

    def refusal(self, last: Envelope | None) -> str:
        """The message for a moment without a record."""
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


# -- merging -----------------------------------------------------------------------------------------------------------


class _BufferedLog:
    """One log, read ahead as far as necessary to know its next term."""

    def __init__(self, log: Iterable[Logged]) -> None:
        self._source = iter(log)
        self._ahead: deque[Logged] = deque()
        self._next_epoch = 0
        """The first epoch in the records read ahead; 0 if none has an epoch."""
        self._pull()

    def has_more(self) -> bool:
        """Whether records are left."""
        return bool(self._ahead)

    @property
    def head(self) -> Envelope:
        """The next record's envelope."""
        return self._ahead[0][0]

    def take(self) -> Logged:
        """Remove and return the next record."""
        entry = self._ahead.popleft()
        if not self._ahead:
            self._pull()
        if entry[0].epoch:
            self._next_epoch = next((envelope.epoch for envelope, _ in self._ahead if envelope.epoch), 0)
        return entry

    def rest(self) -> Iterator[Logged]:
        """All remaining records."""
        yield from self._ahead
        yield from self._source

    def epoch_until(self, ts_ms: int) -> int:
        """The epoch of the next term that begins until ``ts_ms``; 0 if none does."""
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


def _next(buffered_logs: Sequence[_BufferedLog], skew_ms: int) -> _BufferedLog:
    """The log with the next record: that of the oldest term, unless a record without a term was written before it."""
    until = min(buffered.head.ts_ms for buffered in buffered_logs) + skew_ms
    terms = [(epoch, number) for number, buffered in enumerate(buffered_logs) if (epoch := buffered.epoch_until(until))]
    outside = [
        (buffered.head.ts_ms, number) for number, buffered in enumerate(buffered_logs) if not buffered.head.epoch
    ]
    if not terms:
        return buffered_logs[min(outside)[1]]
    oldest = buffered_logs[min(terms)[1]]
    if outside and (oldest.head.epoch == 0 or min(outside)[0] <= oldest.head.ts_ms):
        return buffered_logs[min(outside)[1]]
    return oldest
