"""The settings of brokers are kept in the data directory, and read back only if they are usable."""

import json
from pathlib import Path

import pytest

from controllerd.core.broker_answers import SettingsAnswer
from controllerd.core.cluster_settings import REPLICATION_FACTOR, understood
from controllerd.core.model import BrokerId
from controllerd.core.settings_book import Remembered
from controllerd.daemon.settings_memory import SETTINGS_FILE, SettingsFile

KNOWN = Remembered({BrokerId(1): SettingsAnswer(7, understood({REPLICATION_FACTOR: "3"}))}, "3.7-IV4")


async def test_stored_settings_are_loaded(tmp_path: Path) -> None:
    await SettingsFile(tmp_path).save("cluster", KNOWN)

    assert await SettingsFile(tmp_path).load("cluster") == KNOWN
    assert [file.name for file in list(tmp_path.iterdir())] == [SETTINGS_FILE]  # noqa: ASYNC240  # a test may wait


async def test_stored_settings_of_another_cluster_are_ignored(tmp_path: Path) -> None:
    await SettingsFile(tmp_path).save("cluster", KNOWN)

    assert await SettingsFile(tmp_path).load("another") == Remembered()


async def test_without_a_file_no_settings_are_known(tmp_path: Path) -> None:
    assert await SettingsFile(tmp_path).load("cluster") == Remembered()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda kept: b"",
        lambda kept: json.dumps(kept)[:-7].encode(),
        lambda kept: json.dumps(kept | {"version": 2}).encode(),
        lambda kept: json.dumps(kept | {"protocol_version": "newest"}).encode(),
        lambda kept: json.dumps(kept | {"brokers": [1]}).encode(),
        lambda kept: json.dumps({key: value for key, value in kept.items() if key != "cluster_id"}).encode(),
        lambda kept: json.dumps(kept).replace('"num.partitions": "1"', '"num.partitions": "x"').encode(),
    ],
    ids=["empty", "cut off", "a newer version", "no protocol version", "no brokers", "no cluster", "no number"],
)
async def test_an_invalid_file_is_the_same_as_none(tmp_path: Path, spoil: object) -> None:
    memory = SettingsFile(tmp_path)
    await memory.save("cluster", KNOWN)
    assert callable(spoil)
    memory.path.write_bytes(spoil(json.loads(memory.path.read_bytes())))

    assert await memory.load("cluster") == Remembered()
