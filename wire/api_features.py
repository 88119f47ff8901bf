"""UpdateFeatures (KIP-584) from and to our own values; kio does the bytes."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from controllerd.core.kafka_error import KafkaError
from events.admin import FeatureUpdate
from wire.api_codec import Request, entity_of, respond
from wire.api_messages import present
from wire.framing import RequestHeader

_UPGRADE: Final = 1
_UNSAFE_DOWNGRADE: Final = 3


class WantedFeature(NamedTuple):
    """One row of a request; ``update`` is None when its kind of upgrade does not exist."""

    name: str
    update: FeatureUpdate | None


@dataclass(frozen=True, slots=True)
class UpdateFeaturesQuery:
    """The request as it came, repeated rows too."""

    rows: list[WantedFeature]
    validate_only: bool


class FeatureResult(NamedTuple):
    """The outcome of one feature."""

    name: str
    error: KafkaError
    message: str | None = None


def decode_update_features(request: Request) -> UpdateFeaturesQuery:
    """Read a request. :raises MalformedMessage: bad bytes."""
    entity = entity_of(request)
    rows = [WantedFeature(row.feature, _update(row)) for row in present(entity.feature_updates)]
    return UpdateFeaturesQuery(rows, bool(getattr(entity, "validate_only", False)))


def _update(row: Any) -> FeatureUpdate | None:
    level = int(row.max_version_level)
    kind: int | None = getattr(row, "upgrade_type", None)
    if kind is None:
        return FeatureUpdate(level, bool(getattr(row, "allow_downgrade", False)))
    return FeatureUpdate(level, kind != _UPGRADE) if _UPGRADE <= kind <= _UNSAFE_DOWNGRADE else None


def encode_update_features(
    head: RequestHeader, error: KafkaError, message: str | None, results: Iterable[FeatureResult]
) -> bytes:
    """Encode the response: a top-level error with its message, and the outcome of each feature."""
    rows = [{"feature": name, "error_code": code, "error_message": text} for name, code, text in results]
    return respond(head, {"error_code": error, "error_message": message, "results": rows})
