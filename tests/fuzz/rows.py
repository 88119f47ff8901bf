"""Checks that an answer has a row for each row of the request: an answer without one could be read all the same."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from kio.index import load_request_schema
from kio.serial import entity_reader

from wire.framing import decode_request_header
from wire.unknown_tags import without_unknown_tags
from wire.versions import ApiKey

_Rows = set[object] | None
"""None where the rows of the answer do not follow from the request: an id is no name, and null requests all."""


class Pair(NamedTuple):
    """The names of the rows of a request and of its answer."""

    asked: Callable[[Any], _Rows]
    answered: Callable[[Any], _Rows]


def missing_rows(request: bytes, answer: Any) -> str:
    """The error in the rows of an answer to a request that must be answered; empty if they are right."""
    pair = _PAIRS.get(answer.__api_key__)
    if pair is None or getattr(answer, "error_code", False):  # a request that is refused as a whole has no rows
        return ""
    kind: Any = load_request_schema(answer.__api_key__, answer.__version__)
    body = without_unknown_tags(kind, request, decode_request_header(request)[1])
    asked, answered = pair.asked(entity_reader(kind)(body, 0)[0]), pair.answered(answer)
    if asked is None or asked == answered:
        return ""
    return f"asked for {asked}, answered about {answered}"[:2_000]


def _names(rows: Iterable[Any] | None, field: str = "name") -> _Rows:
    found = None if rows is None else {getattr(row, field) for row in rows}
    return None if found is None or None in found else found


def _deletions(asked: Any) -> _Rows:
    if hasattr(asked, "topic_names"):
        return set(asked.topic_names)
    return None if _has_ids(asked.topics) else _names(asked.topics)


def _described(asked: Any) -> _Rows:
    """The described rows; in version 0 an empty list requests all."""
    return None if _has_ids(asked.topics) else _names(asked.topics) or None


def _has_ids(rows: Iterable[Any] | None) -> bool:
    return any(getattr(row, "topic_id", None) for row in rows or ())


def _reassigned(rows: Iterable[Any]) -> _Rows:
    return {(row.name, each.partition_index) for row in rows for each in row.partitions}


def _elected(asked: Any) -> _Rows:
    if asked.topic_partitions is None:
        return None
    return {(row.topic, partition) for row in asked.topic_partitions for partition in row.partitions}


_PAIRS: Final[Mapping[int, Pair]] = {
    ApiKey.METADATA: Pair(_described, lambda answer: _names(answer.topics)),
    ApiKey.CREATE_TOPICS: Pair(lambda asked: _names(asked.topics), lambda answer: _names(answer.topics)),
    ApiKey.DELETE_TOPICS: Pair(_deletions, lambda answer: _names(answer.responses)),
    ApiKey.CREATE_PARTITIONS: Pair(lambda asked: _names(asked.topics), lambda answer: _names(answer.results)),
    ApiKey.ELECT_LEADERS: Pair(
        _elected,
        lambda answer: {
            (row.topic, each.partition_id) for row in answer.replica_election_results for each in row.partition_result
        },
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Pair(
        lambda asked: _reassigned(asked.topics), lambda answer: _reassigned(answer.responses)
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Pair(
        lambda asked: _names((*asked.deletions, *asked.upsertions)), lambda answer: _names(answer.results, "user")
    ),
}
