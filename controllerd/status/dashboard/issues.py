"""The issues of the cluster, with their causes from explanations, and the headline that summarises them."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

from controllerd.core.model import BrokerId, PartitionState, TopicPartition
from controllerd.core.text import counted
from controllerd.explain.answers import CRITICAL, OK, Cause, Diagnosis, Why, brokers_of, clock
from controllerd.explain.brokers import diagnose_instance
from controllerd.explain.inputs import prepare_question
from controllerd.explain.partition import explain_partition
from controllerd.slicer import Slicer
from controllerd.status.dashboard.cards import knows_partitions
from controllerd.status.dashboard.formatting import Severity, command, is_command, numbered
from controllerd.status.reads.context import ReadContext
from controllerd.status.reads.counts import Counts, TopicFigures, is_under_replicated
from controllerd.status.reads.filters import is_offline, is_waiting
from controllerd.status.schema.status import Status
from controllerd.views import ClusterView, PartitionView, TopicView

EXPLAINED: Final = 3
"""The number of cases that are explained; partitions with the same missing replicas are one case."""
_DETAILS: Final = 8
_DETAILS_OF_FIRST: Final = 4
_STEPS: Final = 6
_SEVERITIES: Final = {
    "standby": Severity.UNKNOWN,
    "queue-behind": Severity.WARNING,
    "controller-starting": Severity.INFO,
}
"""The severities of causes that concern this instance as a whole; any other cause is critical."""
_SHORT: Final = {
    "broker-gone": ("is gone", "are gone"),
    "broker-shut-down": ("was shut down", "were shut down"),
    "broker-shutting-down": ("is shutting down", "are shutting down"),
    "log-dir-failed": ("lost a log directory", "lost log directories"),
    "broker-unreachable": ("cannot be reached", "cannot be reached"),
    "broker-slow": ("does not answer", "do not answer"),
    "broker-refuses": ("refuses requests", "refuse requests"),
    "replica-lagging": ("lags behind", "lag behind"),
    "replica-catching-up": ("is catching up", "are catching up"),
}
"""Causes in a few words, for one broker and for more."""


class Issue(NamedTuple):
    """One issue. ``what``: ``3 partitions offline``; ``cause``: ``broker 2 is gone``, empty if unknown."""

    severity: Severity
    what: str
    cause: str
    details: tuple[str, ...] = ()
    next: tuple[str, ...] = ()


class IssueCondition(NamedTuple):
    """A condition of partitions that is an issue."""

    name: str
    severity: Severity
    number: Callable[[Counts], int]
    holds: Callable[[PartitionView], bool]


_CONDITIONS: Final = (
    IssueCondition("offline", Severity.CRITICAL, lambda counts: counts.offline, is_offline),
    IssueCondition("without a first leader", Severity.CRITICAL, lambda counts: counts.waiting, is_waiting),
    IssueCondition("under-replicated", Severity.WARNING, lambda counts: counts.under_replicated, is_under_replicated),
)


class Case(NamedTuple):
    """Partitions of one condition with the same missing replicas."""

    condition: str
    missing: tuple[BrokerId, ...]


class CaseCount(NamedTuple):
    """The number of partitions of a case, and the first of them."""

    number: int
    first: int


Cases = dict[Case, CaseCount]


def cases_of(partitions: Iterable[PartitionView]) -> Cases:
    """Return the cases among partitions of one topic, given in order of their numbers."""
    found: Cases = {}
    online = PartitionState.ONLINE
    for view in partitions:
        _, state, (replicas, adding, _), leadership, _, _ = view
        if state is online and leadership is not None and len(leadership[2]) >= len(replicas) - len(adding):
            continue  # no condition holds; checked without calls, as after a failover it runs over every partition
        for condition in _CONDITIONS:
            if condition.holds(view):
                case = Case(condition.name, _missing(view))
                number, first = found.get(case, (0, view.partition))
                found[case] = CaseCount(number + 1, first)
    return found


def add_cases(parts: Iterable[Cases]) -> Cases:
    """Add up the cases of one topic."""
    found: Cases = {}
    for case, more in chain.from_iterable(part.items() for part in parts):
        number, first = found.get(case, (0, more.first))
        found[case] = CaseCount(number + more.number, first)
    return found


def _missing(view: PartitionView) -> tuple[BrokerId, ...]:
    isr = view.isr
    missing = [broker for broker in view.assignment.replicas if broker not in isr or broker in view.offline_replicas]
    return tuple(sorted(missing))


class PartitionIssues:
    """Finds the issues of partitions, and keeps the cases of each topic until it changes."""

    def __init__(self, context: ReadContext) -> None:
        self._context = context
        self._cases = TopicFigures(cases_of, add_cases)

    async def find(self, snapshot: ClusterView, slicer: Slicer) -> list[Issue]:
        """Return the issues of partitions without a leader, and of under-replicated partitions."""
        by_topic = await self._context.counts.all(snapshot, slicer)
        found = []
        for condition in _CONDITIONS:
            topics = [name for name, counts in by_topic.items() if condition.number(counts)]
            if topics:
                views = [view for name in sorted(topics) if (view := snapshot.topics.get(name)) is not None]
                number = sum(condition.number(by_topic[name]) for name in topics)
                found.append(await self._explain(views, condition, number, slicer))
        return found

    async def _explain(
        self, topics: Sequence[TopicView], condition: IssueCondition, number: int, slicer: Slicer
    ) -> Issue:
        examples = await self._examples(topics, condition.name, slicer)
        whys = [await slicer.run(explain_partition(await self._context.inputs(each.topic), each)) for each in examples]
        is_critical = any(why.severity == CRITICAL for why in whys)
        return Issue(
            severity=Severity.CRITICAL if is_critical else condition.severity,
            what=f"{counted(number, 'partition')} {condition.name}",
            cause=short_cause(whys),
            details=_unique(line for why in whys for line in (why.headline, *(cause.sentence for cause in why.causes))),
            next=_unique(step for why in whys for step in why.next),
        )

    async def _examples(self, topics: Sequence[TopicView], condition: str, slicer: Slicer) -> list[TopicPartition]:
        """Return one partition of each of the most frequent cases."""
        number, first = Counter[Case](), dict[Case, TopicPartition]()
        for topic in topics:
            for case, found in (await self._cases.of(topic, slicer)).items():
                if case.condition == condition:
                    number[case] += found.number
                    first.setdefault(case, TopicPartition(topic.name, found.first))
            await slicer.yield_to_loop()
        return [first[case] for case, _ in number.most_common(EXPLAINED)]


def short_cause(whys: Sequence[Why]) -> str:
    """Return the decisive causes in a few words, with causes of the same kind combined."""
    decisive = [cause for why in whys if (cause := _decisive(why.causes)) is not None]
    causes, texts = [cause for why in whys for cause in why.causes], dict[str, None]()
    for cause in decisive:
        same = sorted({each.broker for each in causes if each.code == cause.code and each.broker is not None})
        if cause.code in _SHORT and same:
            texts.setdefault(f"{brokers_of(same)} {_SHORT[cause.code][len(same) > 1]}")
        else:
            texts.setdefault(cause.sentence)
    return " and ".join(list(texts)[:2])


def _decisive(causes: Sequence[Cause]) -> Cause | None:
    """Return the first cause that concerns a broker; without any, the first cause."""
    named = (cause for cause in causes if cause.code in _SHORT and cause.broker is not None)
    return next(named, next(iter(causes), None))


def _unique(lines: Iterator[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(lines))


def other_issues(status: Status, blocked: Sequence[str]) -> Iterator[Issue]:
    """Yield the issues that ``PartitionIssues`` does not find. ``blocked``: reassignments that wait."""
    for broker in status.brokers:
        if broker.queue_depth and (broker.error or not broker.connected):
            waiting = f"{counted(broker.queue_depth, 'request')} wait for it"
            what = f"broker {broker.id} does not receive requests"
            steps = ("check that this host can reach its listener:", command("get", "requests", "--broker", broker.id))
            yield Issue(Severity.WARNING, what, broker.error or waiting, (waiting,), steps)
    held_up = [each for each in status.deletions if each.held_up_by is not None]
    if held_up:
        what = f"{counted(len(held_up), 'deletion')} held up"
        details = tuple(f"{each.topic}: {each.held_up_by}" for each in held_up[:EXPLAINED])
        commands = tuple(command("why", each.topic) for each in held_up[:EXPLAINED])
        yield Issue(Severity.WARNING, what, held_up[0].held_up_by or "", details, commands)
    if blocked:
        what = f"{counted(len(blocked), 'reassignment')} blocked"
        yield Issue(Severity.WARNING, what, blocked[0], tuple(blocked[:EXPLAINED]), (command("get", "reassignments"),))
    if status.quarantined:
        what = f"{counted(len(status.quarantined), 'znode')} left alone"
        details = tuple(f"{each.path}: {each.reason}" for each in status.quarantined[:EXPLAINED])
        why = "it cannot be understood" if len(status.quarantined) == 1 else "they cannot be understood"
        yield Issue(Severity.WARNING, what, why, details, (command("doctor"),))
    for each in status.uncovered:
        yield Issue(Severity.WARNING, f"clients on {each.listener} see no controller", each.reason)
    if status.audit.trouble is not None:
        step = "free disk space for the audit log, or correct its permissions"
        yield Issue(Severity.WARNING, "the audit log cannot be written", status.audit.trouble, (), (step,))


# -- the headline ------------------------------------------------------------------------------------------------------


class NextStep(NamedTuple):
    """A step to take; a command can be copied."""

    text: str
    is_command: bool


class Headline(NamedTuple):
    """The summary at the top of the page: the issues and their causes, or that there are none, and the next steps."""

    severity: Severity
    sentence: str
    details: tuple[str, ...] = ()
    next: tuple[NextStep, ...] = ()


async def headline_of(
    context: ReadContext, partitions: PartitionIssues, status: Status, blocked: Sequence[str], slicer: Slicer
) -> Headline:
    """Return the headline of this instance and of the cluster."""
    inputs = await context.inputs()
    instance = Diagnosis("", OK, "")
    diagnose_instance(await slicer.run(prepare_question(inputs)), instance)
    if not knows_partitions(status):
        return _of_instance(status, instance, inputs.now_ms)
    held_up = [Issue(_severity(each), each.sentence, "", (), tuple(instance.next)) for each in instance.causes]
    of_partitions = await partitions.find(inputs.snapshot, slicer)
    return _summarise([*held_up, *of_partitions, *other_issues(status, blocked)]) or _all_is_well(status)


def _severity(cause: Cause) -> Severity:
    return _SEVERITIES.get(cause.code, Severity.CRITICAL)


def _of_instance(status: Status, instance: Diagnosis, now_ms: int) -> Headline:
    """Return the headline of an instance that does not know the cluster, about the instance alone."""
    worst = max(instance.causes, key=lambda cause: _severity(cause).rank, default=None)
    if worst is None:
        return Headline(Severity.UNKNOWN, f"This instance is {status.role}", (status.reason,))
    sentence = worst.sentence
    if worst.code == "standby" and status.holder is not None:
        since = clock(status.holder.since_ms, now_ms)
        sentence = f"This instance is standby: {status.holder} is the active controller since {since}"
    others = tuple(cause.sentence for cause in instance.causes if cause is not worst)
    return Headline(_severity(worst), _capital(sentence), others, _steps(instance.next))


def _summarise(issues: Sequence[Issue]) -> Headline | None:
    """Return one sentence for all issues with the cause of the worst, and the others as details; None without any."""
    if not issues:
        return None
    ranked = sorted(issues, key=lambda issue: -issue.severity.rank)
    first = ranked[0]
    together = [each for each in ranked if first.cause and each.cause == first.cause] or [first]
    others = [each for each in ranked if each not in together]
    own = [line for issue in together for line in issue.details][:_DETAILS_OF_FIRST]
    details = dict.fromkeys([*own, *(_sentence_of([other]) for other in others)])
    steps = dict.fromkeys(step for issue in [*together, *others] for step in issue.next)
    return Headline(first.severity, _capital(_sentence_of(together)), tuple(details)[:_DETAILS], _steps(steps))


def _sentence_of(issues: Sequence[Issue]) -> str:
    """Return ``3 partitions offline and 12 under-replicated because broker 2 is gone``."""
    first, *others = (issue.what for issue in issues)
    what = " and ".join([first, *(_without_noun(other, first) for other in others)])
    return f"{what} because {issues[0].cause}" if issues[0].cause else what


def _without_noun(what: str, before: str) -> str:
    """Return ``6 under-replicated`` after ``3 partitions offline``."""
    number, _, rest = what.partition(" ")
    noun, _, condition = rest.partition(" ")
    return f"{number} {condition}" if f" {noun.rstrip('s')}" in before and condition else what


def _all_is_well(status: Status) -> Headline:
    counts = status.counts
    brokers = counted(len(status.brokers), "broker")
    if not counts.partitions:
        return Headline(Severity.OK, "All is well", (f"{brokers} alive, and no topics yet",))
    of = f"{numbered(counts.partitions, 'partition')} of {numbered(counts.topics, 'topic')} on {brokers}"
    return Headline(Severity.OK, "All is well", (f"{of}: each has a leader, and every replica is in sync",))


def _steps(steps: Iterable[str]) -> tuple[NextStep, ...]:
    """Return the steps, except those that a longer step begins with."""
    given = list(steps)
    kept = [step for step in given if not any(each.startswith((f"{step}:", f"{step},", f"{step} (")) for each in given)]
    return tuple(NextStep(step, is_command(step)) for step in kept[:_STEPS])


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
