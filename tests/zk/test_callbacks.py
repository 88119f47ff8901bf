"""Functions that kazoo's thread calls hand over to the event loop, and never wait for it."""

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


async def test_a_fired_watch_neither_blocks_kazoo_nor_sends_a_request_kafka_6517_and_kafka_6879() -> None:
    """The loop is blocked, as by a handler: the thread returns all the same, and no watch is lost."""
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


async def test_a_background_task_is_not_started_after_the_session_is_closed() -> None:
    """A watch fires in the same tick in which the session is closed: no coroutine is left that is never awaited."""
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
