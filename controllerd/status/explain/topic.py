"""What is the matter with a topic: its partitions by condition, and why those are in it that are worst off.

Partitions that lack the same replicas in the same way have one explanation, so one of each kind is looked into.
"""

from collections import Counter
from itertools import islice
from typing import Final, NamedTuple

from controllerd.core.model import BrokerId, PartitionState, TopicPartition
from controllerd.pace import Pace, sliced
from controllerd.snapshot import PartitionView, TopicView
from controllerd.status.explain import conditions
from controllerd.status.explain.circumstances import Circumstances
from controllerd.status.explain.conditions import SEVERITIES, condition_of, rules_of
from controllerd.status.explain.deleting import judge_deletion
from controllerd.status.explain.facts import unclean_of
from controllerd.status.explain.missing import because_quarantined, judge_missing
from controllerd.status.explain.partition import answer, judge_partition
from controllerd.status.explain.scene import (
    CRITICAL,
    OK,
    SEVERITY_ORDER,
    Scene,
    Subject,
    Verdict,
    quarantine_of,
    set_scene,
)
from controllerd.status.explain.surroundings import judge_surroundings
from controllerd.status.explain.words import count, ids
from controllerd.status.schema.why import Why

LISTED: Final = 100
"""So many partitions are listed one by one."""
_LOOKED_INTO: Final = 3
_UNLISTED: Final = frozenset({conditions.HEALTHY, conditions.DELETING})
_AT_ONCE: Final = 500
_BY_RANK: Final = {condition: rank for rank, condition in enumerate(SEVERITIES)}


class Kind(NamedTuple):
    """What partitions with one explanation have in common."""

    condition: str
    missing: tuple[BrokerId, ...]
    """Replicas that are not in sync."""
    offline: tuple[BrokerId, ...]
    leader: BrokerId | None
    """Only where somebody else should lead."""


Kinds = dict[Kind, list[PartitionView]]


async def explain_topic(around: Circumstances, name: str, pace: Pace | None = None) -> Why:
    """The answer for one topic, whether it exists or not. Gives the event loop its turns."""
    scene = await set_scene(around, pace)
    topic = scene.snapshot.topics.get(name)
    if topic is None:
        verdict = await judge_missing(scene, name)
        judge_surroundings(scene, verdict)
        return answer(name, verdict, [])
    kinds, factors = await _sort(scene, topic)
    verdict = await _judge(scene, topic, kinds)
    judge_surroundings(scene, verdict)
    return answer(name, verdict, _facts(around, topic, factors), _others(topic, kinds))


async def _sort(scene: Scene, topic: TopicView) -> tuple[Kinds, set[int]]:
    """The partitions by kind, the worst condition first, and of that the most frequent kind; and how many replicas."""
    rules = rules_of(topic, scene.around.min_isr(topic.name), scene.snapshot.quarantine)
    found: Kinds = {}
    factors: set[int] = set()
    alike: dict[object, list[PartitionView]] = {}  # very many partitions are few different ones
    quarantined, online = rules.quarantined, PartitionState.ONLINE
    for part in sliced(topic.partitions, _AT_ONCE):
        for view in part:
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
        await scene.pace.breathe()
    ranked = sorted(found, key=lambda kind: (_BY_RANK[kind.condition], -len(found[kind]), kind.missing, kind.offline))
    return {kind: found[kind] for kind in ranked}, factors


def _kind(view: PartitionView, condition: str) -> Kind:
    (replicas, adding, _), leadership = view.assignment, view.leadership
    isr = () if leadership is None else leadership.isr
    missing = () if len(isr) == len(replicas) else tuple(broker for broker in replicas if broker not in isr)
    is_misled = condition == conditions.NON_PREFERRED
    return Kind(condition, missing or adding, view.offline_replicas, replicas[0] if is_misled else None)


async def _judge(scene: Scene, topic: TopicView, kinds: Kinds) -> Verdict:
    worst = next(iter(kinds), None)
    condition = worst.condition if worst is not None else conditions.HEALTHY
    since = scene.deletion_asked_for(topic.name) if topic.deletion is not None else None
    verdict = Verdict(condition, SEVERITIES[condition], _headline(topic, kinds) + scene.lasting(since), since)
    left_alone = quarantine_of(scene.snapshot, topic.name)
    if left_alone is not None:
        because_quarantined(verdict, *left_alone)
        verdict.severity = CRITICAL
    if topic.deletion is not None:
        await judge_deletion(scene, topic, verdict)
    if condition != conditions.DELETING:
        for kind in list(kinds)[:_LOOKED_INTO]:
            await _look_into(scene, topic, kinds[kind][0], verdict)
    verdict.headline = verdict.headline.rstrip(",")
    return verdict


async def _look_into(scene: Scene, topic: TopicView, view: PartitionView, verdict: Verdict) -> None:
    """What is true of one partition is true of its kind."""
    tp = TopicPartition(topic.name, view.partition)
    found = await judge_partition(Subject(scene, tp, view, await scene.history.partition(tp)), topic)
    verdict.because(*found.causes)
    verdict.advise(*found.next)
    verdict.severity = max(verdict.severity, found.severity, key=SEVERITY_ORDER.index)
    if verdict.since is None and found.condition == verdict.condition:
        verdict.since = found.since
        verdict.headline += scene.lasting(found.since)


def _counts(kinds: Kinds) -> Counter[str]:
    counts = Counter[str]()
    for kind, views in kinds.items():
        counts[kind.condition] += len(views)
    return counts


def _headline(topic: TopicView, kinds: Kinds) -> str:
    counts, number = _counts(kinds), len(topic.partitions)
    if topic.deletion is not None:
        return f"{topic.name} is {'BEING DELETED' if topic.deletion.has_begun else 'TO BE DELETED'}"
    bad = ", ".join(f"{counts[condition]} {condition}" for condition in counts if condition != conditions.HEALTHY)
    if not bad:
        return f"{topic.name} is healthy ({count(number, 'partition')})"
    is_grave = any(SEVERITIES[condition] != OK for condition in counts)
    return f"{topic.name} is {'NOT HEALTHY' if is_grave else 'served'}: {bad} of {count(number, 'partition')},"


def _facts(around: Circumstances, topic: TopicView, factors: set[int]) -> list[str]:
    factor = f"{min(factors)} to {max(factors)}" if len(factors) > 1 else ids(factors)
    facts = [f"partitions {len(topic.partitions)}", f"replication factor {factor}"]
    if (min_isr := around.min_isr(topic.name)) is not None:
        facts.append(f"min.insync.replicas {min_isr}")
    return ["   ".join([*facts, f"unclean election: {unclean_of(around, topic.name)}"])]


def _others(topic: TopicView, kinds: Kinds) -> list[str]:
    """The partitions that are not healthy, the worst first."""
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
