"""Requests of brokers to their controller with an unregistered broker id, or with an earlier broker epoch."""

from collections.abc import Iterator
from typing import Final

from tests.real.comparison.asking import Ask
from tests.real.comparison.creations import ORDERS
from tests.real.comparison.others import STRANGE_ID, UNKNOWN

SHUT_DOWN, ALTER = 7, 56
_UNREGISTERED: Final = 77
_PARTITION: Final = {
    "partition_index": 0,
    "leader_epoch": 0,
    "new_isr": [1],
    "new_isr_with_epochs": [{"broker_id": 1, "broker_epoch": 0}],
    "partition_epoch": 0,
}


def shut_down(key: str, broker: int, epoch: int, version: int = 3) -> Ask:
    """A ControlledShutdown; it has the broker epoch from version 2 on."""
    return Ask(f"shutdown {key}", SHUT_DOWN, version, {"broker_id": broker, "broker_epoch": epoch})


def alter(key: str, broker: int, epoch: int, version: int, *topics: str) -> Ask:
    """An AlterPartition, by name or, from version 2 on, by an unknown topic id."""
    rows = [{"topic_name": name, "topic_id": STRANGE_ID, "partitions": [_PARTITION]} for name in topics]
    return Ask(f"alter {key}", ALTER, version, {"broker_id": broker, "broker_epoch": epoch, "topics": rows})


def with_wrong_identities() -> Iterator[Ask]:
    """Requests as broker 1 with epoch 0, before its registration, and as broker 77, which was never registered."""
    for version in range(1, 4):
        yield shut_down(f"of nobody v{version}", _UNREGISTERED, 0, version)
    for version in (2, 3):
        yield shut_down(f"late v{version}", 1, 0, version)
    yield shut_down("without an id", -1, -1)
    for version in range(4):
        yield alter(f"late v{version}", 1, 0, version, ORDERS)
        yield alter(f"of nobody v{version}", _UNREGISTERED, 5, version, ORDERS)
    yield alter("late, of what there is not", 1, 0, 1, UNKNOWN)
    yield alter("late, of nothing", 1, 0, 3)


def passive() -> Iterator[Ask]:
    """The same requests to a node that is not the controller."""
    plan = [shut_down("late", 1, 0), alter("late", 1, 0, 1, ORDERS), alter("late by id", 1, 0, 3, ORDERS)]
    return (ask._replace(id=f"passive {ask.id}", passive=True) for ask in plan)
