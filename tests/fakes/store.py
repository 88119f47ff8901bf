"""The store and the elector over a ZooKeeper in memory: the real code without a server, which never suspends.

A test builds the cluster with ``add_broker``, ``add_topic`` and ``set_state``. It writes as another client through
``tree`` or before the n-th transaction, and asserts on ``writes``.
"""

from collections.abc import Callable, Mapping, Sequence

from controllerd.core.model import (
    Broker,
    BrokerId,
    Endpoint,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicImage,
    TopicPartition,
)
from controllerd.ports.audit import AuditLog
from controllerd.ports.clock import Clock
from controllerd.zk import codecs, paths
from controllerd.zk.access import Create
from controllerd.zk.elector import Contender, ZooKeeperElector
from controllerd.zk.store import ZooKeeperStore
from events.base import Event
from tests.fakes.audit import RecordingAudit
from tests.fakes.zookeeper import FakeZooKeeper, Tree, Write

NODE_ID = 2_000_000_000
INSTANCE = "11111111-2222-3333-4444-555555555555"


class StillClock:
    """A clock that only a test moves."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return 1_700_000_000_000 + int(self.seconds * 1000)

    def monotonic(self) -> float:
        """Seconds."""
        return self.seconds


class FakeStore(ZooKeeperStore):
    """``ports.metadata.MetadataStore`` in memory. ``events`` collects what watches enqueue, unless ``put`` is given."""

    def __init__(
        self,
        tree: Tree | None = None,
        *,
        session_id: int = 1,
        put: Callable[[Event], None] | None = None,
        audit: AuditLog | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.zk = FakeZooKeeper(tree, session_id)
        self.tree = self.zk.tree
        self.events: list[Event] = []
        self.audit = audit or RecordingAudit()
        self.clock = clock or StillClock()
        super().__init__(self.zk, self.audit, self.clock, put or self.events.append)
        self.zk.on_watch = self.fired
        for path in paths.PERSISTENT_PATHS:
            if path not in self.tree.nodes:
                self.tree.put(path)

    @property
    def writes(self) -> list[Write]:
        """The operations of this store, in order: (op, path, data, version afterwards)."""
        return self.zk.writes

    def lead(self, epoch: int = 1) -> None:
        """Create ``/controller`` and the epoch znode as an election would, and bind the term."""
        self.tree.put(paths.CONTROLLER_EPOCH, codecs.encode_controller_epoch(epoch))
        data = codecs.encode_controller(codecs.ControllerZnode(NODE_ID, self.clock.now_ms(), INSTANCE))
        self.tree.apply([Create(paths.CONTROLLER, data, ephemeral=True)], self.zk.session_id)
        self.writer.bind_term(self.tree.nodes[paths.CONTROLLER_EPOCH].version)

    def depose(self) -> None:
        """Raise the epoch as another controller does: from now on every write raises ``ControllerMoved``."""
        epoch = codecs.decode_controller_epoch(self.tree.nodes[paths.CONTROLLER_EPOCH].data)
        self.tree.put(paths.CONTROLLER_EPOCH, codecs.encode_controller_epoch(epoch + 1))

    def before_write(self, number: int, action: Callable[[], None]) -> None:
        """Call ``action`` just before the n-th transaction from now on (counted from 1) is applied."""
        self.zk.before_transaction[len(self.zk.transactions) + number] = action

    def add_broker(self, broker: int, *, rack: str | None = None) -> Broker:
        """Register a broker with one PLAINTEXT listener; a registered one registers again."""
        path = paths.broker(BrokerId(broker))
        if path in self.tree.nodes:
            self.tree.remove(path)
        endpoint = Endpoint("PLAINTEXT", f"broker-{broker}", 9092)
        self.tree.put(path, codecs.encode_broker(Broker(BrokerId(broker), 0, (endpoint,), rack)))
        return codecs.decode_broker(BrokerId(broker), self.tree.nodes[path].data, self.tree.nodes[path].czxid)

    def remove_broker(self, broker: int) -> None:
        """Delete the registration of a broker."""
        self.tree.remove(paths.broker(BrokerId(broker)))

    def add_topic(
        self, name: str, replicas: Mapping[int, Sequence[int] | ReplicaAssignment], *, topic_id: str | None = None
    ) -> None:
        """Create the topic znode, or change its assignment."""
        assignments = {
            partition: found
            if isinstance(found, ReplicaAssignment)
            else ReplicaAssignment(tuple(BrokerId(replica) for replica in found))
            for partition, found in replicas.items()
        }
        self.tree.put(paths.topic(name), codecs.encode_topic(TopicImage(name, assignments, topic_id, 0)))

    def set_state(self, tp: TopicPartition, state: LeaderAndIsr) -> None:
        """Write a state znode as another client (its version rises)."""
        self.tree.put(paths.partition_state(tp), codecs.encode_state(state))

    def state(self, tp: TopicPartition) -> LeaderAndIsr | None:
        """Return the present content of the state znode."""
        node = self.tree.nodes.get(paths.partition_state(tp))
        return codecs.decode_state(tp, node.data, node.version) if node is not None else None

    def topic(self, name: str) -> TopicImage | None:
        """Return the present content of the topic znode."""
        node = self.tree.nodes.get(paths.topic(name))
        return (
            codecs.decode_topic(name, node.data, version=node.version, czxid=node.czxid) if node is not None else None
        )


class FakeElector(ZooKeeperElector):
    """``ports.role.Elector`` in memory, on the tree of a ``FakeStore``."""

    def __init__(self, store: FakeStore, contender: Contender | None = None) -> None:
        super().__init__(store.zk, store.writer, contender or Contender(NODE_ID, INSTANCE), store.audit, store.clock)
