"""Where the server listens, and what it calls itself there."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Listener:
    """A listener of the cluster (``PLAINTEXT``, ``INTERNAL`` ...) on one of our addresses.

    ``port`` 0 lets the system choose. ``advertised_host`` and ``advertised_port`` are what others
    connect to; None means the bound host and port.
    """

    name: str
    host: str
    port: int
    advertised_host: str | None = None
    advertised_port: int | None = None
