"""The types of plans: the request, the planned moves, and the outcome for a single partition. Pure."""

from collections.abc import Iterable
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId

BrokerNumber = Annotated[int, Meta(ge=0, le=2**31 - 1)]
PartitionNumber = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Count = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Replicas = tuple[BrokerId, ...]


class ReassignmentPlanRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``POST /v1/reassignments:plan``: the topics, source brokers and target brokers of a plan; changes nothing."""

    topics: list[str] = []
    """Globs; every topic when empty."""
    from_brokers: list[BrokerNumber] = []
    """Brokers whose replicas are moved; all brokers when empty."""
    to_brokers: list[BrokerNumber] = []
    """Brokers that may get replicas; all live brokers except ``from_brokers`` when empty."""
    replication_factor: Count | None = None
    rack_aware: bool = True


class PlannedMove(msgspec.Struct, frozen=True, kw_only=True):
    """One partition of a plan."""

    topic: str
    partition: int
    before: list[int]
    after: list[int]
    bytes: int | None
    """Size of the records to copy; null while it is not known."""


class Plan(msgspec.Struct, frozen=True, kw_only=True, rename={"api_version": "apiVersion"}):
    """The plan of a reassignment. ``after`` of all moves in Kafka's JSON carries it out; ``before`` reverts it."""

    api_version: str = "v1"
    kind: str = "ReassignmentPlan"
    moves: list[PlannedMove]
    replicas_moved: int
    leaders_moved: int
    bytes: int | None
    notes: list[str]
    """Reasons for the plan, and for what could not be planned."""


class PartitionOutcome(NamedTuple):
    """The outcome for one partition, forecast or reached."""

    state: Literal["planned", "running", "done", "not-needed", "failed"]
    detail: str
    error: KafkaError | None = None
    """Kafka's error, if it failed."""


def failed(error: KafkaError, detail: str) -> PartitionOutcome:
    """The outcome of a partition that fails."""
    return PartitionOutcome("failed", detail, error)


def listed(brokers: Iterable[int]) -> str:
    """Broker ids for people, as Kafka's tools show them."""
    return f"[{', '.join(map(str, brokers))}]"
