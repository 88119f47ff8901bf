"""Invariants of what others rely on: blocks of producer ids, and that changes in ZooKeeper are noticed. Pure."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from controllerd.record.envelope import Envelope
from controllerd.record.records import AlarmRecord, EventBegin, ReplyRecord, ZkWriteRecord
from controllerd.record.rules.base import Entry, Evidence, Rule

_ALLOCATION: Final = "AllocateProducerIds"
_BLOCK_PATH: Final = "/latest_producer_id_block"
_block: Final = re.compile(r"start\W+(\d+)\W+length\W+([1-9]\d*)").search
"""In the summary of a reply, whatever the level of the log."""


class _Write(NamedTuple):
    """When the last block was written, over which version of the znode, and which it has since."""

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
    """KIP-730: who has the id of another producer is taken for it, and its records for repeated ones.

    Only blocks of which one was written over the other are compared: in between, another write may have begun anew.
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

    def see(self, entry: Entry) -> Iterator[str | Evidence]:
        record, envelope = entry.record, entry.envelope
        log = (envelope.node, envelope.boot)
        if isinstance(record, EventBegin):
            self._written.pop(log, None)
        elif isinstance(record, ZkWriteRecord):
            if _BLOCK_PATH in record.paths and "ok" in record.results:
                at = record.paths.index(_BLOCK_PATH)
                self._written[log] = _Write(record.zxid, record.expected[at], record.versions[at])
        elif isinstance(record, ReplyRecord) and record.name == _ALLOCATION:
            yield from self._see_reply(record, self._written.get(log), envelope)

    def _see_reply(self, record: ReplyRecord, write: _Write | None, at: Envelope) -> Iterator[str]:
        match = _block(record.summary)
        if match is None:
            return
        if write is None:
            yield f"the block from {match[1]} on was handed out and not written"
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
    """KAFKA-1387: a watch that is lost is found out hours later, by the decision that rests on the old state."""

    id = "I-36"
    title = "what is watched in ZooKeeper is looked at when it changes: the comparison finds nothing"
    severity = "error"
    question = "Since when is the picture of this znode wrong, and what was decided by it?"
    kinds = frozenset({AlarmRecord})

    def see(self, entry: Entry) -> Iterator[str | Evidence]:
        record = entry.record
        if not isinstance(record, AlarmRecord) or record.what != "picture differs from ZooKeeper":
            return
        if not record.detail.endswith("/state"):  # which others write without a word, and nobody watches
            yield f"{record.detail} was changed, and nobody looked at it"
