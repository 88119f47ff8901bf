"""The rows of the table of releases: each release at the lowest protocol version that is served, and at its own."""

from typing import NamedTuple

from controllerd.core.protocol_versions import LOWEST
from controllerd.dev.releases import TESTED_RELEASES


class Case(NamedTuple):
    """A release of the brokers, and their ``inter.broker.protocol.version``."""

    release: str
    protocol: str

    @property
    def id(self) -> str:
        """Return the name in pytest and in the record of results."""
        return f"{self.release}-{self.protocol}"


def cases() -> list[Case]:
    """Return the cases by release: first the lowest protocol version, then the release's own."""
    return [
        Case(release, protocol)
        for release in TESTED_RELEASES
        for protocol in dict.fromkeys((LOWEST, release.rpartition(".")[0]))
    ]
