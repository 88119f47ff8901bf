"""The answer about one partition: its condition, facts, causes and remedies."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from controllerd.core.imbalance import is_imbalanced
from controllerd.core.model import NO_LEADER, BrokerId, PartitionState, TopicPartition
from controllerd.explain.answers import WARNING, Cause, Condition, Diagnosis, Why, cause, ids
from controllerd.explain.brokers import causes_offline, diagnose_instance, why_not_online, why_requests_fail
from controllerd.explain.deletions import add_quarantine, diagnose_deletion, diagnose_missing
from controllerd.explain.history import Steps
from controllerd.explain.inputs import ExplanationInputs, PartitionQuestion, prepare_question
from controllerd.explain.leadership import (
    diagnose_leader_shutdown,
    diagnose_non_preferred,
    diagnose_offline,
    diagnose_replication,
    diagnose_unclean,
    diagnose_unelectable_preferred,
    diagnose_waiting,
)
from controllerd.record.envelope import RecentRecord
from controllerd.views import PartitionView, TopicView

_REQUEST_PROBLEMS: Final = ("broker-unreachable", "broker-slow", "broker-refuses")
_NEVER_OK: Final = (*_REQUEST_PROBLEMS, "unclean-election", "leader-shutting-down")
"""Causes that raise even a healthy partition to a warning."""


def explain_partition(inputs: ExplanationInputs, tp: TopicPartition) -> Steps[Why]:
    """Answer for one partition, whether it exists or not."""
    question = yield from prepare_question(inputs)
    topic, view = question.snapshot.topics.get(tp.topic), question.snapshot.partition(tp)
    if topic is None or view is None:
        diagnosis, facts = (yield from diagnose_missing(question, tp.topic, tp.partition)), list[str]()
    else:
        partition = PartitionQuestion(question, tp, view, (yield from question.history.partition(tp)))
        diagnosis, facts = (yield from diagnose_partition(partition, topic)), _facts(partition)
    diagnose_instance(question, diagnosis)
    return diagnosis.answer(str(tp), facts)


def diagnose_partition(partition: PartitionQuestion, topic: TopicView) -> Steps[Diagnosis]:
    """Explain a partition that exists, without the causes that concern this whole instance."""
    question = partition.question
    condition = condition_of(partition.view, rules_of(topic, partition.min_isr, question.snapshot.quarantine))
    since = _since(partition, condition)
    diagnosis = Diagnosis(condition, condition.severity, _headline(partition, condition, since), since)
    quarantine = question.snapshot.quarantine_of(partition.tp.topic, partition.tp.partition)
    if quarantine is not None:
        add_quarantine(diagnosis, *quarantine)
    yield from _diagnose_condition(partition, topic, diagnosis)
    if condition is not Condition.DELETING:
        yield from _diagnose_independent_causes(partition, topic, diagnosis)
    diagnose_unclean(partition, diagnosis)
    if diagnosis.has_cause(*_NEVER_OK):
        diagnosis.raise_severity(WARNING)
    return diagnosis


def _diagnose_condition(partition: PartitionQuestion, topic: TopicView, diagnosis: Diagnosis) -> Steps[None]:
    match diagnosis.condition:
        case Condition.DELETING:
            yield from diagnose_deletion(partition.question, topic, diagnosis)
        case Condition.OFFLINE:
            diagnose_offline(partition, diagnosis)
        case Condition.WAITING:
            diagnose_waiting(partition, diagnosis)
        case Condition.UNDER_MIN_ISR | Condition.AT_MIN_ISR | Condition.UNDER_REPLICATED:
            diagnose_replication(partition, diagnosis)
        case Condition.NON_PREFERRED:
            yield from diagnose_non_preferred(partition, diagnosis)
        case _:
            pass


def _diagnose_independent_causes(partition: PartitionQuestion, topic: TopicView, diagnosis: Diagnosis) -> Steps[None]:
    """Add the causes that apply whatever the condition is."""
    if partition.leader != NO_LEADER:
        if partition.view.assignment.is_being_reassigned:
            diagnose_reassignment(partition, diagnosis)
        diagnose_unelectable_preferred(partition, diagnosis)
    if topic.deletion is not None:
        yield from diagnose_deletion(partition.question, topic, diagnosis)
    for broker in partition.replicas:  # a live broker may not have applied the state that is shown here
        if why_not_online(partition, broker) is None:
            diagnosis.add_causes(why_requests_fail(partition, broker))
    if diagnosis.has_cause(*_REQUEST_PROBLEMS):
        diagnosis.add_broker_remedies()
    diagnose_leader_shutdown(partition, diagnosis)


# -- condition ---------------------------------------------------------------------------------------------------------


class Rules(NamedTuple):
    """Properties of a topic on which the conditions of its partitions depend."""

    min_isr: int | None
    """None where it is not known."""
    is_being_deleted: bool
    """Whether the deletion of the topic has begun."""
    quarantined: frozenset[int]
    """The partitions that are in quarantine."""


def rules_of(topic: TopicView, min_isr: int | None, quarantine: Mapping[str, str]) -> Rules:
    """Return the rules of one topic."""
    prefix = f"/brokers/topics/{topic.name}/partitions/"
    numbers = (path.removeprefix(prefix).removesuffix("/state") for path in quarantine if path.startswith(prefix))
    in_quarantine = {int(number) for number in numbers if number.isdecimal()}
    if f"/brokers/topics/{topic.name}" in quarantine:
        in_quarantine.update(view.partition for view in topic.partitions)
    is_being_deleted = topic.deletion is not None and topic.deletion.has_begun
    return Rules(min_isr, is_being_deleted, frozenset(in_quarantine))


def condition_of(view: PartitionView, rules: Rules) -> Condition:
    """Return the worst condition that applies; cheap enough for 10,000 partitions in one answer."""
    if rules.is_being_deleted:
        return Condition.DELETING
    leadership = view.leadership
    if view.state is PartitionState.OFFLINE or (leadership is not None and leadership.leader == NO_LEADER):
        return Condition.OFFLINE
    if leadership is None or view.state is PartitionState.NEW:
        return Condition.QUARANTINED if view.partition in rules.quarantined else Condition.WAITING
    if view.partition in rules.quarantined:
        return Condition.QUARANTINED
    assignment, isr, min_isr = view.assignment, len(leadership.isr), rules.min_isr
    if min_isr is not None and isr < min_isr:
        return Condition.UNDER_MIN_ISR
    if isr < len(assignment.replicas) - len(assignment.adding):
        return Condition.AT_MIN_ISR if isr <= (min_isr or 1) else Condition.UNDER_REPLICATED
    if assignment.is_being_reassigned:
        return Condition.REASSIGNING
    return Condition.NON_PREFERRED if is_imbalanced(view) else Condition.HEALTHY


def _since(partition: PartitionQuestion, condition: Condition) -> RecentRecord | None:
    """Return the record of the change that caused the condition; None if it is no longer among the recent records."""
    history, assignment = partition.history, partition.view.assignment
    match condition:
        case Condition.OFFLINE:
            return history.since(lambda led: led.leader == NO_LEADER) or _entered(partition, "OfflinePartition")
        case Condition.WAITING:
            return _entered(partition, "NewPartition")
        case Condition.UNDER_MIN_ISR | Condition.AT_MIN_ISR:
            return history.since(lambda led: len(led.isr) <= len(partition.isr))
        case Condition.UNDER_REPLICATED:
            return history.since(lambda led: not set(assignment.origin) <= set(led.isr))
        case Condition.NON_PREFERRED:
            return history.since(lambda led: led.leader != assignment.replicas[0])
        case Condition.DELETING:
            return partition.question.deletion_request(partition.tp.topic)
        case Condition.REASSIGNING:
            return next((each.entry for each in history.assignments if not each.is_loaded), None)
        case _:
            return None


def _entered(partition: PartitionQuestion, state: str) -> RecentRecord | None:
    """Return the record of the change into the present state, if that is the given one."""
    latest = next(iter(partition.history.states), None)
    return latest.entry if latest is not None and latest.after == state and not latest.is_loaded else None


def _headline(partition: PartitionQuestion, condition: Condition, since: RecentRecord | None) -> str:
    """One sentence; conditions that require an action are in capitals."""
    text = f"{partition.tp} {_predicate(partition, condition)}"
    duration = partition.question.duration_text(since)
    return f"{text}{duration}" if duration else text.rstrip(",")


def _predicate(partition: PartitionQuestion, condition: Condition) -> str:
    assignment, tp = partition.view.assignment, partition.tp
    in_sync = f"{len(partition.isr)} of {len(assignment.origin)} replicas in sync"
    match condition:
        case Condition.OFFLINE:
            return "is OFFLINE"
        case Condition.WAITING:
            return "is WAITING for its first leader"
        case Condition.UNDER_MIN_ISR:
            return f"is UNDER MIN ISR and takes no writes with acks=all ({in_sync}, {partition.min_isr} needed)"
        case Condition.AT_MIN_ISR:
            return f"is AT MIN ISR ({in_sync}: no other may fail)"
        case Condition.UNDER_REPLICATED:
            return f"is UNDER-REPLICATED ({in_sync})"
        case Condition.QUARANTINED:
            path, _ = partition.question.snapshot.quarantine_of(tp.topic, tp.partition) or ("a znode", "")
            return f"is LEFT ALONE: {path} cannot be understood"
        case Condition.DELETING:
            return "is BEING DELETED"
        case Condition.REASSIGNING:
            return f"is being reassigned from {ids(assignment.origin)} to {ids(assignment.target)}"
        case Condition.NON_PREFERRED:
            return f"is led by broker {partition.leader}, not by its preferred replica {assignment.replicas[0]},"
        case _:
            return f"is healthy, led by broker {partition.leader}"


def _facts(partition: PartitionQuestion) -> list[str]:
    """``replicas 3,5,6   isr 5   leader -1 (was 5, epoch 41)   unclean election: disabled (topic)``."""
    assignment = partition.view.assignment
    facts = [f"replicas {ids(assignment.replicas)}"]
    if assignment.is_being_reassigned:
        facts.append(f"adding {ids(assignment.adding)}   removing {ids(assignment.removing)}")
    settings = partition.question.inputs.settings_of(partition.tp.topic)
    return ["   ".join([*facts, f"isr {ids(partition.isr)}", _leader(partition), *settings])]


def _leader(partition: PartitionQuestion) -> str:
    leadership = partition.view.leadership
    if leadership is None:
        return "leader none yet"
    before = next((led for led in partition.history.leaderships if led.leader != NO_LEADER), None)
    if leadership.leader == NO_LEADER and before is not None:
        return f"leader -1 (was {before.leader}, epoch {before.leader_epoch})"
    return f"leader {leadership.leader} (epoch {leadership.leader_epoch})"


# -- reassignment ------------------------------------------------------------------------------------------------------


def diagnose_reassignment(partition: PartitionQuestion, diagnosis: Diagnosis) -> None:
    """Explain which added replicas have not caught up, or why the last step has not been taken."""
    target = partition.view.assignment.target
    behind = [broker for broker in target if broker not in partition.isr]
    for broker in behind:
        diagnosis.add_causes(*_why_behind(partition, broker))
    if not behind:
        diagnosis.add_causes(_why_not_complete(partition, target))
    diagnosis.add_broker_remedies()
    if diagnosis.has_cause("reassignment-target-down"):
        diagnosis.add_steps("or cancel the reassignment:", f"controllerctl reassign cancel {partition.tp}")
    if diagnosis.has_cause("reassignment-target-down", "reassignment-refused"):
        diagnosis.raise_severity(WARNING)


def _why_behind(partition: PartitionQuestion, broker: BrokerId) -> Sequence[Cause | None]:
    down = why_not_online(partition, broker)
    if down is not None:
        text = f"the reassignment of {partition.tp} is stuck: its target broker {broker} is not online"
        return cause("reassignment-target-down", text, broker=broker), down
    text = f"the reassignment of {partition.tp} waits for replica {broker} to join the ISR"
    return why_requests_fail(partition, broker), cause("reassignment-waits-for-isr", text, broker=broker)


def _why_not_complete(partition: PartitionQuestion, target: tuple[BrokerId, ...]) -> Cause:
    """Explain a reassignment whose whole target is in sync."""
    if target and len(causes_offline(partition, target)) == len(target):
        text = f"its targets {ids(target)} are in sync, but none is online: it completes when one of them is"
        return cause("reassignment-target-down", text, broker=target[0])
    refused = next((each for each in partition.history.refusals if each.what.startswith("reassignment")), None)
    if refused is not None:
        text = f"its last step was refused at {partition.question.at(refused.entry)}: {refused.reason}"
        return cause("reassignment-refused", text, since=refused.entry)
    return cause("reassignment-ending", "all its targets are in sync: the last step follows")
