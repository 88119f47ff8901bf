"""Finalized features (KIP-584)."""

from collections.abc import Mapping

from controllerd.controller import Controller
from controllerd.core.kafka_error import KafkaError
from controllerd.errors import NotServed
from events.admin import UpdateFeatures


async def on_update_features(_event: UpdateFeatures, _c: Controller) -> Mapping[str, KafkaError]:
    """Finalize feature levels."""
    raise NotServed("features")
