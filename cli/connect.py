"""Connect to the daemon that the global flags name, and check that this instance can answer the command."""

from typing import TYPE_CHECKING

from cli.exit_codes import CliError, ExitCode
from cli.output import note
from cli.settings import CliSettings

if TYPE_CHECKING:  # importing the client costs more than starting the command
    from cli.client import Client
    from controllerd.status.schema.common import Meta, RoleAnswer
    from controllerd.status.schema.status import StatusResponse


def client_of(settings: CliSettings) -> "Client":
    """Return the client of the daemon, or of this process's own reader if ZooKeeper is read instead.

    :raises CliError: the address is invalid, or ZooKeeper does not answer.
    """
    from cli.client import Client

    if settings.zk is None:
        return Client(
            settings.api, settings.timeout_s, token=settings.token, ca_file=settings.ca_file, settings=settings
        )
    from cli.zookeeper import address_over

    return Client(address_over(settings.zk, settings.timeout_s), settings.timeout_s, settings=settings)


def daemon_client(settings: CliSettings, what: str) -> "Client":
    """Return the client of the daemon, for ``what`` that only a daemon has. :raises CliError: ZooKeeper is read."""
    if settings.zk is not None:
        message = f"--zk only reads ZooKeeper, where {what} cannot be seen: name a daemon with --api URL"
        raise CliError(ExitCode.USAGE, message)
    return client_of(settings)


def changing_client(settings: CliSettings) -> "Client":
    """Return the client of the daemon for a change. :raises CliError: only ZooKeeper is read."""
    if settings.zk is not None:
        message = "--zk only reads: to change something name a daemon with --api URL; nothing was changed"
        raise CliError(ExitCode.USAGE, message)
    return client_of(settings)


# -- which instance answers --------------------------------------------------------------------------------------------


def refuse_unfit(settings: CliSettings, now: "StatusResponse") -> None:
    """Refuse a change of another cluster than the expected one, or a change through an observer.

    :raises CliError: the change is refused
    """
    refuse_other_cluster(settings, now.meta)
    if now.status.role == "observer":
        message = "this instance observes and changes nothing: name another one with --api URL; nothing was changed"
        raise CliError(ExitCode.REFUSED, message)


def refuse_other_cluster(settings: CliSettings, meta: "Meta") -> None:
    """:raises CliError: the context expects another cluster behind this address."""
    expected = settings.expected_cluster_id
    if expected is not None and meta.cluster_id != expected:
        message = (
            f"{settings.api} belongs to cluster {meta.cluster_id or 'not known yet'}, "
            f"but the context {settings.context} expects {expected}; nothing was changed"
        )
        raise CliError(ExitCode.OTHER_CLUSTER, message)


def note_role(client: "Client") -> bool:
    """Print a note on a standby, which has no partitions; return whether the instance is active or an observer."""
    now = client.role()
    if not _knows_cluster(now):
        note(f"not the active controller ({now.role}: {now.reason}): this instance shows what it knows")
    return _knows_cluster(now)


def refuse_without_cluster(client: "Client") -> None:
    """Refuse an instance that has no state of the cluster. :raises CliError: it is a standby."""
    now = client.role()
    if not _knows_cluster(now):
        message = (
            f"this instance does not know the cluster ({now.role}: {now.reason}): "
            "name the active controller with --api URL, or ZooKeeper with --zk HOSTS"
        )
        raise CliError(ExitCode.REFUSED, message)


def _knows_cluster(now: "RoleAnswer") -> bool:
    return now.role in {"active", "observer"}
