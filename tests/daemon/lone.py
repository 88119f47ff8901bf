"""What an instance without ZooKeeper and brokers needs around it; the instance itself is the fixture ``node``."""

from dataclasses import dataclass

from controllerd.zk.session import SessionState

SESSION_MS = 1_000


@dataclass
class Session:
    """A session that looks alive."""

    state: SessionState = SessionState.CONNECTED


class Reads:
    """The reads of a session: there is nothing to catch up with."""

    async def sync(self) -> None:
        """At once."""
