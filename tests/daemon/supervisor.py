"""The part of systemd that a daemon notifies."""

import asyncio
import socket
import uuid

RECEIVES_S = 60.0
"""The longest that a start may take on a machine that is busy with other things."""


class Supervisor:
    """systemd's end of the notify socket."""

    def __init__(self) -> None:
        self.address = f"@controllerd-{uuid.uuid4()}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(f"\0{self.address[1:]}")
        self._socket.setblocking(False)
        self.received: list[str] = []

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    async def receive(self, line: str) -> None:
        """Wait until a datagram with this line arrives."""
        async with asyncio.timeout(RECEIVES_S):
            while line not in (self.received[-1].splitlines() if self.received else ()):
                self.received.append((await asyncio.get_running_loop().sock_recv(self._socket, 4096)).decode())
