"""The settings of brokers. A CreateTopics response has all configs of a topic, most of them from the brokers."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Final

import structlog

from controllerd.api.broker_versions import plaintext_endpoint
from controllerd.core.model import Broker, BrokerId
from controllerd.core.topic_defaults import BROKER_SETTINGS, BrokerSetting, effective_configs
from controllerd.snapshot import ClusterSnapshot
from wire.api_broker_settings import VERSION, decode_settings, encode_settings_query
from wire.connection import KafkaConnection
from wire.errors import WireError
from wire.transport import PLAINTEXT, Transport
from wire.versions import ApiKey

_CLIENT_ID: Final = "controllerd"
_LOG = structlog.get_logger(__name__)

Settings = Mapping[str, BrokerSetting]


class LiveBrokerSettings:
    """Ask one live broker each time, because an operator may change its settings at any time."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        *,
        ask_s: float = 0.5,
        patience_s: float = 1.0,
        transport: Transport = PLAINTEXT,
    ) -> None:
        """``ask_s`` bounds the question to one broker, ``patience_s`` a caller's wait."""
        self._snapshot = snapshot
        self._ask_s = ask_s
        self._patience_s = patience_s
        self._transport = transport
        self._answered: BrokerId | None = None

    async def of_any(self, listener: str) -> Settings:
        """Return the settings of a live broker, asked over this listener; empty if none answers in time."""
        try:
            async with asyncio.timeout(self._patience_s):
                for broker in self._in_turn():
                    if (settings := await self._asked(broker, listener)) is not None:
                        return settings
        except TimeoutError:
            _LOG.info("received settings from no broker in time", patience_s=self._patience_s)
        return {}

    def _in_turn(self) -> Iterator[Broker]:
        """Return the brokers, the one that answered last time first."""
        yield from sorted(self._snapshot.brokers.values(), key=lambda broker: broker.id != self._answered)

    async def _asked(self, broker: Broker, listener: str) -> Settings | None:
        endpoint = plaintext_endpoint(broker, listener)
        if endpoint is None:
            return None
        question = encode_settings_query(broker.id, BROKER_SETTINGS)
        try:
            async with asyncio.timeout(self._ask_s):
                connection = await KafkaConnection.connect(
                    endpoint.host, endpoint.port, _CLIENT_ID, transport=self._transport
                )
                try:
                    answer = await connection.request(ApiKey.DESCRIBE_CONFIGS, VERSION, question)
                finally:
                    connection.abort()
            settings = decode_settings(answer)
            effective_configs({}, settings)  # a check: it raises ValueError for a value that is no number
        except (OSError, WireError, ValueError) as error:
            _LOG.info("could not read broker settings", broker=broker.id, error=repr(error))
            return None
        self._answered = broker.id
        return settings
