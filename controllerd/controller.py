"""The collaborators that every handler gets, grouped by purpose. This module has no behaviour."""

from collections.abc import Callable
from dataclasses import dataclass, field

from controllerd.core.cluster_settings import Policy, RegistrationMode
from controllerd.core.context import ControllerContext
from controllerd.core.model import Broker
from controllerd.core.mutation_quota import MutationQuotas
from controllerd.core.reach import PLAIN_AND_HIDDEN, Reach
from controllerd.core.settings_book import SettingsBook, fixed_settings
from controllerd.machines.assembly import Machines
from controllerd.machines.deletions import TopicDeletionManager
from controllerd.machines.outbox import Outbox
from controllerd.machines.partitions import PartitionStateMachine
from controllerd.machines.pending_deletions import PendingReplicaDeletions
from controllerd.machines.reassignment.reassigner import Reassigner
from controllerd.machines.replicas import ReplicaStateMachine
from controllerd.ports.audit import AuditLog
from controllerd.ports.channels import Channels
from controllerd.ports.clock import Clock, Timers
from controllerd.ports.configs import TopicConfigs
from controllerd.ports.metadata import MetadataStore
from controllerd.ports.role import Elector, Registrar
from controllerd.snapshot import ClusterSnapshot
from events.queue import EventQueue


@dataclass(frozen=True, slots=True)
class Runtime:
    """The services of the process: time, timers, random choices."""

    clock: Clock
    timers: Timers
    new_topic_id: Callable[[], str]
    """Return a fresh random topic id: base64url without padding, not a reserved one, not beginning with a dash."""
    draw: Callable[[int], int]
    """Return a random number from 0 to below its argument, for the first replica of a new topic."""


@dataclass(slots=True)
class LocalNode:
    """The configuration of this instance: its id, and how brokers reach it."""

    node_id: int
    our_entry: Callable[[], Broker | None]
    """Return this instance's entry among the live brokers; None in hidden mode."""
    register: RegistrationMode = "auto"
    """``kafka.register``: when the active instance registers under ``/brokers/ids``."""
    reach: Reach = PLAIN_AND_HIDDEN
    """The listeners over which brokers, clients and this instance reach each other."""
    stand_by_s: float = 30.0
    """The time, in seconds, for which this instance does not contend after an operator's resignation."""


@dataclass(slots=True)
class RoleState:
    """The role of the active controller, and the state of this instance's attempts and terms."""

    elector: Elector
    registrar: Registrar
    session_expired: Callable[[], None]
    """Report to the session that Expire was handled, so that a new one may contend."""
    stand_by_until: float = 0.0
    """The time before which this instance does not contend, in monotonic seconds."""
    has_given_up: bool = False
    """Whether this instance stopped contending after repeated failures, until an operator requests a takeover."""
    registered: Broker | None = None
    """The registration of this instance under ``/brokers/ids`` in this term."""
    needs_registration: bool = False
    """Whether this instance registered in this term. Then the registration is created again if it is deleted."""


@dataclass(slots=True)
class ClusterConfigs:
    """The configurations of brokers, topics and clients that the controller uses."""

    topics: TopicConfigs
    brokers: SettingsBook = field(default_factory=fixed_settings)
    """The settings of the brokers, and the policy that follows from them."""
    quotas: MutationQuotas = field(default_factory=MutationQuotas)
    """The quotas of clients for creating and deleting partitions. Usage is kept as long as the process (KIP-599)."""
    ask_brokers: Callable[[], None] = lambda: None
    """Requests the settings of all live brokers. The answers arrive as an event."""
    use_settings: Callable[[], None] = lambda: None
    """Applies changed settings outside the event task, such as the timeouts of channels."""
    changes_seen: frozenset[str] = frozenset()
    """The children of ``/config/changes`` that were read, or that existed before the term."""


@dataclass(slots=True)
class Controller:
    """All collaborators of the handlers."""

    local: LocalNode
    context: ControllerContext
    store: MetadataStore
    machines: Machines
    outbox: Outbox
    channels: Channels
    queue: EventQueue
    audit: AuditLog
    snapshot: ClusterSnapshot
    role: RoleState
    configs: ClusterConfigs
    runtime: Runtime

    # -- short names for often used members --------------------------------------------------------------------------

    @property
    def node_id(self) -> int:
        """The id of this instance."""
        return self.local.node_id

    @property
    def clock(self) -> Clock:
        """The clock."""
        return self.runtime.clock

    @property
    def timers(self) -> Timers:
        """The timers that put events into the queue later."""
        return self.runtime.timers

    @property
    def settings(self) -> SettingsBook:
        """The settings of the brokers."""
        return self.configs.brokers

    @property
    def policy(self) -> Policy:
        """The policy that follows from the settings of the cluster."""
        return self.settings.policy

    @property
    def partitions(self) -> PartitionStateMachine:
        """The partition state machine."""
        return self.machines.partitions

    @property
    def replicas(self) -> ReplicaStateMachine:
        """The replica state machine."""
        return self.machines.replicas

    @property
    def deletions(self) -> TopicDeletionManager:
        """The topic deletion manager."""
        return self.machines.deletions

    @property
    def reassigner(self) -> Reassigner:
        """The machine for reassignments."""
        return self.machines.reassigner

    @property
    def pending_deletions(self) -> PendingReplicaDeletions:
        """The pending replica deletions."""
        return self.machines.pending_deletions

    @property
    def is_active(self) -> bool:
        """Whether this instance is the active controller: it won an election and has not resigned since."""
        return self.context.epoch > 0
