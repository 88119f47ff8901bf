"""The rules for names of new topics: characters, length, and collisions of ``.`` and ``_`` in metric names.

The sentences are those of Kafka's own controller, because scripts search for them.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from controllerd.core.kafka_error import KafkaError, Refusal

MAX_NAME_LENGTH: Final = 249
"""In UTF-16 units, as Java counts; a legal name has as many letters."""
CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"
"""The log of a KRaft quorum: no topic of clients may be called so."""
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def name_problem(name: str) -> str | None:
    """Return why no topic can have this name (error 17), or None."""
    reason = _reason(name)
    return None if reason is None else f"Topic name is invalid: {reason}"


def _reason(name: str) -> str | None:
    if not name:
        return "the empty string is not allowed"
    if name in {".", ".."}:
        return f"'{name}' is not allowed"
    if len(name.encode("utf-16-le", "surrogatepass")) // 2 > MAX_NAME_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    if not _LEGAL.fullmatch(name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def unified(name: str) -> str:
    """The name as metrics show it; topics that share it collide."""
    return name.replace(".", "_")


def refused_names(names: Sequence[str]) -> dict[str, Refusal]:
    """Return the topics of a CreateTopics request that are refused before authorization, as in Kafka.

    They are repeated names and the name of the log of KRaft.
    """
    refused = {
        name: Refusal(KafkaError.INVALID_REQUEST, "Found multiple entries for this topic.")
        for name, times in Counter(names).items()
        if times > 1
    }
    if CLUSTER_METADATA_TOPIC in names:
        text = f"Creation of internal topic {CLUSTER_METADATA_TOPIC} is prohibited."
        refused[CLUSTER_METADATA_TOPIC] = Refusal(KafkaError.INVALID_REQUEST, text)
    return refused


class TakenNames:
    """The names of all topics that have a znode, for the search for collisions.

    Each topic of a request is added, so that two topics of one request cannot collide either.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = set(names)
        self._by_unified: defaultdict[str, set[str]] | None = None

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def add(self, name: str) -> None:
        """Add the name of a topic that was created."""
        self._names.add(name)
        if self._by_unified is not None:
            self._by_unified[unified(name)].add(name)

    def colliding(self, name: str) -> list[str]:
        """Return the other topics, by name, whose metrics would have the same name."""
        if "." not in name and "_" not in name:
            return []
        return sorted(self._index().get(unified(name), set()) - {name})

    def _index(self) -> defaultdict[str, set[str]]:
        """Return the index by unified name, made at the first call: most names have neither of the two characters."""
        if self._by_unified is None:
            self._by_unified = defaultdict(set)
            for name in self._names:
                self._by_unified[unified(name)].add(name)
        return self._by_unified
