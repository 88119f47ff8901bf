"""The bodies of the verbs. ``?dryRun=true`` plans only; ``Idempotency-Key`` makes a repetition harmless."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from controllerd.planning.plans import BrokerNumber, Count, PartitionNumber

Bytes = Annotated[int, Meta(ge=1, le=2**63 - 1)]
Paused = Annotated[str, Meta(pattern="^(auto-rebalance|deletions|drain-(0|[1-9][0-9]{0,9}))$")]


class PartitionName(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One partition."""

    topic: str
    partition: PartitionNumber


class ElectionRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``POST /v1/elections``: of these partitions, of these topics, of what a broker should lead, or of all."""

    type: Literal["preferred", "unclean"]
    partitions: list[PartitionName] = []
    topics: list[str] = []
    broker: BrokerNumber | None = None
    all: bool = False
    accept_data_loss: bool = False
    """Must be true for ``unclean``."""
    reason: str = ""


class Move(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The wished replicas of one partition, the preferred leader first."""

    topic: str
    partition: PartitionNumber
    replicas: list[BrokerNumber]


class ReassignmentRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``POST /v1/reassignments``."""

    partitions: list[Move]
    throttle_bytes_per_s: Bytes | None = None
    """Set on brokers and topics before the first move, and removed by the controller at the end or when cancelled."""
    batch: Count | None = None
    """At most so many partitions move at a time; all at once when null."""
    additional: bool = False
    """Whether moves that are under way already may be left beside these (kafka-reassign-partitions --additional)."""
    reason: str = ""


class CancelRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``POST /v1/reassignments:cancel``."""

    partitions: list[PartitionName] = []
    all: bool = False
    reason: str = ""


class NewTopic(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``POST /v1/topics``."""

    topic: str
    partitions: Count | None = None
    replication_factor: Count | None = None
    replica_assignment: list[list[BrokerNumber]] | None = None
    configs: dict[str, str] = {}
    if_not_exists: bool = False
    reason: str = ""


class MorePartitions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``POST /v1/topics/{topic}/partitions``; ``total`` is the new number."""

    total: Count
    replica_assignment: list[list[BrokerNumber]] | None = None
    reason: str = ""


class DeleteTopic(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``POST /v1/topics/{topic}/delete``; ``confirm`` repeats the name, so that no slip deletes a topic."""

    confirm: str
    if_exists: bool = False
    reason: str = ""


class DrainRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``POST /v1/brokers/{id}/drain``: other brokers lead its partitions, and it goes on as a follower.

    Without ``leaders_only`` it leaves the ISRs as well, as in a controlled shutdown, and must be
    stopped next.
    """

    leaders_only: bool = True
    reason: str = ""


class PauseRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``POST /v1/pause``; it ends by itself after ``for_s`` seconds."""

    what: Literal["auto-rebalance", "deletions"]
    for_s: Count
    reason: str = ""


class ResumeRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``POST /v1/resume``; ``drain-3``: the drained broker 3 may lead again."""

    what: Paused
    reason: str = ""


class ResyncRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``POST /v1/resync``: read ZooKeeper again without an election."""

    reason: str = ""
