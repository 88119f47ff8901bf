"""The answer about a topic: its partitions by condition, and the causes of the worst.

Partitions that lack the same replicas in the same way have one explanation, so one of each kind is explained.
"""

from collections import Counter
from itertools import islice
from typing import Final, NamedTuple

from controllerd.core.model import BrokerId, PartitionState, TopicPartition
from controllerd.core.text import counted
from controllerd.explain.answers import CRITICAL, OK, Condition, Diagnosis, Why, ids
from controllerd.explain.brokers import diagnose_instance
from controllerd.explain.deletions import because_quarantined, diagnose_deletion, diagnose_missing
from controllerd.explain.history import Steps
from controllerd.explain.inputs import ExplanationInputs, PartitionQuestion, Question, ask
from controllerd.explain.partition import condition_of, diagnose_partition, rules_of
from controllerd.views import PartitionView, TopicView

LISTED: Final = 100
"""So many partitions are listed one by one."""
_KINDS_EXPLAINED: Final = 3
_UNLISTED: Final = frozenset({Condition.HEALTHY, Condition.DELETING})
_AT_ONCE: Final = 500
_RANKS: Final = {condition: rank for rank, condition in enumerate(Condition)}


class Kind(NamedTuple):
    """Properties that partitions with one explanation have in common."""

    condition: Condition
    missing: tuple[BrokerId, ...]
    """Replicas that are not in sync."""
    offline: tuple[BrokerId, ...]
    preferred: BrokerId | None
    """The preferred replica, where it should lead and does not."""


Kinds = dict[Kind, list[PartitionView]]


def explain_topic(inputs: ExplanationInputs, name: str) -> Steps[Why]:
    """Answer for one topic, whether it exists or not."""
    question = yield from ask(inputs)
    topic = question.snapshot.topics.get(name)
    if topic is None:
        diagnosis = yield from diagnose_missing(question, name)
        facts, others = list[str](), list[str]()
    else:
        kinds, factors = yield from _sort(question, topic)
        diagnosis = yield from _diagnose(question, topic, kinds)
        facts, others = _facts(inputs, topic, factors), _others(topic, kinds)
    diagnose_instance(question, diagnosis)
    return diagnosis.answer(name, facts, others)


def _sort(question: Question, topic: TopicView) -> Steps[tuple[Kinds, set[int]]]:
    """Sort the partitions by kind, worst condition and most frequent kind first; collect their replication factors."""
    rules = rules_of(topic, question.inputs.min_isr(topic.name), question.snapshot.quarantine)
    found: Kinds = {}
    factors: set[int] = set()
    alike: dict[object, list[PartitionView]] = {}  # among very many partitions only few differ
    quarantined, online = rules.quarantined, PartitionState.ONLINE
    for at in range(0, len(topic.partitions), _AT_ONCE):
        for view in topic.partitions[at : at + _AT_ONCE]:
            number, state, assignment, leadership, offline, _ = view
            if leadership is None or number in quarantined:
                facts: object = number
            else:  # partitions that are equal in this are of one kind
                facts = assignment, leadership[0], leadership[2], offline, state is online or state.value
            views = alike.get(facts)
            if views is None:
                factors.add(len(assignment.origin))
                views = alike[facts] = found.setdefault(_kind(view, condition_of(view, rules)), [])
            views.append(view)
        yield
    ranked = sorted(found, key=lambda kind: (_RANKS[kind.condition], -len(found[kind]), kind.missing, kind.offline))
    return {kind: found[kind] for kind in ranked}, factors


def _kind(view: PartitionView, condition: Condition) -> Kind:
    (replicas, adding, _), leadership = view.assignment, view.leadership
    isr = () if leadership is None else leadership.isr
    missing = () if len(isr) == len(replicas) else tuple(broker for broker in replicas if broker not in isr)
    preferred = replicas[0] if condition is Condition.NON_PREFERRED else None
    return Kind(condition, missing or adding, view.offline_replicas, preferred)


def _diagnose(question: Question, topic: TopicView, kinds: Kinds) -> Steps[Diagnosis]:
    condition = next((kind.condition for kind in kinds), Condition.HEALTHY)
    since = question.deletion_asked_for(topic.name) if topic.deletion is not None else None
    headline = _headline(topic, kinds) + question.lasting(since)
    diagnosis = Diagnosis(condition, condition.severity, headline, since)
    quarantine = question.snapshot.quarantine_of(topic.name)
    if quarantine is not None:
        because_quarantined(diagnosis, *quarantine)
        diagnosis.severity = CRITICAL
    if topic.deletion is not None:
        yield from diagnose_deletion(question, topic, diagnosis)
    if condition is not Condition.DELETING:
        for kind in list(kinds)[:_KINDS_EXPLAINED]:
            yield from _add_example(question, topic, kinds[kind][0], diagnosis)
    diagnosis.headline = diagnosis.headline.rstrip(",")
    return diagnosis


def _add_example(question: Question, topic: TopicView, view: PartitionView, diagnosis: Diagnosis) -> Steps[None]:
    """Add the explanation of one partition, which holds for all of its kind."""
    tp = TopicPartition(topic.name, view.partition)
    history = yield from question.history.partition(tp)
    found = yield from diagnose_partition(PartitionQuestion(question, tp, view, history), topic)
    diagnosis.because(*found.causes)
    diagnosis.advise(*found.next)
    diagnosis.at_least(found.severity)
    if diagnosis.since is None and found.condition == diagnosis.condition:
        diagnosis.since = found.since
        diagnosis.headline += question.lasting(found.since)


def _headline(topic: TopicView, kinds: Kinds) -> str:
    counts, number = Counter[Condition](), counted(len(topic.partitions), "partition")
    for kind, views in kinds.items():
        counts[kind.condition] += len(views)
    if topic.deletion is not None:
        return f"{topic.name} is {'BEING DELETED' if topic.deletion.has_begun else 'TO BE DELETED'}"
    bad = ", ".join(f"{counts[condition]} {condition}" for condition in counts if condition is not Condition.HEALTHY)
    if not bad:
        return f"{topic.name} is healthy ({number})"
    is_grave = any(condition.severity != OK for condition in counts)
    return f"{topic.name} is {'NOT HEALTHY' if is_grave else 'served'}: {bad} of {number},"


def _facts(inputs: ExplanationInputs, topic: TopicView, factors: set[int]) -> list[str]:
    factor = f"{min(factors)} to {max(factors)}" if len(factors) > 1 else ids(factors)
    facts = [f"partitions {len(topic.partitions)}", f"replication factor {factor}"]
    return ["   ".join([*facts, *inputs.settings_of(topic.name)])]


def _others(topic: TopicView, kinds: Kinds) -> list[str]:
    """List the partitions that are not healthy, the worst first."""
    bad = {kind: views for kind, views in kinds.items() if kind.condition not in _UNLISTED}
    first = islice(((kind, view) for kind, views in bad.items() for view in views), LISTED)
    listed, number = [_line(topic, kind, view) for kind, view in first], sum(map(len, bad.values()))
    if number > LISTED:
        listed.append(f"and {number - LISTED} more: controllerctl get partitions --topic {topic.name}")
    return listed


def _line(topic: TopicView, kind: Kind, view: PartitionView) -> str:
    leadership, replicas = view.leadership, ids(view.assignment.replicas)
    if leadership is None:
        return f"{topic.name}-{view.partition} {kind.condition}: replicas {replicas}, no leader yet"
    isr = ids(leadership.isr)
    return f"{topic.name}-{view.partition} {kind.condition}: replicas {replicas}, isr {isr}, leader {leadership.leader}"
