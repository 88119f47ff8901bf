"""``/v1/config``: every key with its origin, and no secret."""

import pytest

from controllerd.core.cluster_settings import UNCLEAN
from controllerd.core.resolved_settings import Source
from controllerd.core.settings_book import Configured, SettingsBook
from controllerd.status.reads.configuration import is_secret, settings_in_use
from controllerd.status.schema.config import ConfigList
from tests.status.fake_controller import FakeController
from tests.status.reads.conftest import Client


async def test_the_effective_configuration_is_shown_without_secrets(client: Client, controller: FakeController) -> None:
    controller.configuration = {
        "node.id": {"value": 2_000_000_001, "origin": "flag"},
        "http.admin_token": {"value": "s3cret", "origin": "/etc/controllerd/prod.toml"},
        "http.read_token": {"value": None, "origin": "default"},
    }

    items = (await client.get("/v1/config", ConfigList)).items

    assert [(item.key, item.value, item.origin) for item in items] == [
        ("http.admin_token", "<hidden>", "/etc/controllerd/prod.toml"),
        ("http.read_token", None, "default"),
        ("node.id", 2_000_000_001, "flag"),
    ]


@pytest.mark.parametrize(
    ("key", "expected"),
    [("zookeeper.sasl_password", True), ("http.admin_token", True), ("audit.head_key_file", False), ("node.id", False)],
)
def test_secrets_are_recognised_by_their_key(key: str, expected: bool) -> None:
    assert is_secret(key) is expected


def test_dynamic_configurations_override_the_setting_of_unclean_elections() -> None:
    known = SettingsBook({UNCLEAN: Configured("false", "prod.toml")}).current

    def shown(is_unclean: bool | None) -> tuple[str, Source]:
        (found,) = [each for each in settings_in_use(known, is_unclean) if each.setting.name == UNCLEAN]
        return found.value, found.source

    assert shown(None) == shown(False) == ("false", Source.CONFIGURED)
    assert shown(True) == ("true", Source.DYNAMIC)
