"""Dispatch requests: each is served, relayed to a broker, refused in its version, or ends with a closed connection."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from controllerd.api.broker_versions import BrokerVersions
from controllerd.api.catalog import KNOWN, NATIVE, advertised, is_relayable
from controllerd.api.envelopes import Envelopes
from controllerd.api.hang_up import HangUp, Reason
from controllerd.api.large_messages import decode_request
from controllerd.api.native import NativeApi, NativeRequest, apis_of
from controllerd.api.sessions import AclOperation, Answered, Session
from controllerd.api.shared_versions import SharedVersions
from controllerd.core.kafka_error import KafkaError
from wire.api_codec import Request
from wire.api_messages import decode_api_versions, encode_api_versions
from wire.versions import ApiKey


class Dispatcher:
    """Answer requests, each in exactly its version, or close the connection (``wire.md`` G-1)."""

    def __init__(
        self,
        families: Sequence[object],
        envelopes: Envelopes,
        versions: BrokerVersions,
        shared: SharedVersions,
    ) -> None:
        """``families`` are the objects whose methods serve the native APIs of the catalog."""
        self._native: Final[Mapping[int, NativeApi]] = {
            api.key: replace(api, call=partial(api.call, family))
            for family in families
            for api in apis_of(type(family))
        }
        self._envelopes = envelopes
        self._versions = versions
        self._shared = shared

    async def answer(self, request: Request, session: Session) -> Answered:
        """Return the response, and the time for which the connection is not read afterwards.

        :raises HangUp: no response is possible, and the connection must be closed.
        :raises MalformedMessage: the request cannot be decoded.
        """
        key, version = request.head.api_key, request.head.version
        if key == ApiKey.API_VERSIONS:
            return Answered([await self._api_versions(request, session)])
        if key == ApiKey.ENVELOPE:
            return Answered([await self._envelopes.answer(request, session, self.answer)])
        api = self._native.get(key)
        if api is None:
            if not is_relayable(key):
                raise HangUp(Reason.NOT_RELAYED if key in KNOWN else Reason.UNKNOWN_API, str(request.head))
            return Answered([await session.forward(request)])
        if version not in api.versions:
            raise HangUp(Reason.UNSUPPORTED_VERSION, str(request.head))
        denied = session.denied(api.needs) if api.needs is not None else None
        answer = await api.call(NativeRequest(request.head, request.frame, session, denied))
        return answer if isinstance(answer, Answered) else Answered([answer])

    async def _api_versions(self, request: Request, session: Session) -> bytes:
        ours = NATIVE[ApiKey.API_VERSIONS]
        if request.head.version not in ours:
            return encode_api_versions(request.head, KafkaError.UNSUPPORTED_VERSION, {ApiKey.API_VERSIONS: ours})
        is_valid = await decode_request(decode_api_versions, request)
        if not is_valid:
            return encode_api_versions(request.head, KafkaError.INVALID_REQUEST, {})
        known = await self._versions.known(session.own.listener)
        shared = self._shared.of(known.values())
        can_relay = session.allows(AclOperation.RELAY)
        return encode_api_versions(request.head, KafkaError.NONE, advertised(shared if can_relay else {}))
