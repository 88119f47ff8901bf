"""Ports of 127.0.0.1 that stay reserved while their server is not running."""

import socket
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from typing import NamedTuple, Self

LOOPBACK = "127.0.0.1"


class Ports(NamedTuple):
    """The ports of a cluster: of several servers of a kind, that of the first one; 0 is any free port."""

    zookeeper: int = 0
    brokers: int = 0
    listeners: int = 0
    http: int = 0

    def broker(self, broker_id: int) -> int:
        """Return the port of a broker; ids begin with 1."""
        return 0 if self.brokers == 0 else self.brokers + broker_id - 1

    def instance(self, number: int) -> tuple[int, int]:
        """Return the ports of an instance for the Kafka protocol and for HTTP; numbers begin with 0."""
        kafka = 0 if self.listeners == 0 else self.listeners + number
        http = 0 if self.http == 0 else self.http + number
        return kafka, http


ANY_PORTS = Ports()


class ReservedPort:
    """A port, chosen by the kernel unless given, and reserved until `close`, so that a server can be started again.

    The holding socket is bound and never listens. On Linux a server that sets SO_REUSEADDR, as Java's and asyncio's do,
    can still listen there, while the kernel gives the port to no other process. Without the holding socket a client
    that keeps connecting to a dead server may be given that very port as its own, connect to itself, and block the
    restart. On other systems two sockets cannot share a bound port, so the port is only chosen, not reserved.
    """

    def __init__(self, port: int = 0) -> None:
        """:raises OSError: another process listens on the given ``port``."""
        holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with ExitStack() as undo:  # closes the socket if it cannot be bound
            undo.callback(holder.close)
            holder.bind((LOOPBACK, port))
            undo.pop_all()
        self._holder = holder
        self.port: int = holder.getsockname()[1]
        if sys.platform != "linux":
            holder.close()

    @property
    def address(self) -> str:
        """`host:port`, as clients write it."""
        return f"{LOOPBACK}:{self.port}"

    def close(self) -> None:
        """Release the port; a second call does nothing."""
        self._holder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def are_free(ports: Iterable[int]) -> bool:
    """Whether all of them are free now."""
    for port in ports:
        try:
            ReservedPort(port).close()
        except OSError:
            return False
    return True
