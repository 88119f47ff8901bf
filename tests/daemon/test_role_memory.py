"""A remembered takeover is stored, used at once, and never overrides the configuration."""

from pathlib import Path

import pytest

from controllerd.config.load import load_config
from controllerd.config.model import Config
from controllerd.daemon.role_memory import RoleMemoryFile
from controllerd.errors import CallFailed
from controllerd.identity import claim_data_dir
from controllerd.record.records import ConfigRecord
from tests.daemon.daemons import NODE
from tests.fakes.audit import RecordingAudit

KEY = "controller.when_broker_holds"


def config(directory: Path, **more: object) -> Config:
    given: dict[str, object] = {
        "zookeeper.connect": "zk",
        "node.id": NODE,
        "node.data_dir": directory,
        "kafka.listeners": ["PLAINTEXT://127.0.0.1:0"],
    }
    return load_config(None, {}, given | {key.replace("__", "."): value for key, value in more.items()})


async def test_it_holds_at_once_and_at_the_next_start_and_is_in_the_audit_log(tmp_path: Path) -> None:
    audit, taken = RecordingAudit(), list[str]()
    with claim_data_dir(tmp_path) as identity:
        await RoleMemoryFile(config(tmp_path), identity, audit, lambda: taken.append("from brokers")).remember()

    file = str(tmp_path / "when_broker_holds")
    assert taken == ["from brokers"]
    assert [record.values[KEY] for record in audit.of(ConfigRecord)] == [{"value": "takeover", "origin": file}]
    assert (config(tmp_path).controller.when_broker_holds, config(tmp_path).origins[KEY]) == ("takeover", file)


async def test_remembering_twice_changes_nothing(tmp_path: Path) -> None:
    audit = RecordingAudit()
    with claim_data_dir(tmp_path) as identity:
        memory = RoleMemoryFile(config(tmp_path), identity, audit, list[str]().clear)
        await memory.remember()
        await memory.remember()

    assert len(audit.of(ConfigRecord)) == 1


@pytest.mark.parametrize(
    ("configured", "why_not"),
    [
        ({}, None),
        ({"controller__when_broker_holds": "takeover"}, None),
        (
            {"controller__when_broker_holds": "standby"},
            "controller.when_broker_holds = standby is configured (flag), which has precedence at the next start",
        ),
    ],
)
def test_only_a_configured_value_prevents_it(
    tmp_path: Path, configured: dict[str, object], why_not: str | None
) -> None:
    with claim_data_dir(tmp_path) as identity:
        memory = RoleMemoryFile(config(tmp_path, **configured), identity, RecordingAudit(), list[str]().clear)

        assert memory.why_not == why_not


async def test_a_failed_write_is_reported_and_nothing_changes(tmp_path: Path) -> None:
    taken = list[str]()
    with claim_data_dir(tmp_path) as identity:
        (tmp_path / "when_broker_holds.new").mkdir()

        with pytest.raises(CallFailed, match="cannot be stored"):
            await RoleMemoryFile(config(tmp_path), identity, RecordingAudit(), lambda: taken.append("x")).remember()

    assert taken == []
