"""A server that accepts connections and requests, and never answers."""

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Silent:
    """A server that never answers: its address and its connections."""

    url: str
    connections: list[socket.socket] = field(default_factory=list)

    def is_asked(self) -> bool:
        """Whether a request has come; the connection stays open, so that the client goes on waiting."""
        ready, _, _ = select.select(self.connections, [], [], 0)
        return bool(ready)


@contextmanager
def keeping_silent() -> Iterator[Silent]:
    """Run a silent server during the block."""
    with socket.create_server(("127.0.0.1", 0), backlog=512) as server:
        silent = Silent(f"http://127.0.0.1:{server.getsockname()[1]}")
        accepting = threading.Thread(target=_accept, args=(server, silent))
        accepting.start()
        try:
            yield silent
        finally:
            server.shutdown(socket.SHUT_RDWR)
            accepting.join()
            for connection in silent.connections:
                connection.close()


def _accept(server: socket.socket, silent: Silent) -> None:
    while True:
        try:
            silent.connections.append(server.accept()[0])
        except OSError:  # it is shut down
            return
