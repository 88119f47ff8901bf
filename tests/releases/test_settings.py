"""A configuration with only ZooKeeper and a listener is enough: controllerd uses the settings of the brokers.

``controllerctl get settings`` of a daemon is compared with the answer of each broker to DescribeConfigs.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec
import pytest
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]  # its stubs do not say it

from controllerd.core.cluster_settings import BY_NAME, PROTOCOL_VERSION, is_same
from controllerd.dev.cluster import BROKER_IDS, FIRST_NODE_ID, open_cluster
from controllerd.dev.ports import ReservedPort
from controllerd.dev.processes import ChildProcess
from controllerd.status.schema.config import SettingItem, SettingList
from tests.cli.running import controllerctl

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.zookeeper,
    pytest.mark.releases,
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("kafka_jars"),
]

PATIENCE_S: Final = 60.0
CONFIGURED: Final = {
    "auto.leader.rebalance.enable": "false",
    "controller.quota.window.num": "13",
    "controller.quota.window.size.seconds": "2",
    "controller.socket.timeout.ms": "29000",
    "default.replication.factor": "3",
    "delegation.token.expiry.check.interval.ms": "1800000",
    "delete.topic.enable": "false",
    "leader.imbalance.check.interval.seconds": "120",
    "leader.imbalance.per.broker.percentage": "7",
    "min.insync.replicas": "2",
    "num.partitions": "6",
    "request.timeout.ms": "31000",
    "unclean.leader.election.enable": "true",
}
"""Values other than the default, for every setting that needs no plugin (tiered storage does)."""
PROTOCOLS: Final = {"2.8.2": "2.7", "3.9.1": "3.8"}
"""A protocol version other than the release's own, by release."""
NODE: Final = """\
[zookeeper]
connect = "{connect}"
[node]
id = {node}
data_dir = "{data}"
[kafka]
listeners = ["PLAINTEXT://{listener}"]
"""


def described(bootstrap: str, broker: int) -> dict[str, str]:
    """Return the broker's settings, as another client reads them; the default for a setting that it does not know."""
    resource = ConfigResource(ConfigResource.Type.BROKER, str(broker))
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (answer,) = admin.describe_configs([resource]).values()
    own = {name: entry.value for name, entry in answer.result(timeout=PATIENCE_S).items()}
    return {name: own.get(name) or setting.default for name, setting in BY_NAME.items()}


@asynccontextmanager
async def daemon(connect: str, directory: Path) -> AsyncIterator[str]:
    """Run controllerd with a minimal configuration file; yield the URL of its HTTP endpoint."""
    kafka, http = ReservedPort(0), ReservedPort(0)
    try:
        toml = directory / "controllerd.toml"
        toml.write_text(
            NODE.format(connect=connect, node=FIRST_NODE_ID, data=directory / "data", listener=kafka.address)
        )
        command = [sys.executable, "-P", "-m", "controllerd", "run", "--config", str(toml), "--http", http.address]
        async with ChildProcess("controllerd", command, log_file=directory / "controllerd.log"):
            yield f"http://{http.address}"
    finally:
        kafka.close()
        http.close()


async def settings_of(url: str) -> SettingList | None:
    """Return the output of ``controllerctl get settings``; None until it shows an answer of every broker."""
    shown = await controllerctl("get", "settings", "--api", url, "-o", "json")
    if shown.code != 0:
        return None
    found = msgspec.json.decode(shown.out, type=SettingList)
    answered = [{each.broker for each in item.brokers} == set(BROKER_IDS) for item in found.items]
    return found if answered and all(answered) else None


async def until_answered(url: str) -> SettingList:
    """Wait until controllerd shows every broker's value of each setting."""
    async with asyncio.timeout(PATIENCE_S):
        while (found := await settings_of(url)) is None:  # noqa: ASYNC110  # another process decides
            await asyncio.sleep(0.1)
    return found


async def take_over(url: str) -> None:
    """Run ``controllerctl takeover`` while a broker is the controller."""
    done = await controllerctl("--api", url, "--yes", "--reason", "trial", "takeover")
    assert done.code == 0, done.err


def differences(item: SettingItem, described_by_broker: Mapping[int, Mapping[str, str]]) -> list[str]:
    """Return the differences between the values shown for a setting and the brokers' own answers."""
    setting = BY_NAME[item.setting]
    shown = {each.broker: each.value for each in item.brokers}
    return [
        f"{item.setting}: {item.value} is used and {shown[broker]} shown, but broker {broker} says {own[item.setting]}"
        for broker, own in described_by_broker.items()
        if not is_same(setting, item.value, own[item.setting]) or not is_same(setting, shown[broker], own[item.setting])
    ]


def judge(
    found: SettingList, described_by_broker: Mapping[int, Mapping[str, str]], configured: Mapping[str, str]
) -> None:
    """Assert that every setting is shown with the value of each broker, and that no two brokers differ."""
    assert {item.setting for item in found.items} == set(BY_NAME)
    assert [difference for item in found.items for difference in differences(item, described_by_broker)] == []
    used = {item.setting: item.value for item in found.items}
    assert [name for name, value in configured.items() if not is_same(BY_NAME[name], used[name], value)] == []
    assert {(item.source, item.problem, tuple(item.differing)) for item in found.items} == {("brokers", None, ())}
    assert found.refusal is None


@pytest.mark.parametrize(("version", "protocol"), PROTOCOLS.items())
async def test_a_file_that_names_only_zookeeper_and_a_listener_has_the_settings_of_the_brokers(
    version: str, protocol: str, tmp_path: Path
) -> None:
    configured = {**CONFIGURED, PROTOCOL_VERSION: protocol}
    versions, properties = dict.fromkeys(BROKER_IDS, version), dict.fromkeys(BROKER_IDS, configured)
    async with (
        open_cluster("kafka", tmp_path, print, instances=0, versions=versions, overrides=properties) as cluster,
        daemon(cluster.connect, tmp_path) as url,
    ):
        standing_by = await until_answered(url)
        before = await cluster.observer.controller_epoch()
        await take_over(url)
        leading = await until_answered(url)
        assert await cluster.observer.controller_epoch() == before + 1
        described_by_broker = {n: await asyncio.to_thread(described, cluster.bootstrap, n) for n in BROKER_IDS}

    judge(standing_by, described_by_broker, configured)
    judge(leading, described_by_broker, configured)
