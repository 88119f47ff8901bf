"""A configuration that names ZooKeeper and a listener is enough: the settings in use are those of the real broker."""

import asyncio
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]  # its stubs do not say it

from controllerd.config.load import load_config
from controllerd.core.cluster_settings import BY_NAME, REPLICATION_FACTOR, SETTINGS, is_same
from controllerd.core.settings_book import Source
from controllerd.daemon.node import Node, open_node
from controllerd.dev.kafka import KafkaBroker
from controllerd.dev.zookeeper import EmbeddedZooKeeper
from controllerd.identity import claim_data_dir

pytestmark = [pytest.mark.kafka, pytest.mark.zookeeper, pytest.mark.releases, pytest.mark.usefixtures("kafka_jars")]

HEARD_S = 60.0
CONFIGURED = {
    "default.replication.factor": "3",
    "num.partitions": "6",
    "auto.leader.rebalance.enable": "false",
    "leader.imbalance.per.broker.percentage": "7",
    "min.insync.replicas": "2",
    "controller.quota.window.num": "13",
}


def described(port: int) -> dict[str, str | None]:
    """Return the broker's own settings, as an independent client reads them."""
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"})
    resource = ConfigResource(ConfigResource.Type.BROKER, "1")
    (answer,) = admin.describe_configs([resource]).values()
    return {name: entry.value for name, entry in answer.result(timeout=HEARD_S).items()}


async def heard(node: Node) -> None:
    """Wait until the broker has answered."""
    async with asyncio.timeout(HEARD_S):
        while node.instance.settings.current.settings[REPLICATION_FACTOR].source is not Source.BROKERS:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("version", ["2.8.2", "3.9.1"])
async def test_a_file_that_names_only_zookeeper_and_a_listener_has_the_settings_of_the_broker(
    version: str, tmp_path: Path
) -> None:
    async with EmbeddedZooKeeper(tmp_path / "zookeeper") as zookeeper:
        connect = f"{zookeeper.connect}/kafka"
        async with KafkaBroker(1, connect, tmp_path / "broker", version=version, overrides=CONFIGURED) as broker:
            toml = tmp_path / "prod.toml"
            toml.write_text(
                f'[zookeeper]\nconnect = "{connect}"\n[node]\nid = 2000000000\ndata_dir = "{tmp_path / "data"}"\n'
                '[kafka]\nlisteners = ["PLAINTEXT://127.0.0.1:0"]\n[http]\nlisten = "127.0.0.1:0"\n'
            )
            config = load_config(toml, {}, {})
            with claim_data_dir(config.node.data_dir) as identity:
                async with open_node(config, identity) as node:
                    await heard(node)
                    used = node.instance.settings.current
            told = await asyncio.to_thread(described, broker.port)

    said = {name: told.get(name) or BY_NAME[name].default for name in BY_NAME}
    assert [name for name, text in said.items() if not is_same(BY_NAME[name], used.values[name], text)] == []
    assert {name: used.values[name] for name in CONFIGURED} == CONFIGURED
    assert len(said) == len(SETTINGS)
    assert used.refusal is None
    assert used.problems == {}
