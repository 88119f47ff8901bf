"""``python -m broker``: one embedded broker as a process. SIGTERM is a controlled shutdown, SIGKILL a crash."""

import argparse
import asyncio
import signal
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Final

import structlog

from broker.embedded import EmbeddedBroker
from broker.settings import DEFAULT_REPLICA_LAG_MS, DEFAULT_SESSION_TIMEOUT_MS, BrokerSettings, parse_listener
from controllerd.core.model import BrokerId
from controllerd.errors import ControllerdError
from controllerd.logs import configure_logging

log = structlog.get_logger(__name__)

_FAILED: Final = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a broker until a signal ends it; return the exit status."""
    settings = parse(arguments)
    configure_logging("info")
    try:
        return asyncio.run(run(settings))
    except (ControllerdError, OSError) as error:
        log.error("broker failed", broker=settings.broker_id, error=f"{type(error).__name__}: {error}")
        return _FAILED


async def run(settings: BrokerSettings) -> int:
    """Start, serve until SIGTERM or SIGINT, then shut down. :raises Exception: the error that ended the broker."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    broker = EmbeddedBroker(settings)
    try:
        if await _finished(broker.start(), stop):
            log.info("broker ready", broker=settings.broker_id, port=broker.endpoint.port, broker_epoch=broker.epoch)
            await _finished(broker.run(), stop)
            await broker.shut_down()
    finally:
        await broker.close()
    return 0


async def _finished(work: Coroutine[object, object, None], stop: asyncio.Event) -> bool:
    """Whether ``work`` ended before a signal arrived, which cancels it. :raises Exception: the error of ``work``."""
    doing, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({doing, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return doing.done() and doing.result() is None
    finally:
        doing.cancel()
        stopping.cancel()
        await asyncio.gather(doing, stopping, return_exceptions=True)


def parse(arguments: Sequence[str] | None) -> BrokerSettings:
    """Parse the settings from a command line. :raises SystemExit: it is invalid, or asks for help."""
    parser = argparse.ArgumentParser(prog="python -m broker", description=__doc__)
    parser.add_argument("--id", type=int, required=True, help="the broker id")
    parser.add_argument("--zookeeper", required=True, help="servers and chroot, as zookeeper.connect")
    parser.add_argument(
        "--listener", type=parse_listener, required=True, help="NAME://host:port; port 0 is any free port"
    )
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--session-timeout-ms", type=int, default=DEFAULT_SESSION_TIMEOUT_MS)
    parser.add_argument("--replica-lag-ms", type=int, default=DEFAULT_REPLICA_LAG_MS)
    parser.add_argument("--rack")
    given = parser.parse_args(arguments)
    return BrokerSettings(
        broker_id=BrokerId(given.id),
        zookeeper=given.zookeeper,
        listener=given.listener,
        data_dir=given.data_dir,
        rack=given.rack,
        session_timeout_ms=given.session_timeout_ms,
        replica_lag_ms=given.replica_lag_ms,
    )


if __name__ == "__main__":
    sys.exit(main())
