"""What is wrong, one entry per kind of trouble, with the cause that the explanations name and what helps."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from controllerd.core.model import BrokerId, PartitionState, TopicPartition
from controllerd.pace import Pace, sliced
from controllerd.snapshot import ClusterSnapshot, PartitionView, TopicView
from controllerd.status.counts import Counts, is_under_replicated
from controllerd.status.dashboard.commands import command
from controllerd.status.dashboard.levels import Level
from controllerd.status.explain.partition import explain_partition
from controllerd.status.explain.scene import CRITICAL
from controllerd.status.explain.words import brokers_of, count
from controllerd.status.reads.api import ReadApi
from controllerd.status.reads.filters import is_offline
from controllerd.status.schema.status import Status
from controllerd.status.schema.why import Cause, Why

LOOKED_INTO: Final = 3
"""Partitions that miss the same replicas have one explanation: so many of those kinds are looked into."""
_SEARCHED: Final = 2_000
"""So many partitions of one condition are sorted by kind: the rest is as they are."""
_AT_ONCE: Final = 1_000
"""Partitions that are looked at before the event loop may have a turn."""
_SHORT: Final = {
    "broker-gone": ("is gone", "are gone"),
    "broker-shut-down": ("was shut down", "were shut down"),
    "broker-shutting-down": ("is shutting down", "are shutting down"),
    "log-dir-failed": ("lost a log directory", "lost log directories"),
    "broker-unreachable": ("cannot be reached", "cannot be reached"),
    "broker-slow": ("does not answer", "do not answer"),
    "broker-refuses": ("refuses what it is told", "refuse what they are told"),
    "replica-lagging": ("lags behind", "lag behind"),
    "replica-catching-up": ("is catching up", "are catching up"),
}
"""Causes that are said in a few words, for one broker and for more."""


class Trouble(NamedTuple):
    """One kind of trouble. ``what``: ``3 partitions offline``; ``because``: ``broker 2 is gone``, empty if unknown."""

    level: Level
    what: str
    because: str
    details: tuple[str, ...] = ()
    next: tuple[str, ...] = ()


class Condition(NamedTuple):
    """One way in which partitions can be in trouble."""

    name: str
    level: Level
    number: Callable[[Counts], int]
    holds: Callable[[PartitionView], bool]


def _is_new(view: PartitionView) -> bool:
    return view.state is PartitionState.NEW


_CONDITIONS: Final = (
    Condition("offline", Level.BAD, lambda counts: counts.offline, is_offline),
    Condition("without a first leader", Level.BAD, lambda counts: counts.waiting, _is_new),
    Condition("under-replicated", Level.WARN, lambda counts: counts.under_replicated, is_under_replicated),
)


async def partition_troubles(reads: ReadApi, snapshot: ClusterSnapshot, pace: Pace) -> list[Trouble]:
    """Partitions that nobody leads, or that lack copies."""
    by_topic = await reads.reading.counter.by_topic(snapshot, pace)
    found = []
    for condition in _CONDITIONS:
        topics = [name for name, counts in by_topic.items() if condition.number(counts)]
        if topics:
            number = sum(condition.number(by_topic[name]) for name in topics)
            found.append(await _look_into(reads, snapshot, condition, topics, number, pace))
    return found


async def _look_into(
    reads: ReadApi, snapshot: ClusterSnapshot, condition: Condition, topics: Sequence[str], number: int, pace: Pace
) -> Trouble:
    views = [view for name in sorted(topics) if (view := snapshot.topics.get(name)) is not None]
    examples = await _examples(views, condition, pace)
    whys = [await explain_partition(await reads.settings.around([each.topic]), each) for each in examples]
    what = f"{count(number, 'partition')} {condition.name}"
    is_critical = any(why.severity == CRITICAL for why in whys)
    return Trouble(
        level=Level.BAD if is_critical else condition.level,
        what=what,
        because=because(whys),
        details=_unique(line for why in whys for line in (why.headline, *(cause.sentence for cause in why.causes))),
        next=_unique(step for why in whys for step in why.next),
    )


async def _examples(topics: Sequence[TopicView], condition: Condition, pace: Pace) -> list[TopicPartition]:
    """One partition of each of the most frequent kinds."""
    kinds, first, seen = Counter[tuple[BrokerId, ...]](), dict[tuple[BrokerId, ...], TopicPartition](), 0
    parts = ((topic.name, part) for topic in topics for part in sliced(topic.partitions, _AT_ONCE))
    for name, part in parts:
        for view in part:
            if condition.holds(view):
                kind, seen = _missing(view), seen + 1
                kinds[kind] += 1
                first.setdefault(kind, TopicPartition(name, view.partition))
        await pace.breathe()
        if seen >= _SEARCHED:
            break
    return [first[kind] for kind, _ in kinds.most_common(LOOKED_INTO)]


def _missing(view: PartitionView) -> tuple[BrokerId, ...]:
    isr = view.leadership.isr if view.leadership is not None else ()
    missing = [broker for broker in view.assignment.replicas if broker not in isr or broker in view.offline_replicas]
    return tuple(sorted(missing))


def because(whys: Sequence[Why]) -> str:
    """The decisive causes in a few words, those of the same kind together."""
    decisive = [cause for why in whys if (cause := _decisive(why.causes)) is not None]
    causes, said = [cause for why in whys for cause in why.causes], dict[str, None]()
    for cause in decisive:
        same = sorted({each.broker for each in causes if each.code == cause.code and each.broker is not None})
        if cause.code in _SHORT and same:
            said.setdefault(f"{brokers_of(same)} {_SHORT[cause.code][len(same) > 1]}")
        else:
            said.setdefault(cause.sentence)
    return " and ".join(list(said)[:2])


def _decisive(causes: Sequence[Cause]) -> Cause | None:
    """A broker that can be named rather than a circumstance; the first of them decides."""
    named = (cause for cause in causes if cause.code in _SHORT and cause.broker is not None)
    return next(named, next(iter(causes), None))


def _unique(lines: Iterator[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(lines))


def other_troubles(status: Status, blocked: Sequence[str]) -> Iterator[Trouble]:
    """What is not about partitions without leader or copies. ``blocked``: reassignments that cannot go on."""
    for broker in status.brokers:
        if broker.queue_depth and (broker.error or not broker.connected):
            waiting = f"{count(broker.queue_depth, 'request')} wait for it"
            yield Trouble(
                Level.WARN,
                f"broker {broker.id} cannot be told what was decided",
                broker.error or waiting,
                (waiting,),
                ("see that this host reaches its listener:", command("get", "requests", "--broker", broker.id)),
            )
    held_up = [doomed for doomed in status.deletions if doomed.held_up_by is not None]
    if held_up:
        what = f"{count(len(held_up), 'deletion')} held up"
        details = tuple(f"{doomed.topic}: {doomed.held_up_by}" for doomed in held_up[:LOOKED_INTO])
        steps = tuple(command("why", doomed.topic) for doomed in held_up[:LOOKED_INTO])
        yield Trouble(Level.WARN, what, held_up[0].held_up_by or "", details, steps)
    if blocked:
        what = f"{count(len(blocked), 'reassignment')} blocked"
        yield Trouble(Level.WARN, what, blocked[0], tuple(blocked[:LOOKED_INTO]), (command("get", "reassignments"),))
    yield from _of_the_daemon(status)


def _of_the_daemon(status: Status) -> Iterator[Trouble]:
    if status.quarantined:
        what = f"{count(len(status.quarantined), 'znode')} left alone"
        details = tuple(f"{each.path}: {each.reason}" for each in status.quarantined[:LOOKED_INTO])
        why = "it cannot be understood" if len(status.quarantined) == 1 else "they cannot be understood"
        yield Trouble(Level.WARN, what, why, details, (command("doctor"),))
    for each in status.uncovered:
        yield Trouble(Level.WARN, f"clients on {each.listener} see no controller", each.reason)
    if status.audit.trouble is not None:
        steps = ("free space for the audit log, or see to its permissions",)
        yield Trouble(Level.WARN, "the audit log cannot be written", status.audit.trouble, (), steps)
