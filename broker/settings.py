"""The settings of an embedded broker, named as in Kafka's configuration where Kafka has the setting."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from controllerd.core.model import BrokerId, Endpoint, SecurityProtocol

DEFAULT_SESSION_TIMEOUT_MS: Final = 6_000
DEFAULT_REPLICA_LAG_MS: Final = 3_000
_LISTENER: Final = re.compile(r"([A-Za-z0-9_-]+)://([^:/\[\]]+|\[[0-9a-fA-F:.]+\]):([0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """The settings of one broker. Its only listener also serves the brokers; with port 0 the system chooses a port."""

    broker_id: BrokerId
    zookeeper: str
    """``zookeeper.connect``: servers, and optionally a chroot."""
    listener: Endpoint
    data_dir: Path
    rack: str | None = None
    session_timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS
    replica_lag_ms: int = DEFAULT_REPLICA_LAG_MS
    """A follower that has not fetched for this time leaves the ISR (``replica.lag.time.max.ms``)."""
    fetch_wait_ms: int = 300
    """The time for which a leader holds an empty fetch (``replica.fetch.wait.max.ms``)."""
    fetch_backoff_ms: int = 250
    controlled_shutdown_attempts: int = 3
    controlled_shutdown_backoff_ms: int = 500
    shared: Mapping[str, str] = field(default_factory=dict)
    """Settings that a controller reads and that differ from Kafka's defaults, by Kafka's names."""
    connect_timeout_s: float = 15.0
    """The longest time until the first connection to ZooKeeper."""


def parse_listener(text: str) -> Endpoint:
    """Parse ``NAME://host:port`` of a plaintext listener. :raises ValueError: the text is invalid."""
    match = _LISTENER.fullmatch(text)
    if match is None or int(match[3]) > 65535:
        raise ValueError(f"{text!r} is no listener such as PLAINTEXT://127.0.0.1:9092")
    return Endpoint(match[1].upper(), match[2].strip("[]"), int(match[3]), SecurityProtocol.PLAINTEXT)
