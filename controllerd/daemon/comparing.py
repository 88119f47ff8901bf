"""Compares the controller's state with ZooKeeper and with the metadata that brokers give to clients, on request.

The comparison runs beside the event task. It reads in batches and compares with the published snapshot at that moment.
If it finds differences, a second pass reads everything again some seconds later. A difference counts only if both
passes find it; otherwise it was a change in progress.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from controllerd.api.broker_versions import plaintext_endpoint
from controllerd.core.model import Broker, BrokerId, Features
from controllerd.daemon.differences import PublishedCluster, of_brokers, of_deletions, of_metadata, of_topic
from controllerd.slicer import Slicer, Turnstile
from controllerd.snapshot import ClusterSnapshot
from controllerd.status.reads.comparison import Comparison, ComparisonProgress, Differing
from controllerd.views import TopicView
from controllerd.zk import paths
from controllerd.zk.access import ZooKeeper
from controllerd.zk.image import ClusterImage, read_image
from wire.errors import WireError
from wire.metadata import EncodedMetadata, fetch_encoded_metadata, walk_topics
from wire.transport import PLAINTEXT, Transport

SECOND_PASS_S: Final = 2.0
"""The pause before the second pass, in seconds: a change in progress may take so long."""
_ASK_S: Final = 10.0

_READING, _COMPARING, _ASKING = 2.0, 1.0, 2.5
"""The relative durations of the stages, the last one per broker, as measured at 100,000 partitions."""
_SECOND_PASS_SHARE: Final = 0.1
"""The share of the first pass that the progress reserves for a second pass."""


@dataclass(slots=True)
class _Pass:
    """One pass: its readings of ZooKeeper and the brokers, and the differences found."""

    progress: ComparisonProgress
    work: float
    """The work of all stages, with the brokers that are live at its beginning."""
    again_s: float | None
    """The pause before the second pass; None in the second pass, or if it is announced already."""
    prefix: str = ""
    found: set[Differing] = field(default_factory=set)
    partitions: int = 0
    brokers: list[BrokerId] = field(default_factory=list)
    unanswered: dict[int, str] = field(default_factory=dict)
    image: ClusterImage | None = None

    def enter(self, stage: str, work: float) -> None:
        """Begin a stage."""
        self.expect_another()
        self.progress.enter(self.prefix + stage, work)

    def expect_another(self) -> None:
        """Announce the second pass to the progress, as soon as a difference is found."""
        if self.found and self.again_s is not None:
            self.progress.expect(self.work * (1 - _SECOND_PASS_SHARE), self.again_s)
            self.again_s = None


class ClusterComparison:
    """Makes one comparison at a time; further requests wait for their turn."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        zk: Callable[[], ZooKeeper],
        features: Callable[[], Features],
        listener: str,
        *,
        transport: Transport = PLAINTEXT,
        turnstile: Turnstile | None = None,
        again_s: float = SECOND_PASS_S,
    ) -> None:
        """``zk`` returns the current session, ``features`` the features in use.

        ``listener`` is the inter-broker listener.
        """
        self._turnstile = turnstile or Turnstile()
        self._snapshot = snapshot
        self._zk = zk
        self._features = features
        self._listener = listener
        self._transport = transport
        self._again_s = again_s
        self._turn = asyncio.Lock()

    async def compare(self, with_brokers: bool, progress: ComparisonProgress) -> Comparison:
        """Compare now and report the progress. :raises StoreUnavailable: ZooKeeper cannot be read."""
        async with self._turn:
            work = _READING + _COMPARING + _ASKING * len(self._brokers_to_ask(with_brokers))
            current = _Pass(progress, work, self._again_s)
            progress.expect(work * (1 + _SECOND_PASS_SHARE))
            await self._run_pass(current, None, with_brokers)
            if current.found:
                current = await self._second_pass(current, with_brokers)
        return Comparison(
            differences=tuple(
                sorted(_completed(current.found), key=lambda each: (each.subject, each.field, each.broker or ""))
            ),
            partitions=current.partitions,
            brokers=tuple(current.brokers),
            unanswered=current.unanswered,
        )

    def _brokers_to_ask(self, with_brokers: bool) -> Sequence[Broker]:
        return sorted(self._snapshot.brokers.values(), key=lambda each: each.id) if with_brokers else ()

    async def _second_pass(self, first: _Pass, with_brokers: bool) -> _Pass:
        first.expect_another()
        first.progress.enter("comparing again")
        await asyncio.sleep(self._again_s)
        first.progress.resume()
        current = _Pass(first.progress, first.work, None, "comparing again: ")
        await self._run_pass(current, first.image, with_brokers)
        current.found &= first.found
        return current

    async def _run_pass(self, current: _Pass, last: ClusterImage | None, with_brokers: bool) -> None:
        slicer = await self._turnstile.slicer()
        current.enter("reading ZooKeeper", _READING)
        expected = _znodes(self._snapshot)
        current.image = await read_image(
            self._zk(), last, slicer, lambda read: current.progress.advance(read / expected)
        )
        current.enter("comparing with ZooKeeper", _COMPARING)
        await self._compare_with_zookeeper(current.image, current, slicer)
        asked = self._brokers_to_ask(with_brokers)
        for number, broker in enumerate(asked, 1):
            current.enter(f"asking broker {broker.id} ({number} of {len(asked)})", _ASKING)
            await self._compare_with_broker(broker, current, slicer)

    async def _compare_with_zookeeper(self, image: ClusterImage, current: _Pass, slicer: Slicer) -> None:
        published = PublishedCluster.of(self._snapshot)
        current.found.update(of_brokers(image, published))
        current.found.update(of_deletions(image, published))
        current.partitions = _partitions(published.topics)
        names = sorted({*image.names(paths.BROKER_TOPICS), *published.topics})
        for number, name in enumerate(names):
            current.progress.advance(number / len(names))
            await _collect(of_topic(name, image, published, self._features()), current, slicer)

    async def _compare_with_broker(self, broker: Broker, current: _Pass, slicer: Slicer) -> None:
        endpoint = plaintext_endpoint(broker, self._listener)
        if endpoint is None:
            current.unanswered[broker.id] = f"it has no plaintext listener {self._listener}"
            return
        try:
            answer = await self._ask(endpoint.host, endpoint.port)
            differing = of_metadata(broker.id, walk_topics(answer), PublishedCluster.of(self._snapshot))
            await _collect(differing, current, slicer, expected=2 * current.partitions)
        except (OSError, WireError) as error:
            current.unanswered[broker.id] = (
                f"it did not answer in {_ASK_S:g} s" if isinstance(error, TimeoutError) else str(error)
            )
            return
        current.brokers.append(broker.id)

    async def _ask(self, host: str, port: int) -> EncodedMetadata:
        return await fetch_encoded_metadata(
            host, port, client_id="controllerd", timeout_s=_ASK_S, transport=self._transport
        )


async def _collect(differing: Iterator[Differing | None], current: _Pass, slicer: Slicer, expected: int = 0) -> None:
    """Collect the differences. ``expected``: the approximate number of steps; 0 if progress is reported elsewhere."""
    for number, each in enumerate(differing, 1):
        if each is not None:
            current.found.add(each)
        if slicer.is_due:
            if expected:
                current.progress.advance(number / expected)
            await slicer.yield_to_loop()


def _znodes(snapshot: ClusterSnapshot) -> int:
    """The approximate number of znodes to read: two for each topic, and one for each partition."""
    return max(1, 2 * len(snapshot.topics) + _partitions(snapshot.topics))


def _partitions(topics: Mapping[str, TopicView]) -> int:
    return sum(len(topic.partitions) for topic in topics.values())


def _completed(found: set[Differing]) -> Iterator[Differing]:
    """The differences; each one of a broker gets ZooKeeper's value.

    That is the controller's value, unless ZooKeeper differs from the controller as well.
    """
    in_zookeeper: Mapping[tuple[str, str], str | None] = {
        (each.subject, each.field): each.zookeeper for each in found if each.broker is None
    }
    for each in found:
        yield each._replace(zookeeper=in_zookeeper.get((each.subject, each.field), each.zookeeper))
