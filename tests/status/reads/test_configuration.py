"""``/v1/config``: every key with its origin, and no secret."""

import pytest

from controllerd.status.reads.configuration import is_secret
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
def test_what_is_secret_goes_by_its_name(key: str, expected: bool) -> None:
    assert is_secret(key) is expected
