"""A well-formed refusal of a request that we know but do not serve: each API puts its errors at another place."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from controllerd.core.kafka_error import KafkaError
from wire.api_codec import Request, entity_of, respond
from wire.api_messages import present

_Values = Mapping[str, object]


def encode_refusal(request: Request, error: KafkaError) -> bytes | None:
    """The response that says ``error`` for everything that was asked; None when the API has no place for it.

    :raises MalformedMessage: the request cannot be read.
    """
    refuse = _REFUSALS.get(request.head.api_key)
    if refuse is None:
        return None
    return respond(request.head, refuse(entity_of(request), error))


def _per_topic(entity: Any, error: KafkaError) -> _Values:
    refused = {"topic_id": None, "error_code": error, "error_message": None, "configs": ()}
    rows = [{"name": topic.name, **refused} for topic in present(entity.topics)]
    return {"topics": rows, "results": rows}


def _delete_topics(entity: Any, error: KafkaError) -> _Values:
    by_name = [{"name": name, "topic_id": None} for name in present(getattr(entity, "topic_names", ()))]
    by_id = [{"name": topic.name, "topic_id": topic.topic_id} for topic in present(getattr(entity, "topics", ()))]
    return {"responses": [{**row, "error_code": error, "error_message": None} for row in by_name + by_id]}


def _scram(entity: Any, error: KafkaError) -> _Values:
    users = {item.name for item in (*present(entity.deletions), *present(entity.upsertions))}
    return {"results": [{"user": user, "error_code": error, "error_message": None} for user in sorted(users)]}


_REFUSALS: Final[Mapping[int, Callable[[Any, KafkaError], _Values]]] = {
    19: _per_topic,
    20: _delete_topics,
    37: _per_topic,
    51: _scram,
}
