"""The sentences of ``controllerctl replay why``, and parts of them."""

from collections.abc import Sequence

from controllerd.record.moments import moment
from replay.command.partition_history import EventEffects, LeaderPeriod, UnfinishedTerm


def how_leader_was_lost(before: LeaderPeriod | None, period: LeaderPeriod) -> str:
    """Say how the partition lost its leader."""
    where = f" at {moment(period.at.ts_ms)}{in_event(period.effects)}"
    if before is None or not before.exists:
        return f"The log knows it only without a leader, first{where}."
    leader, effects = before.leader, period.effects
    if period.is_from_snapshot:
        return f"The snapshot of {moment(period.at.ts_ms)} shows it so; when broker {leader} ceased to lead it is lost."
    if leader in effects.gone:
        return f"Broker {leader}, its leader, left the cluster{where}."
    if leader in effects.shutting_down:
        return f"Broker {leader}, its leader, was shutting down{where}."
    if leader in effects.failed_dirs:
        return f"A log directory of broker {leader}, its leader, failed{where}."
    if effects.is_deleting:
        return f"The deletion of its topic took it from broker {leader}{where}."
    if leader not in period.live:
        return f"Broker {leader}, its leader, was not there when this term began{where}."
    return f"Broker {leader} ceased to lead it{where}."


def condition(broker: int, period: LeaderPeriod, isr: set[int]) -> str:
    """Say why this replica could not become the leader."""
    presence = "shutting down" if broker in period.shutting_down else "live" if broker in period.live else "not live"
    return f"was {presence} and {'in the ISR' if broker in isr else 'not in the ISR ' + ids(sorted(isr))}"


def how_leader_was_found(following: LeaderPeriod) -> str:
    """Say how the partition got the next leader."""
    if following.is_from_snapshot:
        then = f"broker {following.leader} leads it" if following.exists else "the partition is gone"
        return f"It ended unseen: in the snapshot of {moment(following.at.ts_ms)} {then}."
    where = f" at {moment(following.at.ts_ms)}{in_event(following.effects)}"
    if not following.exists:
        return f"It ended when the partition was deleted{where}."
    cause = _arrival(following)
    kind = "an unclean election: records that only other replicas had are lost" if following.unclean else "a clean one"
    by = f" by the strategy {following.strategy}, {kind}" if following.strategy is not None else ""
    return f"It ended{cause}: broker {following.leader} was elected{where}{by}."


def _arrival(following: LeaderPeriod) -> str:
    if following.leader in following.effects.come:
        return f" when broker {following.leader} came back"
    if following.effects.come:
        return f" when broker {words(following.effects.come)} came"
    return ""


def reason_of_change(before: LeaderPeriod, period: LeaderPeriod) -> str:
    """Say why another broker leads; empty if the log does not show it."""
    if before.leader in period.effects.gone:
        return ", and left the cluster"
    if before.leader in period.effects.shutting_down:
        return ", and was shutting down"
    return f"; the strategy was {period.strategy}" if period.strategy is not None else ""


def in_event(effects: EventEffects) -> str:
    """Return the event in parentheses."""
    return f" (event {effects.event} {effects.name})" if effects.name else ""


def term_without_end(unfinished: UnfinishedTerm) -> str:
    """Return the sentence about a time in which the controller may have been down."""
    last, over = unfinished.last, unfinished.over
    return (
        f"The controller of epoch {last.epoch}, node {last.node}, wrote nothing after {moment(last.ts_ms)} and did not"
        f" end its term; the next record is of {moment(over.ts_ms)}: what happened in between is not in these logs."
    )


def ids(brokers: Sequence[int]) -> str:
    """Return brokers as an ISR is written."""
    return f"[{', '.join(map(str, brokers))}]"


def words(brokers: Sequence[int]) -> str:
    """Return brokers as part of a sentence."""
    return " and ".join(map(str, brokers))
