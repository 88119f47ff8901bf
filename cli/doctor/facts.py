"""What the checks look at: facts from ZooKeeper, from the daemon, and from the network. Any of them may be missing."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from controllerd.status.schema.cluster import PartitionItem
    from controllerd.status.schema.common import Health
    from controllerd.status.schema.status import Status
    from controllerd.zk.survey import Survey


ZOOKEEPER_IS_AWAY: Final = (
    "see that the ensemble runs and can be reached from here; without it leaders serve on and nothing is elected: "
    "do not restart brokers, they would not come up"
)


class Knock(NamedTuple):
    """An attempt to connect to a listener."""

    owner: str
    """``broker 3``."""
    listener: str
    address: str
    error: str | None
    """Why it failed; None when somebody answered."""


class Sight(NamedTuple):
    """Whom a broker takes for the controller."""

    broker: int
    controller: int | None
    """-1: nobody. None: it did not say."""


@dataclass(frozen=True, slots=True)
class View:
    """The cluster as somebody sees it who holds all of it together: a daemon, or ZooKeeper read through its views."""

    status: "Status"
    cluster_id: str
    offline: "Sequence[PartitionItem]"
    """The first of them."""
    offline_total: int
    under_min_isr: "Sequence[PartitionItem]"
    """The first of those whose ISR is smaller than min.insync.replicas."""
    under_min_isr_total: int | None
    """None: the minimum is not known to whoever was asked."""
    gone: Sequence[int] = ()
    """Brokers that hold replicas and are not registered."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that was gathered; what could not be has a reason beside it."""

    now_ms: int
    survey: "Survey | None" = None
    no_survey: str = ""
    view: View | None = None
    is_daemon: bool = False
    """Whether the view is a daemon's."""
    no_daemon: str = ""
    is_daemon_expected: bool = True
    """Whether somebody said where a daemon is, so that its absence is a trouble."""
    health: "Health | None" = None
    knocks: Sequence[Knock] = field(default_factory=tuple)
    sights: Sequence[Sight] = field(default_factory=tuple)

    @property
    def knows_cluster(self) -> bool:
        """Whether the view has partitions in it: a standby's has none."""
        return self.view is not None and (not self.is_daemon or self.view.status.role in {"active", "observer"})
