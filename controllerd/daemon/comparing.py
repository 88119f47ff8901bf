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
from controllerd.pace import Pace
from controllerd.snapshot import ClusterSnapshot
from controllerd.status.comparison import Comparison, Differing
from controllerd.zk import paths
from controllerd.zk.access import ZooKeeper
from controllerd.zk.pictures import Picture, take_picture
from wire.errors import WireError
from wire.metadata import ClusterMetadata, fetch_metadata
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
        again_s: float = LOOK_AGAIN_S,
    ) -> None:
        """``zk`` gives the present session; ``listener`` is that between brokers."""
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
        look = _Look(picture=await take_picture(self._zk(), last))
        assert look.picture is not None
        await self._compare_with_zookeeper(look.picture, look)
        if with_brokers:
            for broker in sorted(self._snapshot.brokers.values(), key=lambda each: each.id):
                await self._compare_with_broker(broker, look)
        return look

    async def _compare_with_zookeeper(self, picture: Picture, look: _Look) -> None:
        memory, pace = Memory.of(self._snapshot), Pace()
        look.found.update(of_brokers(picture, memory))
        look.found.update(of_deletions(picture, memory))
        look.partitions = sum(len(topic.partitions) for topic in memory.topics.values())
        for name in sorted({*picture.names(paths.BROKER_TOPICS), *memory.topics}):
            await _take(of_topic(name, picture, memory, self._features), look, pace)

    async def _compare_with_broker(self, broker: Broker, look: _Look) -> None:
        endpoint = plaintext_endpoint(broker, self._listener)
        if endpoint is None:
            look.untold[broker.id] = f"it has no plaintext listener {self._listener}"
            return
        try:
            told = await self._ask(endpoint.host, endpoint.port)
        except (OSError, WireError) as error:
            look.untold[broker.id] = (
                f"it did not tell in {_ASK_S:g} s" if isinstance(error, TimeoutError) else str(error)
            )
            return
        look.brokers.append(broker.id)
        await _take(of_metadata(broker.id, told, Memory.of(self._snapshot)), look, Pace())

    async def _ask(self, host: str, port: int) -> ClusterMetadata:
        return await fetch_metadata(host, port, client_id="controllerd", timeout_s=_ASK_S, transport=self._transport)


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
