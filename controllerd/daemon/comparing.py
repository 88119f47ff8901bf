"""Compares the controller's state with ZooKeeper and with the metadata that brokers give to clients, on request.

Everything is read off the path of events, in batches, and compared with the published snapshot at that moment. Where
something differs, all is read again some seconds later: a difference counts if it is still the same, else it was a
change on its way.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from controllerd.api.broker_versions import plaintext_endpoint
from controllerd.core.model import Broker, BrokerId, Features
from controllerd.daemon.differences import KnownCluster, of_brokers, of_deletions, of_metadata, of_topic
from controllerd.slicer import Slicer, Turnstile
from controllerd.snapshot import ClusterSnapshot
from controllerd.status.reads.comparison import Comparison, Differing, Progress
from controllerd.views import TopicView
from controllerd.zk import paths
from controllerd.zk.access import ZooKeeper
from controllerd.zk.image import ClusterImage, read_image
from wire.errors import WireError
from wire.metadata import EncodedMetadata, fetch_encoded_metadata, walk_topics
from wire.transport import PLAINTEXT, Transport

LOOK_AGAIN_S: Final = 2.0
"""Seconds that a change on its way may take."""
_ASK_S: Final = 10.0

_READING, _COMPARING, _ASKING = 2.0, 1.0, 2.5
"""How long each stage takes beside the others, with each broker: about so at 100,000 partitions."""
_SPARED: Final = 0.1
"""Of the first look: so much of the way is kept for a second one that only its very end may call for."""


@dataclass(slots=True)
class _Look:
    """One reading of ZooKeeper and the brokers, and what it found."""

    progress: Progress
    work: float
    """Of all its stages, by the brokers that are there when it begins."""
    again_s: float | None
    """How long to wait before the look that follows where anything differs; None: that is this one, or is expected."""
    prefix: str = ""
    found: set[Differing] = field(default_factory=set)
    partitions: int = 0
    brokers: list[BrokerId] = field(default_factory=list)
    untold: dict[int, str] = field(default_factory=dict)
    picture: ClusterImage | None = None

    def enter(self, stage: str, work: float) -> None:
        """Begin a stage."""
        self.expect_another()
        self.progress.enter(self.prefix + stage, work)

    def expect_another(self) -> None:
        """Announce a second reading, as soon as anything differs."""
        if self.found and self.again_s is not None:
            self.progress.expect(self.work * (1 - _SPARED), self.again_s)
            self.again_s = None


class Comparing:
    """Makes one comparison at a time; a request that comes meanwhile waits for its own."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        zk: Callable[[], ZooKeeper],
        features: Callable[[], Features],
        listener: str,
        *,
        transport: Transport = PLAINTEXT,
        turnstile: Turnstile | None = None,
        again_s: float = LOOK_AGAIN_S,
    ) -> None:
        """``zk`` returns the present session, ``features`` the optional behaviour that is allowed now.

        ``listener`` is the one between brokers.
        """
        self._turnstile = turnstile or Turnstile()
        self._snapshot = snapshot
        self._zk = zk
        self._features = features
        self._listener = listener
        self._transport = transport
        self._again_s = again_s
        self._turn = asyncio.Lock()

    async def compare(self, with_brokers: bool, progress: Progress) -> Comparison:
        """Compare now, and report the progress. :raises StoreUnavailable: ZooKeeper cannot be read."""
        async with self._turn:
            work = _READING + _COMPARING + _ASKING * len(self._asked(with_brokers))
            look = _Look(progress, work, self._again_s)
            progress.expect(work * (1 + _SPARED))
            await self._look(look, None, with_brokers)
            if look.found:
                look = await self._look_again(look, with_brokers)
        return Comparison(
            differences=tuple(
                sorted(_completed(look.found), key=lambda each: (each.subject, each.field, each.broker or ""))
            ),
            partitions=look.partitions,
            brokers=tuple(look.brokers),
            untold=look.untold,
        )

    def _asked(self, with_brokers: bool) -> Sequence[Broker]:
        return sorted(self._snapshot.brokers.values(), key=lambda each: each.id) if with_brokers else ()

    async def _look_again(self, first: _Look, with_brokers: bool) -> _Look:
        first.expect_another()
        first.progress.enter("looking again")
        await asyncio.sleep(self._again_s)
        first.progress.resume()
        look = _Look(first.progress, first.work, None, "looking again: ")
        await self._look(look, first.picture, with_brokers)
        look.found &= first.found
        return look

    async def _look(self, look: _Look, last: ClusterImage | None, with_brokers: bool) -> None:
        slicer = await self._turnstile.slicer()
        look.enter("reading ZooKeeper", _READING)
        expected = _znodes(self._snapshot)
        look.picture = await read_image(self._zk(), last, slicer, lambda read: look.progress.advance(read / expected))
        look.enter("comparing with ZooKeeper", _COMPARING)
        await self._compare_with_zookeeper(look.picture, look, slicer)
        asked = self._asked(with_brokers)
        for number, broker in enumerate(asked, 1):
            look.enter(f"asking broker {broker.id} ({number} of {len(asked)})", _ASKING)
            await self._compare_with_broker(broker, look, slicer)

    async def _compare_with_zookeeper(self, picture: ClusterImage, look: _Look, slicer: Slicer) -> None:
        memory = KnownCluster.of(self._snapshot)
        look.found.update(of_brokers(picture, memory))
        look.found.update(of_deletions(picture, memory))
        look.partitions = _partitions(memory.topics)
        names = sorted({*picture.names(paths.BROKER_TOPICS), *memory.topics})
        for number, name in enumerate(names):
            look.progress.advance(number / len(names))
            await _take(of_topic(name, picture, memory, self._features()), look, slicer)

    async def _compare_with_broker(self, broker: Broker, look: _Look, slicer: Slicer) -> None:
        endpoint = plaintext_endpoint(broker, self._listener)
        if endpoint is None:
            look.untold[broker.id] = f"it has no plaintext listener {self._listener}"
            return
        try:
            answer = await self._ask(endpoint.host, endpoint.port)
            told = of_metadata(broker.id, walk_topics(answer), KnownCluster.of(self._snapshot))
            await _take(told, look, slicer, expected=2 * look.partitions)
        except (OSError, WireError) as error:
            look.untold[broker.id] = (
                f"it did not tell in {_ASK_S:g} s" if isinstance(error, TimeoutError) else str(error)
            )
            return
        look.brokers.append(broker.id)

    async def _ask(self, host: str, port: int) -> EncodedMetadata:
        return await fetch_encoded_metadata(
            host, port, client_id="controllerd", timeout_s=_ASK_S, transport=self._transport
        )


async def _take(differing: Iterator[Differing | None], look: _Look, slicer: Slicer, expected: int = 0) -> None:
    """``expected``: the approximate number of steps of this stage; 0: its progress is reported elsewhere."""
    for number, each in enumerate(differing, 1):
        if each is not None:
            look.found.add(each)
        if slicer.is_due:
            if expected:
                look.progress.advance(number / expected)
            await slicer.yield_to_loop()


def _znodes(snapshot: ClusterSnapshot) -> int:
    """The number of znodes to be read, as far as is known: of each topic two, and the states."""
    return max(1, 2 * len(snapshot.topics) + _partitions(snapshot.topics))


def _partitions(topics: Mapping[str, TopicView]) -> int:
    return sum(len(topic.partitions) for topic in topics.values())


def _completed(found: set[Differing]) -> Iterator[Differing]:
    """The differences of brokers with ZooKeeper's value beside them: ours, unless that differs, too."""
    in_zookeeper: Mapping[tuple[str, str], str | None] = {
        (each.subject, each.field): each.zookeeper for each in found if each.broker is None
    }
    for each in found:
        yield each._replace(zookeeper=in_zookeeper.get((each.subject, each.field), each.zookeeper))
