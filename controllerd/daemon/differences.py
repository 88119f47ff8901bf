"""The differences between the controller's state and ZooKeeper's, and between it and a broker's metadata."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from controllerd.core.model import Broker, BrokerId, Features, LeaderAndIsr, ReplicaAssignment, TopicPartition
from controllerd.errors import BadZnode
from controllerd.snapshot import ClusterSnapshot
from controllerd.status.reads.comparison import Differing
from controllerd.views import PartitionView, TopicView
from controllerd.zk import codecs, paths
from controllerd.zk.image import ClusterImage
from wire.metadata import PartitionMetadata, TopicMetadata

THERE: Final = "exists"
_NO_LEADER: Final = -1

Values = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class KnownCluster:
    """The cluster as this instance knew it at one moment."""

    brokers: Mapping[BrokerId, Broker]
    topics: Mapping[str, TopicView]
    quarantine: Mapping[str, str]

    @classmethod
    def of(cls, snapshot: ClusterSnapshot) -> "KnownCluster":
        """The present state; later publications do not change it."""
        return cls(snapshot.brokers, dict(snapshot.topics), snapshot.quarantine)


# -- ZooKeeper ---------------------------------------------------------------------------------------------------------


def of_brokers(picture: ClusterImage, memory: KnownCluster) -> Iterator[Differing]:
    """Registrations of another life than the one we know, or that only one side has."""
    registered = {paths.parse_broker_id(name): name for name in picture.names(paths.BROKER_IDS)}
    for broker in sorted({id_ for id_ in registered if id_ is not None} | memory.brokers.keys()):
        path = f"{paths.BROKER_IDS}/{registered.get(broker, broker)}"
        node, known = picture.nodes.get(path), memory.brokers.get(broker)
        if path not in memory.quarantine:
            theirs = None if node is None else node.czxid
            yield from _between(f"broker {broker}", {"epoch": theirs}, {"epoch": known.epoch if known else None})


def of_deletions(picture: ClusterImage, memory: KnownCluster) -> Iterator[Differing]:
    """Topics that are to be deleted by one side only."""
    asked = set(picture.names(paths.DELETE_TOPICS)) & set(picture.names(paths.BROKER_TOPICS))
    known = {name for name, topic in memory.topics.items() if topic.deletion is not None}
    for name in sorted(asked ^ known):
        yield Differing(name, "deletion", _asked(name in asked), _asked(name in known))


def of_topic(name: str, picture: ClusterImage, memory: KnownCluster, features: Features) -> Iterator[Differing | None]:
    """One topic, partition by partition; None for each that is the same."""
    node, known, path = picture.nodes.get(paths.topic(name)), memory.topics.get(name), paths.topic(name)
    if path in memory.quarantine:
        return
    if node is None or known is None:
        yield from _between(name, {"topic": _there(node)}, {"topic": _there(known)})
        return
    try:
        image = codecs.decode_topic(name, node.data, version=node.version, czxid=node.czxid)
    except BadZnode as bad:
        yield Differing(name, "znode", bad.reason, "could be read")
        return
    yield from _between(name, {"topic id": image.topic_id}, {"topic id": known.topic_id})
    views = {view.partition: view for view in known.partitions}
    for number in sorted(image.assignments.keys() | views.keys()):
        tp = TopicPartition(name, number)
        view, is_hidden = views.get(number), known.is_hidden
        yield from _between(str(tp), _assigned(image.assignments.get(number)), _assigned(view and view.assignment))
        if view is not None and not is_hidden and tp.state_path not in memory.quarantine:
            yield from _of_state(tp, picture, view.leadership, features)
        yield None


def _of_state(
    tp: TopicPartition, picture: ClusterImage, known: LeaderAndIsr | None, features: Features
) -> Iterator[Differing]:
    node = picture.nodes.get(tp.state_path)
    try:
        state = None if node is None else codecs.decode_state(tp, node.data, node.version)
    except BadZnode as bad:
        yield Differing(str(tp), "state znode", bad.reason, "could be read")
    else:
        yield from _between(str(tp), _state(state, features), _state(known, features))


def _state(state: LeaderAndIsr | None, features: Features) -> Values:
    """The fields that must be equal. Below 2.7-IV2 leaders change ISRs themselves and notify late (KIP-497)."""
    if state is None:
        return {"leader": None}
    leading = {"leader": state.leader, "leader epoch": state.leader_epoch}
    if not features.alter_partition:
        return leading
    return leading | {"isr": state.isr, "state version": state.partition_epoch}


# -- a broker ----------------------------------------------------------------------------------------------------------


def of_metadata(
    broker: BrokerId, told: Iterable[TopicMetadata | None], memory: KnownCluster
) -> Iterator[Differing | None]:
    """A broker's metadata against our state; None for each step without a difference.

    :raises WireError: while iterating, where ``told`` does.
    """
    seen = set[str]()
    for topic in told:
        if topic is None:
            yield None
            continue
        seen.add(topic.name)
        if topic.name in memory.topics:
            yield from _of_topic_told(broker, topic.name, topic.partitions, memory)
        else:
            yield _only_there(broker, topic.name)
    for name in sorted(memory.topics.keys() - seen):
        yield from _of_topic_told(broker, name, {}, memory)


def _of_topic_told(
    broker: BrokerId, name: str, rows: Mapping[int, PartitionMetadata], memory: KnownCluster
) -> Iterator[Differing | None]:
    known = memory.topics[name]
    if known.is_hidden or paths.topic(name) in memory.quarantine:
        return
    for view in known.partitions:
        yield from _of_row(broker, TopicPartition(name, view.partition), rows.get(view.partition), view, memory)
        yield None


def _of_row(
    broker: BrokerId, tp: TopicPartition, row: PartitionMetadata | None, view: PartitionView, memory: KnownCluster
) -> Iterator[Differing]:
    if view.leadership is None:  # brokers are told of a partition with its first leader
        return
    if row is None:
        yield Differing(str(tp), "partition", THERE, THERE, f"{broker}: unknown")
        return
    leader, epoch, isr = view.leadership.leader, view.leadership.leader_epoch, view.leadership.isr
    ours: Values = {
        "leader": leader if leader in memory.brokers else _NO_LEADER,
        "leader epoch": epoch,
        "isr": tuple(sorted(isr)),
        "replicas": view.assignment.replicas,
    }
    theirs: Values = {
        "leader": row.leader,
        "leader epoch": row.leader_epoch,
        "isr": tuple(sorted(row.isr)),
        "replicas": tuple(row.replicas),
    }
    for field, value in ours.items():
        if theirs[field] != value:
            yield Differing(str(tp), field, _text(value), _text(value), f"{broker}: {_text(theirs[field])}")


def _only_there(broker: BrokerId, topic: str) -> Differing:
    return Differing(topic, "topic", None, None, f"{broker}: {THERE}")


# -- both --------------------------------------------------------------------------------------------------------------


def _between(subject: str, theirs: Values, ours: Values) -> Iterator[Differing]:
    for field in theirs.keys() | ours.keys():
        if theirs.get(field) != ours.get(field):
            yield Differing(subject, field, _text(theirs.get(field)), _text(ours.get(field)))


def _assigned(assignment: ReplicaAssignment | None) -> Values:
    if assignment is None:
        return {"replicas": None}
    return {"replicas": assignment.replicas, "adding": assignment.adding, "removing": assignment.removing}


def _there(what: object) -> str | None:
    return None if what is None else THERE


def _asked(is_asked: bool) -> str:
    return "asked for" if is_asked else "not asked for"


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return ",".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value)
