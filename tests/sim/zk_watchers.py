"""The watchers that a kazoo client remembers: registered with a response, called once, dropped on every disconnect."""

from asyncio import TimerHandle
from collections import defaultdict
from collections.abc import Callable, MutableMapping
from typing import Any

from kazoo.protocol.serialization import GetChildren, Watch
from kazoo.protocol.states import EVENT_TYPE_MAP, EventType, WatchedEvent

from tests.sim.zk_server import CHILD, DELETED

Watcher = Callable[..., object]
Later = Callable[..., TimerHandle]


class Watchers:
    """The part of a client that handles watches, as in kazoo's client and connection handler."""

    def __init__(self, chroot: str, now: Callable[[], float], at: Later, random: Callable[[], float]) -> None:
        """``at`` schedules a call at a virtual time in the client's process."""
        self.chroot = chroot
        self.watch_lag_s = 0.0
        self._data_watchers: MutableMapping[str, set[Watcher]] = defaultdict(set)
        self._child_watchers: MutableMapping[str, set[Watcher]] = defaultdict(set)
        self._watch_now = now
        self._watch_at = at
        self._watch_random = random
        self._watches_until = 0.0

    def unchroot(self, path: str) -> str:
        """The path without the chroot."""
        return (path[len(self.chroot) :] or "/") if path.startswith(self.chroot) else path

    def _register(self, request: Any) -> None:
        watcher = getattr(request, "watcher", None)
        if watcher:
            family = self._child_watchers if isinstance(request, GetChildren) else self._data_watchers
            family[request.path].add(watcher)

    def _fired(self, message: bytes, offset: int, state: str) -> None:
        watch, _ = Watch.deserialize(message, offset)
        watchers: list[Watcher] = []
        if watch.type != CHILD:
            watchers += self._data_watchers.pop(watch.path, ())
        if watch.type in {DELETED, CHILD}:
            watchers += self._child_watchers.pop(watch.path, ())
        self._dispatch(watchers, WatchedEvent(EVENT_TYPE_MAP[watch.type], state, self.unchroot(watch.path)))

    def _forget_watchers(self, state: str) -> None:
        families = (self._child_watchers, self._data_watchers)
        watchers = [watcher for family in families for found in family.values() for watcher in found]
        self._child_watchers, self._data_watchers = defaultdict(set), defaultdict(set)
        self._dispatch(watchers, WatchedEvent(EventType.NONE, state, None))

    def _dispatch(self, watchers: list[Watcher], event: WatchedEvent) -> None:
        for watcher in watchers:
            if self.watch_lag_s:
                due = self._watch_now() + self.watch_lag_s * self._watch_random()
                self._watches_until = max(self._watches_until, due)
                self._watch_at(self._watches_until, watcher, event)
            else:
                watcher(event)
