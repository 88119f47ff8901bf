"""The facts that the checks need, from ZooKeeper, the daemon and the network, and the findings of checks.

Any of the facts may be missing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from controllerd.status.schema.common import Finding

if TYPE_CHECKING:
    from controllerd.status.schema.cluster import PartitionItem
    from controllerd.status.schema.common import Health
    from controllerd.status.schema.status import Status
    from controllerd.zk.survey import Survey


ZOOKEEPER_IS_AWAY: Final = (
    "check that the ensemble runs and can be reached from here; without it leaders keep serving, none is elected: "
    "do not restart brokers, they would not come up"
)


class ListenerProbe(NamedTuple):
    """An attempt to connect to a listener."""

    owner: str
    """``broker 3``."""
    listener: str
    address: str
    error: str | None
    """The reason of the failure; None if the connection was accepted."""


class SeenController(NamedTuple):
    """The controller that a broker knows."""

    broker: int
    controller: int | None
    """-1: the broker knows none. None: it did not answer."""


@dataclass(frozen=True, slots=True)
class CheckedCluster:
    """The cluster as a daemon sees it, or as ZooKeeper shows it through the views of a daemon."""

    status: "Status"
    cluster_id: str
    offline: "Sequence[PartitionItem]"
    """The first partitions without a leader."""
    offline_total: int
    under_min_isr: "Sequence[PartitionItem]"
    """The first partitions whose ISR is smaller than min.insync.replicas."""
    under_min_isr_total: int | None
    """None: the instance does not know the minimum."""
    gone: Sequence[int] = ()
    """Brokers that hold replicas and are not registered."""


@dataclass(frozen=True, slots=True)
class Facts:
    """All facts; a missing one has its reason beside it."""

    now_ms: int
    survey: "Survey | None" = None
    no_survey: str = ""
    view: CheckedCluster | None = None
    is_daemon: bool = False
    """Whether the view is a daemon's."""
    no_daemon: str = ""
    is_daemon_expected: bool = True
    """Whether the address of a daemon was given, so that its absence is a problem."""
    health: "Health | None" = None
    probes: Sequence[ListenerProbe] = field(default_factory=tuple)
    seen_controllers: Sequence[SeenController] = field(default_factory=tuple)

    @property
    def knows_cluster(self) -> bool:
        """Return whether the view has partitions: a standby knows none."""
        return self.view is not None and (not self.is_daemon or self.view.status.role in {"active", "observer"})


SHOWN: Final = 5
"""Names that a sentence lists at most."""


def ok(check: str, detail: str) -> Finding:
    """Return a finding: nothing is wrong."""
    return Finding(check=check, severity="ok", detail=detail)


def warning(check: str, detail: str, hint: str) -> Finding:
    """Return a finding: something needs attention."""
    return Finding(check=check, severity="warning", detail=detail, hint=hint)


def critical(check: str, detail: str, hint: str) -> Finding:
    """Return a finding: something is broken."""
    return Finding(check=check, severity="critical", detail=detail, hint=hint)


def unknown(check: str, detail: str, hint: str) -> Finding:
    """Return a finding: the check could not be made."""
    return Finding(check=check, severity="unknown", detail=detail, hint=hint)


def listed(names: Sequence[str], total: int | None = None) -> str:
    """Return the first names, and the number of further ones."""
    number = len(names) if total is None else total
    more = f" and {number - SHOWN} more" if number > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
