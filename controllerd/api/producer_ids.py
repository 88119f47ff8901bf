"""Hand out producer ids: an idempotent producer may ask any node, and Java's fails without an answer (A.5)."""

import asyncio
from typing import Final

import structlog

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId
from controllerd.errors import ControllerdError
from events.admin import AllocateProducerIds
from events.queue import EventQueue

_UNKNOWN_EPOCH: Final = -1
_LOW: Final = 100
"""Ids left of a block of 1,000 when the next one is requested, so that clients rarely wait."""
_LOG = structlog.get_logger(__name__)


class OwnProducerIds:
    """Blocks of producer ids that this node hands out one by one. An id is never handed out twice."""

    def __init__(self, queue: EventQueue, node_id: int, *, retry_s: float = 0.1) -> None:
        """``retry_s`` separates a failed allocation from the next."""
        self._queue = queue
        self._node_id = BrokerId(node_id)
        self._retry_s = retry_s
        self._retry_at = 0.0
        self._present = range(0)
        self._next = range(0)
        self._refill: asyncio.Task[None] | None = None

    def take(self, *, may_allocate: bool) -> int | None:
        """Return the next producer id, or None while there is none. Request another block early, if possible."""
        if not self._present:
            self._present, self._next = self._next, range(0)
        taken = self._present[0] if self._present else None
        self._present = self._present[1:]
        if may_allocate and not self._next and len(self._present) <= _LOW:
            self._start_refill()
        return taken

    async def close(self) -> None:
        """Cancel the request for a block."""
        if self._refill is not None:
            self._refill.cancel()
            await asyncio.gather(self._refill, return_exceptions=True)

    def _start_refill(self) -> None:
        if self._refill is None and asyncio.get_running_loop().time() >= self._retry_at:
            self._refill = asyncio.create_task(self._allocate(), name="allocate-own-producer-ids")

    async def _allocate(self) -> None:
        try:
            block = await self._queue.call(AllocateProducerIds(self._node_id, _UNKNOWN_EPOCH))
        except ControllerdError as error:
            self._put_off(repr(error))
        else:
            if block.error is KafkaError.NONE and block.length > 0:
                self._next = range(block.start, block.start + block.length)
            else:
                self._put_off(block.error.name)
        finally:
            self._refill = None

    def _put_off(self, reason: str) -> None:
        self._retry_at = asyncio.get_running_loop().time() + self._retry_s
        _LOG.info("received no producer ids", reason=reason)
