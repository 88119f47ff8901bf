"""The state that the handlers of one broker share."""

from dataclasses import dataclass

from broker.background import Signal
from broker.gate import ControlGate
from broker.metadata_cache import MetadataCache
from broker.producer_ids import BrokerProducerIds
from broker.replicas import ReplicaManager
from broker.settings import BrokerSettings


@dataclass(slots=True)
class BrokerState:
    """The parts of a broker that requests read and change, all in the event loop's thread."""

    settings: BrokerSettings
    gate: ControlGate
    cache: MetadataCache
    replicas: ReplicaManager
    producer_ids: BrokerProducerIds
    metadata_changed: Signal
    """Notified by every UpdateMetadata that was applied."""
    cluster_id: str = ""
