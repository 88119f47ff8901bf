"""The bodies of the verbs. ``?dryRun=true`` plans only; ``Idempotency-Key`` makes a repeated request harmless."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from controllerd.planning.plans import BrokerNumber, Count, PartitionNumber

Bytes = Annotated[int, Meta(ge=1, le=2**63 - 1)]
Paused = Annotated[str, Meta(pattern="^(auto-rebalance|deletions|drain-(0|[1-9][0-9]{0,9}))$")]


class VerbRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of ``POST /v1/resign`` and ``/v1/resync``, and the base of the bodies of the other verbs."""

    reason: str = ""
    """Written to the audit log."""


class PartitionName(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One partition."""

    topic: str
    partition: PartitionNumber


class ElectionRequest(VerbRequest, frozen=True, kw_only=True):
    """``POST /v1/elections``.

    The elections are for these partitions, for these topics, for the partitions whose preferred leader is this broker,
    or for all partitions.
    """

    type: Literal["preferred", "unclean"]
    partitions: list[PartitionName] = []
    topics: list[str] = []
    broker: BrokerNumber | None = None
    all: bool = False
    accept_data_loss: bool = False
    """Must be true for ``unclean``."""


class Move(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The target replicas of one partition, the preferred leader first."""

    topic: str
    partition: PartitionNumber
    replicas: list[BrokerNumber]


class ReassignmentRequest(VerbRequest, frozen=True, kw_only=True):
    """``POST /v1/reassignments``."""

    partitions: list[Move]
    throttle_bytes_per_s: Bytes | None = None
    """Set on brokers and topics before the first move. The controller removes it at the end or when cancelled."""
    batch: Count | None = None
    """The most partitions that move at a time; all at once when null."""
    additional: bool = False
    """Whether reassignments that are under way may continue beside these (kafka-reassign-partitions --additional)."""


class CancelRequest(VerbRequest, frozen=True, kw_only=True):
    """``POST /v1/reassignments:cancel``."""

    partitions: list[PartitionName] = []
    all: bool = False


class NewTopic(VerbRequest, frozen=True, kw_only=True):
    """``POST /v1/topics``."""

    topic: str
    partitions: Count | None = None
    replication_factor: Count | None = None
    replica_assignment: list[list[BrokerNumber]] | None = None
    configs: dict[str, str] = {}
    if_not_exists: bool = False


class MorePartitions(VerbRequest, frozen=True, kw_only=True):
    """``POST /v1/topics/{topic}/partitions``; ``total`` is the new number."""

    total: Count
    replica_assignment: list[list[BrokerNumber]] | None = None


class DeleteTopic(VerbRequest, frozen=True, kw_only=True):
    """``POST /v1/topics/{topic}/delete``; ``confirm`` repeats the name, so that no slip deletes a topic."""

    confirm: str
    if_exists: bool = False


class DrainRequest(VerbRequest, frozen=True, kw_only=True):
    """``POST /v1/brokers/{id}/drain``: other brokers lead its partitions, and it continues as a follower.

    Without ``leaders_only`` the broker leaves the ISRs as well, as in a controlled shutdown, and must be stopped next.
    """

    leaders_only: bool = True


class ForgetRequest(VerbRequest, frozen=True, kw_only=True):
    """``POST /v1/brokers/{id}/forget``; ``confirm`` repeats the id, so that no slip forgets a broker."""

    confirm: int | None = None


class PauseRequest(VerbRequest, frozen=True, kw_only=True):
    """``POST /v1/pause``; the pause ends by itself after ``for_s`` seconds."""

    what: Literal["auto-rebalance", "deletions"]
    for_s: Count


class ResumeRequest(VerbRequest, frozen=True, kw_only=True):
    """``POST /v1/resume``; ``drain-3``: the drained broker 3 may lead again."""

    what: Paused


class TakeoverRequest(VerbRequest, frozen=True, kw_only=True, rename={"from_": "from"}):
    """``POST /v1/takeover``; with ``remember`` this instance takes the role from brokers by itself from now on."""

    remember: bool = False
    from_: Literal["any", "broker", "instance"] = "any"
    """Refused when the holder is of the other kind: a broker's built-in controller, or an instance of controllerd."""
