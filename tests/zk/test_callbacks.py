"""What kazoo's thread calls does one thing: it hands over to the event loop, however busy that is."""

import asyncio
import threading
import warnings
from typing import cast

from kazoo.protocol.states import EventType, KazooState, WatchedEvent

from controllerd.zk.access import Fired
from controllerd.zk.connection import KazooZooKeeper
from controllerd.zk.session import ZooKeeperSession


class Session:
    """The present session."""

    chroot = ""
    generation = 1


async def test_a_watch_waits_for_nobody_and_asks_zookeeper_nothing_kafka_6517_and_kafka_6879() -> None:
    """The loop is held up, as by an event in work: the thread returns all the same, and nothing is lost."""
    seen: list[tuple[str, Fired]] = []
    zk = KazooZooKeeper(cast("ZooKeeperSession", Session()))
    zk.listen(lambda path, fired: seen.append((path, fired)))
    watcher = zk._watcher()
    event = WatchedEvent(EventType.CHILD, KazooState.CONNECTED, "/brokers/ids")

    thread = threading.Thread(target=watcher, args=(event,))
    thread.start()
    thread.join(timeout=10)  # the loop cannot run meanwhile: this blocks it

    assert not thread.is_alive()
    assert seen == []
    await asyncio.sleep(0)
    assert seen == [("/brokers/ids", Fired.CHILD)]


async def test_background_work_that_is_closed_before_its_turn_is_never_begun() -> None:
    """A watch fires in the very turn in which the session is closed: no coroutine is left that nobody awaits."""
    begun: list[str] = []
    zk = KazooZooKeeper(cast("ZooKeeperSession", Session()))

    async def work() -> None:
        begun.append("begun")

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        zk.spawn(work)
        zk.close()
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    assert begun == []
    assert [str(each.message) for each in warned] == []
