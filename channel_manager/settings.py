"""Times and limits of the channels to brokers, and how much of a queue a request takes."""

from dataclasses import dataclass
from typing import Final

from controllerd.core.requests import (
    ControlRequest,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from wire.connection import DEFAULT_TIMEOUT_S

_FIXED_BYTES: Final = 100
_BROKER_BYTES: Final = 60


@dataclass(frozen=True, slots=True)
class ChannelSettings:
    """Times in seconds, sizes in bytes."""

    connect_timeout_s: float = DEFAULT_TIMEOUT_S
    request_timeout_s: float = DEFAULT_TIMEOUT_S
    """How long an answer may take before the connection is given up and the request repeated."""
    backoff_s: float = 0.1
    """Seconds between two attempts; Kafka's value."""
    authorization_backoff_s: float = 5.0
    """Seconds between two attempts while the broker answers that we are not authorized."""
    coalesce: bool = True
    """Whether UpdateMetadata for a broker that is behind may be merged."""
    coalesce_age_s: float = 1.0
    """Seconds: a broker is behind when the last request in its queue has waited longer."""
    coalesce_depth: int = 20
    """A broker is also behind when this many requests wait."""
    max_queue_bytes: int = 64 * 2**20
    """A queue with more estimated bytes is dropped; the broker is brought up to date when it answers."""
    max_queue_age_s: float = 300.0
    """Seconds: a queue is also dropped when its oldest request has waited longer."""


def estimated_bytes(request: ControlRequest) -> int:
    """Roughly how many bytes the request will be, without encoding it (performance.md section 3)."""
    match request:
        case LeaderAndIsrRequest():
            return _FIXED_BYTES + 51 * len(request.partitions)
        case UpdateMetadataRequest():
            return _FIXED_BYTES + 48 * len(request.body.partitions) + _BROKER_BYTES * len(request.body.live_brokers)
        case StopReplicaRequest():
            return _FIXED_BYTES + 10 * len(request.partitions)
