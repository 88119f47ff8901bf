"""What changed among the registered brokers, as a value."""

from collections.abc import Mapping
from typing import NamedTuple

from controllerd.core.model import BrokerId


class BrokerDiff(NamedTuple):
    """New, bounced and dead brokers, each sorted by id; falsy when nothing changed."""

    new: tuple[BrokerId, ...] = ()
    bounced: tuple[BrokerId, ...] = ()
    """Registered again with a greater broker epoch: they restarted or lost their session (KIP-380)."""
    dead: tuple[BrokerId, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.new or self.bounced or self.dead)


def diff_brokers(known: Mapping[BrokerId, int], observed: Mapping[BrokerId, int]) -> BrokerDiff:
    """Compare two views of broker id -> broker epoch; an epoch that went back is an old read and means nothing."""
    return BrokerDiff(
        new=tuple(sorted(observed.keys() - known.keys())),
        bounced=tuple(sorted(broker for broker, epoch in observed.items() if epoch > known.get(broker, epoch))),
        dead=tuple(sorted(known.keys() - observed.keys())),
    )
