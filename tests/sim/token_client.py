"""Delegation tokens of clients of the simulated cluster, and their renewal by brokers."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tests.sim.oracle_seen import WALL_MS
from tests.sim.oracle_tokens import TOKENS

if TYPE_CHECKING:
    from tests.sim.world import SimWorld

CHECK_MS: Final = 2000
"""``delegation.token.expiry.check.interval.ms`` where there are tokens; Kafka's own is an hour."""
_LIVES_S: Final = 1e6


class TokenClient:
    """The tokens of one world.

    The first one expires after every story, so that instances always check for expired ones.
    """

    def __init__(self, world: "SimWorld") -> None:
        self._world = world
        self._renewed_late: set[str] = set()
        self._count = 0
        world.server.on_read.append(self._read)
        self.create(_LIVES_S)

    def create(self, lives_s: float, *, is_renewed_late: bool = False) -> None:
        """Create a token. A broker whose clock is behind renews it right after an instance has read that it expired."""
        path = f"{TOKENS}token{self._count}"
        self._count += 1
        self._put(path, self._world.loop.time() + lives_s)
        if is_renewed_late:
            self._renewed_late.add(path)

    def _read(self, _session: int, paths: Sequence[str], _zxid: int) -> None:
        now = self._world.loop.time()
        for path in sorted(self._renewed_late.intersection(paths)):
            node = self._world.server.nodes.get(path)
            if node is not None and json.loads(node.data or b"")["expiryTimestamp"] < WALL_MS + now * 1000:
                self._renewed_late.discard(path)
                self._world.loop.call_soon(self._renew, path, context=self._world.loop.context_of(""))

    def _renew(self, path: str) -> None:
        if self._world.server.is_up and path in self._world.server.nodes:
            self._put(path, self._world.loop.time() + _LIVES_S)

    def _put(self, path: str, expires_at: float) -> None:
        times = {"issueTimestamp": WALL_MS, "expiryTimestamp": WALL_MS + int(expires_at * 1000)}
        users = {"owner": "User:alice", "tokenRequester": "User:alice", "renewers": []}
        document = {"version": 3, "tokenId": path.removeprefix(TOKENS), "maxTimestamp": 2 * WALL_MS, **times, **users}
        self._world.server.put(path, json.dumps(document).encode())
