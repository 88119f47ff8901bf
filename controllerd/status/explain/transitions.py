"""The last things that happened to a partition, a topic or a broker, out of what is remembered."""

from collections.abc import Iterator, Sequence
from typing import Final

from controllerd.clock import iso
from controllerd.core.counted import counted
from controllerd.core.model import NO_LEADER, TopicPartition
from controllerd.pace import Pace
from controllerd.recent import Entry
from controllerd.record.records import (
    BrokersRecord,
    DeletionRecord,
    OfflineDirsRecord,
    QuarantineRecord,
    TopicsForgotten,
    TopicsRecord,
)
from controllerd.status.explain.history import History, Story, look_back, refused_partitions
from controllerd.status.explain.words import count, error_name, ids
from controllerd.status.schema.cluster import Transition
from events.operator import DrainBroker

LIMIT: Final = 20


async def transitions_of_partition(
    entries: Sequence[Entry], tp: TopicPartition, limit: int = LIMIT, pace: Pace | None = None
) -> list[Transition]:
    """The last ones of a partition, newest last. ``entries``: what is remembered, newest first."""
    history = await look_back(entries, pace)
    found = list(partition_transitions(await history.partition(tp)))
    found += _quarantines(history, [f"/brokers/topics/{tp.topic}/partitions/{tp.partition}", tp.state_path])
    return _last(found, limit)


async def transitions_of_topic(
    entries: Sequence[Entry], topic: str, limit: int = LIMIT, pace: Pace | None = None
) -> list[Transition]:
    """What happened to the topic as a whole, newest last; its partitions have their own."""
    history = await look_back(entries, pace)
    found = [*_life(history, topic), *_deletions(history, topic)]
    found += _quarantines(history, [f"/brokers/topics/{topic}"])
    return _last(found, limit)


async def transitions_of_broker(
    entries: Sequence[Entry], broker: int, limit: int = LIMIT, pace: Pace | None = None
) -> list[Transition]:
    """What happened to a broker, newest last: it came, left, lost a log directory, or refused a request."""
    history = await look_back(entries, pace)
    found = [*_comings(history, broker), *_failures(history, broker), *_refusals(history, broker)]
    found += _quarantines(history, [f"/brokers/ids/{broker}"])
    return _last(found, limit)


def partition_transitions(story: Story) -> Iterator[tuple[int, Transition]]:
    """All that is remembered of a partition, in no order; each with the number of its record."""
    yield from _leaderships(story)
    yield from _assignments(story)
    for move in story.moved:
        if not move.is_loaded:
            yield _numbered(move.entry, "state", move.before, move.after, "")
    for refusal in story.declined:
        yield _numbered(refusal.entry, "refused", "", f"{refusal.what} refused", refusal.reason)
    for step in story.steps:
        yield _numbered(step.entry, "reassignment", "", step.step, "")


def _leaderships(story: Story) -> Iterator[tuple[int, Transition]]:
    befores = [*story.led[1:], None]
    for led, before in zip(story.led, befores, strict=False):  # none at all leaves one before over
        if led.is_loaded:
            continue
        isr = f"isr {ids(led.isr)}"
        is_same = before is not None and before.leader == led.leader
        was = "" if before is None else f"{_leader(before.leader, before.leader_epoch)}, isr {ids(before.isr)}"
        now = f"{_leader(led.leader, led.leader_epoch)}, {isr}"
        yield _numbered(led.entry, "isr" if is_same else "leader", was, now, _reason(story, led.entry))


def _reason(story: Story, entry: Entry) -> str:
    """The election that the leadership came from: the last decision before it, in the same event."""
    decided = next((each for each in story.decided if each.entry.number < entry.number), None)
    if decided is None or decided.entry.event != entry.event:
        return ""
    return f"{decided.strategy} election" + (", unclean: records may be lost" if decided.unclean else "")


def _assignments(story: Story) -> Iterator[tuple[int, Transition]]:
    befores = [*story.assigned[1:], None][: len(story.assigned)]
    for one, before in zip(story.assigned, befores, strict=False):
        if not one.is_loaded:
            was = "" if before is None else _assignment(before.replicas, before.adding, before.removing)
            yield _numbered(one.entry, "assignment", was, _assignment(one.replicas, one.adding, one.removing), "")


def _leader(leader: int, epoch: int) -> str:
    return f"no leader (epoch {epoch})" if leader == NO_LEADER else f"leader {leader} (epoch {epoch})"


def _assignment(replicas: Sequence[int], adding: Sequence[int], removing: Sequence[int]) -> str:
    told = f"replicas {ids(replicas)}"
    told += f", adding {ids(adding)}" if adding else ""
    return told + (f", removing {ids(removing)}" if removing else "")


# -- topics ------------------------------------------------------------------------------------------------------------


def _life(history: History, topic: str) -> Iterator[tuple[int, Transition]]:
    for entry, record in history.of(TopicsRecord):
        if topic in record.names and not history.is_loaded(entry):
            version = record.znode_versions[record.names.index(topic)]
            yield _numbered(entry, "topic", "", f"its znode was read or written (version {version})", "")
    for entry, gone in history.of(TopicsForgotten):
        if topic in gone.names:
            yield _numbered(entry, "topic", "", "gone", "")


def _deletions(history: History, topic: str) -> Iterator[tuple[int, Transition]]:
    for entry, record in history.of(DeletionRecord):
        for name, change, reason in zip(record.topics, record.changes, record.reasons, strict=True):
            if name == topic:
                yield _numbered(entry, "deletion", "", f"deletion {change}", reason or "")


# -- brokers -----------------------------------------------------------------------------------------------------------


def _comings(history: History, broker: int) -> Iterator[tuple[int, Transition]]:
    for entry, record in history.of(BrokersRecord):
        if broker in record.gone:
            yield _numbered(entry, "broker", "alive", "gone from /brokers/ids", "")
        if broker in record.shutting_down and not history.is_loaded(entry):
            is_drained = entry.event_name == DrainBroker.__name__
            reason = "an operator drained it" if is_drained else "it asked for a controlled shutdown"
            yield _numbered(entry, "broker", "alive", "shutting down", reason)
        epochs = [row.epoch for row in record.live if row.id == broker]
        if epochs and not history.is_loaded(entry):
            yield _numbered(entry, "broker", "", f"alive (broker epoch {epochs[0]})", "")


def _failures(history: History, broker: int) -> Iterator[tuple[int, Transition]]:
    for entry, record in history.of(OfflineDirsRecord):
        if record.broker == broker and not record.continues:
            failed = counted(len(record.topics), "replica") if record.topics else "no replica"
            yield _numbered(entry, "log-dirs", "", f"{failed} on failed log directories", "")


def _refusals(history: History, broker: int) -> Iterator[tuple[int, Transition]]:
    for entry, record in history.refusals_of(broker):
        refused = refused_partitions(record)
        of = f" for {count(len(refused), 'partition')}" if refused else ""
        named = error_name(record.error or next(iter(refused.values())))
        yield _numbered(entry, "refused", "", f"answered {record.api} with {named}{of}", "")


def _quarantines(history: History, paths: Sequence[str]) -> Iterator[tuple[int, Transition]]:
    for entry, record in history.of(QuarantineRecord):
        if record.path in paths:
            now = "left alone" if record.reason is not None else "understood again"
            yield _numbered(entry, "quarantine", "", f"{record.path} {now}", record.reason or "")


def _numbered(entry: Entry, what: str, was: str, now: str, reason: str) -> tuple[int, Transition]:
    return entry.number, Transition(
        at=iso(entry.at_ms),
        at_ms=entry.at_ms,
        event_id=entry.event,
        event=entry.event_name,
        what=what,
        was=was,
        now=now,
        reason=reason,
    )


def _last(found: list[tuple[int, Transition]], limit: int) -> list[Transition]:
    """The newest ones, oldest of them first."""
    ordered = sorted(found, key=lambda numbered: numbered[0])
    return [transition for _, transition in ordered[-limit:]]
