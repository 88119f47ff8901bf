"""What is wrong, one entry per kind of trouble, with the cause that the explanations name and what helps."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

from controllerd.core.counted import counted
from controllerd.core.model import BrokerId, PartitionState, TopicPartition
from controllerd.explain.answers import CRITICAL, Cause, Why, brokers_of
from controllerd.explain.partition import explain_partition
from controllerd.pace import Pace
from controllerd.status.counts import Counts, is_under_replicated
from controllerd.status.dashboard.commands import command
from controllerd.status.dashboard.levels import Level
from controllerd.status.per_topic import PerTopic
from controllerd.status.reads.api import ReadApi
from controllerd.status.reads.filters import is_offline, is_waiting
from controllerd.status.schema.status import Status
from controllerd.views import ClusterView, PartitionView, TopicView

LOOKED_INTO: Final = 3
"""Partitions that miss the same replicas have one explanation: so many of those cases are looked into."""
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


_CONDITIONS: Final = (
    Condition("offline", Level.BAD, lambda counts: counts.offline, is_offline),
    Condition("without a first leader", Level.BAD, lambda counts: counts.waiting, is_waiting),
    Condition("under-replicated", Level.WARN, lambda counts: counts.under_replicated, is_under_replicated),
)


class Case(NamedTuple):
    """What partitions of one condition that miss the same replicas have in common."""

    condition: str
    missing: tuple[BrokerId, ...]


class Found(NamedTuple):
    """How many partitions are one case, and the number of the first of them."""

    number: int
    first: int


Cases = dict[Case, Found]


def cases_of(partitions: Iterable[PartitionView]) -> Cases:
    """What is the matter with some partitions of one topic, in order of their numbers."""
    found: Cases = {}
    online = PartitionState.ONLINE
    for view in partitions:
        _, state, (replicas, adding, _), leadership, _, _ = view
        if state is online and leadership is not None and len(leadership[2]) >= len(replicas) - len(adding):
            continue  # as the conditions say, without the calls: after a failover every partition is asked
        for condition in _CONDITIONS:
            if condition.holds(view):
                case = Case(condition.name, _missing(view))
                known = found.get(case)
                found[case] = Found(1, view.partition) if known is None else Found(known.number + 1, known.first)
    return found


def merge(parts: Iterable[Cases]) -> Cases:
    """All of one topic."""
    found: Cases = {}
    for case, more in chain.from_iterable(part.items() for part in parts):
        known = found.get(case)
        found[case] = more if known is None else Found(known.number + more.number, known.first)
    return found


class Troubles:
    """Remembers what is the matter with each topic, until it changes."""

    def __init__(self, reads: ReadApi) -> None:
        self._reads = reads
        self._cases = PerTopic(cases_of, merge)

    async def of_partitions(self, snapshot: ClusterView, pace: Pace) -> list[Trouble]:
        """Partitions that nobody leads, or that lack copies."""
        by_topic = await self._reads.reading.counter.by_topic(snapshot, pace)
        found = []
        for condition in _CONDITIONS:
            topics = [name for name, counts in by_topic.items() if condition.number(counts)]
            if topics:
                views = [view for name in sorted(topics) if (view := snapshot.topics.get(name)) is not None]
                number = sum(condition.number(by_topic[name]) for name in topics)
                found.append(await self._look_into(views, condition, number, pace))
        return found

    async def _look_into(self, topics: Sequence[TopicView], condition: Condition, number: int, pace: Pace) -> Trouble:
        settings, examples = self._reads.settings, await self._examples(topics, condition.name, pace)
        whys = [await pace.run(explain_partition(await settings.inputs([each.topic]), each)) for each in examples]
        what = f"{counted(number, 'partition')} {condition.name}"
        is_critical = any(why.severity == CRITICAL for why in whys)
        return Trouble(
            level=Level.BAD if is_critical else condition.level,
            what=what,
            because=because(whys),
            details=_unique(line for why in whys for line in (why.headline, *(cause.sentence for cause in why.causes))),
            next=_unique(step for why in whys for step in why.next),
        )

    async def _examples(self, topics: Sequence[TopicView], condition: str, pace: Pace) -> list[TopicPartition]:
        """One partition of each of the most frequent cases."""
        number, first = Counter[Case](), dict[Case, TopicPartition]()
        for topic in topics:
            for case, found in (await self._cases.of(topic, pace)).items():
                if case.condition == condition:
                    number[case] += found.number
                    first.setdefault(case, TopicPartition(topic.name, found.first))
            await pace.breathe()
        return [first[case] for case, _ in number.most_common(LOOKED_INTO)]


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
            waiting = f"{counted(broker.queue_depth, 'request')} wait for it"
            yield Trouble(
                Level.WARN,
                f"broker {broker.id} cannot be told what was decided",
                broker.error or waiting,
                (waiting,),
                ("see that this host reaches its listener:", command("get", "requests", "--broker", broker.id)),
            )
    held_up = [doomed for doomed in status.deletions if doomed.held_up_by is not None]
    if held_up:
        what = f"{counted(len(held_up), 'deletion')} held up"
        details = tuple(f"{doomed.topic}: {doomed.held_up_by}" for doomed in held_up[:LOOKED_INTO])
        steps = tuple(command("why", doomed.topic) for doomed in held_up[:LOOKED_INTO])
        yield Trouble(Level.WARN, what, held_up[0].held_up_by or "", details, steps)
    if blocked:
        what = f"{counted(len(blocked), 'reassignment')} blocked"
        yield Trouble(Level.WARN, what, blocked[0], tuple(blocked[:LOOKED_INTO]), (command("get", "reassignments"),))
    yield from _of_the_daemon(status)


def _of_the_daemon(status: Status) -> Iterator[Trouble]:
    if status.quarantined:
        what = f"{counted(len(status.quarantined), 'znode')} left alone"
        details = tuple(f"{each.path}: {each.reason}" for each in status.quarantined[:LOOKED_INTO])
        why = "it cannot be understood" if len(status.quarantined) == 1 else "they cannot be understood"
        yield Trouble(Level.WARN, what, why, details, (command("doctor"),))
    for each in status.uncovered:
        yield Trouble(Level.WARN, f"clients on {each.listener} see no controller", each.reason)
    if status.audit.trouble is not None:
        steps = ("free space for the audit log, or see to its permissions",)
        yield Trouble(Level.WARN, "the audit log cannot be written", status.audit.trouble, (), steps)
