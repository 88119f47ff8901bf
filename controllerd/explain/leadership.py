"""Explanations of leaders that are missing, not preferred or shutting down, and of replicas outside the ISR."""

import re
from typing import Final

from controllerd.core.imbalance import is_imbalanced
from controllerd.core.intents import AUTO_REBALANCE, drain_of
from controllerd.core.model import OUR_IDS, BrokerId, LeaderRecoveryState
from controllerd.core.sanitizer import names_us
from controllerd.explain.answers import Cause, Condition, Diagnosis, brokers_of, cause, ids, one_line, span
from controllerd.explain.brokers import came_back, causes_offline, why_not_online, why_requests_fail, why_shutting_down
from controllerd.explain.history import PastRefusal, Steps
from controllerd.explain.inputs import PartitionQuestion, Question, UncleanSetting
from controllerd.views import describe_pause

RECENT_MS: Final = 24 * 3_600_000
"""An unclean election is a warning for this time; afterwards only while the leader recovers."""
_PERCENT: Final = 100
_NOTHING_ELSE: Final = re.compile(r"no replica is electable: isr \[[\d, ]*\], online \[[\d, ]*\]")
"""The refusal for the sole reason that no in-sync replica is alive."""
_ELECTIONS: Final = ("election Offline", "initial leadership")


# -- no leader ---------------------------------------------------------------------------------------------------------


def diagnose_offline(partition: PartitionQuestion, diagnosis: Diagnosis) -> None:
    """Explain a partition that has a state znode and no leader."""
    online = _online_replicas(partition)
    electable = [broker for broker in online if broker in partition.isr]
    if electable:
        _explain_refusal(partition, diagnosis, electable)
    elif online:
        _explain_isr(partition, diagnosis, online)
    else:
        _explain_all_offline(partition, diagnosis)


def diagnose_waiting(partition: PartitionQuestion, diagnosis: Diagnosis) -> None:
    """Explain a new partition: the first of its replicas that is alive becomes the leader."""
    replicas, online = partition.replicas, _online_replicas(partition)
    if online and names_us(partition.view.assignment):
        _explain_counted_controllerd(partition, diagnosis)
    elif online:
        refused = _refused(partition)
        if refused is None:
            diagnosis.add_causes(cause("election-pending", "the write of its first leader follows"))
        else:
            diagnosis.add_causes(cause("election-refused", one_line(refused.reason), since=refused.entry))
    elif all(broker in OUR_IDS for broker in replicas):
        diagnosis.add_causes(*causes_offline(partition, replicas))
        diagnosis.add_steps("start a broker: it gets the replica")
    else:
        text = f"none of its replicas {ids(replicas)} is alive: the first one to start becomes the leader"
        diagnosis.add_causes(cause("no-live-replica", text), *causes_offline(partition, replicas))
        other = "" if _has_started(partition) else ", or delete the topic and create it on live brokers"
        diagnosis.add_steps(f"start any of the brokers {ids(replicas)}{other}")


def _explain_counted_controllerd(partition: PartitionQuestion, diagnosis: Diagnosis) -> None:
    """Explain a partition that a broker created with one replica more than there are live brokers (ADR 0033)."""
    text = (
        "it was created by counting controllerd among the live brokers, and no live broker is left to take that "
        "replica: clients get LEADER_NOT_AVAILABLE until one comes"
    )
    ours = tuple(broker for broker in partition.replicas if broker in OUR_IDS)
    diagnosis.add_causes(cause("counts-controllerd", text), *causes_offline(partition, ours))
    diagnosis.add_steps("start another broker: it gets the replica, and the partition gets a leader")
    if not _has_started(partition):
        diagnosis.add_steps("or delete the topic, and create it with fewer replicas")


def _has_started(partition: PartitionQuestion) -> bool:
    """Whether a partition of the topic has ever had a leader, so that the topic may contain records."""
    topic = partition.question.snapshot.topics.get(partition.tp.topic)
    return topic is not None and any(each.leadership is not None for each in topic.partitions)


def _explain_refusal(partition: PartitionQuestion, diagnosis: Diagnosis, electable: list[BrokerId]) -> None:
    """Explain a partition with a live in-sync replica: an election is due, or was refused."""
    question, refused = partition.question, _refused(partition)
    if refused is None:
        text = f"{brokers_of(electable)} can lead: the election follows"
        diagnosis.add_causes(cause("election-pending", text))
        diagnosis.add_steps("controllerctl status" if question.is_observing else "controllerctl get queue")
        return
    text = f"the election was refused at {question.clock(refused.entry.at_ms)}: {one_line(refused.reason)}"
    diagnosis.add_causes(cause("election-refused", text, since=refused.entry))
    diagnosis.add_steps("correct the problem that the refusal names; then", partition.elect_command("preferred"))


def _explain_isr(partition: PartitionQuestion, diagnosis: Diagnosis, online: list[BrokerId]) -> None:
    """Explain a partition whose live replicas are outside the ISR: none is known to have every record."""
    added = set(partition.view.assignment.adding)
    lagging = [broker for broker in online if broker not in added]
    is_added_first = online[0] in added
    down = causes_offline(partition, partition.isr)
    alive = f"{ids(online)} {'are' if len(online) > 1 else 'is'} alive but not in the ISR"
    diagnosis.add_causes(*down, _why_not_unclean(partition, alive))
    if is_added_first:  # an unclean election takes the first live replica, even an almost empty one
        how = f"but would be elected before {ids(lagging)}" if lagging else "and is the only one alive"
        text = f"{online[0]} is being added and may be almost empty, {how}"
        diagnosis.add_causes(cause("replica-being-added", text, broker=online[0]))
    back = f"bring {brokers_of(partition.isr)} back{_repair_hint(down)}, or accept data loss"
    if is_added_first and lagging:
        cancel = f"controllerctl reassign cancel {partition.tp}"
        back = f"{back}, after a cancellation of the reassignment"
        diagnosis.add_steps(f"{back}:", cancel, partition.elect_command("unclean"))
    else:
        diagnosis.add_steps(f"{back}:", partition.elect_command("unclean"))


def _why_not_unclean(partition: PartitionQuestion, alive: str) -> Cause:
    topic, refused = partition.tp.topic, _refused(partition)
    if refused is not None and not _NOTHING_ELSE.fullmatch(refused.reason):
        text = f"{alive}; an unclean election was refused: {one_line(refused.reason)}"
        return cause("unclean-refused", text, since=refused.entry)
    unclean = partition.question.inputs.unclean(topic)
    if unclean is not None and unclean.is_allowed:
        text = f"{alive}; unclean election is enabled now, and follows"
        return cause("unclean-election-pending", text)
    code, why = _unclean_off(unclean, topic)
    return cause(code, f"{alive}; unclean election {why}")


def _unclean_off(unclean: UncleanSetting | None, topic: str) -> tuple[str, str]:
    if unclean is None:
        return "unclean-off", "was not allowed at the last attempt"
    if unclean.origin == "topic":
        return "unclean-off-topic", f"is disabled by the topic {topic}: unclean.leader.election.enable=false"
    if unclean.awaited:
        have = "has" if len(unclean.awaited) == 1 else "have"
        why = f"is off until {brokers_of(unclean.awaited)} {have} answered whether it is allowed"
        return "unclean-awaits-brokers", why
    return "unclean-off-cluster", "is disabled by the cluster's default: unclean.leader.election.enable=false"


def _explain_all_offline(partition: PartitionQuestion, diagnosis: Diagnosis) -> None:
    replicas = partition.replicas
    down = causes_offline(partition, replicas)
    if len(replicas) == 1:
        diagnosis.add_causes(*down)
        diagnosis.add_steps(f"bring {brokers_of(replicas)} back{_repair_hint(down)}: no other broker has a copy")
        return
    diagnosis.add_causes(cause("all-replicas-down", f"none of its replicas {ids(replicas)} is online"), *down)
    have = "it has" if len(partition.isr) == 1 else "they have"
    diagnosis.add_steps(f"bring {brokers_of(partition.isr)} back first{_repair_hint(down)}: {have} every record")


def _repair_hint(down: list[Cause]) -> str:
    """Return the extra step for a broker that is alive and cannot serve its replica."""
    if any(why.code == "log-dir-failed" for why in down):
        return " (repair its log directory and restart it; with an empty one every record is lost)"
    return ""


def _online_replicas(partition: PartitionQuestion) -> list[BrokerId]:
    return [broker for broker in partition.replicas if why_not_online(partition, broker) is None]


def _refused(partition: PartitionQuestion) -> PastRefusal | None:
    """Return the last refused election since the partition had a leader."""
    history = partition.history
    led = next((each.entry.number for each in history.leaderships if each.leader >= 0), 0)
    refused = (each for each in history.refusals if each.what in _ELECTIONS and each.entry.number > led)
    return next(refused, None)


# -- not the preferred leader ------------------------------------------------------------------------------------------


def diagnose_non_preferred(partition: PartitionQuestion, diagnosis: Diagnosis) -> Steps[None]:
    """Explain why the preferred replica does not lead."""
    question, preferred = partition.question, partition.replicas[0]
    down = why_not_online(partition, preferred)
    if down is not None:
        diagnosis.add_causes(down)
    else:
        pause = next((name for name in (AUTO_REBALANCE, drain_of(preferred)) if name in question.snapshot.pauses), None)
        if pause is not None:
            diagnosis.add_causes(_paused(question, pause, preferred))
            diagnosis.add_steps(f"controllerctl resume {pause}")
        else:
            diagnosis.add_causes((yield from _why_not_yet(question, preferred)))
        diagnosis.add_steps(partition.elect_command("preferred"))
    diagnosis.add_broker_remedies()


def diagnose_unelectable_preferred(partition: PartitionQuestion, diagnosis: Diagnosis) -> None:
    """Add to a worse condition that, because of it, the preferred replica cannot lead."""
    preferred = next(iter(partition.replicas), None)
    if preferred is not None and is_imbalanced(partition.view) and preferred not in partition.isr:
        isr = ids(partition.isr)
        text = f"preferred replica {preferred} does not lead {partition.tp}: it is not in the ISR {isr}"
        diagnosis.add_causes(cause("preferred-not-in-isr", text, broker=preferred))


def _paused(question: Question, name: str, preferred: BrokerId) -> Cause:
    pause = one_line(describe_pause(question.snapshot.pauses[name]))
    if name == AUTO_REBALANCE:
        return cause("auto-rebalance-paused", f"the automatic rebalance is {pause}", broker=preferred)
    text = f"broker {preferred} is drained and does not become leader again: {pause}"
    return cause("broker-drained", text, broker=preferred)


def _why_not_yet(question: Question, preferred: BrokerId) -> Steps[Cause]:
    """Explain a preferred replica that could lead at once: the automatic rebalance runs every few minutes."""
    policy = question.inputs.policy
    able = f"replica {preferred} is in sync and could lead"
    if question.is_observing:
        text = f"{able}: the controller's automatic rebalance elects it, if enabled and if the imbalance is too high"
        return cause("rebalance-by-controller", text, broker=preferred)
    if not policy.auto_leader_rebalance_enable:
        text = f"{able}: the automatic rebalance is off (auto.leader.rebalance.enable=false)"
        return cause("auto-rebalance-off", text, broker=preferred)
    share, limit = (yield from imbalance_of(question, preferred)), policy.leader_imbalance_per_broker_percentage
    if share * _PERCENT <= limit:
        text = f"{able}; only {share:.1%} of broker {preferred}'s partitions are led by others"
        rule = f"rebalanced above {limit}% (leader.imbalance.per.broker.percentage)"
        return cause("imbalance-tolerated", f"{text}, {rule}", broker=preferred)
    every = span(policy.leader_imbalance_check_interval_s)
    return cause("rebalance-due", f"{able}: the automatic rebalance elects it within {every}", broker=preferred)


def imbalance_of(question: Question, broker: BrokerId) -> Steps[float]:
    """Return the share (0 to 1) of the partitions with this preferred replica that other brokers lead."""
    preferred = led_by_others = 0
    for name, topic in list(question.snapshot.topics.items()):
        if topic.is_hidden or name not in question.snapshot.topics:
            continue
        for view in topic.partitions:
            replicas = view[2][0]  # by index: there may be 100,000 partitions
            if replicas and replicas[0] == broker:
                preferred += 1
                led_by_others += view[3] is not None and view[3][0] != broker
        yield
    return led_by_others / preferred if preferred else 0.0


# -- a leader in controlled shutdown -----------------------------------------------------------------------------------


def diagnose_leader_shutdown(partition: PartitionQuestion, diagnosis: Diagnosis) -> None:
    """Put the controlled shutdown of the leader before all other causes: an operator can still act.

    A broker in controlled shutdown leads only the partitions for which no other leader could be elected.
    """
    question, leader = partition.question, partition.leader
    if leader not in question.snapshot.shutting_down:
        return
    leaving = why_shutting_down(question, leader).sentence.removeprefix("broker ")
    text = f"leader {leaving} and no other member of the ISR can lead: the partition is offline when it stops"
    diagnosis.causes.insert(0, cause("leader-shutting-down", text, broker=leader))
    behind = [broker for broker in partition.view.assignment.origin if broker not in partition.isr]
    if behind:
        replicas = f"{'replica' if len(behind) == 1 else 'one of the replicas'} {ids(behind)}"
        diagnosis.next.insert(0, f"let broker {leader} run until {replicas} is in sync")
        return
    diagnosis.next[:0] = [
        f"give it a replica on another broker before broker {leader} stops:",
        f"controllerctl reassign plan --topics {partition.tp.topic} --from {leader}",
    ]


# -- replicas outside the ISR ------------------------------------------------------------------------------------------


def diagnose_replication(partition: PartitionQuestion, diagnosis: Diagnosis) -> None:
    """Explain which replicas are missing in the ISR, and why."""
    isr, replicas, topic = partition.isr, partition.view.assignment.origin, partition.tp.topic
    missing = [broker for broker in replicas if broker not in isr]
    if len(isr) == 1:
        text = f"broker {isr[0]} alone has every record: if it fails, the partition is offline"
        diagnosis.add_causes(cause("isr-of-one", text, broker=isr[0]))
    for broker in missing:
        down = why_not_online(partition, broker) or why_requests_fail(partition, broker)
        diagnosis.add_causes(down or _lagging(partition, broker))
    if not missing and diagnosis.condition == Condition.UNDER_MIN_ISR:
        needed, have = partition.min_isr, len(replicas)
        text = f"all its replicas are in sync, but they are too few: {have} where min.insync.replicas is {needed}"
        diagnosis.add_causes(cause("min-isr-above-replicas", text))
        plan = f"controllerctl reassign plan --topics {topic} --rf {needed} -f plan.json"
        diagnosis.add_steps("give the topic more replicas:", plan)
        diagnosis.add_steps("or lower its min.insync.replicas with kafka-configs.sh")
    diagnosis.add_broker_remedies()


def _lagging(partition: PartitionQuestion, broker: BrokerId) -> Cause:
    """Explain a live replica that answers the controller: it has not fetched up to the leader's log end offset."""
    question, left = partition.question, partition.history.since(lambda led: broker not in led.isr)
    back = came_back(question, broker)
    if back is not None and (left is None or left.number < back.number):
        since = question.clock(back.at_ms)
        text = f"broker {broker} is back since {since} and catches up with leader {partition.leader}"
        return cause("replica-catching-up", text, broker=broker, since=back)
    when = f" since {question.at(left)}" if left is not None else ""
    unknown = " (or lost its log directory, which ZooKeeper does not show)" if question.is_observing else ""
    text = f"broker {broker} is alive and lags behind leader {partition.leader}{unknown}: outside the ISR{when}"
    return cause("replica-lagging", text, broker=broker, since=left)


def diagnose_unclean(partition: PartitionQuestion, diagnosis: Diagnosis) -> None:
    """Warn of an election outside the ISR that the recent records or the partition state show."""
    leadership, question = partition.view.leadership, partition.question
    lost = next((election for election in partition.history.elections if election.unclean), None)
    if lost is not None and question.inputs.now_ms - lost.entry.at_ms <= RECENT_MS:
        text = f"broker {lost.leader} was elected outside the ISR at {question.clock(lost.entry.at_ms)}"
        text += ": records may be lost"
        diagnosis.add_causes(cause("unclean-election", text, broker=lost.leader, since=lost.entry))
        diagnosis.add_steps("inform the owners of the topic: records acknowledged before that time may be lost")
    elif leadership is not None and leadership.recovery_state is LeaderRecoveryState.RECOVERING:
        text = f"{partition.tp} is led by a broker elected outside the ISR, and recovers: records may be lost"
        diagnosis.add_causes(cause("unclean-election", text))
