"""What a comparison of the cluster's three pictures found: in ZooKeeper, in our memory, and in brokers' metadata.

The types between the daemon, which compares, and ``/v1/diff``, which shows it.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple


class Differing(NamedTuple):
    """One thing that is not the same everywhere; None: there is no such thing there."""

    subject: str
    """``payments-7``, a topic, or ``broker 3``."""
    field: str
    zookeeper: str | None
    memory: str | None
    broker: str | None = None
    """What a broker's metadata says, with its id; None where no broker was compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The result; only what differed in two looks, some seconds apart, in the same way."""

    differences: tuple[Differing, ...]
    partitions: int
    """How many were compared."""
    brokers: tuple[int, ...]
    """Whose metadata was compared."""
    untold: Mapping[int, str] = field(default_factory=lambda: MappingProxyType({}))
    """The brokers that did not tell, each with the reason."""


Compare = Callable[[bool], Awaitable[Comparison]]
"""Compares now; whether brokers are asked, too. :raises StoreUnavailable: ZooKeeper cannot be read."""
