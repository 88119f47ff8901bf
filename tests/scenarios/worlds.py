"""Controllers over a ZooKeeper in memory for scenarios, with the metadata of their brokers and a real socket."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from broker.metadata_cache import MetadataCache
from controllerd.api.server import KafkaServer
from controllerd.api.server_settings import ServerListener
from controllerd.core.model import BrokerId, Features
from controllerd.core.requests import ControlRequest, UpdateMetadataPartition, UpdateMetadataRequest
from tests.api.cluster import Client
from tests.fakes.world import NODE_ID, World


async def world_of(*brokers: int, features: Features | None = None) -> World:
    """Make these brokers live, with a controller that leads; earlier requests are dropped."""
    world = World(features=features)
    for broker in brokers:
        world.register(broker)
    await world.start()
    world.forget()
    return world


async def with_topic(world: World, *replicas: int, name: str = "t") -> World:
    """Create an online topic of one partition; earlier requests are dropped."""
    world.put_topic(name, {0: list(replicas)})
    await world.settle()
    world.forget()
    return world


class Brokers:
    """The metadata of brokers: the embedded broker's own metadata cache, fed with the requests to each.

    A broker that starts has no metadata: only requests of its present epoch count. Create this object at the start of
    the world, and keep the world's requests.
    """

    def __init__(self, world: World) -> None:
        self._world = world

    def cache(self, broker: int) -> MetadataCache:
        """The metadata of a live broker."""
        cache = MetadataCache()
        for request in self.requests(broker):
            if isinstance(request, UpdateMetadataRequest):
                listed = {tp.topic: request.body.topic_ids.get(tp.topic) for tp in request.body.partitions}
                cache.update(request, listed, carries_ids=True)
        return cache

    def requests(self, broker: int) -> list[ControlRequest]:
        """Every request to this life of the broker."""
        epoch = self._world.context.epochs()[BrokerId(broker)]
        return [request for request in self._world.channels.to(broker) if request.broker_epoch == epoch]

    def partition(self, broker: int, topic: str, partition: int = 0) -> UpdateMetadataPartition:
        """A partition in the broker's answer to clients."""
        return self.cache(broker).topics[topic][partition]

    def live(self, broker: int) -> list[int]:
        """The live brokers in the broker's answer to clients, without the controller."""
        return sorted(other for other in self.cache(broker).brokers if other != NODE_ID)


@asynccontextmanager
async def served(world: World) -> AsyncIterator[Client]:
    """A client of the world's controller, over a real socket; its events are handled while the block runs."""
    server = KafkaServer(
        [ServerListener("PLAINTEXT", "127.0.0.1", 0)],
        world.queue,
        world.snapshot,
        NODE_ID,
        audit=world.audit,
        settings=world.settings,
        now=world.clock.monotonic,
    )
    await server.start()
    loop = asyncio.create_task(_handle_events(world))
    endpoint = server.advertised[0]
    client = Client(*await asyncio.open_connection(endpoint.host, endpoint.port))
    try:
        yield client
    finally:
        await client.close()
        await server.close()
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)


async def _handle_events(world: World) -> None:
    while True:
        await world.loop.handle(await world.queue.take())
