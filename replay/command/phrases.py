"""The sentences of ``why``, and parts of them."""

from collections.abc import Sequence

from controllerd.record.moments import moment
from replay.command.partition_history import EventEffects, LeaderPeriod, UnfinishedTerm


def how_leader_was_lost(before: LeaderPeriod | None, turn: LeaderPeriod) -> str:
    """How the partition lost its leader."""
    where = f" at {moment(turn.at.ts_ms)}{in_event(turn.scene)}"
    if before is None or not before.exists:
        return f"The log knows it only without a leader, first{where}."
    leader, scene = before.leader, turn.scene
    if turn.is_made_up_for:
        return f"The snapshot of {moment(turn.at.ts_ms)} shows it so; when broker {leader} ceased to lead it is lost."
    if leader in scene.gone:
        return f"Broker {leader}, its leader, left the cluster{where}."
    if leader in scene.shutting_down:
        return f"Broker {leader}, its leader, was shutting down{where}."
    if leader in scene.failed_dirs:
        return f"A log directory of broker {leader}, its leader, failed{where}."
    if scene.is_deleting:
        return f"The deletion of its topic took it from broker {leader}{where}."
    if leader not in turn.live:
        return f"Broker {leader}, its leader, was not there when this term began{where}."
    return f"Broker {leader} ceased to lead it{where}."


def condition(broker: int, turn: LeaderPeriod, isr: set[int]) -> str:
    """Why this replica could not take over."""
    presence = "shutting down" if broker in turn.shutting_down else "live" if broker in turn.live else "not live"
    return f"was {presence} and {'in the ISR' if broker in isr else 'not in the ISR ' + ids(sorted(isr))}"


def how_leader_was_found(following: LeaderPeriod) -> str:
    """How it got the next leader."""
    if following.is_made_up_for:
        then = f"broker {following.leader} leads it" if following.exists else "the partition is gone"
        return f"It ended unseen: in the snapshot of {moment(following.at.ts_ms)} {then}."
    where = f" at {moment(following.at.ts_ms)}{in_event(following.scene)}"
    if not following.exists:
        return f"It ended when the partition was deleted{where}."
    cause = _arrival(following)
    kind = "an unclean election: records that only other replicas had are lost" if following.unclean else "a clean one"
    by = f" by the strategy {following.strategy}, {kind}" if following.strategy is not None else ""
    return f"It ended{cause}: broker {following.leader} was elected{where}{by}."


def _arrival(following: LeaderPeriod) -> str:
    if following.leader in following.scene.come:
        return f" when broker {following.leader} came back"
    if following.scene.come:
        return f" when broker {words(following.scene.come)} came"
    return ""


def reason_of_change(before: LeaderPeriod, turn: LeaderPeriod) -> str:
    """Why another broker leads; empty if the log does not say."""
    if before.leader in turn.scene.gone:
        return ", and left the cluster"
    if before.leader in turn.scene.shutting_down:
        return ", and was shutting down"
    return f"; the strategy was {turn.strategy}" if turn.strategy is not None else ""


def in_event(scene: EventEffects) -> str:
    """The event, in parentheses."""
    return f" (event {scene.event} {scene.name})" if scene.name else ""


def term_without_end(silence: UnfinishedTerm) -> str:
    """The sentence about a time in which a controller may have been gone."""
    last, over = silence.last, silence.over
    return (
        f"The controller of epoch {last.epoch}, node {last.node}, wrote nothing after {moment(last.ts_ms)} and did not"
        f" end its term; the next word is of {moment(over.ts_ms)}: what happened in between is not in these logs."
    )


def ids(brokers: Sequence[int]) -> str:
    """As an ISR is written."""
    return f"[{', '.join(map(str, brokers))}]"


def words(brokers: Sequence[int]) -> str:
    """In a sentence."""
    return " and ".join(map(str, brokers))
