"""kafka-consumer-groups, and the tools that look at a cluster or a transaction."""

import json
import re
from typing import Final

from controllerd.dev.cluster import BROKER_IDS, FIRST_NODE_ID
from tests.tools.cells import Client, Way, cell, contains, in_thread
from tests.tools.data import BALLAST, RECORDS, TRANSACTIONS, committed, group_of, member_of, transacted

GROUPS: Final = Client("kafka-consumer-groups", "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand")
LOG_DIRS: Final = Client("kafka-log-dirs", "org.apache.kafka.tools.LogDirsCommand")
VERSIONS: Final = Client("kafka-broker-api-versions", "kafka.admin.BrokerApiVersionsCommand")
FEATURES: Final = Client("kafka-features", "org.apache.kafka.tools.FeatureCommand")
CLUSTER: Final = Client("kafka-cluster", "org.apache.kafka.tools.ClusterTool")
QUORUM: Final = Client("kafka-metadata-quorum", "org.apache.kafka.tools.MetadataQuorumCommand")
NODE: Final = re.compile(r"\(id: (\d+) rack: null\) -> \((.*?)^\)", re.DOTALL | re.MULTILINE)
"""A node with its API versions, as kafka-broker-api-versions prints them."""


@cell(GROUPS, "`--list`, `--list --state`")
async def list_groups(way: Way) -> None:
    _, group = await group_of(way)
    assert group in (await way.tool(GROUPS, "--list")).split()
    contains(await way.tool(GROUPS, "--list", "--state"), f"{group} Empty")


@cell(GROUPS, "`--describe` of a group without members: offsets, `--members`, `--state`")
async def describe_group(way: Way) -> None:
    topic, group = await group_of(way)
    contains(await way.tool(GROUPS, "--describe", "--group", group), f"{group} {topic} 0 {BALLAST} {BALLAST} 0 ")
    done = await way.ended(GROUPS, "--describe", "--members", "--group", group)
    assert done.exit_status == 0, done
    contains(done.stderr + done.stdout, f"Consumer group '{group}' has no active members.")
    contains(await way.tool(GROUPS, "--describe", "--state", "--group", group), f"{group} 127.0.0.1:", "Empty 0")


@cell(GROUPS, "`--describe` of a group with a member: `--members --verbose`, `--state`")
async def describe_members(way: Way) -> None:
    topic, group = await group_of(way)
    async with member_of(way, topic, group):
        told = await way.tool(GROUPS, "--describe", "--members", "--verbose", "--group", group)
        contains(told, f"{group} rdkafka-", " 1 (0)")  # this version names no topic there
        contains(await way.tool(GROUPS, "--describe", "--state", "--group", group), "Stable 1")


@cell(GROUPS, "`--reset-offsets --to-earliest --execute`")
async def reset_offsets(way: Way) -> None:
    topic, group = await group_of(way)
    told = await way.tool(GROUPS, "--reset-offsets", "--to-earliest", "--execute", "--group", group, "--topic", topic)
    contains(told, f"{group} {topic} 0 0")
    contains(await way.tool(GROUPS, "--describe", "--group", group), f"{group} {topic} 0 0 {BALLAST} {BALLAST} ")


@cell(GROUPS, "`--delete-offsets`, `--delete`")
async def delete_group(way: Way) -> None:
    (topic, emptied), (_, deleted) = await group_of(way), await group_of(way)
    told = await way.tool(GROUPS, "--delete-offsets", "--group", emptied, "--topic", topic)
    contains(told, f"Request succeed for deleting offsets with topic {topic} group {emptied}")
    told = await way.tool(GROUPS, "--delete", "--group", deleted)
    contains(told, f"Deletion of requested consumer groups ('{deleted}') was successful.")
    left = (await way.tool(GROUPS, "--list")).split()
    assert {emptied, deleted} & set(left) == set()  # the first has nothing left that it could be remembered for


@cell(LOG_DIRS, "`--describe` of named brokers")
async def log_dirs(way: Way) -> None:
    topic = await way.topic({0: [1, 2]})
    await way.scene.until_hosted(topic, {1, 2})
    told = await way.tool(LOG_DIRS, "--describe", "--broker-list", "1,2", "--topic-list", topic)
    assert "Received log directory information from brokers 1,2" in told
    found = {node: [row["partition"] for row in rows] for node, rows in held(told).items()}
    assert found == {1: [f"{topic}-0"], 2: [f"{topic}-0"]}


@cell(LOG_DIRS, "`--describe` of all", "works; controllerd is listed as a node without directories")
async def log_dirs_of_all(way: Way) -> None:
    found = held(await way.tool(LOG_DIRS, "--describe"))
    assert found.keys() == {*BROKER_IDS, FIRST_NODE_ID}
    assert found[FIRST_NODE_ID] == []
    assert all(found[broker] for broker in BROKER_IDS)


def held(told: str) -> dict[int, list[dict[str, object]]]:
    """The replicas by node, as the last line of the tool has them."""
    nodes = json.loads(told.strip().splitlines()[-1])["brokers"]
    return {node["broker"]: [row for path in node["logDirs"] for row in path["partitions"]] for node in nodes}


@cell(VERSIONS, "all nodes", "works; controllerd is listed as a node")
async def versions(way: Way) -> None:
    told = await way.tool(VERSIONS)
    nodes = {int(node): said for node, said in NODE.findall(told)}
    assert nodes.keys() == {*BROKER_IDS, FIRST_NODE_ID}
    for said in nodes.values():
        contains(said, "CreateTopics(19): ", "ElectLeaders(43): 0 to 2 [usable: 2]")
    assert "ERROR" not in told


@cell(FEATURES, "`describe`", "works; clusters of this mode have none")
async def features(way: Way) -> None:
    assert (await way.tool(FEATURES, "describe")).strip() == ""


@cell(FEATURES, "`upgrade`", "refused in Kafka's words")
async def upgrade(way: Way) -> None:
    says = "Could not apply finalized feature update because"
    await way.refused(FEATURES, "upgrade", "--feature", "some.feature=1", says=says)


@cell(CLUSTER, "`cluster-id`")
async def cluster_id(way: Way) -> None:
    told = await way.tool(CLUSTER, "cluster-id", "--bootstrap-server", way.bootstrap, connect="")
    contains(told, f"Cluster ID: {await way.scene.cluster.observer.cluster_id()}")


@cell(CLUSTER, "`unregister`", "refused: clusters of this mode do not have it")
async def unregister(way: Way) -> None:
    options = ("unregister", "--id", "3", "--bootstrap-server", way.bootstrap)
    told = await way.tool(CLUSTER, *options, connect="")
    contains(told, "The target cluster does not support the broker unregistration API.")


@cell(QUORUM, "`describe --status`", "refused: clusters of this mode have no quorum")
async def quorum(way: Way) -> None:
    await way.refused(QUORUM, "describe", "--status", says="UnsupportedVersionException")


@cell(TRANSACTIONS, "`list`, `describe-producers`")
async def transactions(way: Way) -> None:
    topic, transaction = await way.topic({0: [1, 2]}), way.new_name("tx")
    await in_thread(transacted, way.bootstrap, topic, transaction)
    await in_thread(committed, way.bootstrap, topic, way.new_name("group"), RECORDS)
    told = await way.tool(TRANSACTIONS, "list")
    found = re.search(rf"^{transaction}\s+[123]\s+(\d+)\s+(?:Prepare|Complete)Commit\s*$", told, re.MULTILINE)
    assert found, told
    told = await way.tool(TRANSACTIONS, "describe-producers", "--topic", topic, "--partition", "0")
    contains(told, "ProducerId ProducerEpoch", found[1])


@cell(TRANSACTIONS, "`find-hanging` of a broker", "works; there is none")
async def find_hanging(way: Way) -> None:
    told = await way.tool(TRANSACTIONS, "find-hanging", "--broker-id", "1")
    assert told.split()[:4] == ["Topic", "Partition", "ProducerId", "ProducerEpoch"]
    assert len(told.strip().splitlines()) == 1
