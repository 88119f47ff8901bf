"""The settings of an embedded broker, under the names of Kafka's own configuration where it has them."""

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
    """One broker. Its only listener is also the one between brokers; port 0 lets the system choose."""

    broker_id: BrokerId
    zookeeper: str
    """``zookeeper.connect``: servers, then perhaps a chroot."""
    listener: Endpoint
    data_dir: Path
    rack: str | None = None
    session_timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS
    replica_lag_ms: int = DEFAULT_REPLICA_LAG_MS
    """A follower that has not fetched for so long leaves the ISR (``replica.lag.time.max.ms``)."""
    fetch_wait_ms: int = 300
    """How long a leader keeps an empty fetch (``replica.fetch.wait.max.ms``)."""
    fetch_backoff_ms: int = 250
    controlled_shutdown_attempts: int = 3
    controlled_shutdown_backoff_ms: int = 500
    shared: Mapping[str, str] = field(default_factory=dict)
    """Settings that a controller asks for and that differ from Kafka's defaults, by Kafka's names."""
    connect_timeout_s: float = 15.0
    """How long the first connection to ZooKeeper may take."""


def parse_listener(text: str) -> Endpoint:
    """``NAME://host:port`` of a plaintext listener. :raises ValueError: it is none."""
    match = _LISTENER.fullmatch(text)
    if match is None or int(match[3]) > 65535:
        raise ValueError(f"{text!r} is no listener such as PLAINTEXT://127.0.0.1:9092")
    return Endpoint(match[1].upper(), match[2].strip("[]"), int(match[3]), SecurityProtocol.PLAINTEXT)
