"""The answer about a topic: its partitions by condition, and the causes of the worst.

Partitions with the same condition and the same missing replicas have the same explanation, so one partition of
each kind is explained.
"""

from collections import Counter
from itertools import islice
from typing import Final, NamedTuple

from controllerd.core.model import BrokerId, PartitionState, TopicPartition
from controllerd.core.text import counted
from controllerd.explain.answers import CRITICAL, OK, Condition, Diagnosis, Why, ids
from controllerd.explain.brokers import diagnose_instance
from controllerd.explain.deletions import add_quarantine, diagnose_deletion, diagnose_missing
from controllerd.explain.history import Steps
from controllerd.explain.inputs import ExplanationInputs, PartitionQuestion, Question, prepare_question
from controllerd.explain.partition import condition_of, diagnose_partition, rules_of
from controllerd.views import PartitionView, TopicView

LISTED: Final = 100
"""The number of partitions that are listed one by one."""
_KINDS_EXPLAINED: Final = 3
_UNLISTED: Final = frozenset({Condition.HEALTHY, Condition.DELETING})
_PARTITIONS_PER_STEP: Final = 500
_RANKS: Final = {condition: rank for rank, condition in enumerate(Condition)}


class PartitionKind(NamedTuple):
    """The properties that are common to partitions with the same explanation."""

    condition: Condition
    missing: tuple[BrokerId, ...]
    """Replicas that are not in sync."""
    offline: tuple[BrokerId, ...]
    preferred: BrokerId | None
    """The preferred replica, where it should lead and does not."""


PartitionsByKind = dict[PartitionKind, list[PartitionView]]


def explain_topic(inputs: ExplanationInputs, name: str) -> Steps[Why]:
    """Answer for one topic, whether it exists or not."""
    question = yield from prepare_question(inputs)
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


def _sort(question: Question, topic: TopicView) -> Steps[tuple[PartitionsByKind, set[int]]]:
    """Sort the partitions by kind, worst condition and most frequent kind first; collect their replication factors."""
    rules = rules_of(topic, question.inputs.min_isr(topic.name), question.snapshot.quarantine)
    found: PartitionsByKind = {}
    factors: set[int] = set()
    alike: dict[object, list[PartitionView]] = {}  # most partitions of a large topic are equal
    quarantined, online = rules.quarantined, PartitionState.ONLINE
    for at in range(0, len(topic.partitions), _PARTITIONS_PER_STEP):
        for view in topic.partitions[at : at + _PARTITIONS_PER_STEP]:
            number, state, assignment, leadership, offline, _ = view
            if leadership is None or number in quarantined:
                facts: object = number
            else:  # partitions with equal facts are of the same kind
                facts = assignment, leadership[0], leadership[2], offline, state is online or state.value
            views = alike.get(facts)
            if views is None:
                factors.add(len(assignment.origin))
                views = alike[facts] = found.setdefault(_kind(view, condition_of(view, rules)), [])
            views.append(view)
        yield
    ranked = sorted(found, key=lambda kind: (_RANKS[kind.condition], -len(found[kind]), kind.missing, kind.offline))
    return {kind: found[kind] for kind in ranked}, factors


def _kind(view: PartitionView, condition: Condition) -> PartitionKind:
    (replicas, adding, _), leadership = view.assignment, view.leadership
    isr = () if leadership is None else leadership.isr
    missing = () if len(isr) == len(replicas) else tuple(broker for broker in replicas if broker not in isr)
    preferred = replicas[0] if condition is Condition.NON_PREFERRED else None
    return PartitionKind(condition, missing or adding, view.offline_replicas, preferred)


def _diagnose(question: Question, topic: TopicView, kinds: PartitionsByKind) -> Steps[Diagnosis]:
    condition = next((kind.condition for kind in kinds), Condition.HEALTHY)
    since = question.deletion_request(topic.name) if topic.deletion is not None else None
    headline = _headline(topic, kinds) + question.duration_text(since)
    diagnosis = Diagnosis(condition, condition.severity, headline, since)
    quarantine = question.snapshot.quarantine_of(topic.name)
    if quarantine is not None:
        add_quarantine(diagnosis, *quarantine)
        diagnosis.severity = CRITICAL
    if topic.deletion is not None:
        yield from diagnose_deletion(question, topic, diagnosis)
    if condition is not Condition.DELETING:
        for kind in list(kinds)[:_KINDS_EXPLAINED]:
            yield from _add_example(question, topic, kinds[kind][0], diagnosis)
    diagnosis.headline = diagnosis.headline.rstrip(",")
    return diagnosis


def _add_example(question: Question, topic: TopicView, view: PartitionView, diagnosis: Diagnosis) -> Steps[None]:
    """Add the explanation of one partition, which is valid for all partitions of its kind."""
    tp = TopicPartition(topic.name, view.partition)
    history = yield from question.history.partition(tp)
    found = yield from diagnose_partition(PartitionQuestion(question, tp, view, history), topic)
    diagnosis.add_causes(*found.causes)
    diagnosis.add_steps(*found.next)
    diagnosis.raise_severity(found.severity)
    if diagnosis.since is None and found.condition == diagnosis.condition:
        diagnosis.since = found.since
        diagnosis.headline += question.duration_text(found.since)


def _headline(topic: TopicView, kinds: PartitionsByKind) -> str:
    counts, number = Counter[Condition](), counted(len(topic.partitions), "partition")
    for kind, views in kinds.items():
        counts[kind.condition] += len(views)
    if topic.deletion is not None:
        return f"{topic.name} is {'BEING DELETED' if topic.deletion.has_begun else 'TO BE DELETED'}"
    bad = ", ".join(f"{counts[condition]} {condition}" for condition in counts if condition is not Condition.HEALTHY)
    if not bad:
        return f"{topic.name} is healthy ({number})"
    is_impaired = any(condition.severity != OK for condition in counts)
    return f"{topic.name} is {'NOT HEALTHY' if is_impaired else 'served'}: {bad} of {number},"


def _facts(inputs: ExplanationInputs, topic: TopicView, factors: set[int]) -> list[str]:
    factor = f"{min(factors)} to {max(factors)}" if len(factors) > 1 else ids(factors)
    facts = [f"partitions {len(topic.partitions)}", f"replication factor {factor}"]
    return ["   ".join([*facts, *inputs.settings_of(topic.name)])]


def _others(topic: TopicView, kinds: PartitionsByKind) -> list[str]:
    """List the partitions that are not healthy, the worst first."""
    bad = {kind: views for kind, views in kinds.items() if kind.condition not in _UNLISTED}
    first = islice(((kind, view) for kind, views in bad.items() for view in views), LISTED)
    listed, number = [_line(topic, kind, view) for kind, view in first], sum(map(len, bad.values()))
    if number > LISTED:
        listed.append(f"and {number - LISTED} more: controllerctl get partitions --topic {topic.name}")
    return listed


def _line(topic: TopicView, kind: PartitionKind, view: PartitionView) -> str:
    leadership, replicas = view.leadership, ids(view.assignment.replicas)
    if leadership is None:
        return f"{topic.name}-{view.partition} {kind.condition}: replicas {replicas}, no leader yet"
    isr = ids(leadership.isr)
    return f"{topic.name}-{view.partition} {kind.condition}: replicas {replicas}, isr {isr}, leader {leadership.leader}"
