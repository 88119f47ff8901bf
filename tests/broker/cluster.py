"""Embedded brokers in this event loop under a stub controller that knows them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from broker.embedded import EmbeddedBroker
from broker.settings import BrokerSettings
from controllerd.core.model import Broker, BrokerId, Endpoint
from tests.broker.stub_controller import StubController
from wire.api_codec import fill
from wire.connection import KafkaConnection
from wire.kio_codec import decode_entity, encode_entity, request_type, response_type

LAG_MS = 600


def settings(connect: str, directory: Path, broker_id: int = 1, **others: Any) -> BrokerSettings:
    """A broker with short times, on a port of the system's choice."""
    short = {
        "replica_lag_ms": LAG_MS,
        "fetch_wait_ms": 50,
        "fetch_backoff_ms": 20,
        "controlled_shutdown_backoff_ms": 20,
    }
    return BrokerSettings(
        broker_id=BrokerId(broker_id),
        zookeeper=connect,
        listener=Endpoint("PLAINTEXT", "127.0.0.1", 0),
        data_dir=directory / f"broker-{broker_id}",
        **(short | others),
    )


@dataclass
class EmbeddedCluster:
    """Brokers by id."""

    brokers: dict[int, EmbeddedBroker]
    controller: StubController

    async def ask(self, broker: int, api: int, version: int, **values: object) -> Any:
        """Send one broker a request, built and read by kio."""
        return await ask(self.brokers[broker].endpoint, api, version, **values)


async def ask(endpoint: Endpoint, api: int, version: int, **values: object) -> Any:
    """A request and its answer, over a connection of its own."""
    connection = await KafkaConnection.connect(endpoint.host, endpoint.port, "test", request_timeout_s=10)
    try:
        body = await connection.request(api, version, encode_entity(fill(request_type(api, version), values)))
    finally:
        await connection.close()
    return decode_entity(response_type(api, version), body)


@asynccontextmanager
async def cluster(
    connect: str, directory: Path, controller: StubController, *ids: int, **others: Any
) -> AsyncIterator[EmbeddedCluster]:
    """Start brokers and register them with the stub controller."""
    async with AsyncExitStack() as stack:
        brokers = {}
        for broker_id in ids:
            broker = EmbeddedBroker(settings(connect, directory, broker_id, **others))
            brokers[broker_id] = await stack.enter_async_context(broker)
            controller.brokers[broker_id] = Broker(BrokerId(broker_id), broker.epoch, (broker.endpoint,))
        yield EmbeddedCluster(brokers, controller)


async def eventually(met: Callable[[], bool]) -> None:
    """Poll, for at most twenty seconds, until ``met`` holds: the broker does not announce it."""
    async with asyncio.timeout(20):
        while not met():  # noqa: ASYNC110 (the broker has no reason to announce it)
            await asyncio.sleep(0.005)
