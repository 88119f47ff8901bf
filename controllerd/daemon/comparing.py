"""Compares our picture with ZooKeeper and with what brokers tell their clients, for an operator who asks.

Everything is read off the path of events, in batches, and compared with what is known at that moment. What differs is
looked at again some seconds later: only what differs in the same way then is a difference, the rest was in motion.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from controllerd.api.broker_versions import plaintext_endpoint
from controllerd.core.model import Broker, BrokerId, Features
from controllerd.daemon.differences import Memory, of_brokers, of_deletions, of_metadata, of_topic
from controllerd.pace import Pace, Turnstile
from controllerd.snapshot import ClusterSnapshot
from controllerd.status.comparison import Comparison, Differing
from controllerd.zk import paths
from controllerd.zk.access import ZooKeeper
from controllerd.zk.pictures import Picture, take_picture
from wire.errors import WireError
from wire.metadata import fetch_encoded_metadata
from wire.metadata_walk import walk_topics
from wire.transport import PLAINTEXT, Transport

LOOK_AGAIN_S: Final = 2.0
"""So long what is on its way may take."""
_ASK_S: Final = 10.0


@dataclass(slots=True)
class _Look:
    """What was seen at one time."""

    found: set[Differing] = field(default_factory=set)
    partitions: int = 0
    brokers: list[BrokerId] = field(default_factory=list)
    untold: dict[int, str] = field(default_factory=dict)
    picture: Picture | None = None


class Comparing:
    """Makes one comparison at a time; whoever asks meanwhile waits for his own."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        zk: Callable[[], ZooKeeper],
        features: Features,
        listener: str,
        *,
        transport: Transport = PLAINTEXT,
        turnstile: Turnstile | None = None,
        again_s: float = LOOK_AGAIN_S,
    ) -> None:
        """``zk`` gives the present session; ``listener`` is that between brokers."""
        self._turnstile = turnstile or Turnstile()
        self._snapshot = snapshot
        self._zk = zk
        self._features = features
        self._listener = listener
        self._transport = transport
        self._again_s = again_s
        self._turn = asyncio.Lock()

    async def compare(self, with_brokers: bool) -> Comparison:
        """Compare now. :raises StoreUnavailable: ZooKeeper cannot be read."""
        async with self._turn:
            look = await self._look(None, with_brokers)
            if first := look.found:
                await asyncio.sleep(self._again_s)
                look = await self._look(look.picture, with_brokers)
                look.found &= first
        return Comparison(
            differences=tuple(
                sorted(_completed(look.found), key=lambda each: (each.subject, each.field, each.broker or ""))
            ),
            partitions=look.partitions,
            brokers=tuple(look.brokers),
            untold=look.untold,
        )

    async def _look(self, last: Picture | None, with_brokers: bool) -> _Look:
        pace = await self._turnstile.pace()
        picture = await take_picture(self._zk(), last, pace)
        look = _Look(picture=picture)
        await self._compare_with_zookeeper(picture, look, pace)
        if with_brokers:
            for broker in sorted(self._snapshot.brokers.values(), key=lambda each: each.id):
                await self._compare_with_broker(broker, look, pace)
        return look

    async def _compare_with_zookeeper(self, picture: Picture, look: _Look, pace: Pace) -> None:
        memory = Memory.of(self._snapshot)
        look.found.update(of_brokers(picture, memory))
        look.found.update(of_deletions(picture, memory))
        look.partitions = sum(len(topic.partitions) for topic in memory.topics.values())
        for name in sorted({*picture.names(paths.BROKER_TOPICS), *memory.topics}):
            await _take(of_topic(name, picture, memory, self._features), look, pace)

    async def _compare_with_broker(self, broker: Broker, look: _Look, pace: Pace) -> None:
        endpoint = plaintext_endpoint(broker, self._listener)
        if endpoint is None:
            look.untold[broker.id] = f"it has no plaintext listener {self._listener}"
            return
        try:
            body = await self._ask(endpoint.host, endpoint.port)
            await _take(of_metadata(broker.id, walk_topics(body), Memory.of(self._snapshot)), look, pace)
        except (OSError, WireError) as error:
            look.untold[broker.id] = (
                f"it did not tell in {_ASK_S:g} s" if isinstance(error, TimeoutError) else str(error)
            )
            return
        look.brokers.append(broker.id)

    async def _ask(self, host: str, port: int) -> bytes:
        return await fetch_encoded_metadata(
            host, port, client_id="controllerd", timeout_s=_ASK_S, transport=self._transport
        )


async def _take(differing: Iterator[Differing | None], look: _Look, pace: Pace) -> None:
    for each in differing:
        if each is not None:
            look.found.add(each)
        await pace.breathe()


def _completed(found: set[Differing]) -> Iterator[Differing]:
    """What ZooKeeper says beside a broker's difference: what we know, unless that differs, too."""
    in_zookeeper: Mapping[tuple[str, str], str | None] = {
        (each.subject, each.field): each.zookeeper for each in found if each.broker is None
    }
    for each in found:
        yield each._replace(zookeeper=in_zookeeper.get((each.subject, each.field), each.zookeeper))
