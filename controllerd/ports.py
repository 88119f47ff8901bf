"""What handlers and state machines need from the world, as small protocols named by their use.

Adapters implement them (``controllerd.zk``, ``channel_manager``, ``controllerd.audit``); fakes in the tests do too.
Reads and writes take many items at once, because nothing per partition may cost a round trip. A failure of one item is
a value; ``ControllerMoved`` (fenced) and ``StoreUnavailable`` (session gone) are raised and end the event.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from controllerd.core.model import Broker, BrokerId, LeaderAndIsr, TopicImage, TopicPartition
from controllerd.core.requests import ControlRequest
from controllerd.errors import BadZnode
from controllerd.snapshot import Holder
from events.base import Event
from replay.records import Record

# -- results of reads --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BrokersRead:
    """The registered brokers, and the registrations that cannot be used, by path."""

    brokers: Mapping[BrokerId, Broker]
    broken: tuple[BadZnode, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicsRead:
    """The topic znodes that could be understood, the names that are gone, and those that are broken."""

    topics: Mapping[str, TopicImage]
    missing: frozenset[str] = frozenset()
    broken: tuple[BadZnode, ...] = ()


@dataclass(frozen=True, slots=True)
class StatesRead:
    """Partition state znodes: what they say, which do not exist, which cannot be understood."""

    states: Mapping[TopicPartition, LeaderAndIsr]
    missing: frozenset[TopicPartition] = frozenset()
    broken: Mapping[TopicPartition, BadZnode] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NotificationsRead:
    """Children of a notification folder and the partitions or brokers that they name.

    ``broken`` children are listed in ``names`` too, so that deleting ``names`` removes them (after the audit).
    """

    names: tuple[str, ...]
    partitions: frozenset[TopicPartition] = frozenset()
    brokers: frozenset[BrokerId] = frozenset()
    broken: tuple[BadZnode, ...] = ()


# -- results of writes -------------------------------------------------------------------------------------------------


class Written(NamedTuple):
    """The write succeeded; the znode has this data version now."""

    version: int


class Conflict(NamedTuple):
    """Somebody else changed, created or deleted the znode first: read it again and decide anew."""

    reason: str


class WriteFailed(NamedTuple):
    """ZooKeeper refused this one item for a reason that no retry heals."""

    reason: str


WriteResult = Written | Conflict | WriteFailed


class ProducerIds(NamedTuple):
    """The last allocated block (inclusive), None when none was; ``version`` of the znode, -1 when it is missing."""

    broker: BrokerId | None
    block_start: int
    block_end: int
    version: int


class Won(NamedTuple):
    """We hold ``/controller`` with this epoch, written at this version of ``/controller_epoch``."""

    epoch: int
    epoch_zk_version: int
    previous: Holder | None


class Held(NamedTuple):
    """Somebody else holds the role and we leave it there; ``reason`` says why, for people."""

    holder: Holder
    reason: str


# -- protocols ---------------------------------------------------------------------------------------------------------


class BrokerStore(Protocol):
    """The registrations of brokers."""

    async def read_brokers(self) -> BrokersRead:
        """All of ``/brokers/ids``; arms the child watch and a data watch per broker."""
        ...

    async def read_broker(self, broker: BrokerId) -> Broker | None:
        """One registration, None if it is gone; arms its data watch. :raises BadZnode: it cannot be understood."""
        ...


class TopicStore(Protocol):
    """Topic znodes."""

    async def read_topic_names(self) -> frozenset[str]:
        """Children of ``/brokers/topics``; arms the child watch."""
        ...

    async def read_topics(self, names: Iterable[str]) -> TopicsRead:
        """The topic znodes of these names; arms a data watch on each."""
        ...

    async def write_topics(self, images: Mapping[str, TopicImage]) -> Mapping[str, WriteResult]:
        """Rewrite topic znodes, each on the condition of its ``znode_version``; unknown fields are kept. Fenced."""
        ...


class StateStore(Protocol):
    """Partition state znodes."""

    async def read_states(self, partitions: Iterable[TopicPartition]) -> StatesRead:
        """The state znodes of these partitions. Sets no watch."""
        ...

    async def create_states(
        self, states: Mapping[TopicPartition, LeaderAndIsr]
    ) -> Mapping[TopicPartition, WriteResult]:
        """Create the state znodes with their parents. Fenced. ``Conflict``: it exists already."""
        ...

    async def update_states(
        self, states: Mapping[TopicPartition, LeaderAndIsr]
    ) -> Mapping[TopicPartition, WriteResult]:
        """Write state znodes, each on the condition that its version is ``partition_epoch``. Fenced."""
        ...


class AdminStore(Protocol):
    """The remaining znodes that the controller reads and writes."""

    async def ensure_paths(self) -> None:
        """Create the persistent parents that are missing, so that child watches can be armed."""
        ...

    async def cluster_id(self) -> str:
        """The id of the cluster; created when missing, as the first broker would."""
        ...

    async def read_isr_notifications(self) -> NotificationsRead:
        """Children of ``/isr_change_notification``; arms the child watch."""
        ...

    async def delete_isr_notifications(self, names: Sequence[str]) -> None:
        """Delete these children. Fenced; those already gone do not matter."""
        ...

    async def read_log_dir_notifications(self) -> NotificationsRead:
        """Children of ``/log_dir_event_notification``; arms the child watch."""
        ...

    async def delete_log_dir_notifications(self, names: Sequence[str]) -> None:
        """Delete these children. Fenced; those already gone do not matter."""
        ...

    async def read_topic_deletions(self) -> frozenset[str]:
        """Children of ``/admin/delete_topics``; arms the child watch."""
        ...

    async def read_topic_configs(self, topics: Iterable[str]) -> Mapping[str, Mapping[str, str] | BadZnode]:
        """Overrides of these topics as ``/config/topics`` has them; a missing znode has none."""
        ...

    async def read_producer_ids(self) -> ProducerIds:
        """The last block handed out. :raises BadZnode: it cannot be understood."""
        ...

    async def write_producer_ids(self, block: ProducerIds) -> WriteResult:
        """Hand out a block on the condition of ``block.version``. Fenced."""
        ...

    async def ensure_feature_znode(self, *, enabled: bool, format_version: int = 2) -> None:
        """Create or correct ``/feature`` (KIP-584): enabled with what it has, or disabled and empty. Fenced."""
        ...

    async def arm_admin_watches(self) -> frozenset[str]:
        """Watch ``/admin/reassign_partitions`` and ``/admin/preferred_replica_election``; those that exist already."""
        ...


class MetadataStore(BrokerStore, TopicStore, StateStore, AdminStore, Protocol):
    """All of ZooKeeper that handlers use, behind the fence of the present term."""


class Elector(Protocol):
    """The role: ``/controller`` and ``/controller_epoch``."""

    async def elect(self, *, takeover: bool = False) -> Won | Held:
        """Try to get the role; with ``takeover`` also from a live holder. Binds the store's fence to the term won.

        Replaces an own earlier ``/controller`` (same instance uuid) at once, a broker's only if configured.
        :raises RefusedToLead: this cluster must not be led by us; the message says why and what to do.
        """
        ...

    async def read_holder(self) -> Holder | None:
        """Who holds ``/controller``; arms its watch for creation, change and deletion."""
        ...

    async def is_ours(self) -> bool:
        """Whether ``/controller`` belongs to our present session; arms its watch."""
        ...

    async def renew(self) -> Won:
        """Begin a new term in one transaction (epoch + 1, delete and create ``/controller``); nobody slips in.

        :raises ControllerMoved: the role is no longer ours.
        """
        ...

    async def resign(self) -> None:
        """Delete ``/controller`` under the epoch check, and unbind the fence. Harmless when the role is not ours."""
        ...

    def forget_term(self) -> None:
        """Unbind the fence without touching ZooKeeper: from now on every write raises ``ControllerMoved``."""
        ...


class Channels(Protocol):
    """Ordered delivery of control requests to brokers."""

    def add_broker(self, broker: Broker) -> None:
        """Open a queue, a connection and a sender; for a known broker with the same epoch, follow its new endpoint."""
        ...

    def remove_broker(self, broker: BrokerId) -> None:
        """Stop the sender, close the connection, drop the queue."""
        ...

    def send(self, broker: BrokerId, request: ControlRequest) -> None:
        """Append to the broker's queue; a request for an unknown broker is dropped with a log line."""
        ...

    def shutdown(self) -> None:
        """Stop every sender in this very tick: no byte leaves afterwards."""
        ...


class AuditLog(Protocol):
    """Where everything is written down."""

    def record(self, *records: Record) -> None:
        """Append records; never blocks."""
        ...

    async def accepted(self) -> None:
        """Wait (at most 200 ms) until the writer has taken what was recorded. Called before requests leave."""
        ...


class TopicConfigs(Protocol):
    """Effective topic configuration."""

    def unclean_by_default(self) -> bool:
        """The cluster's default of ``unclean.leader.election.enable``."""
        ...


class Clock(Protocol):
    """Time, injected."""

    def now_ms(self) -> int:
        """Wall clock in milliseconds since 1970, for display only."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...


class Timers(Protocol):
    """Events that come later by themselves."""

    def put_later(self, delay_s: float, event: Event) -> None:
        """Enqueue ``event`` after so many seconds, unless the timers were cleared or an equal one is on its way."""
        ...

    def clear(self) -> None:
        """Forget everything that was put for later."""
        ...


class Metrics(Protocol):
    """Numbers about events that are no state of the cluster."""

    def observe_event(self, state: int, event: str, queue_s: float, processing_s: float) -> None:
        """An event was handled."""
        ...

    def count_unclean_elections(self, elections: int) -> None:
        """So many unclean leaders were decided on."""
        ...
