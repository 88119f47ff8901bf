"""The parts of plans: the request for one, its moves, and the outcome for a single partition. Pure."""

from collections.abc import Iterable
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from controllerd.core.kafka_error import KafkaError

BrokerNumber = Annotated[int, Meta(ge=0, le=2**31 - 1)]
PartitionNumber = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Count = Annotated[int, Meta(ge=1, le=2**31 - 1)]


class ReassignmentPlanRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``POST /v1/reassignments:plan``: which partitions are to leave where, and go where; changes nothing."""

    topics: list[str] = []
    """Globs; every topic when empty."""
    from_brokers: list[BrokerNumber] = []
    """Only replicas on these are moved; any when empty."""
    to_brokers: list[BrokerNumber] = []
    """Where replicas may go; all live brokers but ``from_brokers`` when empty."""
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
    """The answer: what would move. ``after`` of all moves in Kafka's JSON is the plan, ``before`` the way back."""

    api_version: str = "v1"
    kind: str = "ReassignmentPlan"
    moves: list[PlannedMove]
    replicas_moved: int
    leaders_moved: int
    bytes: int | None
    notes: list[str]
    """Reasons for the plan, and for what could not be planned."""


class Outcome(NamedTuple):
    """The outcome for one partition, foreseen or reached."""

    state: Literal["planned", "running", "done", "not-needed", "failed"]
    detail: str
    error: KafkaError | None = None
    """Kafka's error, where it failed."""


def failed(error: KafkaError, detail: str) -> Outcome:
    """The outcome of a partition that fails."""
    return Outcome("failed", detail, error)


def listed(brokers: Iterable[int]) -> str:
    """Broker ids for people, as Kafka's tools show them."""
    return f"[{', '.join(map(str, brokers))}]"
