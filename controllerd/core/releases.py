"""The Kafka release that a broker runs, as the versions of its APIs show.

A broker names its release nowhere, but its ApiVersions answer differs from release to release.
Several rules depend on the release: which answers a broker understands, which topic configurations it
can read at its next start, and whether it looks its controller up in ZooKeeper.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from controllerd.core.model import BrokerId


class Release(NamedTuple):
    """A Kafka release without its patch number, which changes no protocol; older releases are smaller."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


OLDEST: Final = Release(2, 6)
"""The oldest release whose brokers are served."""
NEWEST: Final = Release(3, 9)
"""The last release with ZooKeeper mode."""

FIRST_SEEN: Final[Mapping[Release, tuple[int, int]]] = MappingProxyType({
    Release(2, 6): (49, 0),  # AlterClientQuotas (KIP-546)
    Release(2, 7): (51, 0),  # AlterUserScramCredentials (KIP-554)
    Release(2, 8): (60, 0),  # DescribeCluster (KIP-700)
    Release(3, 0): (67, 0),  # AllocateProducerIds (KIP-730)
    Release(3, 1): (3, 12),  # Metadata by topic id (KIP-516)
    Release(3, 2): (4, 6),  # LeaderAndIsr with the leader recovery state (KIP-704)
    Release(3, 3): (56, 2),  # AlterPartition with topic ids (KIP-841)
    Release(3, 4): (4, 7),  # LeaderAndIsr of KRaft controllers (KIP-866)
    Release(3, 5): (56, 3),  # AlterPartition with broker epochs (KIP-903)
    Release(3, 6): (24, 4),  # AddPartitionsToTxn in batches (KIP-890)
    Release(3, 7): (60, 1),  # DescribeCluster with the type of the endpoints (KIP-919)
    Release(3, 8): (22, 5),  # InitProducerId of KIP-890
    Release(3, 9): (18, 4),  # ApiVersions of KIP-1022
})  # fmt: skip
"""For each release, an API key with a version of it that no earlier release serves."""


def release_of(api_versions: Mapping[int, tuple[int, int]]) -> Release | None:
    """Return the newest release of which the broker serves the distinguishing version.

    ``api_versions``: lowest and highest version by API key, as in the broker's ApiVersions answer.
    None: the broker is older than 2.6, or no Kafka broker.
    """
    served = [release for release, (api_key, version) in FIRST_SEEN.items() if _serves(api_versions, api_key, version)]
    return max(served, default=None)


def _serves(api_versions: Mapping[int, tuple[int, int]], api_key: int, version: int) -> bool:
    _, highest = api_versions.get(api_key, (-1, -1))
    return highest >= version


class Releases(dict[BrokerId, Release]):
    """The releases of the live brokers that have answered ApiVersions."""

    def __init__(self) -> None:
        super().__init__()
        self.last_known: dict[BrokerId, Release] = {}
        """The releases of brokers that were live in this term and are not any more, when they were last known."""

    def remove(self, broker: BrokerId) -> None:
        """Move the release of a broker that is no longer live to ``last_known``.

        Nothing is kept of a broker that has not answered in its last life: it may have come back with
        another release than before.
        """
        self.last_known.pop(broker, None)
        if (release := self.pop(broker, None)) is not None:
            self.last_known[broker] = release

    @property
    def oldest(self) -> Release | None:
        """The oldest release among them; None before any broker has answered."""
        return min(self.values(), default=None)
