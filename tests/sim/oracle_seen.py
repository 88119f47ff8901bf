"""The input and the output of the judge: plain values that any model can fill in.

The judge never looks into the code under test. Its input is the committed transactions, the received requests, and a
few announcements of the story (which client asked for what, when a term ended).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

ANY_VERSION: Final = -1
NO_LEADER: Final = -1
WALL_MS: Final = 1_700_000_000_000
"""The wall clock of all processes when virtual time begins, in milliseconds."""
OUR_IDS: Final = range(2_000_000_000, 2_000_000_100)
"""Node ids of instances, as in DESIGN.md section 5: never a broker and never a replica."""

Key = tuple[str, int]
"""A topic and a partition number."""


def state_path(key: Key) -> str:
    """Return the path of the state znode of a partition. The judge does not take it from the code under test."""
    return f"/brokers/topics/{key[0]}/partitions/{key[1]}/state"


class Violation(NamedTuple):
    """A broken rule: its id, the virtual time in seconds, and the evidence."""

    id: str
    time: float
    evidence: str


Report = Callable[[str, float, str], None]
"""Takes the id of the rule, the virtual time and the evidence."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a committed transaction."""

    kind: str
    """``create``, ``set``, ``delete`` or ``check``."""
    path: str
    """The path; of a sequential znode with its number."""
    data: bytes | None = None
    expected: int | None = None
    """The data version that was required (set, delete, check), -1 for any; None where the model does not know it."""
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class Transaction:
    """A committed transaction. ``closes_session``: the server removes the ephemeral znodes of a session."""

    zxid: int
    session_id: int
    operations: Sequence[Operation]
    time: float
    closes_session: bool = False


@dataclass(frozen=True, slots=True)
class AskedIsr:
    """An ISR that a broker proposes by AlterPartition; reported when the broker sends it."""

    broker: int
    topic: str
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: Collection[int]
    recovery_state: int = 0


class SeenRow(Protocol):
    """One partition of a control request; fields that the API does not carry may have any value."""

    @property
    def topic(self) -> str:
        """Name of the topic."""
        ...

    @property
    def partition(self) -> int:
        """Number of the partition."""
        ...

    @property
    def leader(self) -> int:
        """The leader, -1 for none, -2 while the topic is deleted."""
        ...

    @property
    def leader_epoch(self) -> int:
        """The leader epoch; in StopReplica -1 when unknown and -2 for a deletion."""
        ...

    @property
    def isr(self) -> Sequence[int]:
        """The in-sync replicas."""
        ...

    @property
    def partition_epoch(self) -> int:
        """Version of the state znode."""
        ...

    @property
    def replicas(self) -> Sequence[int]:
        """The assignment."""
        ...

    @property
    def delete(self) -> bool:
        """Whether StopReplica deletes the replica."""
        ...


@dataclass(frozen=True, slots=True)
class Row:
    """A ``SeenRow`` for stories that have none of their own."""

    topic: str
    partition: int
    leader: int = NO_LEADER
    leader_epoch: int = 0
    isr: Sequence[int] = ()
    partition_epoch: int = 0
    replicas: Sequence[int] = ()
    delete: bool = False


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """A control request as a broker received and answered it."""

    broker: int
    owner: str
    """The instance that sent it."""
    api: str
    """``LeaderAndIsr``, ``UpdateMetadata`` or ``StopReplica``."""
    controller_id: int
    controller_epoch: int
    broker_epoch: int
    """The broker epoch in the request."""
    error: int
    """Kafka's error code of the whole response."""
    time: float
    rows: Sequence[SeenRow] = ()
    live_brokers: Collection[int] = ()
    """The live brokers of UpdateMetadata."""


# -- the end of a story ------------------------------------------------------------------------------------------------


class CachedPartition(NamedTuple):
    """A partition in a broker's metadata cache, or as it leads or follows it."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int


@dataclass(frozen=True, slots=True)
class BrokerAtRest:
    """A live broker after the story."""

    id: int
    controller_id: int | None
    """The controller that it believes in."""
    live_brokers: Collection[int]
    metadata: Mapping[Key, CachedPartition]
    """Its metadata cache."""
    replicas: Mapping[Key, CachedPartition]
    """The state of each replica that it hosts, from its last LeaderAndIsr; stopped ones are absent."""
    stuck: Collection[Key] = ()
    """Partitions that it leads and whose ISR change is stuck."""
    logs: Collection[Key] = ()
    """The replicas on its disks, without failed log directories."""
    offline: Collection[Key] = ()
    """The replicas that it cannot use because a log directory failed."""
    refused: Collection[Key] = ()
    """The replicas whose deletion failed since it started."""
    conflicting: Collection[Key] = ()
    """The replicas that it refuses because it has a replica of an earlier topic of that name; see ``unusable``."""


@dataclass(frozen=True, slots=True)
class InstanceAtRest:
    """A running instance after the story."""

    owner: str
    node_id: int
    is_active: bool
    controller_epoch: int
    queued_events: int = 0
    pending_requests: int = 0
    """Control requests that wait or were not answered yet."""
    log_differences: Sequence[str] = ()
    """Differences between its folded audit log and ZooKeeper, as sentences (``oracle_rebuild.log_differences``)."""
    context_differences: Sequence[str] = ()
    """Differences between its context and one rebuilt from ZooKeeper, as sentences (``oracle_rebuild``)."""
    halted: Mapping[str, str] = field(default_factory=dict)
    """Topics whose deletion waits, each with the reason that the status shows."""


@dataclass(frozen=True, slots=True)
class AtRest:
    """The whole cluster after the story: faults are off, and time has passed."""

    time: float
    instances: Sequence[InstanceAtRest]
    brokers: Sequence[BrokerAtRest]
    answers: Mapping[str, int]
    """How often each call was answered."""
    lost_records: Sequence[str] = ()
    """Acknowledged records that are lost, as sentences."""
    wants_registration: bool = False
    """Whether a live broker, or the configuration, needs the active instance to be registered."""
