"""``ports.metadata.MetadataStore`` over ZooKeeper: one small store per family of znodes, all behind one fence."""

from collections.abc import Callable

from controllerd.ports.audit import AuditLog
from controllerd.ports.clock import Clock
from controllerd.ports.metadata import WriteGuard
from controllerd.zk.access import Fired, ZooKeeper
from controllerd.zk.journal import TransactionJournal
from controllerd.zk.rejections import Rejections
from controllerd.zk.store_admin import AdminZnodes
from controllerd.zk.store_brokers import BrokerZnodes, NotificationZnodes
from controllerd.zk.store_cluster import ClusterZnodes, ProducerIdZnodes
from controllerd.zk.store_configs import ConfigZnodes
from controllerd.zk.store_own import OperatorZnodes, PendingDeletionZnodes
from controllerd.zk.store_states import StateZnodes
from controllerd.zk.store_tokens import TokenZnodes
from controllerd.zk.store_topics import TopicZnodes
from controllerd.zk.watches import Watches
from controllerd.zk.writer import FencedWriter
from events.base import Event


class ZooKeeperStore:
    """All stores over one session of ZooKeeper."""

    def __init__(self, zk: ZooKeeper, audit: AuditLog, clock: Clock, put: Callable[[Event], None]) -> None:
        """``put`` takes the events of watches that fire, in the loop's thread."""
        rejections = Rejections(audit)
        self._watches = Watches(zk, put)
        self.writer = FencedWriter(zk, audit, clock)
        """The fence, which the elector binds to the term that it won."""
        self.brokers = BrokerZnodes(zk, rejections)
        self.notifications = NotificationZnodes(zk, self.writer, rejections)
        self.topics = TopicZnodes(zk, self.writer, rejections)
        self.states = StateZnodes(zk, self.writer, rejections)
        self.admin = AdminZnodes(zk, self.writer, rejections, self._watches)
        self.configs = ConfigZnodes(zk, self.writer, rejections)
        self.cluster = ClusterZnodes(zk, self.writer, rejections, TransactionJournal(zk, audit, clock))
        self.producer_ids = ProducerIdZnodes(zk, self.writer, rejections)
        self.tokens = TokenZnodes(zk, self.writer, rejections)
        self.operators = OperatorZnodes(zk, self.writer, rejections)
        self.pending_deletions = PendingDeletionZnodes(zk, self.writer, rejections)

    def guard_writes(self, guard: WriteGuard) -> None:
        """From now on ``guard`` checks states and topics before they are written."""
        self.states.guard = guard
        self.topics.guard = guard

    def fired(self, path: str, fired: Fired) -> None:
        """Take a watch that fired in the present session."""
        self._watches.fired(path, fired)
