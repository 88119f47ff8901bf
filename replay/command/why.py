"""The explanation of a partition at a time: why it had no leader, or which broker led it, from the log alone."""

from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

from controllerd.core.model import TopicPartition
from controllerd.core.text import counted
from controllerd.record.envelope import TERM_BEGINS, Envelope
from controllerd.record.moments import duration, moment
from replay.command.partition_history import LeaderPeriod, LoggedHistory, UnfinishedTerm
from replay.command.phrases import (
    condition,
    how_leader_was_found,
    how_leader_was_lost,
    ids,
    in_event,
    reason_of_change,
    term_without_end,
    words,
)

NEAR_MS: Final = 600_000
"""A window this close to the requested time is mentioned: the clocks of operators and hosts differ."""
_MOST_NOTES: Final = 5


@dataclass(frozen=True, slots=True)
class RecordPosition:
    """The position of a record in the log."""

    node: int
    boot: str
    epoch: int
    seq: int
    event: int
    ts_ms: int


@dataclass(frozen=True, slots=True)
class PartitionExplanation:
    """The explanation. ``window`` is from the loss of the leader to the next one; its end is None while it is open."""

    topic: str
    partition: int
    at_ms: int
    leader: int | None
    exists: bool
    sentences: tuple[str, ...]
    window: tuple[RecordPosition, RecordPosition | None] | None
    chain: tuple[tuple[RecordPosition, str], ...]
    """The explanation in steps, each with its position in the log."""


def explain(history: LoggedHistory, at_ms: int) -> PartitionExplanation:
    """Explain the state of the partition at a time."""
    index = history.period_at(at_ms)
    period = history.periods[index] if index is not None else None
    window = _window(history, index) if period is not None and period.exists and period.leader is None else None
    text = _ExplanationText(history, at_ms)
    return PartitionExplanation(
        history.tp.topic,
        history.tp.partition,
        at_ms,
        period.leader if period is not None else None,
        period is not None and period.exists,
        tuple(text.sentences(index)),
        window,
        tuple(_chain(history, index)),
    )


def _window(history: LoggedHistory, index: int | None) -> tuple[RecordPosition, RecordPosition | None] | None:
    if index is None:
        return None
    end = history.periods[index + 1].at if index + 1 < len(history.periods) else None
    return _place(history.periods[index].at), _place(end) if end is not None else None


def _place(at: Envelope) -> RecordPosition:
    return RecordPosition(at.node, at.boot, at.epoch, at.seq, at.event, at.ts_ms)


class _ExplanationText:
    """The sentences of an explanation."""

    def __init__(self, history: LoggedHistory, at_ms: int) -> None:
        self._history = history
        self._asked_ms = at_ms
        end = history.last
        self._at_ms = at_ms if end is None else min(at_ms, end.ts_ms)
        """The requested moment, or the end of the log if that is earlier."""

    def sentences(self, index: int | None) -> Iterator[str]:
        """Yield the explanation, sentence by sentence."""
        periods = self._history.periods
        if index is None:
            yield self._no_record()
            return
        if self._at_ms < self._asked_ms:
            end = moment(self._at_ms)
            yield f"The log ends at {end}, before {moment(self._asked_ms)}: this is the state at its end."
        period = periods[index]
        following = periods[index + 1] if index + 1 < len(periods) else None
        before = periods[index - 1] if index else None
        if not period.exists:
            yield from self._absent(period, following)
        elif period.leader is None:
            yield from self._leaderless(before, period, following)
        else:
            yield from self._led(before, period)
        yield from self._doubts(before, period, following)

    def _no_record(self) -> str:
        if self._history.first is None:
            return "The log is empty."
        begins = moment(self._history.first.ts_ms)
        return f"The log begins at {begins}, after {moment(self._at_ms)}: give it the segments before as well."

    def _absent(self, period: LeaderPeriod, following: LeaderPeriod | None) -> Iterator[str]:
        tp = self._history.tp
        has_been = any(other.exists and other.at.ts_ms < period.at.ts_ms for other in self._history.periods)
        gone = f": it was gone since {moment(period.at.ts_ms)}" if has_been else ""
        yield f"There was no partition {tp} at {moment(self._at_ms)}, as far as the controller knew{gone}."
        if following is not None:
            yield f"It existed from {moment(following.at.ts_ms)} on{in_event(following.effects)}."
        elif not has_been:
            yield self._known_partitions()

    def _known_partitions(self) -> str:
        topic, known = self._history.tp.topic, self._history.known_partitions
        if not known:
            return f"The log knows no topic {topic} where it ends."
        if len(known) == 1:
            return f"Where the log ends, {topic} has one partition: {known[0]}."
        return f"Where the log ends, {topic} has {len(known)} partitions: {known[0]} to {known[-1]}."

    # -- without a leader --------------------------------------------------------------------------------------------

    def _leaderless(
        self, before: LeaderPeriod | None, period: LeaderPeriod, following: LeaderPeriod | None
    ) -> Iterator[str]:
        start, at = moment(period.at.ts_ms), moment(self._at_ms)
        if following is None:
            last = moment(self._history.last.ts_ms) if self._history.last is not None else start
            tp = self._history.tp
            yield f"{tp} had no leader at {at}: since {start}, and still none where the log ends ({last})."
        else:
            took = duration(_took_us(period.at, following.at))
            yield f"{self._history.tp} had no leader at {at}: for {took}, from {start} to {moment(following.at.ts_ms)}."
        if period.leadership is None:
            yield f"It was being created{in_event(period.effects)}: it had not had a leader yet."
        else:
            yield how_leader_was_lost(before, period)
            if not period.effects.is_deleting:
                yield from self._other_replicas(before, period)
        yield from self._isr_before(period)
        yield from self._notes(period, following)
        yield from self._other_controllers(period, following)
        if following is not None:
            yield how_leader_was_found(following)

    def _other_replicas(self, before: LeaderPeriod | None, period: LeaderPeriod) -> Iterator[str]:
        if period.assignment is None:
            return
        isr = set(map(int, period.leadership.isr)) if period.leadership is not None else set()
        was = before.leader if before is not None else None
        others = [broker for broker in period.assignment.replicas if broker != was]
        conditions = [f"{broker} {condition(broker, period, isr)}" for broker in others]
        if conditions:
            yield f"Its other replicas: {'; '.join(conditions)}."
        else:
            yield "It has no other replica."

    def _isr_before(self, period: LeaderPeriod) -> Iterator[str]:
        shrunk = [
            change
            for change in self._history.isr_changes
            if change.at.ts_ms <= period.at.ts_ms and len(change.after) < len(change.before) and change.at != period.at
        ]
        if shrunk and (period.leadership is None or len(period.leadership.isr) < _replicas(period)):
            last = shrunk[-1]
            removed = sorted(set(last.before) - set(last.after))
            yield (
                f"The ISR had shrunk at {moment(last.at.ts_ms)} from {ids(last.before)} to {ids(last.after)}"
                f" (without {words(removed)}){in_event(last.effects)}."
            )

    def _notes(self, period: LeaderPeriod, following: LeaderPeriod | None) -> Iterator[str]:
        end = following.at.ts_ms if following is not None else None
        texts = [
            note.text
            for note in self._history.notes
            if period.at.ts_ms <= note.at.ts_ms and (end is None or note.at.ts_ms <= end)
        ]
        distinct = list(dict.fromkeys(texts))
        for text in distinct[:_MOST_NOTES]:
            count = texts.count(text)
            yield f"Meanwhile: {text}" + (f" ({count} times)." if count > 1 else ".")
        if len(distinct) > _MOST_NOTES:
            yield f"Meanwhile: {len(distinct) - _MOST_NOTES} more of the kind; -o json has all."

    def _other_controllers(self, period: LeaderPeriod, following: LeaderPeriod | None) -> Iterator[str]:
        end = following.at.ts_ms if following is not None else None
        for envelope, term in self._history.terms:
            is_within = period.at.ts_ms < envelope.ts_ms and (end is None or envelope.ts_ms <= end)
            if is_within and term.change in TERM_BEGINS and envelope.epoch != period.at.epoch:
                yield (
                    f"Meanwhile: node {envelope.node} became the controller at {moment(envelope.ts_ms)},"
                    f" epoch {term.controller_epoch}."
                )

    # -- led ---------------------------------------------------------------------------------------------------------

    def _led(self, before: LeaderPeriod | None, period: LeaderPeriod) -> Iterator[str]:
        leadership = period.leadership
        details = f", leader epoch {leadership.leader_epoch}" if leadership is not None else ""
        yield (
            f"{self._history.tp} was led by broker {period.leader} at {moment(self._at_ms)}:"
            f" since {moment(period.at.ts_ms)}{details}{in_event(period.effects)}."
        )
        if before is not None and before.exists and before.leader is not None:
            yield f"Before, broker {before.leader} led it{reason_of_change(before, period)}."
        yield from self._in_sync(period)
        yield from self._moving()
        yield from self._near(period)

    def _in_sync(self, period: LeaderPeriod) -> Iterator[str]:
        """Yield the ISR at the requested moment, if a replica was missing in it."""
        if period.leadership is None or period.assignment is None:
            return
        changes = [one for one in self._history.isr_changes if period.at.ts_ms < one.at.ts_ms <= self._at_ms]
        isr = changes[-1].after if changes else period.leadership.isr
        since = f" since {moment(changes[-1].at.ts_ms)}{in_event(changes[-1].effects)}" if changes else ""
        if len(isr) < _replicas(period):
            yield f"Its ISR was {ids(isr)}{since}, of the replicas {ids(period.assignment.replicas)}."

    def _moving(self) -> Iterator[str]:
        """Yield the reassignment that was in progress, and its begin."""
        past = [(at, one) for at, one in self._history.assignments if at.ts_ms <= self._at_ms]
        if past and past[-1][1].is_being_reassigned:
            at, one = past[-1]
            parts = [
                f"{verb} {words(brokers)}"
                for verb, brokers in (("adding", one.adding), ("removing", one.removing))
                if brokers
            ]
            since = moment(at.ts_ms) + ("" if len(past) > 1 else " or before")
            yield f"It was being reassigned, {', '.join(parts)}, since {since}."

    def _near(self, period: LeaderPeriod) -> Iterator[str]:
        windows = [
            (_distance(start.at.ts_ms, end_ms, self._at_ms), start, end_ms)
            for start, end_ms in self._windows()
            if start is not period and start.leadership is not None
        ]
        distance, start, end_ms = min(windows, key=itemgetter(0), default=(NEAR_MS, period, None))
        if distance < NEAR_MS:
            until = "the end of the log" if end_ms is None else moment(end_ms)
            yield (
                f"It had no leader from {moment(start.at.ts_ms)} to {until},"
                f" {duration(distance * 1000)} {'before' if start.at.ts_ms < self._at_ms else 'after'} that;"
                f" ask for {moment(start.at.ts_ms)} to see why."
            )

    def _windows(self) -> Iterator[tuple[LeaderPeriod, int | None]]:
        """Yield the times without a leader."""
        periods = self._history.periods
        for start, end in zip(periods, [*periods[1:], None], strict=True):
            if start.exists and start.leader is None:
                yield start, end.at.ts_ms if end is not None else None

    # -- the limits of the log ---------------------------------------------------------------------------------------

    def _doubts(
        self, before: LeaderPeriod | None, period: LeaderPeriod, following: LeaderPeriod | None
    ) -> Iterator[str]:
        start = before.at.ts_ms if before is not None and period.is_from_snapshot else period.at.ts_ms
        end = following.at.ts_ms if following is not None else None
        for envelope, gap in self._history.gaps:
            if start <= envelope.ts_ms and (end is None or envelope.ts_ms <= end):
                yield f"{counted(gap.lost, 'record')} lost meanwhile ({gap.reason}): the log may miss something here."
        for unfinished in self._history.unfinished_terms:
            if unfinished.last.ts_ms < self._at_ms and not self._is_led_again(unfinished):
                yield term_without_end(unfinished)
        ended = self._term_over()
        if not any(envelope.epoch and envelope.ts_ms <= self._at_ms for envelope, _ in self._history.terms):
            yield f"No controller of these logs had a term before {moment(self._at_ms)}; see the logs of other nodes."
        elif ended is not None:
            yield (
                f"No controller of these logs was in its term at {moment(self._at_ms)}"
                f" (the last one ended at {moment(ended.ts_ms)}): what happened meanwhile is not in them."
            )

    def _is_led_again(self, unfinished: UnfinishedTerm) -> bool:
        """Return whether another controller was elected before that time."""
        return any(
            term.change in TERM_BEGINS and envelope.epoch > unfinished.last.epoch and envelope.ts_ms <= self._at_ms
            for envelope, term in self._history.terms
        )

    def _term_over(self) -> Envelope | None:
        """Return the end of the last term before the moment; None if a term lasted then, or none had begun."""
        over: Envelope | None = None
        epoch = 0
        for envelope, term in self._history.terms:
            if envelope.ts_ms > self._at_ms:
                break
            begins = term.change in TERM_BEGINS and term.controller_epoch != epoch
            if begins:
                over, epoch = None, term.controller_epoch
            elif epoch and term.change != "held":
                over, epoch = envelope, 0
        return over


def _chain(history: LoggedHistory, index: int | None) -> Iterator[tuple[RecordPosition, str]]:
    if index is None:
        return
    start = history.periods[max(0, index - 1)].at.ts_ms
    end = history.periods[index + 1].at.ts_ms if index + 1 < len(history.periods) else None
    steps = [
        *((period.at, _period_text(period)) for period in history.periods[max(0, index - 1) :]),
        *((note.at, note.text) for note in history.notes),
        *((change.at, f"ISR {ids(change.before)} to {ids(change.after)}") for change in history.isr_changes),
    ]
    for at, text in sorted(steps, key=lambda step: (step[0].ts_ms, step[0].epoch, step[0].seq)):
        if start <= at.ts_ms and (end is None or at.ts_ms <= end):
            yield _place(at), text


def _period_text(period: LeaderPeriod) -> str:
    if not period.exists:
        state = "no such partition"
    else:
        state = "no leader" if period.leader is None else f"led by {period.leader}"
    return f"{state}{in_event(period.effects)}"


def _took_us(start: Envelope, end: Envelope) -> int:
    if (start.node, start.boot) == (end.node, end.boot):
        return (end.mono_ns - start.mono_ns) // 1000
    return (end.ts_ms - start.ts_ms) * 1000


def _distance(start_ms: int, end_ms: int | None, at_ms: int) -> int:
    if at_ms < start_ms:
        return start_ms - at_ms
    return 0 if end_ms is None else max(0, at_ms - end_ms)


def _replicas(period: LeaderPeriod) -> int:
    return len(period.assignment.replicas) if period.assignment is not None else 0


def parse_partition(text: str) -> TopicPartition:
    """Parse ``payments-7``, split at the last dash. :raises ValueError: invalid text."""
    topic, _, number = text.rpartition("-")
    if not topic or not number.isdecimal():
        raise ValueError(f"{text!r} is not a partition: write TOPIC-PARTITION, as in payments-7")
    return TopicPartition(topic, int(number))
