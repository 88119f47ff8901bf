"""The collaborators of a dry run, without effects outside the process.

Requests are counted, decisions are stored, and delayed events are dropped.
"""

import base64
import itertools
import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from controllerd.core.cluster_settings import DELETE_TOPICS, PROTOCOL_VERSION, UNCLEAN
from controllerd.core.model import Broker, BrokerId, TopicPartition
from controllerd.core.requests import ControlRequest, UpdateMetadataPartition, api_name
from controllerd.core.resolved_settings import Resolution, Source
from controllerd.core.settings_book import SettingsBook, fixed_settings
from controllerd.errors import IllegalState
from controllerd.ports.results import Held, Won
from controllerd.record.records import AlarmRecord, DecisionRecord, Record
from controllerd.views import Holder
from events.base import Event

_DECIDING: Final = frozenset({DELETE_TOPICS, PROTOCOL_VERSION, UNCLEAN})
"""The settings of the cluster that influence the compared states of partitions."""


@dataclass(frozen=True, slots=True)
class WatchedConfiguration:
    """The configuration of the observed controller that influences its decisions."""

    node_id: int
    inter_broker_listener: str
    settings: Resolution = field(default_factory=lambda: fixed_settings().current)
    """The settings of the cluster; the dynamic default of unclean elections is read from its znode."""
    awaited: tuple[BrokerId, ...] = ()
    """The brokers whose settings the observed instance may know and the observer does not; some may have failed."""

    @property
    def unknown(self) -> list[str]:
        """The settings that influence elections and whose value is unknown, in order."""
        unknown = set(self.settings.policy.unknown & _DECIDING)
        if self.awaited and self._may_be_unclean:
            unknown.add(UNCLEAN)
        return sorted(unknown)

    @property
    def _may_be_unclean(self) -> bool:
        """Return whether brokers turn unclean elections on, in their files or by the dynamic default of all brokers."""
        source, unclean = self.settings.settings[UNCLEAN].source, self.settings.unclean
        is_on = unclean.is_on or self.settings.is_on(UNCLEAN)
        return source is Source.WAITING or (is_on and source is not Source.CONFIGURED)


def watched_configuration(
    node_id: int,
    inter_broker_listener: str,
    holder: Holder | None,
    book: SettingsBook,
    registered: Mapping[BrokerId, int],
) -> WatchedConfiguration:
    """Return the configuration of the active controller, as far as brokers have sent it.

    The built-in controller decides by the settings of its own broker alone. An instance of controllerd decides by the
    settings of all brokers, as this instance would. ``registered`` has the epochs of the live brokers.
    """
    if holder is not None and holder.is_known and not holder.is_controllerd:
        return WatchedConfiguration(node_id, inter_broker_listener, book.of_broker(BrokerId(holder.node_id)))
    awaited = tuple(sorted({*book.unanswered(registered), *book.current.unclean.awaited}))
    return WatchedConfiguration(node_id, inter_broker_listener, book.current, awaited)


class NullChannels:
    """Counts requests by the name of their API."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()

    def add_broker(self, broker: Broker) -> None:
        """Open nothing."""

    def remove_broker(self, broker: BrokerId) -> None:
        """Close nothing."""

    def take_removals(self, broker: BrokerId) -> Mapping[TopicPartition, UpdateMetadataPartition]:  # noqa: ARG002
        """Return nothing: no removal is kept."""
        return {}

    def send(self, broker: BrokerId, request: ControlRequest) -> None:  # noqa: ARG002  # the protocol's signature
        """Count the request."""
        self.requests[api_name(request)] += 1

    def shutdown(self) -> None:
        """Stop nothing."""


class NullTimers:
    """Timers that drop their events, because a later event is another cause."""

    def put_later(self, delay_s: float, event: Event) -> None:
        """Drop the event."""

    def clear(self) -> None:
        """Do nothing: there are no delayed events."""


class NullMetrics:
    """Metrics without effect, because a dry run must not change the metrics."""

    def observe_event(self, state: int, event: str, queue_s: float, processing_s: float) -> None:
        """Count nothing."""

    def count_unclean_elections(self, elections: int) -> None:
        """Count nothing."""


class DryRunAudit:
    """An audit log in memory for the decisions and alarms of a dry run."""

    def __init__(self) -> None:
        self.decisions: list[DecisionRecord] = []
        self.alarms: list[AlarmRecord] = []

    def record(self, *records: Record) -> None:
        """Store decisions and alarms."""
        self.decisions += [record for record in records if isinstance(record, DecisionRecord)]
        self.alarms += [record for record in records if isinstance(record, AlarmRecord)]

    async def accepted(self) -> None:
        """Return at once."""

    def clear(self) -> None:
        """Drop all stored records."""
        self.decisions.clear()
        self.alarms.clear()


class NoElector:
    """An elector that has the role already, and never contends for it."""

    async def elect(self, *, takeover: bool = False) -> Won | Held:
        """:raises IllegalState: always."""
        raise IllegalState(f"a dry run contends for the role, takeover {takeover}")

    async def read_holder(self) -> Holder | None:
        """Return no holder."""
        return None

    async def is_ours(self) -> bool:
        """Return True."""
        return True

    async def renew(self) -> Won:
        """:raises IllegalState: always."""
        raise IllegalState("a dry run begins a new term")

    async def resign(self) -> None:
        """:raises IllegalState: always."""
        raise IllegalState("a dry run resigns")

    def forget_term(self) -> None:
        """:raises IllegalState: always."""
        raise IllegalState("a dry run ends its term")


class NoRegistrar:
    """A registrar for dry runs, which have no entry of their own (``no_entry``) and so never register."""

    async def register(self, entry: Broker) -> str | None:
        """:raises IllegalState: always."""
        raise IllegalState(f"a dry run registers {entry.id}")

    async def unregister(self) -> None:
        """:raises IllegalState: always."""
        raise IllegalState("a dry run deletes a registration")

    async def is_registered(self) -> bool:
        """Return False: a dry run never registers."""
        return False

    async def remove_left_over(self) -> None:
        """Do nothing: snapshots contain no registrations of controllerd."""


def no_entry() -> Broker | None:
    """Return no entry: a dry run is not in the metadata of brokers."""
    return None


class TopicIds:
    """Topic ids for dry runs: every dry run gets the same ids, and none of them is reserved."""

    def __init__(self) -> None:
        self._numbers = itertools.count(2)

    def __call__(self) -> str:
        """Return the next id."""
        return base64.urlsafe_b64encode(uuid.UUID(int=next(self._numbers)).bytes).rstrip(b"=").decode()


def draw_nothing(_below: int) -> int:
    """Return 0, because random numbers must not influence a comparison."""
    return 0


def never_expires() -> None:
    """Do nothing: an in-memory store has no session."""
