"""The record of collaborators that every handler gets. No behaviour lives here."""

from collections.abc import Callable
from dataclasses import dataclass, field

from controllerd.core.context import ControllerContext
from controllerd.core.model import Broker
from controllerd.core.mutation_quota import MutationQuotas
from controllerd.core.policy import Policy, RegistrationMode
from controllerd.core.reach import PLAIN_AND_HIDDEN, Reach
from controllerd.core.settings_book import SettingsBook, fixed_settings
from controllerd.machines.assembly import Machines
from controllerd.machines.deletions import TopicDeletionManager
from controllerd.machines.outbox import Outbox
from controllerd.machines.partitions import PartitionStateMachine
from controllerd.machines.pending_deletions import PendingReplicaDeletions
from controllerd.machines.reassignment.reassigner import Reassigner
from controllerd.machines.replicas import ReplicaStateMachine
from controllerd.ports import AuditLog, Channels, Clock, Elector, MetadataStore, Timers, TopicConfigs
from controllerd.role_ports import Registrar
from controllerd.snapshot import ClusterSnapshot
from events.queue import EventQueue


@dataclass(slots=True)
class Controller:
    """Everything a handler may touch. ``stand_by_until`` is monotonic seconds: no contending before then."""

    node_id: int
    context: ControllerContext
    store: MetadataStore
    elector: Elector
    channels: Channels
    queue: EventQueue
    outbox: Outbox
    machines: Machines
    configs: TopicConfigs
    audit: AuditLog
    timers: Timers
    clock: Clock
    snapshot: ClusterSnapshot
    new_topic_id: Callable[[], str]
    """A fresh random topic id: base64url without padding, not a reserved one, not beginning with a dash."""
    draw: Callable[[int], int]
    """A random number from 0 to below its argument: where the replicas of a new topic begin."""
    session_expired: Callable[[], None]
    """Tells the session that Expire was handled, so that a new one may contend."""
    registrar: Registrar
    our_entry: Callable[[], Broker | None]
    """Our own entry among the live brokers, for the brokers that are known now; None in hidden mode."""
    settings: SettingsBook = field(default_factory=fixed_settings)
    """The settings of the brokers, and what follows for the controller."""
    ask_brokers: Callable[[], None] = lambda: None
    """Requests the settings of all live brokers soon; the answers come as an event."""
    use_settings: Callable[[], None] = lambda: None
    """Called when settings change that concern more than the event task, such as time-outs of channels."""
    register: RegistrationMode = "auto"
    """``kafka.register``: when the active instance registers under ``/brokers/ids``."""
    reach: Reach = PLAIN_AND_HIDDEN
    """Over which listeners brokers, clients and we are to reach each other."""
    quotas: MutationQuotas = field(default_factory=MutationQuotas)
    """Who may create and delete how many partitions; what was used up lives as long as the process (KIP-599)."""
    stand_by_s: float = 30.0
    """How long an operator's resignation keeps us from contending, in seconds."""
    stand_by_until: float = 0.0
    config_changes_seen: frozenset[str] = frozenset()
    """Children of ``/config/changes`` that were looked at, or were there before the term began."""
    has_given_up: bool = False
    """Too many failures of one cause: no contending until an operator asks for a takeover."""
    registered: Broker | None = None
    """Our registration under ``/brokers/ids`` in this term."""
    needs_registration: bool = False
    """Whether we registered in this term: the registration then stays for the term, and is created again if it goes."""

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
        """What carries reassignments out."""
        return self.machines.reassigner

    @property
    def pending_deletions(self) -> PendingReplicaDeletions:
        """What brokers still have to delete."""
        return self.machines.pending_deletions

    @property
    def is_active(self) -> bool:
        """Whether this instance is the active controller: it won an election and has not resigned since."""
        return self.context.epoch > 0
