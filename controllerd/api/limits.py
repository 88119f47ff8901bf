"""How much one client may take, so that no client can disturb the controller or another client."""

from dataclasses import dataclass

MIB = 2**20


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of the Kafka-protocol server. Times are seconds."""

    max_frame_bytes: int = 16 * MIB
    """The largest legitimate request is AlterPartition, and 250,000 partitions of three replicas fit. Data never comes
    here, so Kafka's own 100 MiB (``socket.request.max.bytes``) would only serve an attacker."""
    max_first_frame_bytes: int = MIB
    """Until it was answered once, a connection may be anything: TLS or HTTP read as a length asks for gigabytes."""
    max_response_bytes: int = 100 * MIB
    """A broker's answer on its way through the relay."""
    max_connections: int = 2_000
    idle_s: float = 600.0
    """Default of ``connections.max.idle.ms``."""
    frame_s: float = 30.0
    """From the first byte of a frame's content to the last."""
    write_s: float = 30.0
    """How long a client may leave an answer unread."""
    call_s: float = 60.0
    """How long an event may take. Brokers give up after 30 (``controller.socket.timeout.ms``), so nobody waits then."""
    wait_s: float = 600.0
    """How long a request may wait until its effect shows. Its connection is not read meanwhile, so that a client which
    went away keeps its place for as long."""
    relay_s: float = 60.0
    """How long a broker may take to answer a relayed request."""
    connect_s: float = 5.0
    """How long a broker may take to accept a connection, and to say what it speaks."""
