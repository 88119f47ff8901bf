"""How the controller is to behave: the broker settings that only the controller reads, as one immutable value."""

from typing import Final, Literal, NamedTuple

from controllerd.core.releases import NEWEST, Release

RegistrationMode = Literal["auto", "always", "never"]
"""``kafka.register``: when the active instance registers under ``/brokers/ids``."""


class Policy(NamedTuple):
    """Kafka's settings by the names that operators know, with Kafka's defaults."""

    delete_topic_enable: bool = True
    """``delete.topic.enable``: without it, requests to delete a topic are dropped."""
    auto_leader_rebalance_enable: bool = True
    """``auto.leader.rebalance.enable``."""
    leader_imbalance_per_broker_percentage: int = 10
    """``leader.imbalance.per.broker.percentage``: more than this share of a broker's partitions led by others."""
    leader_imbalance_check_interval_s: float = 300.0
    """``leader.imbalance.check.interval.seconds``; the first check comes 5 s after the election."""
    delegation_token_expiry_check_interval_s: float = 3_600.0
    """``delegation.token.expiry.check.interval.ms``: the time between two checks for expired tokens."""
    num_partitions: int = 1
    """``num.partitions``, for topics created without a count."""
    default_replication_factor: int = 1
    """``default.replication.factor``, for topics created without one."""
    tiered_storage: bool = False
    """``remote.log.storage.system.enable``: new topics may have ``remote.storage.enable``."""
    protocol_release: Release = NEWEST
    """The release of ``inter.broker.protocol.version``: every broker is of this release or of a newer one."""
    unknown: frozenset[str] = frozenset()
    """The settings, by Kafka's names, that neither this configuration nor any broker has named. Their values are
    Kafka's defaults, or those that change the least, and changes that cannot be undone wait."""


KAFKAS_DEFAULTS: Final = Policy()
