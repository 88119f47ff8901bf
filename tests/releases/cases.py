"""The rows of the table of releases: each release with the lowest protocol version that is served, and its own."""

from typing import NamedTuple

from controllerd.core.protocol_versions import LOWEST
from controllerd.dev.releases import TESTED_RELEASES


class Case(NamedTuple):
    """Brokers of a release with a protocol version between them."""

    release: str
    protocol: str

    @property
    def id(self) -> str:
        """Return the name in pytest and in the record of results."""
        return f"{self.release}-{self.protocol}"


def cases() -> list[Case]:
    """By release, the lowest protocol version before the highest, which an upgrade ends with."""
    return [
        Case(release, protocol)
        for release in TESTED_RELEASES
        for protocol in dict.fromkeys((LOWEST, release.rpartition(".")[0]))
    ]
