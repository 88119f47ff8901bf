"""Announces the state of the process: a ready line on standard output; readiness, status and watchdog to systemd."""

import os
import sys
from collections.abc import Callable
from typing import Final

import structlog

from controllerd.daemon.node import ControllerNode
from controllerd.daemon.observing import ObservingNode
from controllerd.sdnotify import Notifier
from controllerd.snapshot import ClusterSnapshot
from controllerd.views import Role

log = structlog.get_logger(__name__)

_ANNOUNCED: Final = frozenset({Role.ACTIVE, Role.OBSERVER})
"""Roles for which the ready line is printed."""
_READY: Final = _ANNOUNCED | {Role.STANDBY}
_START_GRACE_S: Final = 60.0
"""The extension of the start timeout that is requested from systemd at each sign of progress."""


class Announcer:
    """Announces the role of the instance on standard output and to systemd.

    A change of the role is announced at once. New numbers of partitions and events are announced with the next beat
    (every two seconds).
    """

    def __init__(self, notifier: Notifier) -> None:
        self._notifier = notifier
        self._role = Role.STARTING
        self._is_ready = False
        self._announced_line = ""

    def published(self, node: ControllerNode | ObservingNode) -> None:
        """Announce the role of a newly published snapshot if it changed."""
        snapshot = node.snapshot
        if snapshot.role is self._role:
            return
        self._role = snapshot.role
        if snapshot.role in _ANNOUNCED:
            _print_ready_line(ready_line(node))
        if snapshot.role in _READY and not self._is_ready:
            self._is_ready = True
            self._announce(node, self._notifier.ready)
        else:
            self._announce(node, self._notifier.status)

    def beat(self, node: ControllerNode | ObservingNode) -> None:
        """Feed systemd's watchdog, because the event worker is idle or progresses; announce a changed status line."""
        self._notifier.watchdog()
        if not self._is_ready:
            self._notifier.extend_timeout(_START_GRACE_S)
        elif status_line(node) != self._announced_line:
            self._announce(node, self._notifier.status)

    def reloaded(self, node: ControllerNode | ObservingNode) -> None:
        """Announce the end of a reload, successful or not."""
        self._announce(node, self._notifier.ready if self._is_ready else self._notifier.status)

    def _announce(self, node: ControllerNode | ObservingNode, how: Callable[[str], None]) -> None:
        self._announced_line = status_line(node)
        how(self._announced_line)


def status_line(node: ControllerNode | ObservingNode) -> str:
    """The line that ``systemctl status`` shows: the role, and the partitions and queue of an active controller."""
    snapshot = node.snapshot
    line = f"{snapshot.role.value} epoch={snapshot.controller_epoch}"
    if snapshot.role not in _ANNOUNCED:
        return f"{line} ({snapshot.reason})"
    line = f"{line} partitions={_partitions(snapshot)}"
    return line if isinstance(node, ObservingNode) else f"{line} queue={len(node.instance.queue)}"


def _partitions(snapshot: ClusterSnapshot) -> int:
    return sum(len(topic.partitions) for topic in snapshot.topics.values())


def _print_ready_line(line: str) -> None:
    """Print the line. A failure is only logged, because a closed pipe must not cost the role."""
    try:
        print(line, flush=True)  # noqa: T201  # the ready line is the only output on stdout
    except OSError as error:
        log.warning("failed to print ready line", error=str(error))
        # The rest of the buffer would fail again at exit and change the exit code.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def ready_line(node: ControllerNode | ObservingNode) -> str:
    """One line for the process that started this one: role, epoch and every address."""
    snapshot, http = node.snapshot, f"http {node.config.http.listen.host}:{node.http_port}"
    ready = f"controllerd ready: node {snapshot.node_id}"
    if isinstance(node, ObservingNode):
        return f"{ready} observes cluster {snapshot.cluster_id}, {http}"
    kafka = ", ".join(f"{e.listener}://{e.host}:{e.port}" for e in node.kafka.advertised) or "none"
    return (
        f"{ready} is the active controller, epoch {snapshot.controller_epoch}, "
        f"cluster {snapshot.cluster_id}, kafka {kafka}, {http}"
    )
