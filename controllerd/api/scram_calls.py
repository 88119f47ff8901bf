"""Credentials of users: rows of one request become one change per user, and its reply one row per user."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from controllerd.api.event_calls import EventCaller
from controllerd.api.large_messages import rows_in, run_in_thread_if_large
from controllerd.api.native import NativeRequest, serves
from controllerd.api.sessions import AclOperation
from controllerd.core.kafka_error import KafkaError, Refusal
from controllerd.core.scram import ScramChange, ScramCredential
from events.admin import AlterScram
from wire.api_codec import Request
from wire.api_scram import ScramResult, decode_alter_scram, encode_alter_scram
from wire.versions import ApiKey, VersionRange

_DONE: Final = Refusal(KafkaError.NONE, "")
_UNANSWERED: Final = Refusal(KafkaError.UNKNOWN_SERVER_ERROR)


class ScramCalls:
    """AlterUserScramCredentials (KIP-554). Reading credentials needs no controller, so that brokers answer it."""

    def __init__(self, asker: EventCaller) -> None:
        self._asker = asker

    @serves(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, VersionRange(0, 0), needs=AclOperation.ALTER, is_forwarded=True)
    async def alter_scram(self, request: NativeRequest) -> bytes:
        """Answer AlterUserScramCredentials (key 51) when everything is written.

        :raises MalformedMessage: bad bytes. :raises HangUp: no answer in time.
        """
        changes = await run_in_thread_if_large(rows_in(request), _changes, request)
        reply = await self._asker.ask(AlterScram(request.by, changes), request.denied)
        if isinstance(reply, KafkaError):
            results = [ScramResult(user, reply) for user in changes]
        else:
            results = [ScramResult(user, *(reply.get(user, _UNANSWERED) or _DONE)) for user in changes]
        return await run_in_thread_if_large(len(results), encode_alter_scram, request.head, results)


def _changes(request: Request) -> Mapping[str, ScramChange]:
    """Return the changes by user; users that lose a credential come first, as in the answers of brokers."""
    query = decode_alter_scram(request)
    gone: defaultdict[str, list[int]] = defaultdict(list)
    for deletion in query.deletions:
        gone[deletion.user].append(deletion.mechanism)
    new: defaultdict[str, list[ScramCredential]] = defaultdict(list)
    for row in query.upsertions:
        new[row.user].append(ScramCredential(row.mechanism, row.iterations, row.salt, row.salted_password))
    users = dict.fromkeys((*gone, *new))
    return {user: ScramChange(tuple(gone.get(user, ())), tuple(new.get(user, ()))) for user in users}
