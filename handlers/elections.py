"""Elections that somebody asked for: by znode, by request, by the timer, by a changed configuration."""

from collections.abc import Mapping

from controllerd.controller import Controller
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.errors import NotServed
from events.elections import (
    AutoPreferredReplicaLeaderElection,
    ReplicaLeaderElection,
    TopicUncleanLeaderElectionEnable,
    UncleanLeaderElectionEnable,
)


async def initialise_elections(_c: Controller) -> None:
    """At the start of a term: elections that were asked for by znode meanwhile, and the timer of the next check."""


async def on_replica_leader_election(
    _event: ReplicaLeaderElection, _c: Controller
) -> Mapping[TopicPartition, BrokerId | KafkaError]:
    """Elect preferred or, at the risk of losing records, any live replicas."""
    raise NotServed("elections")


async def on_auto_preferred_election(_event: AutoPreferredReplicaLeaderElection, _c: Controller) -> None:
    """Look at the leader imbalance of every broker."""


async def on_unclean_enabled(_event: UncleanLeaderElectionEnable, _c: Controller) -> None:
    """Unclean elections are allowed by default from now on."""


async def on_topic_unclean_enabled(_event: TopicUncleanLeaderElectionEnable, _c: Controller) -> None:
    """Unclean elections of one topic are allowed from now on."""
