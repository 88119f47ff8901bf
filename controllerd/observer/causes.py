"""Finds the causes between two images of ZooKeeper, and the partitions that can be compared for each. Pure.

A cause is a change that a controller does not make itself: brokers start and fail, tools write topics and requests. The
later image also has the writes with which the observed controller reacted; the facts of a cause never include them. A
cause that reaches a controller by a request or a timer leaves only its result in ZooKeeper. Such a change cannot be
compared, so it is only counted.

A pass over images of 50,000 partitions takes a good part of a second, so every pass yields to the event loop.
"""

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from controllerd.core.model import NO_LEADER, BrokerId, LeaderAndIsr, TopicImage, TopicPartition
from controllerd.errors import BadZnode
from controllerd.machines.elections import UNCLEAN_CONFIG, is_true
from controllerd.slicer import Slicer
from controllerd.zk import codecs, paths
from controllerd.zk.access import Znode
from controllerd.zk.image import ClusterImage
from events.base import Event
from events.cluster import BrokerChange
from events.elections import TopicUncleanLeaderElectionEnable, UncleanLeaderElectionEnable
from events.topics import PartitionModifications, TopicChange

Facts = Mapping[str, Znode | None]
"""The znodes that a cause changed, in their later state; None: deleted. Writes of a controller are not included."""


class CauseKind(Enum):
    """The kind of a cause."""

    BROKER_FAILED = "broker died"
    BROKER_RESTARTED = "broker bounced"
    BROKER_STARTED = "broker came"
    TOPICS_CREATED = "topics created"
    PARTITIONS_ADDED = "partitions added"
    UNCLEAN_ALLOWED = "unclean elections allowed"
    REASSIGNED = "reassigned"
    TOPICS_DELETED = "topics deleted"
    FAILOVER = "failover"


class UnexplainedKind(Enum):
    """The kind of a change whose cause ZooKeeper does not show."""

    ISR_CHANGED = "ISR changed: AlterPartition"
    LEADER_MOVED = "leader moved: controlled shutdown, request or rebalance"
    LEADER_EPOCH_ROSE = "leader epoch rose, leader stayed"
    BEING_DELETED = "topic is being deleted"
    TOPIC_VANISHED = "topic went or was created again, unasked"
    STATE_VANISHED = "state went or cannot be understood"


@dataclass(frozen=True, slots=True)
class ObservedCause:
    """One or several simultaneous changes that a controller reacts to."""

    kind: CauseKind
    subjects: tuple[str, ...]
    """The brokers or topics."""
    partitions: frozenset[TopicPartition]
    """The partitions that are compared for this cause."""
    facts: Facts = field(default_factory=dict, repr=False)
    events: tuple[Event, ...] = ()
    """The events that an active controller gets. Without events and without a failover, only the end is compared."""
    is_failover: bool = False
    """Whether another controller reacted to it with a failover."""
    mixed: frozenset[TopicPartition] = frozenset()
    """Partitions of several causes between the two images, whose order is unknown."""


@dataclass(frozen=True, slots=True)
class UnexplainedChanges:
    """Partitions that changed for a reason that ZooKeeper does not show."""

    kind: UnexplainedKind
    partitions: frozenset[TopicPartition]
    notes: Mapping[str, int] = field(default_factory=dict)
    """The numbers of new leaders that are live, in sync, and preferred."""


async def causes(before: ClusterImage, after: ClusterImage, slicer: Slicer) -> list[ObservedCause | UnexplainedChanges]:
    """Return the causes between two images, then the other changes; each partition is in at most one of them."""
    between = _Between(before, after, slicer)
    found = await between.causes()
    changed = await between.changed(set[TopicPartition]().union(*(cause.partitions for cause in found)))
    if between.is_failover and not any(cause.is_failover for cause in found):
        partitions = frozenset(changed)
        return [*found, ObservedCause(CauseKind.FAILOVER, (), partitions, {**_term(after)}, is_failover=True)]
    return [*found, *await _unexplained(changed, before, after, slicer)]


Pair = tuple[LeaderAndIsr, LeaderAndIsr | None]


class _Between:
    """The search for the changes between two images."""

    def __init__(self, before: ClusterImage, after: ClusterImage, slicer: Slicer) -> None:
        self._before, self._after, self._slicer = before, after, slicer
        self.is_failover: Final = _epoch(before) != _epoch(after)

    async def causes(self) -> list[ObservedCause]:
        """Return the causes, brokers first: a new topic is initialised on the brokers that live then."""
        found: list[ObservedCause] = []
        claimed: set[TopicPartition] = set()
        being_deleted = _requested_deletions(self._before) | _requested_deletions(self._after)
        for cause in _marked_as_mixed(await self._brokers(), await self._topics(), await self._unclean()):
            left = set[TopicPartition]()
            async for tp in self._slicer.each(cause.partitions):
                if tp not in claimed and tp.topic not in being_deleted:
                    left.add(tp)
            claimed |= left
            if left or not cause.partitions:
                found.append(replace(cause, partitions=frozenset(left)))
        return [*found, *await self._deleted()]

    async def changed(self, explained: AbstractSet[TopicPartition]) -> dict[TopicPartition, Pair]:
        """Return the states that changed, without the partitions that a cause explains."""
        found: dict[TopicPartition, Pair] = {}
        for topic, state_paths in self._before.state_paths.items():
            is_another = _czxid(self._before, paths.topic(topic)) != _czxid(self._after, paths.topic(topic))
            async for path in self._slicer.each(state_paths):
                then, now = self._before.nodes.get(path), self._after.nodes.get(path)
                if then is None or (not is_another and then == now):
                    continue
                tp = paths.parse_partition(path)
                known = _state(tp, then) if tp is not None and tp not in explained else None
                if tp is not None and known is not None:
                    found[tp] = known, None if is_another else _state(tp, now)
        return found

    # -- brokers -------------------------------------------------------------------------------------------------------

    async def _brokers(self) -> list[ObservedCause]:
        epochs = [_czxids(each) for each in (self._before, self._after)]
        then, now = epochs
        moved = {name for name in then.keys() | now.keys() if then.get(name) != now.get(name)}
        if not moved:
            return []
        failed, started = moved - now.keys(), moved - then.keys()
        registered = CauseKind.BROKER_STARTED if started == moved else CauseKind.BROKER_RESTARTED
        kind = CauseKind.BROKER_FAILED if failed else registered
        facts = _term(self._after) | {path: self._after.nodes.get(path) for path in map(_registration, sorted(moved))}
        on_them, on_several = await self._partitions_on(_ids(moved))
        events = (BrokerChange(),)
        return [ObservedCause(kind, tuple(sorted(moved)), on_them, facts, events, self.is_failover, mixed=on_several)]

    async def _partitions_on(
        self, brokers: frozenset[int]
    ) -> tuple[frozenset[TopicPartition], frozenset[TopicPartition]]:
        """Return the partitions with replicas on any of these brokers, and the ones with replicas on several."""
        found, on_several = set[TopicPartition](), set[TopicPartition]()
        async for name, image in self._images(self._before.names(paths.BROKER_TOPICS)):
            async for number, assignment in self._slicer.each(image.assignments.items()):
                if assigned := brokers.intersection(assignment.replicas):
                    found.add(TopicPartition(name, number))
                if len(assigned) > 1:
                    on_several.add(TopicPartition(name, number))
        return frozenset(found), frozenset(on_several)

    async def _images(self, topics: Iterable[str]) -> AsyncIterator[tuple[str, TopicImage]]:
        """Yield topics in their earlier state, without unreadable ones."""
        for name in topics:
            image = _image(name, self._before.nodes.get(paths.topic(name)))
            if image is not None:
                yield name, image
            await self._slicer.yield_to_loop()

    # -- topics --------------------------------------------------------------------------------------------------------

    async def _topics(self) -> list[ObservedCause]:
        new: dict[str, TopicImage] = {}
        grown: dict[str, frozenset[TopicPartition]] = {}
        reassigned: set[TopicPartition] = set()
        async for name, known, image in self._written_topics():
            if known is None:
                new[name] = image
                continue
            if added := image.assignments.keys() - known.assignments.keys():
                grown[name] = frozenset(TopicPartition.all_of(name, added))
            async for number, assignment in self._slicer.each(image.assignments.items()):
                if known.assignments.get(number, assignment) != assignment:
                    reassigned.add(TopicPartition(name, number))
        found = [*await self._created(new), *self._grown(grown)]
        if reassigned:
            topics = tuple(sorted({tp.topic for tp in reassigned}))
            found.append(ObservedCause(CauseKind.REASSIGNED, topics, frozenset(reassigned)))
        return found

    async def _written_topics(self) -> AsyncIterator[tuple[str, TopicImage | None, TopicImage]]:
        """Yield topics whose znode was written, in their earlier (None for new topics) and their later state."""
        async for name in self._slicer.each(self._after.names(paths.BROKER_TOPICS)):
            then, now = (each.nodes.get(paths.topic(name)) for each in (self._before, self._after))
            image = _image(name, now) if now != then else None
            known = _image(name, then) if image is not None else None
            # A topic that was deleted and created again has another czxid. It counts as TOPIC_VANISHED.
            if image is not None and (then is None or (known is not None and known.czxid == image.czxid)):
                yield name, known, image
                await self._slicer.yield_to_loop()

    async def _created(self, images: Mapping[str, TopicImage]) -> list[ObservedCause]:
        if not images:
            return []
        partitions = set[TopicPartition]()
        for name, image in images.items():
            partitions.update(_all(name, image))
            await self._slicer.yield_to_loop()
        facts = _term(self._after) | self._written_by_tools(images)
        created = tuple(sorted(images)), frozenset(partitions), facts, (TopicChange(),)
        return [ObservedCause(CauseKind.TOPICS_CREATED, *created, self.is_failover)]

    def _grown(self, added: Mapping[str, frozenset[TopicPartition]]) -> list[ObservedCause]:
        if not added:
            return []
        names = tuple(sorted(added))
        partitions = frozenset[TopicPartition]().union(*added.values())
        facts = _term(self._after) | self._written_by_tools(added)
        events = tuple(PartitionModifications(name) for name in names)
        return [ObservedCause(CauseKind.PARTITIONS_ADDED, names, partitions, facts, events, self.is_failover)]

    def _written_by_tools(self, topics: Iterable[str]) -> dict[str, Znode | None]:
        nodes = self._after.nodes
        return {path: nodes.get(path) for name in topics for path in (paths.topic(name), paths.topic_config(name))}

    # -- configurations and deletions ----------------------------------------------------------------------------------

    async def _unclean(self) -> list[ObservedCause]:
        events: list[Event] = []
        everywhere = self._begins_to_allow(paths.CONFIG_BROKER_DEFAULTS)
        names = list[str]()
        async for name in self._slicer.each(self._before.names(paths.BROKER_TOPICS)):
            if self._begins_to_allow(paths.topic_config(name)):
                names.append(name)
        if everywhere:
            events.append(UncleanLeaderElectionEnable())
        events += [TopicUncleanLeaderElectionEnable(name) for name in names]
        if not events:
            return []
        written = [paths.CONFIG_BROKER_DEFAULTS] if everywhere else []
        written += [paths.topic_config(name) for name in names]
        facts = {path: self._after.nodes.get(path) for path in written} | _term(self._after)
        leaderless = await self._leaderless(None if everywhere else frozenset(names))
        return [
            ObservedCause(
                CauseKind.UNCLEAN_ALLOWED, tuple(sorted(names)), leaderless, facts, tuple(events), self.is_failover
            )
        ]

    def _begins_to_allow(self, path: str) -> bool:
        then, now = (each.nodes.get(path) for each in (self._before, self._after))
        return now != then and _allows_unclean(path, now) and not _allows_unclean(path, then)

    async def _leaderless(self, topics: AbstractSet[str] | None) -> frozenset[TopicPartition]:
        """The partitions of these topics (None: of all) that had no leader."""
        found = set[TopicPartition]()
        for topic, state_paths in self._before.state_paths.items():
            async for path in self._slicer.each(state_paths if topics is None or topic in topics else ()):
                tp = paths.parse_partition(path)
                state = _state(tp, self._before.nodes.get(path)) if tp is not None else None
                if tp is not None and state is not None and state.leader == NO_LEADER:
                    found.add(tp)
        return frozenset(found)

    async def _deleted(self) -> list[ObservedCause]:
        """Return topics whose deletion was requested, and topics that were deleted after such a request."""
        asked_before, asked = _requested_deletions(self._before), _requested_deletions(self._after)
        then, now = (set(each.names(paths.BROKER_TOPICS)) for each in (self._before, self._after))
        names = (then & (asked - asked_before)) | (asked_before & (then - now))
        being_deleted = set[TopicPartition]()
        async for name, image in self._images(names):
            being_deleted.update(_all(name, image))
        return (
            [ObservedCause(CauseKind.TOPICS_DELETED, tuple(sorted(names)), frozenset(being_deleted))] if names else []
        )


def _marked_as_mixed(
    brokers: list[ObservedCause], topics: list[ObservedCause], unclean: list[ObservedCause]
) -> list[ObservedCause]:
    """Return all causes, changes of brokers first, and mark the partitions of several causes as ``mixed``."""
    if not brokers:
        return [*topics, *unclean]
    allowed = frozenset[TopicPartition]().union(*(cause.partitions for cause in unclean))
    return [
        *(replace(cause, mixed=cause.mixed | (cause.partitions & allowed)) for cause in brokers),
        *(replace(cause, mixed=cause.partitions) for cause in topics),
        *unclean,
    ]


# -- what changed without a cause --------------------------------------------------------------------------------------


async def _unexplained(
    changed: Mapping[TopicPartition, Pair], before: ClusterImage, after: ClusterImage, slicer: Slicer
) -> list[UnexplainedChanges]:
    found: dict[UnexplainedKind, set[TopicPartition]] = {}
    notes: Counter[str] = Counter()
    live = _ids(after.names(paths.BROKER_IDS))
    being_deleted, images = _requested_deletions(after), dict[str, TopicImage | None]()
    async for tp, (then, now) in slicer.each(changed.items()):
        kind = UnexplainedKind.BEING_DELETED
        if tp.topic not in being_deleted:
            is_another = _czxid(before, paths.topic(tp.topic)) != _czxid(after, paths.topic(tp.topic))
            kind = UnexplainedKind.TOPIC_VANISHED if is_another else _kind_of(then, now)
        found.setdefault(kind, set()).add(tp)
        if kind is UnexplainedKind.LEADER_MOVED and now is not None:
            if tp.topic not in images:
                images[tp.topic] = _image(tp.topic, after.nodes.get(paths.topic(tp.topic)))
            notes["live"] += now.leader in live
            notes["in sync"] += now.leader in then.isr
            notes["preferred"] += _prefers(images[tp.topic], tp.partition, now.leader)
    return [
        UnexplainedChanges(kind, frozenset(partitions), dict(notes) if kind is UnexplainedKind.LEADER_MOVED else {})
        for kind, partitions in found.items()
    ]


def _prefers(image: TopicImage | None, partition: int, leader: BrokerId) -> bool:
    assignment = image.assignments.get(partition) if image is not None else None
    return assignment is not None and assignment.replicas[:1] == (leader,)


def _kind_of(then: LeaderAndIsr, now: LeaderAndIsr | None) -> UnexplainedKind:
    if now is None:
        return UnexplainedKind.STATE_VANISHED
    if now.leader != then.leader:
        return UnexplainedKind.LEADER_MOVED
    return UnexplainedKind.LEADER_EPOCH_ROSE if now.leader_epoch != then.leader_epoch else UnexplainedKind.ISR_CHANGED


# -- reading images --------------------------------------------------------------------------------------------------


def _epoch(image: ClusterImage) -> Znode | None:
    return image.nodes.get(paths.CONTROLLER_EPOCH)


def _term(image: ClusterImage) -> dict[str, Znode | None]:
    return {paths.CONTROLLER_EPOCH: _epoch(image)}


def _requested_deletions(image: ClusterImage) -> frozenset[str]:
    """The topics whose deletion is requested."""
    return frozenset(image.names(paths.DELETE_TOPICS))


def _ids(names: Iterable[str]) -> frozenset[int]:
    """The brokers of these children of ``/brokers/ids``, without names that are no broker id."""
    return frozenset(broker for broker in map(paths.parse_broker_id, names) if broker is not None)


def _registration(name: str) -> str:
    return f"{paths.BROKER_IDS}/{name}"


def _czxid(image: ClusterImage, path: str) -> int | None:
    node = image.nodes.get(path)
    return node.czxid if node is not None else None


def _czxids(image: ClusterImage) -> dict[str, int | None]:
    return {name: _czxid(image, _registration(name)) for name in image.names(paths.BROKER_IDS)}


def _image(name: str, node: Znode | None) -> TopicImage | None:
    """Decode a topic znode; None if it is missing or invalid."""
    if node is None:
        return None
    try:
        return codecs.decode_topic(name, node.data, version=node.version, czxid=node.czxid)
    except BadZnode:
        return None


def _all(name: str, image: TopicImage) -> list[TopicPartition]:
    return TopicPartition.all_of(name, image.assignments)


def _state(tp: TopicPartition, node: Znode | None) -> LeaderAndIsr | None:
    """Decode a state znode; None if it is missing or invalid."""
    try:
        return codecs.decode_state(tp, node.data, node.version) if node is not None else None
    except BadZnode:
        return None


def _allows_unclean(path: str, node: Znode | None) -> bool:
    try:
        config = codecs.decode_config(path, node.data if node is not None else None)
    except BadZnode:
        return False
    return is_true(config.get(UNCLEAN_CONFIG, ""))
