"""The differences of the controller's state from ZooKeeper and from the metadata of a broker."""

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
class PublishedCluster:
    """The cluster in the published snapshot at one moment."""

    brokers: Mapping[BrokerId, Broker]
    topics: Mapping[str, TopicView]
    quarantine: Mapping[str, str]

    @classmethod
    def of(cls, snapshot: ClusterSnapshot) -> "PublishedCluster":
        """Copy the current snapshot, so that later publications do not change it."""
        return cls(snapshot.brokers, dict(snapshot.topics), snapshot.quarantine)


# -- ZooKeeper ---------------------------------------------------------------------------------------------------------


def of_brokers(znodes: ClusterImage, published: PublishedCluster) -> Iterator[Differing]:
    """Differences in broker registrations: another broker epoch, or a registration on one side only."""
    registered = {paths.parse_broker_id(name): name for name in znodes.names(paths.BROKER_IDS)}
    for broker in sorted({id_ for id_ in registered if id_ is not None} | published.brokers.keys()):
        path = f"{paths.BROKER_IDS}/{registered.get(broker, broker)}"
        node, known = znodes.nodes.get(path), published.brokers.get(broker)
        if path not in published.quarantine:
            theirs = None if node is None else node.czxid
            yield from _between(f"broker {broker}", {"epoch": theirs}, {"epoch": known.epoch if known else None})


def of_deletions(znodes: ClusterImage, published: PublishedCluster) -> Iterator[Differing]:
    """Topics whose deletion is requested on one side only."""
    asked = set(znodes.names(paths.DELETE_TOPICS)) & set(znodes.names(paths.BROKER_TOPICS))
    known = {name for name, topic in published.topics.items() if topic.deletion is not None}
    for name in sorted(asked ^ known):
        yield Differing(name, "deletion", _asked(name in asked), _asked(name in known))


def of_topic(
    name: str, znodes: ClusterImage, published: PublishedCluster, features: Features
) -> Iterator[Differing | None]:
    """Differences of one topic, partition by partition; None after each partition."""
    node, known, path = znodes.nodes.get(paths.topic(name)), published.topics.get(name), paths.topic(name)
    if path in published.quarantine:
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
        if view is not None and not is_hidden and tp.state_path not in published.quarantine:
            yield from _of_state(tp, znodes, view.leadership, features)
        yield None


def _of_state(
    tp: TopicPartition, znodes: ClusterImage, known: LeaderAndIsr | None, features: Features
) -> Iterator[Differing]:
    node = znodes.nodes.get(tp.state_path)
    try:
        state = None if node is None else codecs.decode_state(tp, node.data, node.version)
    except BadZnode as bad:
        yield Differing(str(tp), "state znode", bad.reason, "could be read")
    else:
        yield from _between(str(tp), _state(state, features), _state(known, features))


def _state(state: LeaderAndIsr | None, features: Features) -> Values:
    """The fields to compare. Below 2.7-IV2 leaders write ISRs themselves and notify the controller late (KIP-497)."""
    if state is None:
        return {"leader": None}
    leading = {"leader": state.leader, "leader epoch": state.leader_epoch}
    if not features.alter_partition:
        return leading
    return leading | {"isr": state.isr, "state version": state.partition_epoch}


# -- a broker ----------------------------------------------------------------------------------------------------------


def of_metadata(
    broker: BrokerId, topics: Iterable[TopicMetadata | None], published: PublishedCluster
) -> Iterator[Differing | None]:
    """Differences of a broker's metadata from the published state; None for each step without a difference.

    :raises WireError: during the iteration, if ``topics`` raises it.
    """
    seen = set[str]()
    for topic in topics:
        if topic is None:
            yield None
            continue
        seen.add(topic.name)
        if topic.name in published.topics:
            yield from _of_topic_metadata(broker, topic.name, topic.partitions, published)
        else:
            yield _only_there(broker, topic.name)
    for name in sorted(published.topics.keys() - seen):
        yield from _of_topic_metadata(broker, name, {}, published)


def _of_topic_metadata(
    broker: BrokerId, name: str, rows: Mapping[int, PartitionMetadata], published: PublishedCluster
) -> Iterator[Differing | None]:
    known = published.topics[name]
    if known.is_hidden or paths.topic(name) in published.quarantine:
        return
    for view in known.partitions:
        yield from _of_row(broker, TopicPartition(name, view.partition), rows.get(view.partition), view, published)
        yield None


def _of_row(
    broker: BrokerId,
    tp: TopicPartition,
    row: PartitionMetadata | None,
    view: PartitionView,
    published: PublishedCluster,
) -> Iterator[Differing]:
    if view.leadership is None:  # brokers learn of a partition with its first leader
        return
    if row is None:
        yield Differing(str(tp), "partition", THERE, THERE, f"{broker}: unknown")
        return
    leader, epoch, isr = view.leadership.leader, view.leadership.leader_epoch, view.leadership.isr
    ours: Values = {
        "leader": leader if leader in published.brokers else _NO_LEADER,
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
    """The differences between ZooKeeper's values (``theirs``) and the published ones (``ours``)."""
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
