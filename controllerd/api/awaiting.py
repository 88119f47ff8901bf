"""Waiting until clients of this node can see what they asked for, in the task of whoever asked: no event waits.

An event is answered before the picture that it made is shown, so that a first look may miss it. Then the next picture
wakes the waiter: nothing polls, and nothing waits longer than the client wants to.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from controllerd.api.apart import SMALL
from controllerd.api.limits import Limits
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.snapshot import ClusterSnapshot
from controllerd.views import PartitionView, TopicView


class Awaiter:
    """Compares what requests caused with the published picture, at the cost of the topics that changed."""

    def __init__(self, snapshot: ClusterSnapshot, limits: Limits | None = None) -> None:
        """No wait takes more than ``Limits.wait_s``, whatever clients ask for."""
        self._snapshot = snapshot
        self._longest_s = (limits or Limits()).wait_s

    def deadline(self, timeout_ms: int) -> float:
        """Until when, in the event loop's time, a request waits that arrives now with this time-out."""
        return asyncio.get_running_loop().time() + min(timeout_ms / 1000, self._longest_s)

    async def leaders(self, expected: Mapping[TopicPartition, BrokerId], until: float) -> set[TopicPartition]:
        """Wait until the picture shows just these leaders; returns the partitions of which it does not."""
        search = _LeaderSearch(self._snapshot, lambda tp, view: _leader(view) == expected[tp])
        for tp in expected:
            search.missing[tp.topic].add(tp.partition)
        await self._wait(search.look, until)
        return {TopicPartition(topic, number) for topic, numbers in search.missing.items() for number in numbers}

    async def led(self, topics: Mapping[str, frozenset[int]], until: float) -> set[str]:
        """Wait until these partitions have leaders; returns the topics with one that the picture shows without."""
        search = _LeaderSearch(self._snapshot, lambda _tp, view: _leader(view) >= 0)
        search.missing.update({topic: set(numbers) for topic, numbers in topics.items() if numbers})
        await self._wait(search.look, until)
        return set(search.missing)

    async def gone(self, topics: frozenset[str], until: float) -> set[str]:
        """Wait until clients are told of none of these topics; returns those that they still see."""
        shown = set(topics)

        async def look() -> bool:
            for number, name in enumerate(tuple(shown), 1):
                topic = self._snapshot.topics.get(name)
                if topic is None or topic.is_hidden:
                    shown.discard(name)
                if number % SMALL == 0:
                    await asyncio.sleep(0)
            return bool(shown)

        await self._wait(look, until)
        return shown

    async def _wait(self, look: Callable[[], Awaitable[bool]], until: float) -> None:
        """Look at one picture after the other while something is missing and may still come.

        After a loss of the role our picture does not follow the cluster any more.
        """
        with suppress(TimeoutError):  # something is missing then, and the answer says what
            async with asyncio.timeout_at(until):
                seen = self._snapshot.version
                while await look() and self._snapshot.is_active:
                    if seen == self._snapshot.version:  # else another picture came while we looked at the last
                        await self._snapshot.next_version()
                    seen = self._snapshot.version


class _LeaderSearch:
    """Partitions that have not been seen with the leader they should have; each look makes them fewer."""

    def __init__(self, snapshot: ClusterSnapshot, is_led: Callable[[TopicPartition, PartitionView], bool]) -> None:
        self.missing: defaultdict[str, set[int]] = defaultdict(set)
        """By topic; no topic has none."""
        self._snapshot = snapshot
        self._is_led = is_led
        self._looked_at: dict[str, TopicView] = {}
        self._rows = 0

    async def look(self) -> bool:
        """Whether anything is missing. A topic is looked at again only when it was published again."""
        for name in tuple(self.missing):
            topic = self._snapshot.topics.get(name)
            if topic is None or topic.is_hidden or topic is self._looked_at.get(name):
                await self._count_row()
                continue
            self._looked_at[name] = topic  # kept, so that no other view can have its identity
            await self._look_at(name)
        return bool(self.missing)

    async def _look_at(self, name: str) -> None:
        missing = self.missing[name]
        for number in tuple(missing):
            tp = TopicPartition(name, number)
            view = self._snapshot.partition(tp)
            if view is not None and self._is_led(tp, view):
                missing.discard(number)
            await self._count_row()
        if not missing:
            del self.missing[name]

    async def _count_row(self) -> None:
        self._rows += 1
        if self._rows % SMALL == 0:
            await asyncio.sleep(0)


def _leader(view: PartitionView) -> int:
    """The leader; negative while there is none, or no state at all."""
    return -1 if view.leadership is None else view.leadership.leader
