"""The views of the cluster, to be compared: ZooKeeper, each broker, the controller, the audit log."""

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
"""Long enough to wait out a restart of ZooKeeper; it holds nothing that anybody waits for."""


class _NoAudit:
    """An observer changes nothing, so there is nothing to write down."""

    def record(self, *records: Record) -> None:
        """Nothing to do."""

    async def accepted(self) -> None:
        """Nothing to wait for."""


@dataclass(frozen=True, slots=True)
class ZooKeeperView:
    """Topics, assignments and leaderships as ZooKeeper has them, and the registered brokers, without controllerd."""

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
    """A ZooKeeper session of one's own, for reading and for creating topics as brokers do. Async context manager."""

    def __init__(self, connect: str) -> None:
        clock = SystemClock()
        queue = EventQueue(clock.monotonic)
        self._session = ZooKeeperSession(connect, _SESSION_MS, queue, _NoAudit())
        self._zk = KazooZooKeeper(self._session)
        self._store = ZooKeeperStore(self._zk, _NoAudit(), clock, queue.put)
        # An observer has no role to lose: after a lost session it simply goes on with the next one.
        self._session.when_lost(self._go_on)

    async def __aenter__(self) -> Self:
        await self._session.open(30.0)
        await self._store.cluster.ensure_paths()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._zk.close()
        await self._session.close()

    def _go_on(self) -> None:
        asyncio.get_running_loop().call_soon(self._session.expire_handled)

    async def cluster_id(self) -> str:
        """The id of the cluster."""
        return await self._store.cluster.cluster_id()

    async def controller_epoch(self) -> int:
        """The controller epoch as it is now; 0 before the first election."""
        (node,) = await self._zk.read([paths.CONTROLLER_EPOCH])
        return 0 if node is None else codecs.decode_controller_epoch(node.data)

    async def view(self) -> ZooKeeperView:
        """Everything as it is now."""
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

        :raises FileExistsError: there is one already.
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
            if node is not None and node.data == topic.data:  # the id in it is ours alone
                return
        if not isinstance(outcome, Committed):
            raise FileExistsError(f"topic {name} cannot be created: {outcome}")


def metadata_differences(view: ZooKeeperView, told: Mapping[str, ClusterMetadata], controller_id: int) -> list[str]:
    """Sentences about metadata of clients that differs from ZooKeeper; empty when all agree.

    ``told`` maps who said it (``broker 1``) to what was said.
    """
    return [f"{who} {line}" for who, metadata in told.items() for line in _differences(view, metadata, controller_id)]


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
    """Which invariants the audit logs break together, and where one is damaged, as sentences; empty when all is well.

    Each directory is the log of one instance; the rules across nodes see all of them.
    """
    readers = [AuditReader(directory) for directory in directories]
    found = list(check(itertools.chain.from_iterable(readers)))
    broken = [f"{one.id} at node {one.node} boot {one.boot} seq {one.seq}: {one.evidence}" for one in found]
    return broken + [f"a log is damaged: {finding}" for reader in readers for finding in reader.report().findings]


def audit_differences(directory: Path, view: ZooKeeperView) -> list[str]:
    """Sentences about the state folded from an audit log where it differs from ZooKeeper; empty when they agree."""
    return _differences_of(fold_directory(directory), view)


def merged_differences(directories: Sequence[Path], view: ZooKeeperView) -> list[str]:
    """The differences for the logs of several instances together: their terms in the order of the controller epochs."""
    entries = [entry for directory in directories for entry in AuditReader(directory) if entry[0].epoch > 0]
    state = ClusterState()
    # An epoch is won by one boot of one node, so its own count is the order within the term.
    for envelope, record in sorted(entries, key=lambda entry: (entry[0].epoch, entry[0].seq)):
        apply(state, envelope, record)
    return _differences_of(state, view)


def _differences_of(state: ClusterState, view: ZooKeeperView) -> list[str]:
    return diff_with_zookeeper(state, Observed(dict(view.topic_ids), dict(view.assignments), dict(view.leaderships)))
