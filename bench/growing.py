"""AlterPartition requests of stub leaders whose new replicas catch up at once.

A stub sends one request at a time, with every change that waits, as a broker does. One LeaderAndIsr makes the changes,
so a leader sends one request for all its partitions.
"""

import asyncio
import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

from bench.frames import State, skip_ids, state_at, walk_leader_and_isr
from wire.connection import KafkaConnection
from wire.primitives import FLEXIBLE, INT32, INT64
from wire.versions import ApiKey

_VERSION: Final = 3
_ID: Final = struct.Struct(">i")
_RECOVERED: Final = b"\x00"
_ANSWER_S: Final = 60.0


class PartitionKey(NamedTuple):
    """A partition as AlterPartition names it."""

    topic_id: bytes
    partition: int


class WantedIsr(NamedTuple):
    """The ISR that a leader requests, and the state on which the request is based."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]


def wanted_by(frame: bytes, leader: int) -> dict[PartitionKey, WantedIsr]:
    """Return the larger ISRs that the receiver of a LeaderAndIsr requests: with the adding replicas, where it leads."""
    wanted: dict[PartitionKey, WantedIsr] = {}

    def read(frame: bytes, at: int, number: int, entries: dict[int, State | None]) -> int:
        for _ in range(number):
            at = state_at(frame, at, entries)
            end = skip_ids(frame, at)
            adding[next(reversed(entries))] = _ids(frame[at + 1 : end])  # fewer than 127, so one byte of length
            at = skip_ids(frame, end) + 3  # removing; is new, recovery state, tags
        return at

    adding: dict[int, tuple[int, ...]] = {}
    for _, topic_id, entries in walk_leader_and_isr(frame, read):
        for partition, state in entries.items():
            if state is not None and state.leader == leader:
                isr = _ids(state.isr)
                missing = [broker for broker in adding[partition] if broker not in isr]
                if missing:
                    wanted[PartitionKey(topic_id, partition)] = WantedIsr(
                        state.leader_epoch, state.partition_epoch, (*isr, *missing)
                    )
        adding.clear()
    return wanted


def _ids(raw: bytes) -> tuple[int, ...]:
    return tuple(broker for (broker,) in _ID.iter_unpack(raw))


def alter_partition(broker: int, epochs: Mapping[int, int], wanted: Mapping[PartitionKey, WantedIsr]) -> bytes:
    """Return the body of an AlterPartition request of version 3."""
    topics: dict[bytes, list[bytes]] = {}
    for place, one in wanted.items():
        members = b"".join(_ID.pack(b) + INT64.pack(epochs[b]) + FLEXIBLE.tags for b in one.isr)
        topics.setdefault(place.topic_id, []).append(
            INT32.pack(place.partition) + INT32.pack(one.leader_epoch) + FLEXIBLE.count(len(one.isr)) + members
            + _RECOVERED + INT32.pack(one.partition_epoch) + FLEXIBLE.tags
        )  # fmt: skip
    rows = b"".join(
        topic_id + FLEXIBLE.count(len(parts)) + b"".join(parts) + FLEXIBLE.tags for topic_id, parts in topics.items()
    )
    return INT32.pack(broker) + INT64.pack(epochs[broker]) + FLEXIBLE.count(len(topics)) + rows + FLEXIBLE.tags


class Leader:
    """Send the AlterPartition requests of one broker."""

    def __init__(self, broker: int, host: str, port: int, epochs: Mapping[int, int]) -> None:
        self._broker = broker
        self._address = (host, port)
        self._epochs = epochs
        self._waiting: dict[PartitionKey, WantedIsr] = {}
        self._asked: dict[PartitionKey, WantedIsr] = {}
        self._more = asyncio.Event()

    def on_leader_and_isr(self, frame: bytes) -> None:
        """Note the changes that follow from a LeaderAndIsr; a change that was requested before is left out."""
        fresh = {place: one for place, one in wanted_by(frame, self._broker).items() if self._asked.get(place) != one}
        self._waiting |= fresh
        self._asked |= fresh
        if fresh:
            self._more.set()

    def take(self) -> dict[PartitionKey, WantedIsr]:
        """Take the requests that wait."""
        wanted, self._waiting = self._waiting, {}
        return wanted

    async def run(self) -> None:
        """Send requests until cancelled."""
        connection = await KafkaConnection.connect(*self._address, str(self._broker), request_timeout_s=_ANSWER_S)
        while True:
            await self._more.wait()
            self._more.clear()
            body = alter_partition(self._broker, self._epochs, self.take())
            await connection.request(ApiKey.ALTER_PARTITION, _VERSION, body)
