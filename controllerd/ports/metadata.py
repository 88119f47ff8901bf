"""All stores of the controller in one record, for the code that assembles it and for handlers.

Reads and writes take many items at once, because a round trip per partition would take too long. A failure of one item
is a value (``ports.results``); ``ControllerMoved`` (fenced) and ``StoreUnavailable`` (session lost) are raised and end
the event. Machines take the one or two small stores that they use, never this record.
"""

from typing import Protocol

from controllerd.ports.admin import AdminStore
from controllerd.ports.brokers import BrokerStore, NotificationStore
from controllerd.ports.cluster import ClusterStore, ProducerIdStore, TokenStore
from controllerd.ports.configs import ConfigStore
from controllerd.ports.own_znodes import OperatorStore, PendingDeletionStore
from controllerd.ports.states import StateGuard, StateStore
from controllerd.ports.topics import TopicGuard, TopicStore


class WriteGuard(StateGuard, TopicGuard, Protocol):
    """Checks all writes by which data can be lost."""


class MetadataStore(Protocol):
    """ZooKeeper as the controller uses it: every write is behind the fence of the present term."""

    @property
    def brokers(self) -> BrokerStore:
        """``/brokers/ids``."""
        ...

    @property
    def notifications(self) -> NotificationStore:
        """``/isr_change_notification`` and ``/log_dir_event_notification``."""
        ...

    @property
    def topics(self) -> TopicStore:
        """``/brokers/topics`` without the states."""
        ...

    @property
    def states(self) -> StateStore:
        """``/brokers/topics/*/partitions/*/state``."""
        ...

    @property
    def admin(self) -> AdminStore:
        """``/admin``."""
        ...

    @property
    def configs(self) -> ConfigStore:
        """``/config``."""
        ...

    @property
    def cluster(self) -> ClusterStore:
        """``/cluster/id``, ``/feature`` and the persistent parents."""
        ...

    @property
    def producer_ids(self) -> ProducerIdStore:
        """``/latest_producer_id_block``."""
        ...

    @property
    def tokens(self) -> TokenStore:
        """``/delegation_token``."""
        ...

    @property
    def operators(self) -> OperatorStore:
        """``/controllerd/pauses`` and ``/controllerd/throttle``."""
        ...

    @property
    def pending_deletions(self) -> PendingDeletionStore:
        """``/controllerd/owed_deletions``."""
        ...

    def guard_writes(self, guard: WriteGuard) -> None:
        """From now on ``guard`` checks states and topics before they are written."""
        ...
