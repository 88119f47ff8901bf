"""The planner of reassignments: as few moves as possible, spread over racks, to the brokers with fewest replicas.

Pure and deterministic: the same views and the same request give the same plan.
"""

from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from collections.abc import Set as AbstractSet
from fnmatch import fnmatchcase
from operator import attrgetter
from typing import Final

from msgspec import structs

from controllerd.core.model import Broker, BrokerId, TopicPartition
from controllerd.core.placement import without_rack
from controllerd.core.replica_sizes import SizesView
from controllerd.planning.plans import Plan, PlannedMove, ReassignmentPlanRequest, Replicas
from controllerd.views import PartitionView, TopicView

_NAMED: Final = 20
"""The number of notes about single partitions; the others are only counted."""


class ReassignmentPlanner:
    """Makes one plan. It counts all replicas first, and then plans the requested topics in order of their names."""

    def __init__(
        self, request: ReassignmentPlanRequest, brokers: Mapping[BrokerId, Broker], staying: AbstractSet[BrokerId]
    ) -> None:
        """``brokers``: the live brokers; ``staying``: the live brokers that are not shutting down."""
        self._request = request
        self._leaving = frozenset(map(BrokerId, request.from_brokers))
        wanted = frozenset(map(BrokerId, request.to_brokers)) or staying - self._leaving
        self._allowed = sorted(broker for broker in wanted if broker in staying)
        self._racks = self._known_racks(brokers)
        self._replicas: Counter[BrokerId] = Counter()
        self._preferred: Counter[BrokerId] = Counter()
        self._moves: list[PlannedMove] = []
        self._replicas_moved = self._leaders_moved = 0
        self._bytes: int | None = None
        self._impossible: list[str] = []
        self._skipped: list[str] = []
        self._matched = 0
        self._notes = self._notes_on_brokers(wanted - staying, brokers)

    def plan(self, topics: Iterable[TopicView]) -> Generator[None, None, None]:
        """Count the replicas and preferred leaderships of all brokers; then plan, one partition per step."""
        by_name = sorted(topics, key=attrgetter("name"))
        for topic in by_name:
            for view in topic.partitions:
                target = view.assignment.target
                self._replicas.update(target)
                self._preferred.update(target[:1])
            yield
        for topic in by_name:
            yield from self._plan_topic(topic)

    def _plan_topic(self, topic: TopicView) -> Generator[None, None, None]:
        if self._request.topics and not any(fnmatchcase(topic.name, glob) for glob in self._request.topics):
            return
        self._matched += 1
        for view in topic.partitions:
            self._plan(topic, view)
            yield

    @property
    def moved(self) -> list[TopicPartition]:
        """The partitions of the plan."""
        return [TopicPartition(move.topic, move.partition) for move in self._moves]

    def weigh(self, sizes: SizesView) -> Generator[None, None, None]:
        """Add the bytes that each move copies, as far as sizes are known; one move per step."""
        self._bytes = 0
        for place, move in enumerate(self._moves):
            size = _bytes_of(move, sizes)
            self._moves[place] = structs.replace(move, bytes=size)
            self._bytes = None if size is None or self._bytes is None else self._bytes + size
            yield

    def result(self) -> Plan:
        """Return the plan."""
        return Plan(
            moves=self._moves,
            replicas_moved=self._replicas_moved,
            leaders_moved=self._leaders_moved,
            bytes=self._bytes,
            notes=[*self._notes, *self._notes_on_topics()],
        )

    # -- one partition -------------------------------------------------------------------------------------------------

    def _plan(self, topic: TopicView, view: PartitionView) -> None:
        name = f"{topic.name}-{view.partition}"
        if topic.deletion is not None or view.assignment.is_being_reassigned:
            why = "its topic is being deleted" if topic.deletion is not None else "it is being moved already"
            self._skipped.append(f"{name} is skipped: {why}")
            return
        before = view.assignment.replicas
        after = self._after(before, view)
        if after is None:
            why = f"its {len(before)} replicas do not fit on {self._allowed}"
            none = "no broker that may get its replicas is alive"
            self._impossible.append(f"{name} cannot be moved: {why if self._allowed else none}")
        elif after != before:
            self._moves.append(
                PlannedMove(
                    topic=topic.name, partition=view.partition, before=list(before), after=list(after), bytes=None
                )
            )
            self._recount(before, after)

    def _after(self, before: Replicas, view: PartitionView) -> Replicas | None:
        """Return the new replicas; replicas that may stay keep their position. None if there are too few brokers."""
        wanted = self._request.replication_factor or len(before)
        if wanted > len(before) + len(self._allowed):  # a list for an arbitrarily large number would fill the memory
            return None
        places: list[BrokerId | None] = [None if self._must_leave(broker) else broker for broker in before]
        places += [None] * (wanted - len(places))
        surplus = len(places) - wanted
        places = self._without(places, surplus, view)
        for place, broker in enumerate(places):
            if broker is None:
                chosen = self._choose(places, before, is_first=place == 0)
                if chosen is None:
                    return None
                places[place] = chosen
        return tuple(broker for broker in places if broker is not None)

    def _must_leave(self, broker: BrokerId) -> bool:
        if self._leaving:
            return broker in self._leaving
        return bool(self._request.to_brokers) and broker not in self._request.to_brokers

    def _without(self, places: list[BrokerId | None], surplus: int, view: PartitionView) -> list[BrokerId | None]:
        """Remove surplus replicas: first those that must leave, then offline ones, then those that share a rack."""
        left = list(places)
        for _ in range(max(surplus, 0)):
            left.pop(max(range(len(left)), key=lambda place: self._dispensable(left, place, view)))
        return left

    def _dispensable(
        self, places: list[BrokerId | None], place: int, view: PartitionView
    ) -> tuple[bool, bool, bool, bool, int, int]:
        broker = places[place]
        if broker is None:
            return True, False, False, False, 0, place
        rack = self._racks.get(broker)
        shares = rack is not None and sum(other is not None and self._racks.get(other) == rack for other in places) > 1
        is_offline, is_spare = broker in view.offline_replicas, place > 0
        return False, is_offline, shares, is_spare, self._replicas[broker], place

    def _choose(self, places: list[BrokerId | None], before: Replicas, *, is_first: bool) -> BrokerId | None:
        """Choose an allowed broker: in the rack with fewest of the replicas, the broker with fewest replicas."""
        used = Counter(self._racks.get(broker) for broker in places if broker is not None)
        candidates = [broker for broker in self._allowed if broker not in places and broker not in before]
        if not candidates:
            return None

        def cost(broker: BrokerId) -> tuple[int, int, int, int]:
            rack = self._racks.get(broker)
            preferred = self._preferred[broker] if is_first else 0
            return used[rack] if rack is not None else 0, preferred, self._replicas[broker], broker

        return min(candidates, key=cost)

    def _recount(self, before: Replicas, after: Replicas) -> None:
        self._replicas_moved += len(set(after) - set(before))
        self._leaders_moved += before[:1] != after[:1]
        self._replicas.subtract(before)
        self._replicas.update(after)
        self._preferred.subtract(before[:1])
        self._preferred.update(after[:1])

    # -- notes ---------------------------------------------------------------------------------------------------------

    def _known_racks(self, brokers: Mapping[BrokerId, Broker]) -> dict[BrokerId, str]:
        racks = {broker: entry.rack for broker, entry in brokers.items()}
        if not self._request.rack_aware or without_rack(racks):
            return {}
        return {broker: rack for broker, rack in racks.items() if rack is not None}

    def _notes_on_brokers(self, absent: AbstractSet[BrokerId], brokers: Mapping[BrokerId, Broker]) -> list[str]:
        notes = []
        if absent:
            notes.append(f"brokers {sorted(absent)} are not live, or shut down: nothing is moved to them")
        racks = {broker: entry.rack for broker, entry in brokers.items()}
        if self._request.rack_aware and (missing := without_rack(racks)):
            notes.append(f"racks are ignored: brokers {missing} have none, but others have")
        if not self._leaving and not self._request.to_brokers and self._request.replication_factor is None:
            notes.append("nothing has to move: name brokers to leave, brokers to go to, or a replication factor")
        return notes

    def _notes_on_topics(self) -> list[str]:
        notes = []
        if self._request.topics and not self._matched:
            notes.append(f"no topic matches {', '.join(self._request.topics)}")
        for single in (self._impossible, self._skipped):
            notes += single[:_NAMED]
            if len(single) > _NAMED:
                notes.append(f"and {len(single) - _NAMED} more like these")
        if self._moves:
            notes.append(
                "each new replica is on the rack with fewest replicas of its partition, there on the emptiest broker"
            )
        return notes


def _bytes_of(move: PlannedMove, sizes: SizesView) -> int | None:
    """Return the bytes to copy, where every new replica copies the largest present one; None if no size is known."""
    sizes_before = [sizes.size(TopicPartition(move.topic, move.partition), BrokerId(broker)) for broker in move.before]
    largest = max((each.bytes for each in sizes_before if each is not None), default=None)
    return None if largest is None else largest * len(set(move.after) - set(move.before))
