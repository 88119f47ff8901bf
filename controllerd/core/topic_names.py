"""Which names a new topic may have: their letters and length, and the confusion of ``.`` and ``_`` in metric names.

The sentences are the ones that Kafka's own controller gives, because scripts look for them.
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
    """Why no topic can ever have this name (error 17), or None."""
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
    """The topics of one CreateTopics request that are refused unseen: the name of Kafka's own log, and repeated names.

    It comes before authorization, as in Kafka.
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
    """The names of all topics that have a znode, and which of them a new name would collide with.

    It grows while a request is worked off, so that two of its own topics cannot collide either.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = set(names)
        self._by_unified: defaultdict[str, set[str]] | None = None

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def add(self, name: str) -> None:
        """A topic has been created."""
        self._names.add(name)
        if self._by_unified is not None:
            self._by_unified[unified(name)].add(name)

    def colliding(self, name: str) -> list[str]:
        """The other topics, by name, that a metric could not tell from this one."""
        if "." not in name and "_" not in name:
            return []
        return sorted(self._index().get(unified(name), set()) - {name})

    def _index(self) -> defaultdict[str, set[str]]:
        """Made when first asked for: most names have neither of the two letters."""
        if self._by_unified is None:
            self._by_unified = defaultdict(set)
            for name in self._names:
                self._by_unified[unified(name)].add(name)
        return self._by_unified
