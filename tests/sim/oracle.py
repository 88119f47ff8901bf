"""The judge of the simulation: all judges behind one class.

``Oracle`` takes the transactions of ZooKeeper, the requests that brokers receive and the announcements of the story.
``violations`` are values, and the story decides what to do with them. The judge recomputes every expectation from
ZooKeeper alone and shares no code with the code that it judges.
"""

from typing import Final

from tests.sim import oracle_quiescence, oracle_requests, oracle_zookeeper
from tests.sim.oracle_quiescence import judge_quiescence
from tests.sim.oracle_rebuild import context_differences, log_differences
from tests.sim.oracle_requests import RequestOracle
from tests.sim.oracle_seen import (
    AskedIsr,
    AtRest,
    BrokerAtRest,
    CachedPartition,
    InstanceAtRest,
    Operation,
    Row,
    SeenRequest,
    SeenRow,
    Transaction,
    Violation,
)
from tests.sim.oracle_watch import watch
from tests.sim.oracle_zookeeper import ZooKeeperOracle

__all__ = [
    "OF_STORIES",
    "RULES",
    "AskedIsr",
    "AtRest",
    "BrokerAtRest",
    "CachedPartition",
    "InstanceAtRest",
    "Operation",
    "Oracle",
    "RequestOracle",
    "Row",
    "SeenRequest",
    "SeenRow",
    "Transaction",
    "Violation",
    "ZooKeeperOracle",
    "context_differences",
    "judge_quiescence",
    "log_differences",
    "watch",
]

OF_STORIES: Final = {
    "S-01": "no instance ends by itself",
    "S-02": "the protocol version of the cluster never falls",
    "S-03": "the protocol version rises only as far as every live broker has it, or as the cluster had it before",
    "S-04": "no story ends with a deadlock or an uncaught exception, also one of the model or of the judge",
}
"""Rules that are checked where the stories are played."""

RULES: Final = {
    **oracle_zookeeper.RULES,
    **oracle_requests.RULES,
    **oracle_quiescence.RULES,
    **OF_STORIES,
}
"""The text of each rule, by its id."""


class Oracle:
    """The judges of transactions and of requests, over one history."""

    def __init__(
        self,
        *,
        window: float,
        unclean_by_default: bool = False,
        leader_recovery: bool = True,
        takes_from_brokers: bool = True,
    ) -> None:
        """The arguments are the same as for ``ZooKeeperOracle``."""
        self.zookeeper = ZooKeeperOracle(
            window=window,
            unclean_by_default=unclean_by_default,
            leader_recovery=leader_recovery,
            takes_from_brokers=takes_from_brokers,
        )
        self.requests = RequestOracle(self.zookeeper)

    @property
    def violations(self) -> list[Violation]:
        """All violations so far, in the order of time."""
        return sorted([*self.zookeeper.violations, *self.requests.violations], key=lambda found: found.time)

    @property
    def is_unbroken(self) -> bool:
        """Whether there is no violation; cheap, so that it can be checked after every step."""
        return not self.zookeeper.violations and not self.requests.violations

    def at_rest(self, end: AtRest, *, isr_is_full: bool = False) -> list[Violation]:
        """The violations at the end of the story."""
        return judge_quiescence(self.zookeeper, end, isr_is_full=isr_is_full)
