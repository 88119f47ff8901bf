"""The settings of an embedded broker: every setting that a controller asks for has a value."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from broker import config_answers
from broker.state import BrokerState
from controllerd.core.cluster_settings import NAMES, SETTINGS
from controllerd.core.kafka_error import KafkaError
from tests.broker.cluster import settings
from wire.framing import RequestHeader

HEAD = RequestHeader(32, 1, 7, "test")


async def asked(tmp_path: Path, broker: str, *names: str, **shared: str) -> Any:
    """The one result of a question to broker 1."""
    own = settings("127.0.0.1:1", tmp_path, 1, shared={k.replace("_", "."): v for k, v in shared.items()})
    query = SimpleNamespace(
        resources=(SimpleNamespace(resource_type=4, resource_name=broker, configuration_keys=names or None),)
    )
    answer = await config_answers.describe_configs(cast("BrokerState", SimpleNamespace(settings=own)), HEAD, query)
    return cast("Any", answer)["results"][0]


async def test_every_setting_that_a_controller_asks_for_has_kafkas_default(tmp_path: Path) -> None:
    result = await asked(tmp_path, "1", *NAMES)

    values = {row["name"]: row["value"] for row in result["configs"]}
    assert set(values) == set(NAMES)
    assert {each.name: values[each.name] for each in SETTINGS} == {
        each.name: each.default for each in SETTINGS
    } | {"inter.broker.protocol.version": "3.9-IV0"}  # fmt: skip


async def test_settings_of_the_broker_have_the_source_static_broker_config(tmp_path: Path) -> None:
    (row,) = (await asked(tmp_path, "1", "num.partitions", num_partitions="6"))["configs"]

    assert (row["value"], row["config_source"]) == ("6", 4)


async def test_an_unknown_setting_is_left_out(tmp_path: Path) -> None:
    assert (await asked(tmp_path, "1", "no.such.setting"))["configs"] == ()


async def test_a_question_about_another_broker_is_an_invalid_request(tmp_path: Path) -> None:
    result = await asked(tmp_path, "2", *NAMES)

    assert (result["error_code"], result["configs"]) == (KafkaError.INVALID_REQUEST, ())
