"""The record of collaborators that every handler gets, a dozen, grouped by purpose. No behaviour lives here."""

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
    """What the process gives the controller: time, timers, random choices."""

    clock: Clock
    timers: Timers
    new_topic_id: Callable[[], str]
    """Return a fresh random topic id: base64url without padding, not a reserved one, not beginning with a dash."""
    draw: Callable[[int], int]
    """Return a random number from 0 to below its argument: where the replicas of a new topic begin."""


@dataclass(slots=True)
class LocalNode:
    """This instance as the configuration has it: its id, and how brokers reach it."""

    node_id: int
    our_entry: Callable[[], Broker | None]
    """Return our own entry among the live brokers, for the brokers that are known now; None in hidden mode."""
    register: RegistrationMode = "auto"
    """``kafka.register``: when the active instance registers under ``/brokers/ids``."""
    reach: Reach = PLAIN_AND_HIDDEN
    """Over which listeners brokers, clients and this instance are to reach each other."""
    stand_by_s: float = 30.0
    """How long an operator's resignation keeps this instance from contending, in seconds."""


@dataclass(slots=True)
class Role:
    """The role of the active controller, and what this instance remembers of its own attempts and terms."""

    elector: Elector
    registrar: Registrar
    session_expired: Callable[[], None]
    """Report to the session that Expire was handled, so that a new one may contend."""
    stand_by_until: float = 0.0
    """No contending before then, in monotonic seconds."""
    has_given_up: bool = False
    """Too many failures of one cause: no contending until an operator asks for a takeover."""
    registered: Broker | None = None
    """Our registration under ``/brokers/ids`` in this term."""
    needs_registration: bool = False
    """Whether we registered in this term: the registration then stays for the term, and is created again if it goes."""


@dataclass(slots=True)
class ClusterConfigs:
    """The configurations of brokers, topics and clients, as far as the controller follows them."""

    topics: TopicConfigs
    brokers: SettingsBook = field(default_factory=fixed_settings)
    """The settings of the brokers, and what follows for the controller."""
    quotas: MutationQuotas = field(default_factory=MutationQuotas)
    """Who may create and delete how many partitions; what was used up lives as long as the process (KIP-599)."""
    ask_brokers: Callable[[], None] = lambda: None
    """Requests the settings of all live brokers soon; the answers come as an event."""
    use_settings: Callable[[], None] = lambda: None
    """Called when settings change that concern more than the event task, such as time-outs of channels."""
    changes_seen: frozenset[str] = frozenset()
    """Children of ``/config/changes`` that were read, or existed before the term began."""


@dataclass(slots=True)
class Controller:
    """Everything a handler may touch."""

    local: LocalNode
    context: ControllerContext
    store: MetadataStore
    machines: Machines
    outbox: Outbox
    channels: Channels
    queue: EventQueue
    audit: AuditLog
    snapshot: ClusterSnapshot
    role: Role
    configs: ClusterConfigs
    runtime: Runtime

    # -- short names for what many handlers use ----------------------------------------------------------------------

    @property
    def node_id(self) -> int:
        """The id of this instance."""
        return self.local.node_id

    @property
    def clock(self) -> Clock:
        """Time."""
        return self.runtime.clock

    @property
    def timers(self) -> Timers:
        """Events that come later."""
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
        """The machine that carries out reassignments."""
        return self.machines.reassigner

    @property
    def pending_deletions(self) -> PendingReplicaDeletions:
        """The replicas that brokers still have to delete."""
        return self.machines.pending_deletions

    @property
    def is_active(self) -> bool:
        """Whether this instance is the active controller: it won an election and has not resigned since."""
        return self.context.epoch > 0
