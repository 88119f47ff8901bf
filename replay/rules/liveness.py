"""What must not last: a partition without a leader though somebody could lead it. Pure."""

from collections.abc import Collection, Iterator
from typing import Final

from controllerd.core.model import NO_LEADER, BrokerId, LeaderAndIsr, TopicPartition
from replay.fold import ClusterState
from replay.records import BrokersRecord, EventEnd, LeadershipRecord, SessionRecord, SnapshotEnd, TermRecord
from replay.rules.base import Entry, Rule

LONGEST_NS: Final = 36_000_000_000
"""Twice the session timeout of 18 s."""
_LOOK_EVERY_NS: Final = LONGEST_NS // 6


class LeaderlessPartitionsAreLed(Rule):
    """Liveness, within a term and a session: who is without ZooKeeper can elect nobody.

    Only ends of events are looked at, and not each of them: in between much is half done, and there may be very many
    partitions without a leader whose ISRs are dead.
    """

    id = "I-34"
    title = "a partition with a live ISR member is without a leader for at most 36 s"
    kinds = frozenset({BrokersRecord, EventEnd, LeadershipRecord, SessionRecord, SnapshotEnd, TermRecord})

    def __init__(self) -> None:
        self._leaderless: dict[TopicPartition, int | None] = {}
        """Since when it could have been led; None: it could not when we looked last."""
        self._looked_ns = 0

    def see(self, entry: Entry) -> Iterator[str]:
        record, state = entry.record, entry.state
        if isinstance(record, LeadershipRecord):
            self._see_leaders(record)
        elif isinstance(record, BrokersRecord):
            gone = set(map(BrokerId, record.gone))
            self._leaderless |= dict.fromkeys(_led_by(gone, state)) if gone else {}
        elif isinstance(record, SnapshotEnd):
            led = ((tp, known.leadership) for tp, known in state.partitions())
            self._leaderless = {tp: None for tp, now in led if now is not None and now.leader not in state.brokers}
        elif isinstance(record, SessionRecord | TermRecord):
            self._leaderless = dict.fromkeys(self._leaderless)
        elif state.controller_epoch and self._leaderless and entry.envelope.mono_ns - self._looked_ns >= _LOOK_EVERY_NS:
            self._looked_ns = entry.envelope.mono_ns
            yield from self._look(state, entry.envelope.mono_ns)

    def _see_leaders(self, record: LeadershipRecord) -> None:
        for topic, number, leader in zip(record.topics, record.partitions, record.leaders, strict=True):
            tp = TopicPartition(topic, number)
            if leader == NO_LEADER:
                self._leaderless.setdefault(tp)
            else:
                self._leaderless.pop(tp, None)

    def _look(self, state: ClusterState, now_ns: int) -> Iterator[str]:
        for tp in list(self._leaderless):
            known = state.partition(tp)
            if known is None or known.leadership is None:
                del self._leaderless[tp]
                continue
            candidates = _candidates(tp, known.leadership, state)
            since = self._leaderless[tp]
            if not candidates:
                self._leaderless[tp] = None
            elif since is None:
                self._leaderless[tp] = now_ns
            elif now_ns - since > LONGEST_NS:
                del self._leaderless[tp]
                yield f"{tp} had no leader for {(now_ns - since) / 1e9:.0f} s, though {candidates} could lead it"


def _led_by(gone: Collection[BrokerId], state: ClusterState) -> Iterator[TopicPartition]:
    for tp, known in state.partitions():
        if known.leadership is not None and known.leadership.leader in gone:
            yield tp


def _candidates(tp: TopicPartition, leadership: LeaderAndIsr, state: ClusterState) -> list[BrokerId]:
    """The ISR members that could lead it now; none where it is led, doomed, or in quarantine."""
    topic = f"/brokers/topics/{tp.topic}"
    partition = f"{topic}/partitions/{tp.partition}"
    is_left_alone = not state.quarantine.keys().isdisjoint((topic, partition, tp.state_path))
    if leadership.leader in state.brokers or tp.topic in state.deletions or is_left_alone:
        return []
    live = state.live
    return [broker for broker in leadership.isr if broker in live and tp not in state.offline_dirs.get(broker, ())]
