"""Judges requests at the end of a story: reassignments, topic deletions, elections, pending replica deletions."""

from collections.abc import Iterator
from typing import Final

from tests.sim.oracle_history import History, PartitionHistory
from tests.sim.oracle_seen import AtRest, BrokerAtRest, Key

RULES: Final = {
    "Q-16": "a reassignment whose target is live is complete",
    "Q-17": "/admin/reassign_partitions has only reassignments that wait for a broker",
    "Q-18": "a topic that is to be deleted is gone, or the status has the reason why it waits",
    "Q-19": "no live broker has an unassigned replica, unless it refused to delete it",
    "Q-20": "no request for an election and no notification is left",
    "Q-21": "leaders and ISRs are among the replicas",
    "Q-22": "no deletion at a live broker is pending, unless the broker refused it",
    "Q-23": "where unclean elections are allowed, a partition with a live replica has a leader",
}
_TOPICS: Final = "/brokers/topics/"
_NOTIFICATIONS: Final = ("/log_dir_event_notification/", "/isr_change_notification/")
Found = Iterator[tuple[str, str]]


def judge_requests(history: History, end: AtRest) -> Found:
    """The violations of Q-16 to Q-23."""
    judge = _RequestsJudge(history, end)
    yield from judge.reassignments()
    yield from judge.deletions()
    yield from judge.leftovers()
    for broker in end.brokers:
        yield from judge.disks(broker)


def unusable(history: History, end: AtRest) -> set[tuple[int, Key]]:
    """The brokers and the replicas that they cannot use, which need no leadership, count or placement.

    A replica on a failed log directory is unusable. So is one whose broker has the log of an earlier topic of that
    name, if an operator gave the broker up, it could not delete that log, or it is left alone. A stock broker refuses
    any other topic id with INCONSISTENT_TOPIC_ID for as long as the folder is there (KIP-516). Another broker with
    such a replica that can delete it is no such case: it gets the pending StopReplica before the state of the new
    topic.
    """
    offline = {(broker.id, key) for broker in end.brokers for key in broker.offline}
    return (
        offline
        | {
            (broker.id, key)
            for broker in end.brokers
            for key in broker.conflicting
            if history.asked.is_forgotten(broker.id) or key in broker.refused
        }
        | left_alone(history, end)
    )


def left_alone(history: History, end: AtRest) -> set[tuple[int, Key]]:
    """The brokers with a pending deletion of an earlier topic's replica that count as in sync with the present topic's.

    None of their logs is deleted before an operator has looked at it (ADR 0020). A broker that was registered before
    the present topic was created is not among them: it gets its pending StopReplica before the state of the new topic.
    """
    return {
        (broker.id, key)
        for broker in end.brokers
        for key in history.asked.pending_deletions.get(broker.id, frozenset()) & frozenset(broker.conflicting)
        if (state := history.partition(*key).state) is not None and broker.id in state.isr
        if history.brokers[broker.id].czxid > history.nodes[f"{_TOPICS}{key[0]}"].czxid
    }


class _RequestsJudge:
    def __init__(self, history: History, end: AtRest) -> None:
        self._history = history
        self._asked = history.asked
        self._end = end
        self._live = history.live()
        self._offline = unusable(history, end)
        self._left_alone = left_alone(history, end)
        self._refused = {(broker.id, key) for broker in end.brokers for key in broker.refused}
        self._halted = {topic for each in end.instances if each.is_active for topic, why in each.halted.items() if why}

    def _is_up(self, broker: int, key: Key) -> bool:
        return broker in self._live and (broker, key) not in self._offline

    # -- reassignments -----------------------------------------------------------------------------------------------

    def reassignments(self) -> Found:
        """The violations of Q-16, Q-17, Q-21 and Q-23."""
        for key, partition in sorted(self._history.partitions.items()):
            if partition.replicas is None or partition.state is None:
                continue
            is_marked = key[0] in self._asked.markers
            if partition.is_being_reassigned and not is_marked and not self._waits(key, partition):
                yield "Q-16", f"{_name(key)} is {list(partition.replicas)}, to become {list(partition.target)}"
            if not is_marked:
                yield from self._members(key, partition)
        for key, target in sorted(self._asked.entries.items()):
            partition = self._history.partition(*key)
            if not (partition.is_being_reassigned and partition.target == target and self._waits(key, partition)):
                is_now = f"{partition.replicas} +{partition.adding} -{partition.removing}"
                yield "Q-17", f"{_name(key)} to {list(target)} is still asked for, it is {is_now}"

    def _waits(self, key: Key, partition: PartitionHistory) -> bool:
        """Whether the reassignment must wait until a broker comes back."""
        state = partition.state
        is_led = state is not None and self._is_up(state.leader, key)
        return not is_led or not all(self._is_up(broker, key) for broker in partition.target)

    def _members(self, key: Key, partition: PartitionHistory) -> Found:
        state, replicas = partition.state, partition.replicas or ()
        assert state is not None
        unassigned = [broker for broker in state.isr if broker not in replicas]
        if unassigned:
            yield "Q-21", f"{_name(key)} has {unassigned} in its ISR, the replicas are {list(replicas)}"
        # A replica that is being added has no records yet: no election must choose it.
        alive = [broker for broker in partition.origin if self._is_up(broker, key)]
        if alive and state.leader not in self._live and self._history.allows_unclean_now(key[0]):
            yield "Q-23", f"{_name(key)} is led by {state.leader}, though {alive} of {list(replicas)} are live"

    # -- deletions ---------------------------------------------------------------------------------------------------

    def deletions(self) -> Found:
        """The violations of Q-18."""
        for topic in sorted(self._asked.markers):
            if _TOPICS + topic not in self._history.nodes:
                yield "Q-18", f"the marker of {topic} is left"
            elif not self._deletion_waits(topic):
                yield "Q-18", f"{topic} is not deleted, live are {sorted(self._live)}"
            elif topic not in self._halted:
                yield "Q-18", f"no status has the reason why {topic} is not deleted"

    def _deletion_waits(self, topic: str) -> bool:
        for key, partition in self._history.partitions.items():
            if key[0] != topic or partition.replicas is None:
                continue
            away = {broker for broker in partition.replicas if not self._is_up(broker, key)}
            if partition.is_being_reassigned and self._waits(key, partition):
                return True
            if away - self._asked.given_up or any((broker, key) in self._refused for broker in partition.replicas):
                return True
        return False

    # -- leftovers ---------------------------------------------------------------------------------------------------

    def leftovers(self) -> Found:
        """The violations of Q-20."""
        left = [path for path in self._history.nodes if path.startswith(_NOTIFICATIONS)]
        if self._asked.has_preferred:
            left.append("/admin/preferred_replica_election")
        for path in sorted(left):
            yield "Q-20", f"{path} is left"

    def disks(self, broker: BrokerAtRest) -> Found:
        """The violations of Q-19 and Q-22."""
        pending = self._asked.pending_deletions.get(broker.id, frozenset())
        for key in sorted(broker.logs):
            partition = self._history.partitions.get(key)
            is_assigned = partition is not None and broker.id in (partition.replicas or ())
            if not is_assigned and not (key in pending and key in broker.refused):
                is_pending = "is" if key in pending else "is not"
                yield "Q-19", f"broker {broker.id} has {_name(key)}, whose deletion {is_pending} pending"
        left = {key for key in pending if (broker.id, key) in self._left_alone}
        for key in sorted(pending - {*broker.refused, *broker.offline} - left):
            yield "Q-22", f"the deletion of {_name(key)} at broker {broker.id} is pending"


def _name(key: Key) -> str:
    return f"{key[0]}-{key[1]}"
