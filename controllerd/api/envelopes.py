"""Envelopes (KIP-590): requests of clients that brokers pass on, and the answers to them.

Brokers from 3.4 on that wait for a migration to KRaft (``zookeeper.metadata.migration.enable``)
forward the requests that a controller of ZooKeeper mode serves
(``KafkaApis.maybeForwardToController``). They understand four kinds of answers (``ForwardingManager``,
``BrokerToControllerChannelManager.handleResponse``):

- NONE with a response, which the client gets;
- NOT_CONTROLLER, after which they look for the controller and ask again;
- UNSUPPORTED_VERSION, after which they close the client's connection, so that it learns the
  versions anew;
- any other code, which the client gets as UNKNOWN_SERVER_ERROR.

After a closed connection they send the same envelope again until their timeout, and the requests
behind it wait, among them those for producer ids.
"""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from typing import Final

import structlog

from controllerd.api.catalog import FORWARDED, NATIVE
from controllerd.api.hang_up import HangUp, Reason
from controllerd.api.large_messages import rows_in, run_in_thread_if_large
from controllerd.api.sessions import AclOperation, Answered, Principal, Session
from controllerd.core.kafka_error import KafkaError
from controllerd.snapshot import ClusterSnapshot
from wire.api_codec import Request
from wire.api_envelope import (
    ForwardedRequest,
    UnreadableEnvelope,
    decode_envelope,
    encode_envelope,
    encode_envelope_error,
    says_not_controller,
)
from wire.errors import MalformedMessage

_CODES: Final = {
    Reason.UNSUPPORTED_VERSION: KafkaError.UNSUPPORTED_VERSION,
    Reason.NO_ERROR_FIELD: KafkaError.NOT_CONTROLLER,
}
"""Error codes of the envelope, for reasons that close the connection of a direct client."""
_LOG = structlog.get_logger(__name__)

Answer = Callable[[Request, Session], Awaitable[Answered]]


class Envelopes:
    """Answer envelopes as the built-in controller does (``KafkaApis.handleEnvelope``)."""

    def __init__(self, snapshot: ClusterSnapshot, between_brokers: Collection[str] | None) -> None:
        """``between_brokers`` names the listeners that take envelopes; None means all of them."""
        self._snapshot = snapshot
        self._between_brokers = between_brokers

    async def answer(self, request: Request, session: Session, answer: Answer) -> bytes:
        """Return the response to an envelope; ``answer`` serves its content.

        :raises MalformedMessage: bad bytes. :raises HangUp: a listener for clients, or no answer in time.
        """
        if self._between_brokers is not None and session.own.listener not in self._between_brokers:
            raise HangUp(Reason.NOT_AUTHORIZED, f"an envelope on the listener {session.own.listener}")
        if request.head.version not in NATIVE[request.head.api_key]:
            raise HangUp(Reason.UNSUPPORTED_VERSION, str(request.head))
        if (refused := self._refused(session)) is not None:
            return encode_envelope_error(request.head, refused)
        try:
            forwarded = await run_in_thread_if_large(rows_in(request), decode_envelope, request)
            response = await self._serve(forwarded, session, answer)
        except UnreadableEnvelope as error:
            _LOG.warning("refused envelope", code=error.code.name, reason=str(error), peer=session.peer)
            return encode_envelope_error(request.head, error.code)
        if await run_in_thread_if_large(rows_in(request), says_not_controller, forwarded.request.head, response):
            return encode_envelope_error(request.head, KafkaError.NOT_CONTROLLER)
        return encode_envelope(request.head, response)

    def _refused(self, session: Session) -> KafkaError | None:
        standby = None if self._snapshot.is_active else KafkaError.NOT_CONTROLLER
        return session.denied(AclOperation.CLUSTER_ACTION) or standby

    async def _serve(self, forwarded: ForwardedRequest, session: Session, answer: Answer) -> bytes:
        """Return the response to the client's request, judged by the rights of the client.

        The broker throttles its client for a violated quota, so this connection is not muted.
        """
        head = forwarded.request.head
        if head.api_key not in FORWARDED:
            raise UnreadableEnvelope(KafkaError.INVALID_REQUEST, f"{head} is not forwarded")
        client = replace(session, peer=forwarded.address, principal=Principal(*forwarded.principal))
        try:
            answered = await answer(forwarded.request, client)
        except MalformedMessage as error:
            raise UnreadableEnvelope(KafkaError.UNSUPPORTED_VERSION, f"{head}: {error}") from error
        except HangUp as hang_up:
            if (code := _CODES.get(hang_up.reason)) is None:
                raise
            raise UnreadableEnvelope(code, str(hang_up)) from hang_up
        return b"".join(answered.pieces)
