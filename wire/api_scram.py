"""Convert requests about SCRAM credentials of users (KIP-554); kio encodes and decodes.

Salts and salted passwords are secrets: no representation of these values shows them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from controllerd.core.kafka_error import KafkaError
from wire.api_codec import Request, entity_of, respond, throttle
from wire.api_messages import present
from wire.framing import RequestHeader

_ENDED_AGAIN: Final = b"\0"
"""librdkafka (2.16 too) ends this request by empty tagged fields twice, and brokers pass over whatever follows one."""


class ScramDeletion(NamedTuple):
    """A credential to remove; the mechanism as its code (1: SCRAM-SHA-256, 2: SCRAM-SHA-512), known or not."""

    user: str
    mechanism: int


@dataclass(frozen=True, slots=True)
class ScramUpsertion:
    """A credential to set; the mechanism as its code, known or not."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes = field(repr=False)
    salted_password: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class AlterScramQuery:
    """The request as it came, repeated rows too."""

    deletions: list[ScramDeletion]
    upsertions: list[ScramUpsertion]


class ScramResult(NamedTuple):
    """The outcome of all changes to one user: they succeed or fail together."""

    user: str
    error: KafkaError
    message: str | None = None


def decode_alter_scram(request: Request) -> AlterScramQuery:
    """Read AlterUserScramCredentials. :raises MalformedMessage: bad bytes."""
    entity = entity_of(request, may_follow=_ENDED_AGAIN)
    deletions = [ScramDeletion(row.name, row.mechanism) for row in present(entity.deletions)]
    upsertions = [
        ScramUpsertion(row.name, row.mechanism, row.iterations, bytes(row.salt), bytes(row.salted_password))
        for row in present(entity.upsertions)
    ]
    return AlterScramQuery(deletions, upsertions)


def encode_alter_scram(head: RequestHeader, users: Iterable[ScramResult], throttle_ms: int = 0) -> bytes:
    """Encode the response to AlterUserScramCredentials: the outcome of each user."""
    rows = [{"user": user, "error_code": error, "error_message": message} for user, error, message in users]
    return respond(head, {"throttle_time": throttle(throttle_ms), "results": rows})
