"""Request a controlled shutdown: the controller moves the leaderships of this broker away before it stops."""

import asyncio
from typing import Any, Final

import structlog

from broker.controller_channel import controller_endpoint
from broker.state import BrokerState
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import Endpoint
from wire.api_codec import fill
from wire.connection import KafkaConnection
from wire.errors import WireError
from wire.kio_codec import decode_entity, encode_entity, request_type, response_type
from wire.versions import ApiKey

log = structlog.get_logger(__name__)

_VERSION: Final = 3
_TIMEOUT_S: Final = 30.0


async def request_controlled_shutdown(state: BrokerState) -> bool:
    """Return whether the controller confirmed that this broker leads no partition any more.

    After a few attempts the broker stops anyway. As with stock brokers, the request has a connection of its own to the
    controller's inter-broker listener, and no ApiVersions request precedes it.
    """
    for attempt in range(1, state.settings.controlled_shutdown_attempts + 1):
        if attempt > 1:
            await asyncio.sleep(state.settings.controlled_shutdown_backoff_ms / 1000)
        try:
            if await _ask(state):
                log.info("completed controlled shutdown", broker=state.settings.broker_id, attempts=attempt)
                return True
        except (OSError, WireError) as error:  # TimeoutError is an OSError
            log.warning("received no answer to controlled shutdown", attempt=attempt, error=repr(error))
    log.warning("gave up controlled shutdown", broker=state.settings.broker_id)
    return False


async def _ask(state: BrokerState) -> bool:
    endpoint = controller_endpoint(state.cache, state.settings.listener.listener)
    if endpoint is None:
        log.warning("found no controller for controlled shutdown", controller=state.cache.controller_id)
        return False
    answer = await _exchange(endpoint, state)
    remaining = [(row.topic_name, row.partition_index) for row in answer.remaining_partitions]
    if answer.error_code.value == KafkaError.NONE and not remaining:
        return True
    log.info("continued controlled shutdown", error=answer.error_code.value, remaining=remaining)
    return False


async def _exchange(endpoint: Endpoint, state: BrokerState) -> Any:
    kind: Any = request_type(ApiKey.CONTROLLED_SHUTDOWN, _VERSION)
    request = fill(kind, {"broker_id": state.settings.broker_id, "broker_epoch": state.gate.broker_epoch})
    client_id = f"broker-{state.settings.broker_id}-shutdown"
    connection = await KafkaConnection.connect(
        endpoint.host, endpoint.port, client_id, connect_timeout_s=_TIMEOUT_S, request_timeout_s=_TIMEOUT_S
    )
    try:
        body = await connection.request(ApiKey.CONTROLLED_SHUTDOWN, _VERSION, encode_entity(request))
    finally:
        await connection.close()
    return decode_entity(response_type(ApiKey.CONTROLLED_SHUTDOWN, _VERSION), body)
