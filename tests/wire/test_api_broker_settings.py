"""DescribeConfigs to brokers: kio reads the request, and an answer without settings is refused."""

from collections.abc import Mapping
from typing import Any

import pytest

from controllerd.core.model import BrokerId
from controllerd.core.topic_defaults import BrokerSetting, ConfigSource
from wire.api_broker_settings import VERSION, decode_settings, encode_settings_query
from wire.api_codec import fill
from wire.errors import MalformedMessage
from wire.kio_codec import decode_entity, encode_entity, request_type, response_type

DESCRIBE_CONFIGS = 32


def resource(*configs: Mapping[str, object], error: int = 0) -> dict[str, object]:
    """One resource of an answer."""
    head = {"error_code": error, "error_message": None, "resource_type": 4, "resource_name": "3"}
    return {**head, "configs": configs}


def config(name: str, value: str | None, source: int, *synonyms: tuple[str, int]) -> dict[str, object]:
    return {
        "name": name,
        "value": value,
        "config_source": source,
        "read_only": False,
        "is_sensitive": False,
        "synonyms": [{"name": name, "value": value, "source": source} for value, source in synonyms],
    }


def answer(*results: Mapping[str, object]) -> bytes:
    return encode_entity(fill(response_type(DESCRIBE_CONFIGS, VERSION), {"results": results}))


def test_one_broker_is_asked_for_some_of_its_settings() -> None:
    body = encode_settings_query(BrokerId(3), ["a", "b"])
    query: Any = decode_entity(request_type(DESCRIBE_CONFIGS, VERSION), body)
    (resource,) = query.resources
    assert (resource.resource_type, resource.resource_name, resource.configuration_keys) == (4, "3", ("a", "b"))


def test_settings_are_read_with_their_sources() -> None:
    body = answer(resource(config("a", "1", 4), config("b", None, 5)))
    assert decode_settings(body) == {
        "a": BrokerSetting("1", ConfigSource.STATIC_BROKER_CONFIG),
        "b": BrokerSetting(None, ConfigSource.DEFAULT_CONFIG),
    }


@pytest.mark.parametrize(
    ("below", "hidden"),
    [([("false", 4), ("true", 5)], "false"), ([("true", 5)], "true"), ([], None)],
    ids=["file", "kafka's default", "nothing"],
)
def test_the_value_that_the_dynamic_default_overrides_is_read(below: list[tuple[str, int]], hidden: str | None) -> None:
    body = answer(resource(config("a", "on", 3, ("on", 3), *below)))

    assert decode_settings(body) == {"a": BrokerSetting("on", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, hidden)}


def test_synonyms_are_requested_on_demand() -> None:
    asked: Any = decode_entity(
        request_type(DESCRIBE_CONFIGS, VERSION), encode_settings_query(BrokerId(3), ["a"], with_hidden=True)
    )

    assert asked.include_synonyms


@pytest.mark.parametrize(
    "body",
    [b"", answer(), answer(resource(error=31)), answer(resource(config("a", "1", 99)))],
    ids=["nothing", "no resource", "refused", "no such source"],
)
def test_an_answer_without_settings_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedMessage):
        decode_settings(body)
