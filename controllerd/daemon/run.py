"""``controllerd run``: configuration, signals, systemd, the ready line, exit codes."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from typing import Final

import structlog

from controllerd.audit.heads import BadHead
from controllerd.audit.segments import AuditInUse
from controllerd.config.model import Config
from controllerd.daemon.instance import Instance
from controllerd.daemon.node import Node, open_node
from controllerd.daemon.observing import ObservingNode, open_observer
from controllerd.daemon.waking import WakingSelector
from controllerd.errors import BadZnode, ConfigError, NoCluster, RefusedToLead, StoreUnavailable
from controllerd.identity import Identity, claim_data_dir
from controllerd.logs import configure_logging
from controllerd.sdnotify import Notifier
from controllerd.snapshot import Role

log = structlog.get_logger(__name__)

EXIT_OK: Final = 0
EXIT_UNREACHABLE: Final = 69
EXIT_INTERNAL: Final = 70
EXIT_IO: Final = 74
EXIT_CONFIG: Final = 78

_TOLD: Final = frozenset({Role.ACTIVE, Role.OBSERVER})
"""Roles for which the ready line is printed."""
_READY: Final = _TOLD | {Role.STANDBY}


class Announcer:
    """Says on standard output and to systemd what the instance has become."""

    def __init__(self, notifier: Notifier) -> None:
        self._notifier = notifier
        self._role = Role.STARTING
        self._is_ready = False

    def published(self, node: Node | ObservingNode) -> None:
        """The snapshot is new: announce the role if it changed, and the status line of systemd."""
        snapshot = node.snapshot
        if snapshot.role is self._role:
            return
        self._role = snapshot.role
        status = f"{snapshot.role.value} epoch={snapshot.controller_epoch} brokers={len(snapshot.brokers)}"
        if snapshot.role in _TOLD:
            _tell_starter(ready_line(node))
        if snapshot.role in _READY and not self._is_ready:
            self._is_ready = True
            self._notifier.ready(status)
        else:
            self._notifier.status(status)

    def beat(self, _node: Node | ObservingNode) -> None:
        """The event worker is idle or gets on: tell systemd's watchdog."""
        self._notifier.watchdog()


def _tell_starter(line: str) -> None:
    """Print; a starter that stopped reading must not cost the role."""
    try:
        print(line, flush=True)  # noqa: T201  # the ready line is the daemon's one word to its starter
    except OSError as error:
        log.warning("the ready line was not printed", error=str(error))
        # What is left in the buffer would fail once more at exit and change the exit code.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def ready_line(node: Node | ObservingNode) -> str:
    """One line for whoever started us: role, epoch and every address."""
    snapshot, http = node.snapshot, f"http {node.config.http.listen.host}:{node.http_port}"
    ready = f"controllerd ready: node {snapshot.node_id}"
    if isinstance(node, ObservingNode):
        return f"{ready} observes cluster {snapshot.cluster_id}, {http}"
    kafka = ", ".join(f"{e.listener}://{e.host}:{e.port}" for e in node.kafka.advertised) or "none"
    return (
        f"{ready} is the active controller, epoch {snapshot.controller_epoch}, "
        f"cluster {snapshot.cluster_id}, kafka {kafka}, {http}"
    )


async def serve(config: Config, waking: WakingSelector | None = None) -> int:
    """Run until SIGTERM or SIGINT (or a failure); the exit code. ``waking`` is the selector of the running loop."""
    notifier = Notifier.from_env(os.environ)
    starting = asyncio.current_task()
    assert starting is not None
    _on_signals(starting.cancel)
    with claim_data_dir(config.node.data_dir) as identity:
        if config.controller.mode == "observe":
            return await _observe(config, identity, notifier)
        return await _control(config, identity, notifier, waking)


async def _control(config: Config, identity: Identity, notifier: Notifier, waking: WakingSelector | None) -> int:
    announcer = Announcer(notifier)
    async with open_node(config, identity, on_published=announcer.published, beat=announcer.beat) as node:
        if waking is not None:
            waking.on_waking = node.instance.guard.tick
        await _until_stopped(node.instance, notifier)
    return _exit_code(node.instance, has_audit_failed=node.has_audit_failed)


async def _observe(config: Config, identity: Identity, notifier: Notifier) -> int:
    announcer = Announcer(notifier)
    async with open_observer(config, identity, on_published=announcer.published, beat=announcer.beat) as node:
        await _until_stopped(node, notifier)
    return _exit_code(node, has_audit_failed=node.has_audit_failed)


async def _until_stopped(running: Instance | ObservingNode, notifier: Notifier) -> None:
    _on_signals(running.end)
    await running.stop.wait()
    notifier.stopping()
    log.info("stopping", reason=running.stop_reason or "asked to")


def _exit_code(ended: Instance | ObservingNode, *, has_audit_failed: bool) -> int:
    if has_audit_failed:
        return EXIT_IO
    return EXIT_INTERNAL if ended.stop_reason else EXIT_OK


def _on_signals(stop: Callable[[], object]) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)


def run(config: Config) -> int:
    """Configure the log, serve, and turn what can go wrong at the start into an exit code with a sentence."""
    configure_logging(config.log.level, config.log.format)
    if config.ignored:
        log.info("ignored in server.properties", count=len(config.ignored), names=", ".join(config.ignored))
    try:
        waking = WakingSelector()
        with asyncio.Runner(loop_factory=waking.loop) as runner:
            return runner.run(serve(config, waking))
    except asyncio.CancelledError:
        log.info("stopped before it had started")
        return EXIT_OK
    except ConfigError as error:
        for problem in error.problems:
            log.error("cannot start", problem=problem)
        return EXIT_CONFIG
    except StoreUnavailable as error:
        log.error("zookeeper cannot be reached", problem=str(error), next="check zookeeper.connect and the ensemble")
        return EXIT_UNREACHABLE
    except RefusedToLead as error:
        log.error("cannot start", problem=str(error), next="remove the cause, then start again")
        return EXIT_CONFIG
    except NoCluster as error:
        log.error("cannot start", problem=str(error), next="check zookeeper.connect and its chroot")
        return EXIT_UNREACHABLE
    except BadZnode as error:
        log.error("cannot start", problem=str(error), next="repair the znode")
        return EXIT_UNREACHABLE
    except (AuditInUse, BadHead) as error:
        log.error("cannot start", problem=str(error))
        return EXIT_CONFIG
    except OSError as error:
        log.error("cannot start", problem=str(error), next="check the addresses and directories in the configuration")
        return EXIT_IO
