"""The rows of the table of releases: each release with the lowest and the highest protocol version that it can run."""

from typing import Final, NamedTuple

from controllerd.dev.releases import TESTED_RELEASES

LOWEST: Final = "2.6"
"""The lowest that controllerd serves brokers of; they know lower ones as well."""


class Case(NamedTuple):
    """Brokers of a release that speak a protocol version among each other."""

    release: str
    protocol: str

    @property
    def id(self) -> str:
        """As pytest and the record of what was seen have it."""
        return f"{self.release}-{self.protocol}"


def cases() -> list[Case]:
    """By release, the lowest protocol version before the highest, which an upgrade ends with."""
    return [
        Case(release, protocol)
        for release in TESTED_RELEASES
        for protocol in dict.fromkeys((LOWEST, release.rpartition(".")[0]))
    ]
