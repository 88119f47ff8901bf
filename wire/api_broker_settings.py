"""Read the settings of a broker by DescribeConfigs; kio encodes and decodes."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId
from controllerd.core.topic_defaults import BrokerSetting, ConfigSource
from wire.api_codec import fill
from wire.api_messages import present
from wire.errors import MalformedMessage
from wire.kio_codec import decode_entity, encode_entity, request_type, response_type
from wire.versions import ApiKey

VERSION: Final = 1
"""The first that names the source of a value, and spoken by every broker since Kafka 1.1."""
_BROKER: Final = 4


class NotAuthorized(MalformedMessage):
    """The broker has an authorizer, which does not let us read its settings."""


def encode_settings_query(broker: BrokerId, names: Sequence[str], *, with_hidden: bool = False) -> bytes:
    """Encode the body of a request for these settings; only the broker itself can answer it.

    ``with_hidden`` also asks for the values that the dynamic default of all brokers overrides.
    """
    resource = {"resource_type": _BROKER, "resource_name": str(broker), "configuration_keys": tuple(names)}
    given = {"resources": [resource], "include_synonyms": with_hidden}
    return encode_entity(fill(request_type(ApiKey.DESCRIBE_CONFIGS, VERSION), given))


def decode_settings(body: bytes) -> Mapping[str, BrokerSetting]:
    """Return the settings that the broker knows.

    :raises MalformedMessage: the answer has none. :raises NotAuthorized: we may not read them.
    """
    answer: Any = decode_entity(response_type(ApiKey.DESCRIBE_CONFIGS, VERSION), body)
    for result in present(answer.results):
        if result.error_code == KafkaError.CLUSTER_AUTHORIZATION_FAILED:
            raise NotAuthorized("a broker does not let us read its settings")
        if result.error_code != KafkaError.NONE:
            raise MalformedMessage(f"a broker refused its settings: {result.error_code!r}")
        return {row.name: _setting(row) for row in present(result.configs)}
    raise MalformedMessage("a broker says nothing of its settings")


def _setting(row: Any) -> BrokerSetting:
    source = _source(row.config_source)
    if source is not ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG:
        return BrokerSetting(row.value, source)
    # The synonyms stand in the order of precedence (ConfigHelper.configSynonyms).
    hidden = (each.value for each in present(row.synonyms) if _source(each.source) > source)
    return BrokerSetting(row.value, source, next(hidden, None))


def _source(code: int) -> ConfigSource:
    try:
        return ConfigSource(code)
    except ValueError as error:
        raise MalformedMessage(f"no setting of a broker has the source {code}") from error
