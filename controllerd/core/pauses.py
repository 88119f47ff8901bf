"""What operators told the controller to leave alone for a while, and until when.

PURE. Part of the context and of what readers see; kept in ZooKeeper by the store, so that a failover does not end it.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from controllerd.core.model import NO_EPOCH, BrokerId

AUTO_REBALANCE: Final = "auto-rebalance"
"""The periodic preferred elections do nothing; those that somebody asks for are held."""
DELETIONS: Final = "deletions"
"""No deletion of a topic begins or goes on; what brokers were told already they do."""
PAUSABLE: Final = (AUTO_REBALANCE, DELETIONS)
"""What an operator can pause by name; ``DrainBroker`` adds ``drain_of`` a broker."""
LONGEST_MS: Final = 7 * 24 * 3_600_000
"""Nobody remembers a pause of weeks: it must be asked for again, in milliseconds."""

_DRAIN: Final = re.compile(r"drain-(0|[1-9][0-9]{0,9})")


class PauseView(NamedTuple):
    """One pause. ``until_ms``: wall clock at which it ends by itself. ``by`` and ``reason`` are for people."""

    until_ms: int
    reason: str
    by: str
    broker_epoch: int = NO_EPOCH
    """Of a drained broker: the pause ends with this life of it."""


Pauses = Mapping[str, PauseView]
NO_PAUSES: Final[Pauses] = MappingProxyType({})


def drain_of(broker: BrokerId) -> str:
    """The name of the pause by which the automatic rebalance gives a broker no leaderships back."""
    return f"drain-{broker}"


def drained_by(what: str) -> BrokerId | None:
    """The broker of such a name; None for any other pause."""
    match = _DRAIN.fullmatch(what)
    return BrokerId(int(match[1])) if match is not None else None


def is_pausable(what: str) -> bool:
    """Whether there is such a pause."""
    return what in PAUSABLE or drained_by(what) is not None


class PausesRead(NamedTuple):
    """What is kept of the pauses. ``begun``: topics that brokers were told are gone when deletions were paused."""

    pauses: Pauses = NO_PAUSES
    begun: frozenset[str] = frozenset()
