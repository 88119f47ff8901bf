"""Producer ids of this broker, a block at a time from the controller (KIP-730)."""

import asyncio
from contextlib import closing
from typing import Final

import structlog
from kio.static.protocol import RequestPayload

from broker.background import Signal
from broker.controller_channel import ControllerChannel
from broker.gate import ControlGate
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId
from wire.api_codec import fill
from wire.kio_codec import request_type
from wire.versions import ApiKey, VersionRange, choose

log = structlog.get_logger(__name__)

_RETRY_S: Final = 0.05
_VERSIONS: Final = VersionRange(0, 0)


class BrokerProducerIds:
    """Hand out ids of the current block, and request another block when it is used up."""

    def __init__(self, broker: BrokerId, gate: ControlGate, channel: ControllerChannel) -> None:
        self._broker = broker
        self._gate = gate
        self._channel = channel
        self._block = range(0)
        self._last = -1
        self._wanted = False
        self._asked = Signal()

    def take(self) -> int | None:
        """Return an unused producer id; None while a block is being requested."""
        if not self._block:
            self._wanted = True
            self._asked.notify()
            return None
        taken, self._block = self._block[0], self._block[1:]
        return taken

    async def run(self) -> None:
        """Request a block whenever one is needed, until cancelled."""
        with closing(self._channel):
            while True:
                if not self._wanted:
                    await self._asked.wait()
                elif not await self._refill():
                    await asyncio.sleep(_RETRY_S)

    async def _refill(self) -> bool:
        answer = await self._channel.ask(ApiKey.ALLOCATE_PRODUCER_IDS, self._request)
        block = range(answer.producer_id_start, answer.producer_id_start + answer.producer_id_len)
        if answer.error_code.value != KafkaError.NONE or block.start <= self._last or not block:
            log.warning("received no producer ids, retrying", error=answer.error_code.value, start=block.start)
            return False
        self._block, self._last, self._wanted = block, block[-1], False
        return True

    def _request(self, versions: VersionRange | None) -> RequestPayload | None:
        version = choose(versions, _VERSIONS)
        if version is None:
            return None
        values = {"broker_id": self._broker, "broker_epoch": self._gate.broker_epoch}
        request: RequestPayload = fill(request_type(ApiKey.ALLOCATE_PRODUCER_IDS, version), values)
        return request
