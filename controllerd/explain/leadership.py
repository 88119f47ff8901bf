"""Explanations of leaders that are missing, not preferred or leaving, and of replicas that are out of the ISR."""

import re
from typing import Final

from controllerd.core.imbalance import is_imbalanced
from controllerd.core.intents import AUTO_REBALANCE, drain_of
from controllerd.core.model import OUR_IDS, BrokerId, LeaderRecoveryState
from controllerd.core.sanitizer import names_us
from controllerd.explain.answers import Cause, Condition, Diagnosis, brokers_of, cause, ids, one_line, span
from controllerd.explain.brokers import came_back, causes_offline, why_leaving, why_not_obeying, why_not_online
from controllerd.explain.history import PastRefusal, Steps
from controllerd.explain.inputs import PartitionQuestion, Question, UncleanSetting
from controllerd.views import say_pause

RECENT_MS: Final = 24 * 3_600_000
"""For so long after an unclean election it is a warning; later on, only for as long as the leader recovers."""
_PERCENT: Final = 100
_NOTHING_ELSE: Final = re.compile(r"no replica is electable: isr \[[\d, ]*\], online \[[\d, ]*\]")
"""The refusal that says that no in-sync replica is alive, and nothing else."""
_ELECTIONS: Final = ("election Offline", "initial leadership")


# -- no leader ---------------------------------------------------------------------------------------------------------


def diagnose_offline(partition: PartitionQuestion, diagnosis: Diagnosis) -> None:
    """Explain a partition that has a state and no leader."""
    online = _online(partition)
    electable = [broker for broker in online if broker in partition.isr]
    if electable:
        _explain_refusal(partition, diagnosis, electable)
    elif online:
        _explain_isr(partition, diagnosis, online)
    else:
        _explain_all_down(partition, diagnosis)


def diagnose_waiting(partition: PartitionQuestion, diagnosis: Diagnosis) -> None:
    """Explain a new partition: the first of its replicas that is alive will lead."""
    replicas, online = partition.replicas, _online(partition)
    if online and names_us(partition.view.assignment):
        _explain_counted(partition, diagnosis)
    elif online:
        refused = _refused(partition)
        if refused is None:
            diagnosis.because(cause("election-pending", "its first leader is about to be written"))
        else:
            diagnosis.because(cause("election-refused", one_line(refused.reason), since=refused.entry))
    elif all(broker in OUR_IDS for broker in replicas):
        diagnosis.because(*causes_offline(partition, replicas))
        diagnosis.advise("start a broker: it gets the replica")
    else:
        text = f"none of its replicas {ids(replicas)} is alive: the first that comes leads, and nobody else may"
        diagnosis.because(cause("no-live-replica", text), *causes_offline(partition, replicas))
        other = "" if _has_started(partition) else ", or delete the topic and create it on live brokers"
        diagnosis.advise(f"start any of the brokers {ids(replicas)}{other}")


def _explain_counted(partition: PartitionQuestion, diagnosis: Diagnosis) -> None:
    """Explain a partition that a broker created with one replica more than there are live brokers (ADR 0033)."""
    text = (
        "it was created by counting controllerd among the live brokers, and no live broker is left to take that "
        "replica: clients get LEADER_NOT_AVAILABLE until one comes"
    )
    ours = tuple(broker for broker in partition.replicas if broker in OUR_IDS)
    diagnosis.because(cause("counts-controllerd", text), *causes_offline(partition, ours))
    diagnosis.advise("start another broker: it gets the replica, and the partition gets a leader")
    if not _has_started(partition):
        diagnosis.advise("or delete the topic, and create it with fewer replicas")


def _has_started(partition: PartitionQuestion) -> bool:
    """Whether a partition of the topic has had a leader, so that the topic may hold records."""
    topic = partition.question.snapshot.topics.get(partition.tp.topic)
    return topic is not None and any(each.leadership is not None for each in topic.partitions)


def _explain_refusal(partition: PartitionQuestion, diagnosis: Diagnosis, electable: list[BrokerId]) -> None:
    """Explain a partition with a live in-sync replica: an election is due, or was refused."""
    question, refused = partition.question, _refused(partition)
    if refused is None:
        text = f"{brokers_of(electable)} can lead: the election has not been held yet"
        diagnosis.because(cause("election-pending", text))
        diagnosis.advise("controllerctl status" if question.is_watching else "controllerctl get queue")
        return
    text = f"the election was refused at {question.clock(refused.entry.at_ms)}: {one_line(refused.reason)}"
    diagnosis.because(cause("election-refused", text, since=refused.entry))
    diagnosis.advise("remove what the refusal names; then", partition.elect("preferred"))


def _explain_isr(partition: PartitionQuestion, diagnosis: Diagnosis, online: list[BrokerId]) -> None:
    """Explain a partition whose live replicas are out of the ISR: none is known to have every record."""
    added = set(partition.view.assignment.adding)
    lagging = [broker for broker in online if broker not in added]
    is_newcomer_first = online[0] in added
    down = causes_offline(partition, partition.isr)
    alive = f"{ids(online)} {'are' if len(online) > 1 else 'is'} alive but not in the ISR"
    diagnosis.because(*down, _why_not_unclean(partition, alive))
    if is_newcomer_first:  # an unclean election takes the first live replica, even one that has copied next to nothing
        how = f"but would be elected before {ids(lagging)}" if lagging else "and is the only one alive"
        text = f"{online[0]} is being added and may have next to nothing, {how}"
        diagnosis.because(cause("replica-being-added", text, broker=online[0]))
    back = f"bring {brokers_of(partition.isr)} back{_repairs(down)}, or accept data loss"
    if is_newcomer_first and lagging:
        cancel = f"controllerctl reassign cancel {partition.tp}"
        diagnosis.advise(f"{back}, after the reassignment was given up:", cancel, partition.elect("unclean"))
    else:
        diagnosis.advise(f"{back}:", partition.elect("unclean"))


def _why_not_unclean(partition: PartitionQuestion, alive: str) -> Cause:
    topic, refused = partition.tp.topic, _refused(partition)
    if refused is not None and not _NOTHING_ELSE.fullmatch(refused.reason):
        text = f"{alive}; an unclean election was refused: {one_line(refused.reason)}"
        return cause("unclean-refused", text, since=refused.entry)
    unclean = partition.question.inputs.unclean(topic)
    if unclean is not None and unclean.is_allowed:
        text = f"{alive}; unclean election is enabled by now, and has not been held yet"
        return cause("unclean-election-pending", text)
    code, why = _unclean_off(unclean, topic)
    return cause(code, f"{alive}; unclean election {why}")


def _unclean_off(unclean: UncleanSetting | None, topic: str) -> tuple[str, str]:
    if unclean is None:
        return "unclean-off", "was not allowed when it was tried"
    if unclean.origin == "topic":
        return "unclean-off-topic", f"is disabled by the topic {topic}: unclean.leader.election.enable=false"
    if unclean.awaited:
        have = "has" if len(unclean.awaited) == 1 else "have"
        return "unclean-awaits-brokers", f"is off until {brokers_of(unclean.awaited)} {have} said whether it is allowed"
    return "unclean-off-cluster", "is disabled by the cluster's default: unclean.leader.election.enable=false"


def _explain_all_down(partition: PartitionQuestion, diagnosis: Diagnosis) -> None:
    replicas = partition.replicas
    down = causes_offline(partition, replicas)
    if len(replicas) == 1:
        diagnosis.because(*down)
        diagnosis.advise(f"bring {brokers_of(replicas)} back{_repairs(down)}: nobody else has a copy")
        return
    diagnosis.because(cause("all-replicas-down", f"none of its replicas {ids(replicas)} is online"), *down)
    have = "it has" if len(partition.isr) == 1 else "they have"
    diagnosis.advise(f"bring {brokers_of(partition.isr)} back first{_repairs(down)}: {have} every record")


def _repairs(down: list[Cause]) -> str:
    """Return what is to be done about a broker that is alive and cannot serve its replica."""
    if any(why.code == "log-dir-failed" for why in down):
        return " (repair its log directory and restart it; with an empty one every record is lost)"
    return ""


def _online(partition: PartitionQuestion) -> list[BrokerId]:
    return [broker for broker in partition.replicas if why_not_online(partition, broker) is None]


def _refused(partition: PartitionQuestion) -> PastRefusal | None:
    """Return the last refused election since the partition had a leader."""
    history = partition.history
    led = next((each.entry.number for each in history.leaderships if each.leader >= 0), 0)
    refused = (each for each in history.refusals if each.what in _ELECTIONS and each.entry.number > led)
    return next(refused, None)


# -- not the preferred leader ------------------------------------------------------------------------------------------


def diagnose_leader(partition: PartitionQuestion, diagnosis: Diagnosis) -> Steps[None]:
    """Explain what keeps the preferred replica from leading."""
    question, preferred = partition.question, partition.replicas[0]
    down = why_not_online(partition, preferred)
    if down is not None:
        diagnosis.because(down)
    else:
        pause = next((name for name in (AUTO_REBALANCE, drain_of(preferred)) if name in question.snapshot.pauses), None)
        if pause is not None:
            diagnosis.because(_paused(question, pause, preferred))
            diagnosis.advise(f"controllerctl resume {pause}")
        else:
            diagnosis.because((yield from _why_not_yet(question, preferred)))
        diagnosis.advise(partition.elect("preferred"))
    diagnosis.advise_about_brokers()


def diagnose_preferred(partition: PartitionQuestion, diagnosis: Diagnosis) -> None:
    """Say, where something worse is the matter, that the preferred replica cannot lead for that reason."""
    preferred = next(iter(partition.replicas), None)
    if preferred is not None and is_imbalanced(partition.view) and preferred not in partition.isr:
        isr = ids(partition.isr)
        text = f"preferred replica {preferred} does not lead {partition.tp}: it is not in the ISR {isr}"
        diagnosis.because(cause("preferred-not-in-isr", text, broker=preferred))


def _paused(question: Question, name: str, preferred: BrokerId) -> Cause:
    pause = one_line(say_pause(question.snapshot.pauses[name]))
    if name == AUTO_REBALANCE:
        return cause("auto-rebalance-paused", f"the automatic rebalance is {pause}", broker=preferred)
    text = f"broker {preferred} is drained and gets no leaderships back: {pause}"
    return cause("broker-drained", text, broker=preferred)


def _why_not_yet(question: Question, preferred: BrokerId) -> Steps[Cause]:
    """Explain a replica that could lead at once: the rebalance runs every few minutes, where needed and allowed."""
    policy = question.inputs.policy
    able = f"replica {preferred} is in sync and could lead"
    if question.is_watching:
        text = f"{able}: the controller's automatic rebalance elects it, where that is on and the imbalance too great"
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
    """Count the share of the partitions preferred to a broker that others lead (0 to 1), as the rebalance counts."""
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


# -- a leader that leaves ----------------------------------------------------------------------------------------------


def diagnose_leaving(partition: PartitionQuestion, diagnosis: Diagnosis) -> None:
    """Put a leader in controlled shutdown before all other causes: the operator can still keep the partition online.

    A broker that is shutting down leads on only what it could not hand over.
    """
    question, leader = partition.question, partition.leader
    if leader is None or leader not in question.snapshot.shutting_down:
        return
    leaving = why_leaving(question, leader).sentence.removeprefix("broker ")
    text = f"leader {leaving} and nobody else in the ISR can lead: the partition is offline when it stops"
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


# -- replicas out of the ISR -------------------------------------------------------------------------------------------


def diagnose_replication(partition: PartitionQuestion, diagnosis: Diagnosis) -> None:
    """Explain which replicas are missing in the ISR, and why."""
    isr, replicas, topic = partition.isr, partition.view.assignment.origin, partition.tp.topic
    missing = [broker for broker in replicas if broker not in isr]
    if len(isr) == 1:
        text = f"broker {isr[0]} alone has every record: if it fails, the partition is offline"
        diagnosis.because(cause("isr-of-one", text, broker=isr[0]))
    for broker in missing:
        down = why_not_online(partition, broker) or why_not_obeying(partition, broker)
        diagnosis.because(down or _lagging(partition, broker))
    if not missing and diagnosis.condition == Condition.UNDER_MIN_ISR:
        needed, have = partition.min_isr, len(replicas)
        text = f"all its replicas are in sync, and yet too few: {have} where min.insync.replicas asks for {needed}"
        diagnosis.because(cause("min-isr-above-replicas", text))
        plan = f"controllerctl reassign plan --topics {topic} --rf {needed} -f plan.json"
        diagnosis.advise("give the topic more replicas:", plan)
        diagnosis.advise("or lower its min.insync.replicas with kafka-configs.sh")
    diagnosis.advise_about_brokers()


def _lagging(partition: PartitionQuestion, broker: BrokerId) -> Cause:
    """Explain a replica that is alive and obeys: it has not fetched up to the leader's end."""
    question, left = partition.question, partition.history.since(lambda led: broker not in led.isr)
    back = came_back(question, broker)
    if back is not None and (left is None or left.number < back.number):
        since = question.clock(back.at_ms)
        text = f"broker {broker} is back since {since} and catches up with leader {partition.leader}"
        return cause("replica-catching-up", text, broker=broker, since=back)
    when = f" since {question.at(left)}" if left is not None else ""
    unseen = " (or lost its log directory, which ZooKeeper does not tell)" if question.is_watching else ""
    text = f"broker {broker} is alive and lags behind leader {partition.leader}{unseen}: out of the ISR{when}"
    return cause("replica-lagging", text, broker=broker, since=left)


def diagnose_unclean(partition: PartitionQuestion, diagnosis: Diagnosis) -> None:
    """Warn of an election outside the ISR that is remembered, or that the state of the partition shows."""
    leadership, question = partition.view.leadership, partition.question
    lost = next((election for election in partition.history.elections if election.unclean), None)
    if lost is not None and question.inputs.now_ms - lost.entry.at_ms <= RECENT_MS:
        text = f"broker {lost.leader} was elected outside the ISR at {question.clock(lost.entry.at_ms)}"
        text += ": records may be lost"
        diagnosis.because(cause("unclean-election", text, broker=lost.leader, since=lost.entry))
        diagnosis.advise("tell the owners of the topic: what was acknowledged before that time may be gone")
    elif leadership is not None and leadership.recovery_state is LeaderRecoveryState.RECOVERING:
        text = f"{partition.tp} was led on by a broker outside the ISR, and recovers: records may be lost"
        diagnosis.because(cause("unclean-election", text))
