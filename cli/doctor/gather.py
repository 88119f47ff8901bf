"""Gather the facts for the checks from each source independently, because any of them may be unreachable."""

import asyncio
import time
from collections.abc import Awaitable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from cli.connect import client_of
from cli.doctor.facts import ZOOKEEPER_IS_AWAY, CheckedCluster, Facts, ListenerProbe, SeenController
from cli.exit_codes import CliError, ExitCode
from cli.output import note
from controllerd.core.text import counted

if TYPE_CHECKING:
    from cli.client import Client
    from cli.settings import CliSettings
    from controllerd.status.schema.cluster import PartitionList
    from controllerd.status.schema.status import BrokerStatus, ListenerStatus
    from controllerd.zk.survey import Survey


PROBE_TIMEOUT_S: Final = 2.0
_AT_ONCE: Final = 50
T = TypeVar("T")


def probe_listeners(brokers: "Sequence[BrokerStatus]") -> list[ListenerProbe]:
    """Connect to every listener of every broker, many at a time."""
    wanted = [(f"broker {one.id}", listener) for one in brokers for listener in one.listeners]
    if wanted:
        note(f"connecting to {counted(len(wanted), 'listener')}")
    return asyncio.run(_all(_probe(owner, listener) for owner, listener in wanted))


def see_controllers(brokers: "Sequence[BrokerStatus]") -> list[SeenController]:
    """Ask every broker that has a listener without TLS and SASL who the controller is, many at a time."""
    wanted = [(one.id, plain) for one in brokers if (plain := _plain(one)) is not None]
    if wanted:
        note(f"asking {counted(len(wanted), 'broker')} who the controller is")
    return asyncio.run(_all(_see_controller(broker, listener) for broker, listener in wanted))


def _plain(broker: "BrokerStatus") -> "ListenerStatus | None":
    return next((each for each in broker.listeners if each.security_protocol == "PLAINTEXT"), None)


async def _all(tasks: Iterable[Awaitable[T]]) -> list[T]:
    window = asyncio.Semaphore(_AT_ONCE)

    async def one(task: Awaitable[T]) -> T:
        async with window:
            return await task

    return await asyncio.gather(*map(one, tasks))


async def _probe(owner: str, listener: "ListenerStatus") -> ListenerProbe:
    return ListenerProbe(owner, listener.name, f"{listener.host}:{listener.port}", await _why_not(listener))


async def _why_not(listener: "ListenerStatus") -> str | None:
    """Return the reason for which a connection fails; None if it is accepted."""
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            _, writer = await asyncio.open_connection(listener.host, listener.port)
    except TimeoutError:
        return f"no answer within {PROBE_TIMEOUT_S:g} s"
    except OSError as error:
        return error.strerror or str(error)
    writer.close()
    return None


async def _see_controller(broker: int, listener: "ListenerStatus") -> SeenController:
    """Ask a broker for the controller. A failure is no finding here: another check probes the listeners."""
    from wire.errors import WireError
    from wire.metadata import fetch_metadata

    try:
        found = await fetch_metadata(
            listener.host, listener.port, (), client_id="controllerctl-doctor", timeout_s=PROBE_TIMEOUT_S
        )
    except (OSError, WireError):
        return SeenController(broker, None)
    return SeenController(broker, found.controller_id)


_FIRST: Final = 5


def gather(settings: "CliSettings") -> Facts:
    """Ask the daemon unless only ZooKeeper is named, and read ZooKeeper if its address is known.

    :raises CliError: neither answers, or the daemon refuses us.
    """
    hosts = settings.zk or settings.known_zk
    wants_daemon = settings.zk is None or settings.is_api_given
    survey, no_survey = _survey(settings, hosts)
    view, trouble = _daemon_view(settings) if wants_daemon else (None, None)
    if view is None and survey is None:
        raise trouble or CliError(ExitCode.UNREACHABLE, f"{no_survey}; {ZOOKEEPER_IS_AWAY}")
    is_daemon = view is not None
    if view is None and hosts is not None:
        view = _zookeeper_view(settings, hosts)
    return Facts(
        now_ms=time.time_ns() // 1_000_000,
        survey=survey,
        no_survey=no_survey,
        view=view,
        is_daemon=is_daemon,
        no_daemon=str(trouble or ""),
        is_daemon_expected=wants_daemon,
        health=_client(settings).health() if is_daemon else None,
        probes=probe_listeners(view.status.brokers) if view is not None else (),
        seen_controllers=see_controllers(view.status.brokers) if view is not None else (),
    )


def _survey(settings: "CliSettings", hosts: str | None) -> "tuple[Survey | None, str]":
    if hosts is None:
        return None, "its address is not known"
    from cli.zookeeper import opened
    from controllerd.errors import StoreUnavailable
    from controllerd.zk.survey import take_survey

    async def take() -> "Survey":
        async with opened(hosts, settings.timeout_s) as client:
            return await take_survey(client)

    note(f"reading ZooKeeper at {hosts} (for {settings.timeout_s:g} s if no server answers)")
    try:
        return asyncio.run(take()), ""
    except StoreUnavailable as error:
        return None, str(error)
    except ValueError as error:
        raise CliError(ExitCode.USAGE, f"--zk must be like zk1:2181,zk2:2181/chroot, not {hosts!r}: {error}") from None


def _daemon_view(settings: "CliSettings") -> tuple[CheckedCluster | None, CliError | None]:
    """Return the view of the daemon, or the error if it is down or slow. :raises CliError: the daemon refuses."""
    note(f"asking the daemon at {settings.api}")
    try:
        return take_view(_client(settings)), None
    except CliError as error:
        if error.code not in {ExitCode.UNREACHABLE, ExitCode.TIMED_OUT}:
            raise
        return None, error


def _client(settings: "CliSettings") -> "Client":
    """Return a client of the daemon, though ZooKeeper may be named, too."""
    from dataclasses import replace

    return client_of(replace(settings, zk=None))


def _zookeeper_view(settings: "CliSettings", hosts: str) -> CheckedCluster:
    from dataclasses import replace

    return take_view(client_of(replace(settings, zk=hosts)))


def take_view(client: "Client") -> CheckedCluster:
    """Read the view of a daemon, or of the reader of ZooKeeper. :raises CliError: there is no answer."""
    from controllerd.status.schema.cluster import BrokerList, PartitionList

    status = client.status().content
    brokers = client.get("/v1/brokers", BrokerList).content.items
    offline = client.get("/v1/partitions", PartitionList, {"offline": True, "limit": _FIRST}).content
    below_minimum = _under_min_isr(client)
    return CheckedCluster(
        status=status.status,
        cluster_id=status.meta.cluster_id,
        offline=offline.items,
        offline_total=offline.total,
        under_min_isr=below_minimum.items if below_minimum is not None else (),
        under_min_isr_total=below_minimum.total if below_minimum is not None else None,
        gone=[broker.id for broker in brokers if not broker.alive],
    )


def _under_min_isr(client: "Client") -> "PartitionList | None":
    """Read the first partitions below the minimum; None if the daemon does not know it. :raises CliError: no answer."""
    from controllerd.status.schema.cluster import PartitionList

    try:
        return client.get("/v1/partitions", PartitionList, {"under_min_isr": True, "limit": _FIRST}).content
    except CliError as refusal:
        if refusal.code is not ExitCode.REFUSED:
            raise
        return None
