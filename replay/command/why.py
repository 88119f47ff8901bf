"""The explanation of a partition at a time: why it had no leader, or which broker led it, from the log alone."""

from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

from controllerd.core.model import TopicPartition
from controllerd.core.text import counted
from controllerd.record.envelope import TERM_BEGINS, Envelope
from controllerd.record.moments import duration, moment
from replay.command.partition_history import LeaderPeriod, PartitionHistory, UnfinishedTerm
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
"""A window this close to the asked time is mentioned: clocks of operators and hosts differ."""
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
class Explanation:
    """The answer. ``window`` is from the record that took the leader away to the one that gave the next; open: None."""

    topic: str
    partition: int
    at_ms: int
    leader: int | None
    exists: bool
    sentences: tuple[str, ...]
    window: tuple[RecordPosition, RecordPosition | None] | None
    chain: tuple[tuple[RecordPosition, str], ...]
    """The same in steps, each with its place in the log."""


def explain(story: PartitionHistory, at_ms: int) -> Explanation:
    """Explain the state of the partition at a time."""
    index = story.turn_at(at_ms)
    turn = story.turns[index] if index is not None else None
    window = _window(story, index) if turn is not None and turn.exists and turn.leader is None else None
    teller = _Teller(story, at_ms)
    return Explanation(
        story.tp.topic,
        story.tp.partition,
        at_ms,
        turn.leader if turn is not None else None,
        turn is not None and turn.exists,
        tuple(teller.sentences(index)),
        window,
        tuple(_chain(story, index)),
    )


def _window(story: PartitionHistory, index: int | None) -> tuple[RecordPosition, RecordPosition | None] | None:
    if index is None:
        return None
    end = story.turns[index + 1].at if index + 1 < len(story.turns) else None
    return _place(story.turns[index].at), _place(end) if end is not None else None


def _place(at: Envelope) -> RecordPosition:
    return RecordPosition(at.node, at.boot, at.epoch, at.seq, at.event, at.ts_ms)


class _Teller:
    def __init__(self, story: PartitionHistory, at_ms: int) -> None:
        self._story = story
        self._asked_ms = at_ms
        end = story.last
        self._at_ms = at_ms if end is None else min(at_ms, end.ts_ms)
        """The moment, or where the log ends before it."""

    def sentences(self, index: int | None) -> Iterator[str]:
        """The answer, sentence by sentence."""
        turns = self._story.turns
        if index is None:
            yield self._no_record()
            return
        if self._at_ms < self._asked_ms:
            yield f"The log ends at {moment(self._at_ms)}, before {moment(self._asked_ms)}: it was so at its end."
        turn = turns[index]
        following = turns[index + 1] if index + 1 < len(turns) else None
        before = turns[index - 1] if index else None
        if not turn.exists:
            yield from self._absent(turn, following)
        elif turn.leader is None:
            yield from self._leaderless(before, turn, following)
        else:
            yield from self._led(before, turn)
        yield from self._doubts(before, turn, following)

    def _no_record(self) -> str:
        if self._story.first is None:
            return "The log is empty."
        begins = moment(self._story.first.ts_ms)
        return f"The log begins at {begins}, after {moment(self._at_ms)}: give it the segments before as well."

    def _absent(self, turn: LeaderPeriod, following: LeaderPeriod | None) -> Iterator[str]:
        tp = self._story.tp
        has_been = any(other.exists and other.at.ts_ms < turn.at.ts_ms for other in self._story.turns)
        gone = f": it was gone since {moment(turn.at.ts_ms)}" if has_been else ""
        yield f"There was no partition {tp} at {moment(self._at_ms)}, as far as the controller knew{gone}."
        if following is not None:
            yield f"It came to be at {moment(following.at.ts_ms)}{in_event(following.scene)}."
        elif not has_been:
            yield self._what_there_is()

    def _what_there_is(self) -> str:
        topic, known = self._story.tp.topic, self._story.known_partitions
        if not known:
            return f"The log knows no topic {topic} where it ends."
        if len(known) == 1:
            return f"Where the log ends, {topic} has one partition: {known[0]}."
        return f"Where the log ends, {topic} has {len(known)} partitions: {known[0]} to {known[-1]}."

    # -- without a leader --------------------------------------------------------------------------------------------

    def _leaderless(
        self, before: LeaderPeriod | None, turn: LeaderPeriod, following: LeaderPeriod | None
    ) -> Iterator[str]:
        start, at = moment(turn.at.ts_ms), moment(self._at_ms)
        if following is None:
            last = moment(self._story.last.ts_ms) if self._story.last is not None else start
            yield f"{self._story.tp} had no leader at {at}: since {start}, and still none where the log ends ({last})."
        else:
            took = duration(_took_us(turn.at, following.at))
            yield f"{self._story.tp} had no leader at {at}: for {took}, from {start} to {moment(following.at.ts_ms)}."
        if turn.leadership is None:
            yield f"It was being created{in_event(turn.scene)}: it had not had a leader yet."
        else:
            yield how_leader_was_lost(before, turn)
            if not turn.scene.is_deleting:
                yield from self._other_replicas(before, turn)
        yield from self._isr_before(turn)
        yield from self._notes(turn, following)
        yield from self._other_controllers(turn, following)
        if following is not None:
            yield how_leader_was_found(following)

    def _other_replicas(self, before: LeaderPeriod | None, turn: LeaderPeriod) -> Iterator[str]:
        if turn.assignment is None:
            return
        isr = set(map(int, turn.leadership.isr)) if turn.leadership is not None else set()
        was = before.leader if before is not None else None
        others = [broker for broker in turn.assignment.replicas if broker != was]
        conditions = [f"{broker} {condition(broker, turn, isr)}" for broker in others]
        if conditions:
            yield f"Its other replicas: {'; '.join(conditions)}."
        else:
            yield "It has no other replica."

    def _isr_before(self, turn: LeaderPeriod) -> Iterator[str]:
        shrunk = [
            change
            for change in self._story.isr_changes
            if change.at.ts_ms <= turn.at.ts_ms and len(change.after) < len(change.before) and change.at != turn.at
        ]
        if shrunk and (turn.leadership is None or len(turn.leadership.isr) < _replicas(turn)):
            last = shrunk[-1]
            removed = sorted(set(last.before) - set(last.after))
            yield (
                f"The ISR had shrunk at {moment(last.at.ts_ms)} from {ids(last.before)} to {ids(last.after)}"
                f" (without {words(removed)}){in_event(last.scene)}."
            )

    def _notes(self, turn: LeaderPeriod, following: LeaderPeriod | None) -> Iterator[str]:
        end = following.at.ts_ms if following is not None else None
        texts = [
            note.text
            for note in self._story.notes
            if turn.at.ts_ms <= note.at.ts_ms and (end is None or note.at.ts_ms <= end)
        ]
        distinct = list(dict.fromkeys(texts))
        for text in distinct[:_MOST_NOTES]:
            count = texts.count(text)
            yield f"Meanwhile: {text}" + (f" ({count} times)." if count > 1 else ".")
        if len(distinct) > _MOST_NOTES:
            yield f"Meanwhile: {len(distinct) - _MOST_NOTES} more of the kind; -o json has all."

    def _other_controllers(self, turn: LeaderPeriod, following: LeaderPeriod | None) -> Iterator[str]:
        end = following.at.ts_ms if following is not None else None
        for envelope, term in self._story.terms:
            is_within = turn.at.ts_ms < envelope.ts_ms and (end is None or envelope.ts_ms <= end)
            if is_within and term.change in TERM_BEGINS and envelope.epoch != turn.at.epoch:
                yield (
                    f"Meanwhile: node {envelope.node} became the controller at {moment(envelope.ts_ms)},"
                    f" epoch {term.controller_epoch}."
                )

    # -- led ---------------------------------------------------------------------------------------------------------

    def _led(self, before: LeaderPeriod | None, turn: LeaderPeriod) -> Iterator[str]:
        leadership = turn.leadership
        details = f", leader epoch {leadership.leader_epoch}" if leadership is not None else ""
        yield (
            f"{self._story.tp} was led by broker {turn.leader} at {moment(self._at_ms)}:"
            f" since {moment(turn.at.ts_ms)}{details}{in_event(turn.scene)}."
        )
        if before is not None and before.exists and before.leader is not None:
            yield f"Before, broker {before.leader} led it{reason_of_change(before, turn)}."
        yield from self._in_sync(turn)
        yield from self._moving()
        yield from self._near(turn)

    def _in_sync(self, turn: LeaderPeriod) -> Iterator[str]:
        """Yield which replicas had fallen behind, if any."""
        if turn.leadership is None or turn.assignment is None:
            return
        changes = [one for one in self._story.isr_changes if turn.at.ts_ms < one.at.ts_ms <= self._at_ms]
        isr = changes[-1].after if changes else turn.leadership.isr
        since = f" since {moment(changes[-1].at.ts_ms)}{in_event(changes[-1].scene)}" if changes else ""
        if len(isr) < _replicas(turn):
            yield f"Its ISR was {ids(isr)}{since}, of the replicas {ids(turn.assignment.replicas)}."

    def _moving(self) -> Iterator[str]:
        """The reassignment that was in progress, and since when."""
        past = [(at, one) for at, one in self._story.assignments if at.ts_ms <= self._at_ms]
        if past and past[-1][1].is_being_reassigned:
            at, one = past[-1]
            parts = [
                f"{verb} {words(brokers)}"
                for verb, brokers in (("adding", one.adding), ("removing", one.removing))
                if brokers
            ]
            since = moment(at.ts_ms) + ("" if len(past) > 1 else " or before")
            yield f"It was being reassigned, {', '.join(parts)}, since {since}."

    def _near(self, turn: LeaderPeriod) -> Iterator[str]:
        windows = [
            (_distance(start.at.ts_ms, end_ms, self._at_ms), start, end_ms)
            for start, end_ms in self._windows()
            if start is not turn and start.leadership is not None
        ]
        distance, start, end_ms = min(windows, key=itemgetter(0), default=(NEAR_MS, turn, None))
        if distance < NEAR_MS:
            until = "the end of the log" if end_ms is None else moment(end_ms)
            yield (
                f"It had no leader from {moment(start.at.ts_ms)} to {until},"
                f" {duration(distance * 1000)} {'before' if start.at.ts_ms < self._at_ms else 'after'} that;"
                f" ask for {moment(start.at.ts_ms)} to see why."
            )

    def _windows(self) -> Iterator[tuple[LeaderPeriod, int | None]]:
        """The times without a leader, with their ends."""
        turns = self._story.turns
        for start, end in zip(turns, [*turns[1:], None], strict=True):
            if start.exists and start.leader is None:
                yield start, end.at.ts_ms if end is not None else None

    # -- the limits of the log ---------------------------------------------------------------------------------------

    def _doubts(self, before: LeaderPeriod | None, turn: LeaderPeriod, following: LeaderPeriod | None) -> Iterator[str]:
        start = before.at.ts_ms if before is not None and turn.is_made_up_for else turn.at.ts_ms
        end = following.at.ts_ms if following is not None else None
        for envelope, gap in self._story.gaps:
            if start <= envelope.ts_ms and (end is None or envelope.ts_ms <= end):
                yield f"{counted(gap.lost, 'record')} lost meanwhile ({gap.reason}): the log may miss something here."
        for silence in self._story.silences:
            if silence.last.ts_ms < self._at_ms and not self._is_led_again(silence):
                yield term_without_end(silence)
        ended = self._term_over()
        if not any(envelope.epoch and envelope.ts_ms <= self._at_ms for envelope, _ in self._story.terms):
            yield f"No controller of these logs had a term before {moment(self._at_ms)}; see the logs of other nodes."
        elif ended is not None:
            yield (
                f"No controller of these logs was in its term at {moment(self._at_ms)}"
                f" (the last one ended at {moment(ended.ts_ms)}): what happened meanwhile is not in them."
            )

    def _is_led_again(self, silence: UnfinishedTerm) -> bool:
        """Return whether another controller was elected before that time."""
        return any(
            term.change in TERM_BEGINS and envelope.epoch > silence.last.epoch and envelope.ts_ms <= self._at_ms
            for envelope, term in self._story.terms
        )

    def _term_over(self) -> Envelope | None:
        over: Envelope | None = None
        epoch = 0
        for envelope, term in self._story.terms:
            if envelope.ts_ms > self._at_ms:
                break
            begins = term.change in TERM_BEGINS and term.controller_epoch != epoch
            if begins:
                over, epoch = None, term.controller_epoch
            elif epoch and term.change != "held":
                over, epoch = envelope, 0
        return over


def _chain(story: PartitionHistory, index: int | None) -> Iterator[tuple[RecordPosition, str]]:
    if index is None:
        return
    start = story.turns[max(0, index - 1)].at.ts_ms
    end = story.turns[index + 1].at.ts_ms if index + 1 < len(story.turns) else None
    steps = [
        *((turn.at, _turn_text(turn)) for turn in story.turns[max(0, index - 1) :]),
        *((note.at, note.text) for note in story.notes),
        *((change.at, f"ISR {ids(change.before)} to {ids(change.after)}") for change in story.isr_changes),
    ]
    for at, text in sorted(steps, key=lambda step: (step[0].ts_ms, step[0].epoch, step[0].seq)):
        if start <= at.ts_ms and (end is None or at.ts_ms <= end):
            yield _place(at), text


def _turn_text(turn: LeaderPeriod) -> str:
    state = "no such partition" if not turn.exists else "no leader" if turn.leader is None else f"led by {turn.leader}"
    return f"{state}{in_event(turn.scene)}"


def _took_us(start: Envelope, end: Envelope) -> int:
    if (start.node, start.boot) == (end.node, end.boot):
        return (end.mono_ns - start.mono_ns) // 1000
    return (end.ts_ms - start.ts_ms) * 1000


def _distance(start_ms: int, end_ms: int | None, at_ms: int) -> int:
    if at_ms < start_ms:
        return start_ms - at_ms
    return 0 if end_ms is None else max(0, at_ms - end_ms)


def _replicas(turn: LeaderPeriod) -> int:
    return len(turn.assignment.replicas) if turn.assignment is not None else 0


def parse_partition(text: str) -> TopicPartition:
    """Parse ``payments-7``, split at the last dash. :raises ValueError: invalid text."""
    topic, _, number = text.rpartition("-")
    if not topic or not number.isdecimal():
        raise ValueError(f"{text!r} is not a partition: write TOPIC-PARTITION, as in payments-7")
    return TopicPartition(topic, int(number))
