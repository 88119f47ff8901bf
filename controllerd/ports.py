"""What handlers and state machines need from the world, as small protocols named by their use.

Adapters implement them (``controllerd.zk``, ``channel_manager``, ``controllerd.audit``); fakes in the tests do too.
Reads and writes take many items at once, because nothing per partition may cost a round trip. A failure of one item is
a value (``controllerd.results``); ``ControllerMoved`` (fenced) and ``StoreUnavailable`` (session gone) are raised and
end the event.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Protocol

from controllerd.core.model import Broker, BrokerId, LeaderAndIsr, TopicImage, TopicPartition
from controllerd.core.requests import ControlRequest, UpdateMetadataPartition
from controllerd.errors import BadZnode
from controllerd.guards import WriteGuard
from controllerd.intent_ports import IntentStore
from controllerd.record.records import Record
from controllerd.results import (
    BrokersRead,
    ConfigChangesRead,
    DelegationToken,
    ElectionsRead,
    FeaturesRead,
    Held,
    NewTopicZnodes,
    NotificationsRead,
    ProducerIds,
    ReassignmentsRead,
    StatesRead,
    TokensRead,
    TopicsRead,
    Won,
    WriteResult,
)
from controllerd.views import Holder
from events.base import Event

# -- ZooKeeper, behind the fence of the present term -------------------------------------------------------------------


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

    async def write_topics(
        self, images: Mapping[str, TopicImage], *, growing: Collection[str] = ()
    ) -> Mapping[str, WriteResult]:
        """Rewrite topic znodes, each on the condition of its ``znode_version``; unknown fields are kept. Fenced.

        ``growing``: these topics may get more partitions; any other that would is a defect, and nothing is written.
        """
        ...

    async def create_topics(self, new: Mapping[str, NewTopicZnodes]) -> Mapping[str, WriteResult]:
        """Create topic znodes, each with its configuration in one transaction, the configuration first. Fenced.

        What an earlier topic of the name left of its configuration is written over. ``Conflict``: somebody else created
        the topic, and its configuration was not touched.
        """
        ...

    async def read_partition_folders(self, topics: Iterable[str]) -> Mapping[str, frozenset[int]]:
        """The partitions of these topics that were initialised once: children of ``partitions``."""
        ...

    async def delete_topics(self, topics: Iterable[str]) -> Mapping[str, WriteResult]:
        """Delete topics with everything below: the topic's subtree, its configuration, its deletion marker.

        In this order for each, so that a crash in between leaves the marker, and the next controller finishes. What is
        gone already does not matter. Fenced. ``Written``: topic and marker are gone.
        """
        ...


class StateStore(Protocol):
    """Partition state znodes."""

    async def watch_states(self, partitions: Iterable[TopicPartition]) -> StatesRead:
        """As ``read_states``, and arms a watch on each that exists: ``PartitionReassignmentIsrChange`` when it changes.

        For brokers below 2.7-IV2, whose leaders write their ISR themselves.
        """
        ...

    async def read_states(self, partitions: Iterable[TopicPartition]) -> StatesRead:
        """The state znodes of these partitions. Sets no watch.

        :raises ControllerMoved: one was written by a later controller, and the role is that one's now.
        """
        ...

    async def create_states(
        self, states: Mapping[TopicPartition, LeaderAndIsr]
    ) -> Mapping[TopicPartition, WriteResult]:
        """Create the state znodes with their parents. Fenced. ``Conflict``: it exists already."""
        ...

    async def update_states(
        self,
        states: Mapping[TopicPartition, LeaderAndIsr],
        *,
        by_leaders: bool = False,
        unclean: Collection[TopicPartition] = (),
    ) -> Mapping[TopicPartition, WriteResult]:
        """Write state znodes, each on the condition that its version is ``partition_epoch``. Fenced.

        ``by_leaders``: the leaders themselves asked for another ISR. ``unclean``: these partitions may get a leader
        from outside their ISR; any other that would is a defect, and nothing is written.
        """
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

    async def create_deletion_markers(self, topics: Iterable[str]) -> Mapping[str, WriteResult]:
        """Ask for the deletion of topics. Fenced; what is asked for already counts as written."""
        ...

    async def delete_deletion_markers(self, topics: Iterable[str]) -> None:
        """Drop requests to delete topics. Fenced; those already gone do not matter."""
        ...

    async def read_reassignments(self) -> ReassignmentsRead | None:
        """``/admin/reassign_partitions``, None if it does not exist; it stays watched either way.

        :raises BadZnode: it cannot be understood.
        """
        ...

    async def write_reassignments(
        self, targets: Mapping[TopicPartition, tuple[BrokerId, ...]], version: int
    ) -> WriteResult:
        """Keep only these entries, or delete the znode when there are none, on the condition of its version. Fenced."""
        ...

    async def read_preferred_election(self) -> ElectionsRead | None:
        """``/admin/preferred_replica_election``, None if it does not exist; it stays watched either way.

        :raises BadZnode: it cannot be understood.
        """
        ...

    async def delete_preferred_election(self, version: int = -1) -> bool:
        """Delete ``/admin/preferred_replica_election`` if it has this version (-1: any); whether it is gone. Fenced.

        False: somebody asks for something else by now, and it must be read again.
        """
        ...

    async def read_config_changes(self, known: AbstractSet[str] = frozenset()) -> ConfigChangesRead:
        """Children of ``/config/changes``, but for those that are known already; arms the child watch."""
        ...

    async def has_delegation_tokens(self) -> bool:
        """Whether there are delegation tokens (KIP-48), which the controller has to delete when they expire."""
        ...

    async def read_delegation_tokens(self) -> TokensRead:
        """Read all delegation tokens."""
        ...

    async def delete_delegation_tokens(self, tokens: Mapping[str, DelegationToken]) -> Mapping[str, WriteResult]:
        """Delete tokens at the version that was read, and notify brokers; ``Conflict``: a token changed meanwhile."""
        ...

    async def read_broker_defaults(self) -> Mapping[str, str]:
        """Dynamic defaults of all brokers (``/config/brokers/<default>``). :raises BadZnode: cannot be understood."""
        ...

    async def read_features(self) -> FeaturesRead:
        """Finalized features; version -1 when the znode is missing. :raises BadZnode: it cannot be understood."""
        ...

    async def write_features(self, levels: Mapping[str, int], version: int) -> WriteResult:
        """Finalize exactly these levels on the condition of the version; unknown fields are kept. Fenced."""
        ...

    async def read_pending_deletions(self) -> Mapping[BrokerId, Mapping[TopicPartition, str | None]]:
        """Replicas that absent brokers must delete when they are back, with the ids of their topics.

        One that cannot be understood is left out and logged: it concerns data on one disk, not leadership.
        """
        ...

    async def write_pending_deletions(self, debts: Mapping[BrokerId, Mapping[TopicPartition, str | None]]) -> None:
        """Replace the debts of these brokers, an empty one deletes the znode. Fenced. Nobody else writes them.

        :raises BadZnode: one is left as it is, because it cannot be understood or ZooKeeper refuses; the others are
            written.
        """
        ...

    async def read_topic_configs(self, topics: Iterable[str]) -> Mapping[str, Mapping[str, str] | BadZnode]:
        """Overrides of these topics as ``/config/topics`` has them; a missing znode has none."""
        ...

    async def read_mutation_rates(self, entities: Iterable[str] | None = None) -> Mapping[str, str | BadZnode | None]:
        """``controller_mutation_rate`` (KIP-599) of entities below ``/config``, such as ``users/alice/clients/app``.

        None for one that has no such quota; without ``entities`` all users and client ids that have a znode.
        """
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


class MetadataStore(BrokerStore, TopicStore, StateStore, AdminStore, IntentStore, Protocol):
    """All of ZooKeeper that handlers use, behind the fence of the present term."""

    def guard_writes(self, guard: WriteGuard) -> None:
        """From now on ``guard`` looks at states and topics before they are written."""
        ...


# -- the role, the channels, time, and what is written down ----------------------------------------------------------


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
        """Delete ``/controller`` and our registration under the epoch check, and unbind the fence.

        Harmless when the role is not ours.
        """
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
        """Stop the sender, close the connection, drop the queue; keep the removals in it until the term ends."""
        ...

    def take_removals(self, broker: BrokerId) -> Mapping[TopicPartition, UpdateMetadataPartition]:
        """Return the removals from metadata (leader -2) that ``remove_broker`` kept, and forget them."""
        ...

    def send(self, broker: BrokerId, request: ControlRequest) -> None:
        """Append to the broker's queue; a request for an unknown broker is dropped with a log line."""
        ...

    def shutdown(self) -> None:
        """End the term: stop every sender in this very tick. No byte leaves afterwards, and nothing is kept."""
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

    def set_unclean_by_default(self, value: bool | None) -> None:
        """The cluster's dynamic default of ``unclean.leader.election.enable``; None: the configured one."""
        ...

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
        """Enqueue ``event`` after a delay in seconds, unless the timers are cleared or an equal one comes earlier."""
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
