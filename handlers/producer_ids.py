"""Blocks of producer ids (KIP-730)."""

from typing import Final

from controllerd.controller import Controller
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId
from controllerd.ports.results import AllocatedProducerIds, Conflict, Written
from controllerd.record.records import AlarmRecord
from events.admin import AllocateProducerIds, ProducerIdBlock

BLOCK_SIZE: Final = 1000
ATTEMPTS: Final = 20
"""Attempts that find the znode changed, until the broker has to ask again. While we lead, nothing else writes it."""
MAX_PRODUCER_ID: Final = 2**63 - 1


async def on_allocate_producer_ids(event: AllocateProducerIds, c: Controller) -> ProducerIdBlock:
    """Allocate the next block by compare-and-set, and read again if another writer changed the znode meanwhile.

    A request with our own node id needs no broker epoch.
    """
    refusal = _refusal(event, c)
    if refusal is not KafkaError.NONE:
        return ProducerIdBlock(refusal)
    for _ in range(ATTEMPTS):
        last = await c.store.producer_ids.read_producer_ids()
        start = last.block_end + 1
        if start > MAX_PRODUCER_ID - BLOCK_SIZE:
            c.audit.record(AlarmRecord("producer ids are exhausted", f"last block ends at {last.block_end}"))
            return ProducerIdBlock(KafkaError.UNKNOWN_SERVER_ERROR)
        block = AllocatedProducerIds(BrokerId(event.broker), start, start + BLOCK_SIZE - 1, last.version)
        result = await c.store.producer_ids.write_producer_ids(block)
        if isinstance(result, Written):
            return ProducerIdBlock(KafkaError.NONE, start, BLOCK_SIZE)
        if not isinstance(result, Conflict):
            c.audit.record(AlarmRecord("producer ids were not written", result.reason))
            break
    return ProducerIdBlock(KafkaError.UNKNOWN_SERVER_ERROR)


def _refusal(event: AllocateProducerIds, c: Controller) -> KafkaError:
    if event.broker == c.node_id:
        return KafkaError.NONE
    known = c.context.brokers.get(event.broker)
    if known is None:
        return KafkaError.BROKER_ID_NOT_REGISTERED
    return KafkaError.NONE if known.epoch == event.broker_epoch else KafkaError.STALE_BROKER_EPOCH
