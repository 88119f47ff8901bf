"""Answers of brokers to control requests."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import ClassVar

from controllerd.core.broker_answers import SettingsAnswer
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.core.releases import Release
from events.base import ControllerState, Event


@dataclass(frozen=True, slots=True)
class LeaderAndIsrResponseReceived(Event):
    """A broker answered LeaderAndIsr; partitions that are absent got ``NONE``.

    ``broker_epoch`` and ``controller_epoch`` are from the request: an answer to an earlier life is ignored.
    """

    state: ClassVar[ControllerState] = ControllerState.LEADER_AND_ISR_RESPONSE_RECEIVED
    failures: ClassVar[str] = (
        "An answer to an earlier epoch of the broker or of the controller is ignored. STALE_CONTROLLER_EPOCH: the "
        "role is checked, and given up if it is lost."
    )

    broker: BrokerId
    broker_epoch: int
    controller_epoch: int
    error: KafkaError
    partition_errors: Mapping[TopicPartition, KafkaError]
    partitions: AbstractSet[TopicPartition]
    """Every partition that the request named."""


@dataclass(frozen=True, slots=True)
class UpdateMetadataResponseReceived(Event):
    """A broker answered UpdateMetadata."""

    state: ClassVar[ControllerState] = ControllerState.UPDATE_METADATA_RESPONSE_RECEIVED
    failures: ClassVar[str] = "As LeaderAndIsrResponseReceived."

    broker: BrokerId
    broker_epoch: int
    controller_epoch: int
    error: KafkaError


@dataclass(frozen=True, slots=True)
class ApiVersionsReceived(Event):
    """A broker answered ApiVersions on the controller's connection, which shows the release that it runs.

    ``broker_epoch`` is the one of the connection's channel: an answer of an earlier life is
    ignored.
    """

    state: ClassVar[ControllerState] = ControllerState.BROKER_CHANGE
    failures: ClassVar[str] = "An answer of an earlier broker epoch is ignored."

    broker: BrokerId
    broker_epoch: int
    release: Release


@dataclass(frozen=True, slots=True)
class BrokerSettingsReceived(Event):
    """Brokers answered DescribeConfigs, or the registered brokers changed (ours).

    The event is enqueued only if something is new. ``registered`` are the epochs of the brokers that
    were asked.
    """

    state: ClassVar[ControllerState] = ControllerState.BROKER_CHANGE
    requires_active: ClassVar[bool] = False
    failures: ClassVar[str] = (
        "An answer of a broker that was removed is ignored. Brokers that disagree, or a configuration that differs, "
        "raise an alarm. For an authorizer, a policy class, ACLs on znodes or a migration the role is given up. A "
        "protocol version with other optional behaviour loads the whole state again under a new epoch."
    )

    answers: Mapping[BrokerId, SettingsAnswer]
    registered: Mapping[BrokerId, int]


ResponseEvent = (
    LeaderAndIsrResponseReceived | UpdateMetadataResponseReceived | ApiVersionsReceived | BrokerSettingsReceived
)
