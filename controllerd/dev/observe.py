"""Compare the views of a cluster: ZooKeeper, each broker, the controller, the audit log."""

import asyncio
import base64
import itertools
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from controllerd.audit.reader import AuditReader, fold_directory
from controllerd.clock import SystemClock
from controllerd.core.model import OUR_IDS, BrokerId, LeaderAndIsr, ReplicaAssignment, TopicImage, TopicPartition
from controllerd.record.fold import Observed, apply, diff_with_zookeeper
from controllerd.record.invariants import check
from controllerd.record.records import Record
from controllerd.record.state import ClusterState
from controllerd.zk import codecs, paths
from controllerd.zk.access import Committed, Create, ReplyLost
from controllerd.zk.connection import KazooZooKeeper
from controllerd.zk.session import ZooKeeperSession
from controllerd.zk.store import ZooKeeperStore
from events.queue import EventQueue
from wire.metadata import ClusterMetadata

_SESSION_MS: Final = 30_000
"""Longer than a restart of ZooKeeper. The session holds no znode for whose end another client waits."""


class _NoAudit:
    """Drop audit records: an observer changes no state of the cluster."""

    def record(self, *records: Record) -> None:
        """Drop the records."""

    async def accepted(self) -> None:
        """Return at once."""


@dataclass(frozen=True, slots=True)
class ZooKeeperView:
    """Topics, assignments, leaderships and registered brokers in ZooKeeper; controllerd itself is left out."""

    topic_ids: Mapping[str, str | None]
    assignments: Mapping[TopicPartition, ReplicaAssignment]
    leaderships: Mapping[TopicPartition, LeaderAndIsr]
    brokers: frozenset[BrokerId]

    def is_whole(self) -> bool:
        """Whether every partition has a leader and all its replicas in the ISR."""
        return all(
            tp in self.leaderships
            and self.leaderships[tp].leader >= 0
            and set(self.leaderships[tp].isr) == set(assignment.replicas)
            for tp, assignment in self.assignments.items()
        )


class ZooKeeperObserver:
    """A ZooKeeper session that reads, and creates topics as brokers do. Async context manager."""

    def __init__(self, connect: str) -> None:
        clock = SystemClock()
        queue = EventQueue(clock.monotonic)
        self._session = ZooKeeperSession(connect, _SESSION_MS, queue, _NoAudit())
        self._zk = KazooZooKeeper(self._session)
        self._store = ZooKeeperStore(self._zk, _NoAudit(), clock, queue.put)
        # An observer has no role to lose: after a lost session it continues with the next one.
        self._session.when_lost(self._continue)

    async def __aenter__(self) -> Self:
        await self._session.open(30.0)
        await self._store.cluster.ensure_paths()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._zk.close()
        await self._session.close()

    def _continue(self) -> None:
        asyncio.get_running_loop().call_soon(self._session.expire_handled)

    async def cluster_id(self) -> str:
        """Return the id of the cluster."""
        return await self._store.cluster.cluster_id()

    async def controller_epoch(self) -> int:
        """Return the current controller epoch; 0 before the first election."""
        (node,) = await self._zk.read([paths.CONTROLLER_EPOCH])
        return 0 if node is None else codecs.decode_controller_epoch(node.data)

    async def view(self) -> ZooKeeperView:
        """Return the current state."""
        read = await self._store.topics.read_topics(await self._store.topics.read_topic_names())
        assignments = {TopicPartition(t.name, p): a for t in read.topics.values() for p, a in t.assignments.items()}
        states = await self._store.states.read_states(assignments)
        brokers = (await self._store.brokers.read_brokers()).brokers.keys() - OUR_IDS
        ids = {name: image.topic_id for name, image in read.topics.items()}
        return ZooKeeperView(ids, assignments, states.states, frozenset(brokers))

    async def create_topic(
        self, name: str, assignments: Mapping[int, Sequence[int]], configs: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic by its znodes, configuration first, as a 3.9 broker does.

        :raises FileExistsError: the topic exists already
        """
        image = TopicImage(
            name,
            {p: ReplicaAssignment(tuple(BrokerId(b) for b in brokers)) for p, brokers in assignments.items()},
            base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode().replace("-", "_"),
            znode_version=0,
        )
        config = Create(paths.topic_config(name), codecs.encode_config(configs or {}))
        topic = Create(paths.topic(name), codecs.encode_topic(image))
        while isinstance(outcome := (await self._zk.commit([[config, topic]]))[0], ReplyLost):
            (node,) = await self._zk.read([topic.path])
            if node is not None and node.data == topic.data:  # it holds the id that was just generated
                return
        if not isinstance(outcome, Committed):
            raise FileExistsError(f"topic {name} cannot be created: {outcome}")


def metadata_differences(view: ZooKeeperView, received: Mapping[str, ClusterMetadata], controller_id: int) -> list[str]:
    """Return a sentence about each difference between metadata and ZooKeeper; empty if all agree.

    ``received`` maps the sender (``broker 1``) to its metadata.
    """
    return [
        f"{sender} {line}"
        for sender, metadata in received.items()
        for line in _differences(view, metadata, controller_id)
    ]


def _differences(view: ZooKeeperView, metadata: ClusterMetadata, controller_id: int) -> list[str]:
    lines = []
    if metadata.controller_id != controller_id:
        lines.append(f"names controller {metadata.controller_id}, not {controller_id}")
    if set(metadata.brokers) - {controller_id} != view.brokers - {controller_id}:
        lines.append(f"knows brokers {sorted(metadata.brokers)}, registered are {sorted(view.brokers)}")
    partitions = {
        TopicPartition(topic.name, number): partition
        for topic in metadata.topics.values()
        for number, partition in topic.partitions.items()
    }
    lines += [f"and ZooKeeper do not both know {tp}" for tp in sorted(partitions.keys() ^ view.leaderships.keys())]
    for tp in sorted(partitions.keys() & view.leaderships.keys()):
        state, shown = view.leaderships[tp], partitions[tp]
        expected = (state.leader, state.leader_epoch, state.isr, view.assignments[tp].replicas)
        actual = (shown.leader, shown.leader_epoch, shown.isr, shown.replicas)
        if actual != expected:
            lines.append(f"shows {tp} as {actual}, ZooKeeper has {expected}")
    return lines


def audit_violations(*directories: Path) -> list[str]:
    """Return a sentence about each invariant that audit logs violate together, and about each damaged place.

    Each directory is the log of one instance; the rules across nodes read all of them.
    """
    readers = [AuditReader(directory) for directory in directories]
    found = list(check(itertools.chain.from_iterable(readers)))
    broken = [f"{one.id} at node {one.node} boot {one.boot} seq {one.seq}: {one.evidence}" for one in found]
    return broken + [f"a log is damaged: {finding}" for reader in readers for finding in reader.report().findings]


def audit_differences(directory: Path, view: ZooKeeperView) -> list[str]:
    """Return a sentence about each difference between the state folded from an audit log and ZooKeeper."""
    return _differences_of(fold_directory(directory), view)


def merged_differences(directories: Sequence[Path], view: ZooKeeperView) -> list[str]:
    """Return the differences for the logs of several instances, folded in the order of the controller epochs."""
    entries = [entry for directory in directories for entry in AuditReader(directory) if entry[0].epoch > 0]
    state = ClusterState()
    # One boot of one node has a controller epoch, so its sequence numbers are the order within the term.
    for envelope, record in sorted(entries, key=lambda entry: (entry[0].epoch, entry[0].seq)):
        apply(state, envelope, record)
    return _differences_of(state, view)


def _differences_of(state: ClusterState, view: ZooKeeperView) -> list[str]:
    return diff_with_zookeeper(state, Observed(dict(view.topic_ids), dict(view.assignments), dict(view.leaderships)))
