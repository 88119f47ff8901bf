"""``controllerctl get settings``, ``status`` and ``doctor`` show the values in use and the brokers that differ."""

import msgspec
import pytest

from controllerd.core.broker_answers import SettingsAnswer
from controllerd.core.cluster_settings import PROTOCOL_VERSION, REPLICATION_FACTOR, understood
from controllerd.core.model import BrokerId
from controllerd.core.settings_book import Configured, SettingsBook
from controllerd.status.schema.config import SettingList
from tests.cli.running import controllerctl
from tests.status.fake_controller import FakeController, serving

DELETION = "delete.topic.enable: false is used as the safer value, but broker 1 says true"


@pytest.fixture
def controller() -> FakeController:
    """Two brokers that disagree about one setting; another is configured here."""
    said = {1: {"delete.topic.enable": "true"}, 2: {"delete.topic.enable": "false"}}
    answers = {
        BrokerId(broker): SettingsAnswer(
            7, understood({PROTOCOL_VERSION: "3.9-IV0", REPLICATION_FACTOR: "3", **values})
        )
        for broker, values in said.items()
    }
    book = SettingsBook({REPLICATION_FACTOR: Configured("3", "/etc/controllerd/prod.toml")})
    book.take(answers, {BrokerId(1): 7, BrokerId(2): 7})
    return FakeController(cluster_settings=book.current)


async def test_each_setting_is_shown_with_its_value_its_source_and_the_brokers_that_differ(
    controller: FakeController,
) -> None:
    async with serving(controller) as url:
        table = await controllerctl("get", "settings", "--api", url)
        found = await controllerctl("get", "settings", "--api", url, "-o", "json")

    rows = {line.split()[0]: line.split()[1:] for line in table.out.splitlines()}
    assert rows["delete.topic.enable"] == ["false", "safer", "1:", "true"]
    assert rows["default.replication.factor"] == ["3", "/etc/controllerd/prod.toml", "-"]
    assert rows["num.partitions"] == ["1", "brokers", "-"]
    items = {item.setting: item for item in msgspec.json.decode(found.out, type=SettingList).items}
    assert items["delete.topic.enable"].problem == DELETION
    assert [each.value for each in items["delete.topic.enable"].brokers] == ["true", "false"]


async def test_status_and_doctor_name_a_disagreement(controller: FakeController) -> None:
    async with serving(controller) as url:
        status = await controllerctl("status", "--api", url)
        doctor = await controllerctl("doctor", "--api", url)

    assert DELETION in " ".join(status.out.split())
    assert "cluster-settings" in doctor.out
    assert DELETION in " ".join(doctor.out.split())
