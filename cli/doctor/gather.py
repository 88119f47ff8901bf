"""Gathering: everything that the checks look at, each part on its own, because any of them may be out of reach."""

import asyncio
import time
from typing import TYPE_CHECKING, Final

from cli.doctor.facts import ZOOKEEPER_IS_AWAY, Facts, View
from cli.doctor.network import knock, look
from cli.exit_codes import CliError, ExitCode
from cli.output import note

if TYPE_CHECKING:
    from cli.client import Client
    from cli.settings import Settings
    from controllerd.status.schema.cluster import PartitionList
    from controllerd.zk.survey import Survey

_FIRST: Final = 5


def gather(settings: "Settings") -> Facts:
    """Ask the daemon unless only ZooKeeper is named, and ZooKeeper if it is known where it is.

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
        knocks=knock(view.status.brokers) if view is not None else (),
        sights=look(view.status.brokers) if view is not None else (),
    )


def _survey(settings: "Settings", hosts: str | None) -> "tuple[Survey | None, str]":
    if hosts is None:
        return None, "nobody said where it is"
    from cli.direct import opened
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


def _daemon_view(settings: "Settings") -> tuple[View | None, CliError | None]:
    """The daemon's view, or why there is none: it is away, or slow. :raises CliError: it refuses us."""
    note(f"asking the daemon at {settings.api}")
    try:
        return take_view(_client(settings)), None
    except CliError as error:
        if error.code not in {ExitCode.UNREACHABLE, ExitCode.TIMED_OUT}:
            raise
        return None, error


def _client(settings: "Settings") -> "Client":
    """The daemon, though ZooKeeper may be named, too."""
    from dataclasses import replace

    return replace(settings, zk=None).client()


def _zookeeper_view(settings: "Settings", hosts: str) -> View:
    from dataclasses import replace

    return take_view(replace(settings, zk=hosts).client())


def take_view(client: "Client") -> View:
    """What this daemon, or what stands in for it, knows. :raises CliError: it does not say."""
    from controllerd.status.schema.cluster import BrokerList, PartitionList

    status = client.status().content
    brokers = client.get("/v1/brokers", BrokerList).content.items
    offline = client.get("/v1/partitions", PartitionList, {"offline": True, "limit": _FIRST}).content
    thin = _under_min_isr(client)
    return View(
        status=status.status,
        cluster_id=status.meta.cluster_id,
        offline=offline.items,
        offline_total=offline.total,
        under_min_isr=thin.items if thin is not None else (),
        under_min_isr_total=thin.total if thin is not None else None,
        gone=[broker.id for broker in brokers if not broker.alive],
    )


def _under_min_isr(client: "Client") -> "PartitionList | None":
    """The first of them; None where the daemon does not know what the minimum is. :raises CliError: no answer."""
    from controllerd.status.schema.cluster import PartitionList

    try:
        return client.get("/v1/partitions", PartitionList, {"under_min_isr": True, "limit": _FIRST}).content
    except CliError as refusal:
        if refusal.code is not ExitCode.REFUSED:
            raise
        return None
