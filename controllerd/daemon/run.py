"""``controllerd run``: configuration, signals, systemd, the ready line, exit codes."""

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Final

import structlog

from controllerd.audit.heads import BadHead
from controllerd.audit.segments import AuditInUse
from controllerd.config.model import Config
from controllerd.daemon.announcing import Announcer
from controllerd.daemon.freeze_guard import WakingSelector
from controllerd.daemon.instance import Instance
from controllerd.daemon.node import ControllerNode, open_node
from controllerd.daemon.observing import ObservingNode, open_observer
from controllerd.daemon.reloading import Reloader
from controllerd.errors import BadZnode, ConfigError, NoCluster, RefusedToLead, StoreUnavailable
from controllerd.identity import Identity, claim_data_dir
from controllerd.logs import configure_logging
from controllerd.record.records import ConfigRecord
from controllerd.sdnotify import Notifier

log = structlog.get_logger(__name__)

EXIT_OK: Final = 0
EXIT_UNREACHABLE: Final = 69
EXIT_INTERNAL: Final = 70
EXIT_IO: Final = 74
EXIT_CONFIG: Final = 78

Load = Callable[[], Config]
"""Reads the configuration again, as at the start. :raises ConfigError: with every problem found."""


async def serve(config: Config, waking: WakingSelector | None = None, load: Load | None = None) -> int:
    """Run until SIGTERM, SIGINT or a failure, and return the exit code.

    ``waking`` is the selector of the running loop. ``load`` reads the configuration again on SIGHUP; without it a
    reload changes nothing.
    """
    notifier = Notifier.from_env(os.environ)
    starting, reload = asyncio.current_task(), asyncio.Event()
    assert starting is not None
    _on_signals(starting.cancel)
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload.set)
    reloads = Reloads(notifier, reload, load or (lambda: config))
    with claim_data_dir(config.node.data_dir) as identity:
        if config.controller.mode == "observe":
            return await _observe(config, identity, reloads)
        return await _control(config, identity, reloads, waking)


class Reloads:
    """The reloads of a running daemon, requested by a signal and announced to systemd."""

    def __init__(self, notifier: Notifier, asked: asyncio.Event, load: Load) -> None:
        self.notifier = notifier
        self.announcer = Announcer(notifier)
        self._asked = asked
        self._load = load

    async def run(self, node: ControllerNode | ObservingNode) -> None:
        """Reload at each request, and record the configuration in use."""
        reloader = Reloader(node.config, self._load, node.renewals)
        while True:
            await self._asked.wait()
            self._asked.clear()
            self.notifier.reloading()
            if await reloader.reload():
                node.bus.record(ConfigRecord(reloader.config.effective()))
            self.announcer.reloaded(node)


async def _control(config: Config, identity: Identity, reloads: Reloads, waking: WakingSelector | None) -> int:
    announcer, within_s = reloads.announcer, reloads.notifier.watchdog_interval_s
    opening = open_node(config, identity, on_published=announcer.published, beat=announcer.beat, beat_within_s=within_s)
    async with opening as node:
        if waking is not None:
            waking.on_waking = node.instance.guard.tick
        await _until_stopped(node, node.instance, reloads)
    return _exit_code(node.instance, has_audit_failed=node.has_audit_failed)


async def _observe(config: Config, identity: Identity, reloads: Reloads) -> int:
    announcer, within_s = reloads.announcer, reloads.notifier.watchdog_interval_s
    opening = open_observer(
        config, identity, on_published=announcer.published, beat=announcer.beat, beat_within_s=within_s
    )
    async with opening as node:
        await _until_stopped(node, node, reloads)
    return _exit_code(node, has_audit_failed=node.has_audit_failed)


async def _until_stopped(
    node: ControllerNode | ObservingNode, running: Instance | ObservingNode, reloads: Reloads
) -> None:
    _on_signals(running.end)
    async with asyncio.TaskGroup() as tasks:
        reloading = tasks.create_task(reloads.run(node), name="reloading")
        await running.stop.wait()
        reloading.cancel()
    reloads.notifier.stopping()
    log.info("stopping", reason=running.stop_reason or "asked to")


def _exit_code(ended: Instance | ObservingNode, *, has_audit_failed: bool) -> int:
    if has_audit_failed:
        return EXIT_IO
    return EXIT_INTERNAL if ended.stop_reason else EXIT_OK


def _on_signals(stop: Callable[[], object]) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)


def run(config: Config, load: Load | None = None) -> int:
    """Configure the log, serve, and turn errors at the start into exit codes with a log line."""
    configure_logging(config.log.level, config.log.format)
    if config.ignored:
        log.info("ignored keys of server.properties", count=len(config.ignored), names=", ".join(config.ignored))
    try:
        waking = WakingSelector()
        with asyncio.Runner(loop_factory=waking.loop) as runner:
            return runner.run(serve(config, waking, load))
    except asyncio.CancelledError:
        log.info("stopped during start")
        return EXIT_OK
    except ConfigError as error:
        for problem in error.problems:
            log.error("failed to start", problem=problem)
        return EXIT_CONFIG
    except StoreUnavailable as error:
        log.error("failed to reach zookeeper", problem=str(error), next="check zookeeper.connect and the ensemble")
        return EXIT_UNREACHABLE
    except RefusedToLead as error:
        log.error("failed to start", problem=str(error), next="remove the cause, then start again")
        return EXIT_CONFIG
    except NoCluster as error:
        log.error("failed to start", problem=str(error), next="check zookeeper.connect and its chroot")
        return EXIT_UNREACHABLE
    except BadZnode as error:
        log.error("failed to start", problem=str(error), next="repair the znode")
        return EXIT_UNREACHABLE
    except (AuditInUse, BadHead) as error:
        log.error("failed to start", problem=str(error))
        return EXIT_CONFIG
    except OSError as error:
        log.error(
            "failed to start", problem=str(error), next="check the addresses and directories in the configuration"
        )
        return EXIT_IO
