"""Put the events of requests into the queue, and wait until their effect is published.

An event is answered before its changes are published, so that the first check may miss them. The next snapshot then
wakes the waiter: there is no polling, no event is delayed, and no wait exceeds the client's timeout.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from controllerd.api.hang_up import HangUp, Reason
from controllerd.api.large_messages import SMALL
from controllerd.api.server_settings import ServerLimits
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.errors import CallFailed, ControllerMoved, NotController
from controllerd.snapshot import ClusterSnapshot
from controllerd.views import PartitionView, TopicView
from events.base import Call, Reply
from events.queue import EventQueue


class EventCaller:
    """Put calls into the event queue and wait for their replies, for a bounded time."""

    def __init__(self, queue: EventQueue, snapshot: ClusterSnapshot, timeout_s: float) -> None:
        self._queue = queue
        self._snapshot = snapshot
        self._timeout_s = timeout_s

    async def ask(self, event: Call[Reply], denied: KafkaError | None) -> Reply | KafkaError:
        """Return the reply to an event. A standby answers NOT_CONTROLLER without an event.

        :raises HangUp: there is no reply in time; the event may still be handled.
        """
        if denied is not None:
            return denied
        if not self._snapshot.is_active:
            return KafkaError.NOT_CONTROLLER
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._queue.call(event)
        except TimeoutError as error:
            raise HangUp(Reason.CALL_TIMEOUT, type(event).__name__) from error
        except (NotController, ControllerMoved):
            return KafkaError.NOT_CONTROLLER
        except CallFailed:
            return KafkaError.UNKNOWN_SERVER_ERROR


class EffectWaiter:
    """Compare the effects of requests with the published snapshot, reading only the topics that changed."""

    def __init__(self, snapshot: ClusterSnapshot, limits: ServerLimits | None = None) -> None:
        """No wait takes more than ``ServerLimits.wait_s``, whatever timeout a client requests."""
        self._snapshot = snapshot
        self._longest_s = (limits or ServerLimits()).wait_s

    def deadline(self, timeout_ms: int) -> float:
        """Return the deadline, in the event loop's time, of a request that arrives now with this timeout."""
        return asyncio.get_running_loop().time() + min(timeout_ms / 1000, self._longest_s)

    async def wait_for_leaders(self, expected: Mapping[TopicPartition, BrokerId], until: float) -> set[TopicPartition]:
        """Wait until the snapshot has these leaders; return the partitions for which it has not."""
        search = _LeaderSearch(self._snapshot, lambda tp, view: _leader(view) == expected[tp])
        for tp in expected:
            search.missing[tp.topic].add(tp.partition)
        await self._wait(search.check, until)
        return {TopicPartition(topic, number) for topic, numbers in search.missing.items() for number in numbers}

    async def wait_until_led(self, topics: Mapping[str, frozenset[int]], until: float) -> set[str]:
        """Wait until these partitions have leaders; return the topics with a partition without one."""
        search = _LeaderSearch(self._snapshot, lambda _tp, view: _leader(view) >= 0)
        search.missing.update({topic: set(numbers) for topic, numbers in topics.items() if numbers})
        await self._wait(search.check, until)
        return set(search.missing)

    async def wait_until_gone(self, topics: frozenset[str], until: float) -> set[str]:
        """Wait until these topics are not in the metadata; return the topics that still are."""
        shown = set(topics)

        async def check() -> bool:
            for number, name in enumerate(tuple(shown), 1):
                topic = self._snapshot.topics.get(name)
                if topic is None or topic.is_hidden:
                    shown.discard(name)
                if number % SMALL == 0:
                    await asyncio.sleep(0)
            return bool(shown)

        await self._wait(check, until)
        return shown

    async def _wait(self, check: Callable[[], Awaitable[bool]], until: float) -> None:
        """Check each new snapshot while a change is missing and may still come.

        After a loss of the role the snapshot no longer follows the cluster.
        """
        with suppress(TimeoutError):  # the response names the missing changes
            async with asyncio.timeout_at(until):
                seen = self._snapshot.version
                while await check() and self._snapshot.is_active:
                    if seen == self._snapshot.version:  # otherwise another snapshot was published during the check
                        await self._snapshot.next_version()
                    seen = self._snapshot.version


class _LeaderSearch:
    """Partitions that were not published with their new leader yet; each check removes some."""

    def __init__(self, snapshot: ClusterSnapshot, is_led: Callable[[TopicPartition, PartitionView], bool]) -> None:
        self.missing: defaultdict[str, set[int]] = defaultdict(set)
        """The missing partitions by topic; a topic without any is removed."""
        self._snapshot = snapshot
        self._is_led = is_led
        self._looked_at: dict[str, TopicView] = {}
        self._rows = 0

    async def check(self) -> bool:
        """Return whether a leader is missing. A topic is checked again only after it was published again."""
        for name in tuple(self.missing):
            topic = self._snapshot.topics.get(name)
            if topic is None or topic.is_hidden or topic is self._looked_at.get(name):
                await self._count_row()
                continue
            self._looked_at[name] = topic  # kept, so that no other view can have the same id()
            await self._check_topic(name)
        return bool(self.missing)

    async def _check_topic(self, name: str) -> None:
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
    """Return the leader; negative while there is none, or no state."""
    return -1 if view.leadership is None else view.leadership.leader
