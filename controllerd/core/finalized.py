"""Finalized features (KIP-584): which updates are allowed, and which brokers keep to what the cluster agreed on.

A broker supports a feature within a range of levels. Brokers of ZooKeeper-mode clusters have no features, so that in
practice every update of one is refused.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from controllerd.core.model import Broker

Levels = Mapping[str, int]


class WantedLevel(NamedTuple):
    """The level that somebody wants a feature to have; below 1, with permission to lower, it is deleted."""

    level: int
    may_lower: bool


def refusal(name: str, wanted: WantedLevel, levels: Levels, brokers: Iterable[Broker]) -> str | None:
    """Why this update is not allowed where these levels are finalized; None: it is."""
    level, may_lower = wanted
    current = levels.get(name)
    if not name:
        return "a feature needs a name"
    if level < 1:
        if not may_lower:
            return f"level {level} would delete the feature, which is not allowed without downgrade"
        return "the feature is not finalized" if current is None else None
    if current is not None and (error := _wrong_way(level, current, may_lower=may_lower)) is not None:
        return error
    return _unsupported(name, level, list(brokers))


def _wrong_way(level: int, current: int, *, may_lower: bool) -> str | None:
    if level == current:
        return f"the feature is at level {current} already"
    if level < current and not may_lower:
        return f"level {level} is lower than {current}, which is not allowed without downgrade"
    if level > current and may_lower:
        return f"level {level} is higher than {current}: that is no downgrade"
    return None


def _unsupported(name: str, level: int, brokers: list[Broker]) -> str | None:
    without = [broker.id for broker in brokers if incompatibility(broker, {name: level}) is not None]
    if without or not brokers:
        return f"level {level} is not supported by brokers {without}" if without else "no broker supports it"
    return None


def updated(levels: Levels, name: str, wanted: WantedLevel) -> dict[str, int]:
    """The levels after an update that is allowed."""
    others = {other: level for other, level in levels.items() if other != name}
    return others if wanted.level < 1 else {**others, name: wanted.level}


def incompatibility(broker: Broker, levels: Levels) -> str | None:
    """Why a broker must not serve in a cluster with these levels; None: it may."""
    for name, level in sorted(levels.items()):
        supported = broker.features.get(name)
        if supported is None:
            return f"does not know the finalized feature {name}"
        lowest, highest = supported
        if not lowest <= level <= highest:
            return f"supports levels {lowest} to {highest} of {name}, of which {level} is finalized"
    return None
