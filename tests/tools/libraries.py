"""Admin clients that are no Java: confluent-kafka, which is librdkafka, and kafka-python, which is Python alone."""

from collections.abc import Callable
from contextlib import closing
from typing import Any, Final

from confluent_kafka import ElectionType, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.cimpl import NewPartitions, NewTopic

from controllerd.dev.cluster import BROKER_IDS, FIRST_NODE_ID
from tests.real.operator import tp
from tests.tools.cells import SLOW, Client, Way, cell, in_thread

CONFLUENT: Final = Client("confluent-kafka", "AdminClient")
PYTHON: Final = Client("kafka-python", "KafkaAdminClient")
ANSWERED_S: Final = 30.0
CREATE, EXPAND, ELECT, MOVE, DELETE, DESCRIBE = "create", "expand", "elect", "reassign", "delete", "describe"
CREATE_AGAIN, ELECT_UNCLEANLY = "create what exists", "elect uncleanly"
IN_WORDS: Final = "refused in Kafka's words"
_PREFERRED, _UNCLEAN = 0, 1

# -- confluent-kafka ---------------------------------------------------------------------------------------------------


async def by_confluent(way: Way, act: Callable[[AdminClient], object]) -> None:
    """Run a call of a client with one bootstrap server; the client lives until the call has ended."""
    admin = AdminClient({"bootstrap.servers": way.bootstrap})
    await in_thread(act, admin)


def done(futures: dict[Any, Any]) -> list[Any]:
    """The results of the futures. :raises KafkaException: the first failure."""
    return [future.result(ANSWERED_S) for future in futures.values()]


@cell(CONFLUENT, CREATE)
async def confluent_create(way: Way) -> None:
    by_hand, counted = way.new_name(), way.new_name()
    new = [
        NewTopic(by_hand, 2, replica_assignment=[[1, 2], [2, 3]], config={"retention.ms": "77000"}),
        NewTopic(counted, 3, 2),
    ]
    await by_confluent(way, lambda admin: done(admin.create_topics(new)))
    await _created(way, by_hand, counted)


async def _created(way: Way, by_hand: str, counted: str) -> None:
    await way.until_shown(by_hand, range(2))
    await way.until_shown(counted, range(3))
    assert await way.replicas(by_hand) == {0: (1, 2), 1: (2, 3)}
    assert await way.configs(f"topics/{by_hand}") == {"retention.ms": "77000"}
    spread = (await way.replicas(counted)).values()
    assert [len(set(brokers) & set(BROKER_IDS)) for brokers in spread] == [2, 2, 2]


@cell(CONFLUENT, CREATE_AGAIN, IN_WORDS)
async def confluent_create_again(way: Way) -> None:
    name = await way.topic({0: [1]})
    await by_confluent(way, lambda admin: _confluent_refused(admin, NewTopic(name, 1, 1)))


def _confluent_refused(admin: AdminClient, topic: NewTopic) -> None:
    (future,) = admin.create_topics([topic]).values()
    error = future.exception(ANSWERED_S)
    assert isinstance(error, KafkaException)
    assert error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    assert error.args[0].str() == f"Topic '{topic.topic}' already exists."


@cell(CONFLUENT, EXPAND)
async def confluent_expand(way: Way) -> None:
    counted, by_hand = await way.topic({0: [1, 2]}), await way.topic({0: [1, 2]})
    wanted = [NewPartitions(counted, 3), NewPartitions(by_hand, 2, [[3, 1]])]
    await by_confluent(way, lambda admin: done(admin.create_partitions(wanted)))
    await way.until_shown(counted, range(3))
    assert await way.replicas(by_hand) == {0: (1, 2), 1: (3, 1)}


async def _confluent_elect(way: Way, kind: ElectionType, name: str) -> None:
    found: dict[Any, Any] = {}

    def elect(admin: AdminClient) -> None:
        found.update(admin.elect_leaders(kind, [TopicPartition(name, 0)]).result(ANSWERED_S))

    await by_confluent(way, elect)
    assert {(each.topic, each.partition): error for each, error in found.items()} == {(name, 0): None}


@cell(CONFLUENT, ELECT)
async def confluent_elect(way: Way) -> None:
    name = await way.moved_topic()
    await _confluent_elect(way, ElectionType.PREFERRED, name)
    assert (await way.scene.state(name)).leader == 2


@cell(CONFLUENT, ELECT_UNCLEANLY, while_away=True)
async def confluent_elect_uncleanly(way: Way) -> None:
    name = way.prepared["unclean-confluent"]
    await _confluent_elect(way, ElectionType.UNCLEAN, name)
    await way.led_uncleanly(name)


@cell(CONFLUENT, MOVE, "the library has no call for it; it shows what others asked for")
async def confluent_reassign(way: Way) -> None:
    assert [name for name in dir(AdminClient) if "reassign" in name] == []
    name = await way.topic({0: [1]})
    await way.scene.operator.reassign({tp(name): [3]})
    await way.scene.until_assigned(name, [3])
    await way.until_shown(name, range(1))
    await by_confluent(way, lambda admin: _confluent_shows(admin, name, [3]))


@cell(CONFLUENT, DELETE)
async def confluent_delete(way: Way) -> None:
    name = await way.topic({0: [1, 2, 3]})
    await by_confluent(way, lambda admin: done(admin.delete_topics([name])))
    await way.until_deleted(name)


@cell(CONFLUENT, DESCRIBE)
async def confluent_describe(way: Way) -> None:
    name = await way.topic({0: [3, 1]}, {"flush.ms": "5"})
    await by_confluent(way, lambda admin: _confluent_shows(admin, name, [3, 1]))
    await by_confluent(way, lambda admin: _confluent_described(admin, name))


def _confluent_shows(admin: AdminClient, name: str, replicas: list[int]) -> None:
    (topic,) = done(admin.describe_topics(TopicCollection([name])))
    (partition,) = topic.partitions
    assert (partition.leader.id, [node.id for node in partition.replicas]) == (replicas[0], replicas)


def _confluent_described(admin: AdminClient, name: str) -> None:
    cluster = admin.describe_cluster().result(ANSWERED_S)
    assert cluster.controller.id == FIRST_NODE_ID
    assert sorted(node.id for node in cluster.nodes) == [*BROKER_IDS, FIRST_NODE_ID]
    (configs,) = done(admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, name)]))
    assert (configs["cleanup.policy"].value, configs["flush.ms"].value) == ("delete", "5")


# -- kafka-python ------------------------------------------------------------------------------------------------------


async def by_python(way: Way, act: Callable[[Any], object]) -> None:
    """Run a call of a client with one bootstrap server; a refused request is raised."""

    def acted() -> None:
        from kafka.admin import KafkaAdminClient

        with closing(KafkaAdminClient(bootstrap_servers=way.bootstrap)) as admin:
            act(admin)

    await in_thread(acted)


@cell(PYTHON, CREATE)
async def python_create(way: Way) -> None:
    by_hand, counted = way.new_name(), way.new_name()
    wanted = {
        by_hand: {"assignments": {0: [1, 2], 1: [2, 3]}, "configs": {"retention.ms": "77000"}},
        counted: {"num_partitions": 3, "replication_factor": 2},
    }
    await by_python(way, lambda admin: admin.create_topics(wanted))
    await _created(way, by_hand, counted)


@cell(PYTHON, CREATE_AGAIN, IN_WORDS)
async def python_create_again(way: Way) -> None:
    name = await way.topic({0: [1]})
    await by_python(way, lambda admin: _python_refused(admin, name))


def _python_refused(admin: Any, name: str) -> None:
    wanted = {name: {"num_partitions": 1, "replication_factor": 1}}
    (row,) = admin.create_topics(wanted, raise_errors=False)["topics"]
    assert (row["error_code"], row["error_message"]) == (36, f"Topic '{name}' already exists.")


@cell(PYTHON, EXPAND)
async def python_expand(way: Way) -> None:
    name = await way.topic({0: [1, 2]})
    await by_python(way, lambda admin: admin.create_partitions({name: 3}))
    await way.until_shown(name, range(3))
    assert [len(set(brokers)) for brokers in (await way.replicas(name)).values()] == [2, 2, 2]


@cell(PYTHON, ELECT)
async def python_elect(way: Way) -> None:
    name = await way.moved_topic()
    await by_python(way, lambda admin: admin.elect_leaders(_PREFERRED, {name: [0]}))
    assert (await way.scene.state(name)).leader == 2


@cell(PYTHON, ELECT_UNCLEANLY, while_away=True)
async def python_elect_uncleanly(way: Way) -> None:
    name = way.prepared["unclean-python"]
    await by_python(way, lambda admin: admin.elect_leaders(_UNCLEAN, {name: [0]}))
    await way.led_uncleanly(name)


@cell(PYTHON, MOVE, "works; listing and cancelling as well", alone=True)
async def python_reassign(way: Way) -> None:
    name = await way.slow_topic()
    await way.scene.throttle(name, SLOW)
    try:
        await by_python(way, lambda admin: _python_moved(admin, name))
    finally:
        await way.scene.unthrottle(SLOW)
    await way.scene.until_assigned(name, [1])
    await way.scene.until_assigned(name, [2], partition=1)


def _python_moved(admin: Any, name: str) -> None:
    from kafka import TopicPartition as Partition

    stuck, quick = Partition(name, 0), Partition(name, 1)
    assert admin.alter_partition_reassignments({stuck: [SLOW], quick: [2]}) == {stuck: None, quick: None}
    moving = {"replicas": [SLOW, 1], "adding_replicas": [SLOW], "removing_replicas": [1]}
    assert admin.list_partition_reassignments()[stuck] == moving
    assert admin.alter_partition_reassignments({stuck: None}) == {stuck: None}
    assert stuck not in admin.list_partition_reassignments()


@cell(PYTHON, DELETE)
async def python_delete(way: Way) -> None:
    name = await way.topic({0: [1, 2, 3]})
    await by_python(way, lambda admin: admin.delete_topics([name]))
    await way.until_deleted(name)


@cell(PYTHON, DESCRIBE)
async def python_describe(way: Way) -> None:
    name = await way.topic({0: [3, 1]}, {"flush.ms": "5"})
    await by_python(way, lambda admin: _python_described(admin, name))


def _python_described(admin: Any, name: str) -> None:
    from kafka.admin import ConfigResource as Resource
    from kafka.admin import ConfigResourceType

    (topic,) = admin.describe_topics([name])
    (partition,) = topic["partitions"]
    assert (partition["leader_id"], list(partition["replica_nodes"])) == (3, [3, 1])
    cluster = admin.describe_cluster()
    assert cluster["controller_id"] == FIRST_NODE_ID
    assert sorted(node["broker_id"] for node in cluster["brokers"]) == [*BROKER_IDS, FIRST_NODE_ID]
    configs = admin.describe_configs([Resource(ConfigResourceType.TOPIC, name)])
    assert configs["topic"][name]["flush.ms"]["value"] == "5"
