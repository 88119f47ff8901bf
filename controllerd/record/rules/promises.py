"""Invariants of producer id blocks, and of the watches on ZooKeeper. Pure."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from controllerd.record.envelope import Envelope
from controllerd.record.records import AlarmRecord, EventBegin, ReplyRecord, ZkWriteRecord
from controllerd.record.rules.base import CheckedRecord, Evidence, Rule

_ALLOCATION: Final = "AllocateProducerIds"
_BLOCK_PATH: Final = "/latest_producer_id_block"
_block: Final = re.compile(r"start\W+(\d+)\W+length\W+([1-9]\d*)").search
"""Finds the block in the summary of a reply, which every level of the log has."""


class _Write(NamedTuple):
    """The write of a block: its zxid, and the version of the znode before and after it."""

    zxid: int
    expected: int
    version: int


class _Block(NamedTuple):
    """A block of producer ids."""

    write: _Write
    start: int
    length: int
    at: Envelope


class ProducerIdsAreDisjoint(Rule):
    """KIP-730: if two producers have one id, brokers drop records of one as duplicates of the other.

    Only two blocks of successive writes are compared: between others, a write of another program may have reset the
    blocks.
    """

    id = "I-39"
    title = "blocks of producer ids rise in the order of ZooKeeper, and no two overlap"
    severity = "critical"
    question = "Do two producers have one id, and were records of one dropped as duplicates?"
    kinds = frozenset({EventBegin, ZkWriteRecord, ReplyRecord})
    across_nodes = True

    def __init__(self) -> None:
        self._written: dict[tuple[int, str], _Write] = {}
        self._blocks: list[_Block] = []

    def check(self, checked: CheckedRecord) -> Iterator[str | Evidence]:
        record, envelope = checked.record, checked.envelope
        log = (envelope.node, envelope.boot)
        if isinstance(record, EventBegin):
            self._written.pop(log, None)
        elif isinstance(record, ZkWriteRecord):
            if _BLOCK_PATH in record.paths and "ok" in record.results:
                at = record.paths.index(_BLOCK_PATH)
                self._written[log] = _Write(record.zxid, record.expected[at], record.versions[at])
        elif isinstance(record, ReplyRecord) and record.name == _ALLOCATION:
            yield from self._add_reply(record, self._written.get(log), envelope)

    def _add_reply(self, record: ReplyRecord, write: _Write | None, at: Envelope) -> Iterator[str]:
        match = _block(record.summary)
        if match is None:
            return
        if write is None:
            yield f"the block from {match[1]} on was allocated and not written"
        else:
            self._blocks.append(_Block(write, int(match[1]), int(match[2]), at))

    def finish(self) -> Iterator[str | Evidence]:
        for before, after in pairwise(sorted(self._blocks, key=lambda block: block.write)):
            free = before.start + before.length
            if after.write.expected == before.write.version and after.start < free:
                yield Evidence(
                    f"the block from {after.start} on was written over one that ends below {free}", at=after.at
                )


class WatchesAreFollowed(Rule):
    """KAFKA-1387: a lost watch goes unnoticed for hours, until a decision rests on the old state."""

    id = "I-36"
    title = "the controller reads every watched znode that changes, so that the comparison finds no difference"
    severity = "error"
    question = "Since when is the known state of this znode wrong, and which decisions rest on it?"
    kinds = frozenset({AlarmRecord})

    def check(self, checked: CheckedRecord) -> Iterator[str | Evidence]:
        record = checked.record
        if not isinstance(record, AlarmRecord) or record.what != "picture differs from ZooKeeper":
            return
        if not record.detail.endswith("/state"):  # brokers write state znodes too, and these have no watch
            yield f"{record.detail} was changed, and the controller did not read it"
