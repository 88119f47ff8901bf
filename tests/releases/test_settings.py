"""A configuration that names ZooKeeper and a listener is enough: the settings in use are those of real brokers.

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

HEARD_S: Final = 60.0
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
"""Each setting that brokers let us change without more of them (tiered storage needs its plugins), off its default."""
PROTOCOLS: Final = {"2.8.2": "2.7", "3.9.1": "3.8"}
"""By release, a protocol version that is not its own."""
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
    """Return the broker's own settings, as an independent client reads them; a default for those it does not know."""
    resource = ConfigResource(ConfigResource.Type.BROKER, str(broker))
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (answer,) = admin.describe_configs([resource]).values()
    told = {name: entry.value for name, entry in answer.result(timeout=HEARD_S).items()}
    return {name: told.get(name) or setting.default for name, setting in BY_NAME.items()}


@asynccontextmanager
async def daemon(connect: str, directory: Path) -> AsyncIterator[str]:
    """controllerd with a file that names only what no broker could tell it; yields the URL of its HTTP endpoint."""
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
    """``controllerctl get settings``; None until it shows an answer of every broker."""
    shown = await controllerctl("get", "settings", "--api", url, "-o", "json")
    if shown.code != 0:
        return None
    found = msgspec.json.decode(shown.out, type=SettingList)
    answered = [{each.broker for each in item.brokers} == set(BROKER_IDS) for item in found.items]
    return found if answered and all(answered) else None


async def until_heard(url: str) -> SettingList:
    """Wait until every broker has told each setting."""
    async with asyncio.timeout(HEARD_S):
        while (found := await settings_of(url)) is None:  # noqa: ASYNC110  # another process decides
            await asyncio.sleep(0.1)
    return found


async def take_over(url: str) -> None:
    """``controllerctl takeover`` from the broker that leads."""
    done = await controllerctl("--api", url, "--yes", "--reason", "trial", "takeover")
    assert done.code == 0, done.err


def differences(item: SettingItem, told: Mapping[int, Mapping[str, str]]) -> list[str]:
    """Return what is shown of a setting and is not the broker's own answer."""
    setting = BY_NAME[item.setting]
    shown = {each.broker: each.value for each in item.brokers}
    return [
        f"{item.setting}: {item.value} is used and {shown[broker]} shown, but broker {broker} says {own[item.setting]}"
        for broker, own in told.items()
        if not is_same(setting, item.value, own[item.setting]) or not is_same(setting, shown[broker], own[item.setting])
    ]


def judge(found: SettingList, told: Mapping[int, Mapping[str, str]], configured: Mapping[str, str]) -> None:
    """Every setting is shown, with the value of each broker, and nobody disagrees."""
    assert {item.setting for item in found.items} == set(BY_NAME)
    assert [difference for item in found.items for difference in differences(item, told)] == []
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
        standing_by = await until_heard(url)
        before = await cluster.observer.controller_epoch()
        await take_over(url)
        leading = await until_heard(url)
        assert await cluster.observer.controller_epoch() == before + 1
        told = {n: await asyncio.to_thread(described, cluster.bootstrap, n) for n in BROKER_IDS}

    judge(standing_by, told, configured)
    judge(leading, told, configured)
