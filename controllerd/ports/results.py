"""The results of the stores. The failure of one item is a value, so that it does not end the others."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from controllerd.core.model import Broker, BrokerId, LeaderAndIsr, TopicImage, TopicPartition
from controllerd.errors import BadZnode
from controllerd.views import Holder

# -- results of reads --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BrokersRead:
    """The registered brokers, and the registrations that cannot be used, by path."""

    brokers: Mapping[BrokerId, Broker]
    broken: tuple[BadZnode, ...] = ()
    controllers: frozenset[BrokerId] = frozenset()
    """The ids under which instances of controllerd are registered; they are not brokers."""


@dataclass(frozen=True, slots=True)
class TopicsRead:
    """The topic znodes that were decoded, the names without a znode, and the znodes that cannot be decoded."""

    topics: Mapping[str, TopicImage]
    missing: frozenset[str] = frozenset()
    broken: tuple[BadZnode, ...] = ()


@dataclass(frozen=True, slots=True)
class StatesRead:
    """The partition states that were decoded, those without a znode, and the znodes that cannot be decoded."""

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


class DelegationToken(NamedTuple):
    """The part of a delegation token that matters for its expiry."""

    owner: str
    """The principal as the znode has it: percent-encoded."""
    expires_ms: int
    """Milliseconds since 1970: the earlier of the expiry and the end of the longest life."""
    znode_version: int


@dataclass(frozen=True, slots=True)
class TokensRead:
    """The delegation tokens by id, and the znodes that cannot be decoded."""

    tokens: Mapping[str, DelegationToken]
    broken: tuple[BadZnode, ...] = ()


# -- results of writes -------------------------------------------------------------------------------------------------


class Written(NamedTuple):
    """The write succeeded; the znode has this data version now."""

    version: int


class Conflict(NamedTuple):
    """Another client changed, created or deleted the znode first: it must be read again before the next decision."""

    reason: str


class WriteFailed(NamedTuple):
    """ZooKeeper refused this item, and would refuse it again."""

    reason: str


WriteResult = Written | Conflict | WriteFailed


class AllocatedProducerIds(NamedTuple):
    """A block of producer ids, both ends included."""

    broker: BrokerId | None
    """None: no block was ever allocated."""
    block_start: int
    block_end: int
    version: int
    """The data version of the znode that was read, -1 if it is missing."""


class NewTopicZnodes(NamedTuple):
    """A topic that is to be created, and the overrides that are stored with it."""

    image: TopicImage
    configs: Mapping[str, str]


class ConfigRead(NamedTuple):
    """A configuration at a version (-1: there is none), with the unknown fields of its znode."""

    config: Mapping[str, str]
    version: int
    extra: Mapping[str, object]


class ReassignmentsRead(NamedTuple):
    """``/admin/reassign_partitions`` at a version: the wanted replicas per partition, in the order of the file."""

    targets: Mapping[TopicPartition, tuple[BrokerId, ...]]
    version: int


class ElectionsRead(NamedTuple):
    """``/admin/preferred_replica_election`` at a version."""

    partitions: tuple[TopicPartition, ...]
    version: int


class ConfigChangesRead(NamedTuple):
    """Children of ``/config/changes`` and the entities that they name, such as ``topics/orders``."""

    entities: Mapping[str, str]
    """By name of the child, in the order of their sequence numbers."""
    broken: tuple[BadZnode, ...] = ()
    names: frozenset[str] = frozenset()
    """All children, including the known ones that were not read again."""


class FeaturesRead(NamedTuple):
    """``/feature`` at a version: finalized level by feature (KIP-584)."""

    levels: Mapping[str, int]
    version: int
    enabled: bool = False
    format_version: int = 1


class Won(NamedTuple):
    """This instance won the election with this epoch, and this version of ``/controller_epoch``."""

    epoch: int
    epoch_zk_version: int
    previous: Holder | None


class Held(NamedTuple):
    """Another instance keeps the role; ``reason`` says why, for operators."""

    holder: Holder
    reason: str
