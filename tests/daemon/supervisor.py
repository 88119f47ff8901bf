"""systemd, as far as a daemon talks to it."""

import asyncio
import socket
import uuid

HEARS_S = 60.0
"""The longest that a start may take on a machine that is busy with other things."""


class Supervisor:
    """systemd's end of the notify socket."""

    def __init__(self) -> None:
        self.address = f"@controllerd-{uuid.uuid4()}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(f"\0{self.address[1:]}")
        self._socket.setblocking(False)
        self.heard: list[str] = []

    def close(self) -> None:
        """Stop to listen."""
        self._socket.close()

    async def hears(self, line: str) -> None:
        """Wait until a datagram with this line arrives."""
        async with asyncio.timeout(HEARS_S):
            while line not in (self.heard[-1].splitlines() if self.heard else ()):
                self.heard.append((await asyncio.get_running_loop().sock_recv(self._socket, 4096)).decode())
