"""The listeners of the server, and its limits, so that no client can disturb the controller or another client."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServerListener:
    """A listener of the cluster (``PLAINTEXT``, ``INTERNAL`` ...) on one of our addresses.

    With ``port`` 0 the system chooses. ``advertised_host`` and ``advertised_port`` are the address that clients
    connect to; None means the bound host and port.
    """

    name: str
    host: str
    port: int
    advertised_host: str | None = None
    advertised_port: int | None = None


MIB = 2**20


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Bounds of the Kafka-protocol server. Times are seconds."""

    max_frame_bytes: int = 16 * MIB
    """The largest legitimate request is AlterPartition, and 250,000 partitions of three replicas fit. This node
    receives no records, so Kafka's 100 MiB (``socket.request.max.bytes``) would only help an attacker."""
    max_first_frame_bytes: int = MIB
    """The limit before the first response. A client of TLS or HTTP seems to announce a frame of gigabytes."""
    max_response_bytes: int = 100 * MIB
    """The largest response of a broker that is relayed."""
    max_connections: int = 2_000
    idle_s: float = 600.0
    """Default of ``connections.max.idle.ms``."""
    frame_s: float = 30.0
    """From the first byte of a frame's content to the last."""
    write_s: float = 30.0
    """The time within which a client must read an answer."""
    call_s: float = 60.0
    """The longest wait for an event. Brokers give up after 30 s (``controller.socket.timeout.ms``)."""
    wait_s: float = 600.0
    """The longest wait for the effect of a request. The connection is not read meanwhile, so the connection of a client
    that has closed it counts until then."""
    relay_s: float = 60.0
    """The longest wait for a relayed answer."""
    connect_s: float = 5.0
    """The longest wait for a connection to a broker and for its ApiVersions answer."""
