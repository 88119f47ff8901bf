"""The releases of Apache Kafka that brokers can run: those with ZooKeeper mode, from 2.6 on."""

from collections.abc import Mapping
from typing import Final

from controllerd.dev.processes import DevError

DEFAULT_RELEASE: Final = "3.9.1"
"""The release of brokers without a given release."""
LAST_PATCHES: Final[Mapping[str, int]] = {
    "2.6": 3,
    "2.7": 2,
    "2.8": 2,
    "3.0": 2,
    "3.1": 2,
    "3.2": 3,
    "3.3": 2,
    "3.4": 1,
    "3.5": 2,
    "3.6": 2,
    "3.7": 2,
    "3.8": 1,
    "3.9": 1,
}
"""The last patch number of each line of releases."""
LAST_RELEASES: Final = tuple(f"{line}.{patch}" for line, patch in LAST_PATCHES.items())
"""The last release of each line, oldest first."""
TESTED_RELEASES: Final = ("2.6.3", "2.7.2", "2.8.2", "3.0.2", "3.3.2", "3.5.2", "3.7.2", "3.9.1")
"""The releases that ``make test-releases`` runs, oldest first."""

# Kafka moved its command line tools one after the other from the broker's artifact (`kafka.admin`) to `kafka-tools`.
_MOVED_TOOLS: Final[Mapping[str, tuple[tuple[int, int], str]]] = {
    "TopicCommand": ((3, 7), "org.apache.kafka.tools.TopicCommand"),
    "LeaderElectionCommand": ((3, 7), "org.apache.kafka.tools.LeaderElectionCommand"),
    "ReassignPartitionsCommand": ((3, 7), "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"),
}


def check_release(version: str) -> None:
    """Check that `MAJOR.MINOR.PATCH` is a known release.

    Raises:
        DevError: it is no release, or has no ZooKeeper mode; the message names the known releases.
    """
    line, _, patch = version.rpartition(".")
    if line not in LAST_PATCHES or not patch.isascii() or not patch.isdigit() or int(patch) > LAST_PATCHES[line]:
        raise DevError(f"{version} is no known release of Apache Kafka with ZooKeeper mode: {known_releases()}")


def known_releases() -> str:
    """Return the known releases, for messages."""
    return f"known releases are those up to {', '.join(LAST_RELEASES[:-1])} and {LAST_RELEASES[-1]}"


def line_of(version: str) -> tuple[int, int]:
    """Return major and minor number of a release, which sort by age."""
    major, minor, *_ = version.split(".")
    return int(major), int(minor)


def tool_class(tool: str, version: str = DEFAULT_RELEASE) -> str:
    """Return the main class of a command line tool, for example `TopicCommand`, in a release."""
    since, moved = _MOVED_TOOLS[tool]
    return moved if line_of(version) >= since else f"kafka.admin.{tool}"
