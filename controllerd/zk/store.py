"""``ports.MetadataStore`` over ZooKeeper, put together from one module per family of znodes."""

from collections.abc import Callable, Mapping

from controllerd.core.model import TopicPartition
from controllerd.guards import WriteGuard
from controllerd.ports import AuditLog, Clock
from controllerd.zk.access import Fired, ZooKeeper
from controllerd.zk.journal import Journal
from controllerd.zk.rejections import Rejections
from controllerd.zk.store_admin import AdminZnodes
from controllerd.zk.store_brokers import BrokerZnodes
from controllerd.zk.store_intents import IntentZnodes
from controllerd.zk.store_requests import RequestZnodes
from controllerd.zk.store_states import StateZnodes
from controllerd.zk.store_tokens import TokenZnodes
from controllerd.zk.store_topics import TopicZnodes
from controllerd.zk.watches import Watches
from controllerd.zk.writer import FencedWriter
from events.base import Event


class ZooKeeperStore(BrokerZnodes, TopicZnodes, StateZnodes, AdminZnodes, RequestZnodes, TokenZnodes, IntentZnodes):
    """All of ZooKeeper that handlers use, behind the fence of the present term."""

    def __init__(self, zk: ZooKeeper, audit: AuditLog, clock: Clock, put: Callable[[Event], None]) -> None:
        """``put`` takes the events of watches that fire, in the loop's thread."""
        self._zk = zk
        self._journal = Journal(zk, audit, clock)
        self._writer = FencedWriter(zk, audit, clock)
        self._rejections = Rejections(audit)
        self._watches = Watches(zk, put)
        self._state_extras: dict[TopicPartition, Mapping[str, object]] = {}
        self._guard: WriteGuard | None = None

    def guard_writes(self, guard: WriteGuard) -> None:
        """From now on ``guard`` looks at states and topics before they are written."""
        self._guard = guard

    @property
    def writer(self) -> FencedWriter:
        """The fence, which the elector binds to the term that it won."""
        return self._writer

    def fired(self, path: str, fired: Fired) -> None:
        """A watch of the present session fired."""
        self._watches.fired(path, fired)
