"""Finalized features (KIP-584): the updates that are allowed, and the brokers that are compatible with them.

A broker supports a feature within a range of levels. Brokers of ZooKeeper-mode clusters have no features, so that in
practice every update of one is refused. The sentences are those of Kafka's own controller.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from controllerd.core.model import Broker

Levels = Mapping[str, int]
_SAFE: Final = "SAFE downgradeType"
_NOT_APPLIED: Final = "Could not apply finalized feature update because"
_INCOMPATIBLE: Final = "brokers were found to have incompatible versions for the feature."


class WantedLevel(NamedTuple):
    """The requested level of a feature. A level below 1 deletes the feature, and requires ``may_lower``."""

    level: int
    may_lower: bool


def refusal(name: str, wanted: WantedLevel, levels: Levels, brokers: Iterable[Broker]) -> str | None:
    """Return why an update is not allowed while these levels are finalized; None if it is allowed."""
    level, may_lower = wanted
    current = levels.get(name)
    if not name:
        return "Feature name can not be empty."
    if level < 1:
        if may_lower:
            return "Can not delete non-existing finalized feature." if current is None else None
        return f"Can not provide versionLevel: {level} less than 1 without setting the {_SAFE} in the request."
    if current is not None and (error := _wrong_way(level, current, may_lower=may_lower)) is not None:
        return error
    return _unsupported(name, level, list(brokers))


def _wrong_way(level: int, current: int, *, may_lower: bool) -> str | None:
    if level == current:
        way = "downgrade" if may_lower else "upgrade"
        return f"Can not {way} a finalized feature from existing versionLevel:{current} to the same value."
    if level < current and not may_lower:
        return (
            f"Can not downgrade finalized feature from existing versionLevel:{current} to provided "
            f"versionLevel:{level} without setting the downgradeType to SAFE in the request."
        )
    if level > current and may_lower:
        return (
            "When the downgradeType is set to SAFE in the request, the provided "
            f"versionLevel:{level} can not be greater than existing versionLevel:{current}."
        )
    return None


def _unsupported(name: str, level: int, brokers: list[Broker]) -> str | None:
    if not any(name in broker.features for broker in brokers):
        return f"{_NOT_APPLIED} the provided feature is not supported."
    without = [broker.id for broker in brokers if incompatibility(broker, {name: level}) is not None]
    return f"{_NOT_APPLIED} {_INCOMPATIBLE} Brokers {without}." if without else None


def updated(levels: Levels, name: str, wanted: WantedLevel) -> dict[str, int]:
    """Return the levels after an update that is allowed."""
    others = {other: level for other, level in levels.items() if other != name}
    return others if wanted.level < 1 else {**others, name: wanted.level}


def incompatibility(broker: Broker, levels: Levels) -> str | None:
    """Return why a broker is incompatible with these finalized levels; None if it is compatible."""
    for name, level in sorted(levels.items()):
        supported = broker.features.get(name)
        if supported is None:
            return f"does not know the finalized feature {name}"
        lowest, highest = supported
        if not lowest <= level <= highest:
            return f"supports levels {lowest} to {highest} of {name}, of which {level} is finalized"
    return None
