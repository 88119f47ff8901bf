"""Judges the writes that follow from requests: reassignments, topic deletions and pending replica deletions."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from tests.sim.oracle_asked import MARKERS, PENDING_DELETIONS, REASSIGNMENTS, entries_of, pending_deletions_of
from tests.sim.oracle_history import NEVER, History, PartitionHistory, assignments_of, document_of
from tests.sim.oracle_seen import OUR_IDS, Key, Operation, Report, Transaction, state_path

RULES: Final = {
    "Z-20": "in an assignment only ids of instances are replaced, each by one broker, unless more was requested",
    "Z-27": "a reassignment leads to what was requested: the target, then the replicas that it leaves out; or back",
    "Z-28": "replicas are removed only after the whole target was in the ISR",
    "Z-29": "an entry leaves /admin/reassign_partitions only when it is done, refused or overridden",
    "Z-30": "nothing of a topic is deleted without a request",
    "Z-31": "a topic is deleted only when no broker has replicas of it, except pending deletions and given-up brokers",
    "Z-32": "the configuration goes after its topic, and the marker last",
    "Z-33": "a pending deletion is cleared only when it is done, or the replica is wanted again",
}
TOPICS: Final = "/brokers/topics/"
CONFIGS: Final = "/config/topics/"
DELETABLE: Final = (
    TOPICS,
    CONFIGS,
    MARKERS,
    PENDING_DELETIONS,
    "/admin/reassign_partitions",
    "/admin/preferred_replica_election",
)
"""The paths below which an instance may delete because of a request, judged here."""
_RECENT: Final = 4
"""How many versions of a state may follow the one with the whole target in the ISR, until the old replicas go."""

Assigned = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""Replicas, the ones being added, the ones being removed."""


def caught_up(partition: PartitionHistory, *, is_unreadable: bool = False) -> bool:
    """Whether the whole target is in the ISR, or was right before the old replicas were removed.

    ``is_unreadable``: another program overwrote the state, which the controller need not know yet. The last readable
    state counts then. A state that is missing never counts as caught up.
    """
    if partition.state is None and not is_unreadable:
        return False
    target, latest = set(partition.target), max(partition.committed, default=-1)
    recent = (partition.committed.get(version) for version in range(latest, latest - _RECENT, -1))
    return any(state is not None and target <= set(state.isr) for state in recent)


class AdminJudge:
    """Compares the writes with the requests, and with the replicas on the disks of brokers."""

    def __init__(self, history: History, report: Report) -> None:
        self._history = history
        self._report = report
        self.holds: Callable[[int, Key], bool] = lambda _broker, _key: False
        """Whether a broker has a replica on its disks; the story sets it."""
        self.deletes = True
        """``delete.topic.enable``."""

    # -- topic znodes ------------------------------------------------------------------------------------------------

    def judge_assignments(self, topic: str, before: Mapping[str, Any], after: Mapping[str, Any], now: float) -> None:
        """Judge a write of a topic znode by an instance, before it is applied."""
        then = _assigned(after)
        for number, old in _assigned(before).items():
            partition = self._history.partition(topic, number)
            if number not in then:
                self._judge_lost(topic, number, partition, now)
            elif then[number] != old and not self._is_replacement(old, then[number], now):
                self._judge_move((topic, number), partition, old, then[number], now)

    def _judge_lost(self, topic: str, number: int, partition: PartitionHistory, now: float) -> None:
        """Check that replicas added while the topic is being deleted are removed again (KAFKA-6612)."""
        is_deleting = topic in self._history.asked.markers
        if not is_deleting or partition.state is not None:
            self._report("Z-19", now, f"{topic} lost or changed ['partition {number}']")

    def _is_replacement(self, old: Assigned, new: Assigned, now: float) -> bool:
        (before, *lists_before), (after, *lists_after) = old, new
        if len(before) != len(after) or len(set(after)) < len(after) or lists_before != lists_after:
            return False
        changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
        return all(old in OUR_IDS and self._history.was_live(new, now) for old, new in changed)

    def _judge_move(self, key: Key, partition: PartitionHistory, old: Assigned, new: Assigned, now: float) -> None:
        asked = self._history.asked
        origin = tuple(replica for replica in old[0] if replica not in old[1])
        wanted = [*asked.may_become(key), *([origin] if key in asked.cancelled else [])]
        if any(new == _moved(origin, target) for target in wanted):
            return
        target = tuple(replica for replica in old[0] if replica not in old[2])
        what = f"{key[0]}-{key[1]} from {_text_of(old)} to {_text_of(new)}"
        if (old[1] or old[2]) and new == (target, (), ()):
            if not caught_up(partition, is_unreadable=state_path(key) in self._history.unreadable):
                self._report("Z-28", now, f"{what}, the state is {partition.state}")
        elif old[1:] == new[1:] and not wanted:
            self._report("Z-20", now, what)
        else:
            self._report("Z-27", now, f"{what}, asked for were {sorted(wanted)}")

    # -- requests ----------------------------------------------------------------------------------------------------

    def judge_request(self, operation: Operation, transaction: Transaction) -> None:
        """Judge a write or deletion of a request znode by an instance, before it is applied."""
        path, now = operation.path, transaction.time
        document = None if operation.kind == "delete" else document_of(operation.data)
        if path == REASSIGNMENTS:
            self._judge_entries(entries_of(document) or {}, now)
        elif path.startswith(PENDING_DELETIONS):
            pending = self._history.asked.pending_deletions.get(int(path.removeprefix(PENDING_DELETIONS)), frozenset())
            for key in sorted(pending - pending_deletions_of(document)):
                self._judge_cleared(int(path.removeprefix(PENDING_DELETIONS)), key, now)

    def _judge_entries(self, left: Mapping[Key, tuple[int, ...]], now: float) -> None:
        for key, target in self._history.asked.entries.items():
            if key not in left and not self._is_settled(key, target, now):
                partition = self._history.partition(*key)
                is_now = _text_of((partition.replicas or (), partition.adding, partition.removing))
                self._report("Z-29", now, f"{key[0]}-{key[1]} to {list(target)} was dropped, it is {is_now}")

    def _is_settled(self, key: Key, target: tuple[int, ...], now: float) -> bool:
        """Whether the entry is done, overridden, or may be refused because it is invalid or might lose data."""
        partition, asked = self._history.partition(*key), self._history.asked
        if partition.replicas is None or partition.state is None or key[0] in asked.markers:
            return True
        is_done = partition.replicas == target and not partition.is_being_reassigned
        drops = any(broker not in target for broker in partition.adding)
        return is_done or drops or asked.is_overridden(key) or not self._is_sound(partition, target, now)

    def _is_sound(self, partition: PartitionHistory, target: tuple[int, ...], now: float) -> bool:
        known = partition.replicas or ()
        return (
            bool(target)
            and len(set(target)) == len(target)
            and all(broker in known or self._history.is_surely_eligible(broker, now) for broker in target)
        )

    def _judge_cleared(self, broker: int, key: Key, now: float) -> None:
        partition = self._history.partition(*key)
        if self.holds(broker, key) and broker not in (partition.replicas or ()):
            self._report(
                "Z-33", now, f"broker {broker} still has {key[0]}-{key[1]}, whose pending deletion was cleared"
            )

    # -- deletions ---------------------------------------------------------------------------------------------------

    def judge_deletion(self, operation: Operation, transaction: Transaction) -> None:
        """Judge a deletion by an instance, before it is applied."""
        path, now = operation.path, transaction.time
        if path.startswith(TOPICS):
            self._judge_topic_goes(path.removeprefix(TOPICS), now)
        elif path.startswith(CONFIGS):
            self._judge_last(path, path.removeprefix(CONFIGS), now)
        elif path.startswith(MARKERS) and self.deletes:
            self._judge_last(path, path.removeprefix(MARKERS), now)
        else:
            self.judge_request(operation, transaction)

    def _judge_topic_goes(self, below: str, now: float) -> None:
        topic, *deeper = below.split("/")
        if topic not in self._history.asked.markers or not self.deletes:
            self._report("Z-30", now, f"{TOPICS}{below} was deleted")
        elif not deeper:
            for broker, number in self._left_of(topic, now):
                self._report("Z-31", now, f"{topic} was deleted, broker {broker} has {topic}-{number}")

    def _left_of(self, topic: str, now: float) -> Iterator[tuple[int, int]]:
        """The replicas that brokers still have, without the ones of dead brokers whose deletion is recorded as pending.

        Kafka's controller waits for it, and keeps no record of replicas that operators delete by hand instead
        (KAFKA-10548). A broker that has been registered for long gets the request even if it was given up before.
        """
        for (name, number), partition in sorted(self._history.partitions.items()):
            for broker in partition.replicas or () if name == topic else ():
                key, asked = (topic, number), self._history.asked
                is_noted = asked.is_forgotten(broker) or key in asked.pending_deletions.get(broker, ())
                if self.holds(broker, key) and (not is_noted or self._history.is_surely_eligible(broker, now)):
                    yield broker, number

    def _judge_last(self, path: str, topic: str, now: float) -> None:
        if TOPICS + topic in self._history.nodes and not self._is_left_over(path, topic):
            self._report("Z-32", now, f"{path} was deleted, {topic} is still there")

    def _is_left_over(self, path: str, topic: str) -> bool:
        """Whether the present topic was created after this controller deleted the topic of the znode.

        Topic, configuration and marker are deleted one after another: in between a client may create a topic of that
        name, as with Kafka's own controller. Later writes are about the new topic.
        """
        gone_at, _ = self._history.gone_at.get(topic, (0, NEVER))
        node = self._history.nodes.get(path)
        is_older = node is not None and node.mzxid < gone_at
        return is_older and self._history.gone_in.get(topic) == self._history.epoch


def _assigned(document: Mapping[str, Any]) -> dict[int, Assigned]:
    adding, removing = assignments_of(document, "adding_replicas"), assignments_of(document, "removing_replicas")
    return {
        number: (replicas, adding.get(number, ()), removing.get(number, ()))
        for number, replicas in assignments_of(document).items()
    }


def _moved(origin: tuple[int, ...], target: tuple[int, ...]) -> Assigned:
    """The assignment while replicas move from the origin to the target (KIP-455)."""
    left_out = tuple(replica for replica in origin if replica not in target)
    adding = tuple(replica for replica in target if replica not in origin)
    return (*target, *left_out), adding, left_out


def _text_of(assigned: Assigned) -> str:
    return f"{list(assigned[0])} +{list(assigned[1])} -{list(assigned[2])}"
