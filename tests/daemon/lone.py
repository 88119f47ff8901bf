"""The surroundings of an instance without ZooKeeper and brokers; the fixture ``node`` is the instance."""

from dataclasses import dataclass

from controllerd.zk.session import SessionState

SESSION_MS = 1_000


@dataclass
class Session:
    """A session that looks alive."""

    state: SessionState = SessionState.CONNECTED


class Reads:
    """The reads of a session whose server does not lag."""

    async def sync(self) -> None:
        """Return at once."""
