"""Ports of 127.0.0.1 that stay ours while the server behind them is dead."""

import socket
import sys
from typing import Self

LOOPBACK = "127.0.0.1"


class ReservedPort:
    """A port chosen by the kernel and held until `close`, so that a killed server finds it free when it restarts.

    The holding socket is bound and never listens. On Linux a server that sets SO_REUSEADDR, as Java's and asyncio's
    do, can still listen there, while the kernel gives the port to nobody else. Without it a client that keeps knocking
    at a dead server may be given that very port as its own, connect to itself, and block the restart. Elsewhere
    two sockets cannot share a bound port, so it is only chosen, not held.
    """

    def __init__(self) -> None:
        holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind((LOOPBACK, 0))
        self._holder = holder
        self.port: int = holder.getsockname()[1]
        if sys.platform != "linux":
            holder.close()

    @property
    def address(self) -> str:
        """`host:port`, as clients write it."""
        return f"{LOOPBACK}:{self.port}"

    def close(self) -> None:
        """Give the port back to the kernel; a second call does nothing."""
        self._holder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
