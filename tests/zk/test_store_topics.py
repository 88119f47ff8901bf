"""Topic znodes: the same in memory and on a real server."""

import json

from controllerd.core.model import BrokerId, ReplicaAssignment, TopicImage
from controllerd.ports.results import Conflict, NewTopicZnodes, WriteFailed, Written
from controllerd.zk import codecs, paths
from tests.zk.world import World

B1 = BrokerId(1)
B2 = BrokerId(2)
TOPIC_ID = "Zm9vYmFyYmF6cXV4MTIzNA"


async def test_topics_are_read_or_missing_or_broken(world: World) -> None:
    await world.ours.lead()
    await world.theirs.add_topic("good", [[1, 2]])
    await world.theirs.put(paths.topic("latin"), b'{"version":1,"partitions":{"\xe9":[1]}}')
    await world.theirs.put(paths.topic("empty"), b"")

    read = await world.ours.store.topics.read_topics(["good", "latin", "empty", "gone"])

    assert read.topics["good"].assignments == {0: ReplicaAssignment((BrokerId(1), BrokerId(2)))}
    assert read.missing == {"gone"}
    assert sorted(bad.path for bad in read.broken) == ["/brokers/topics/empty", "/brokers/topics/latin"]


async def test_the_names_of_topics_are_the_children(world: World) -> None:
    await world.ours.lead()
    await world.theirs.add_topic("a", [[1]])
    await world.theirs.add_topic("b", [[1]])
    assert await world.ours.store.topics.read_topic_names() == {"a", "b"}


async def test_a_topic_is_rewritten_at_its_version_and_keeps_unknown_fields(world: World) -> None:
    await world.ours.lead()
    await world.theirs.put(paths.topic("t"), b'{"version":3,"partitions":{"0":[1]},"colour":"red"}')
    image = (await world.ours.store.topics.read_topics(["t"])).topics["t"]

    assert await world.ours.store.topics.write_topics({"t": image}) == {"t": Written(1)}

    node = await world.ours.node(paths.topic("t"))
    assert node is not None
    assert json.loads(node.data or b"")["colour"] == "red"


async def test_a_topic_that_another_client_changed_meanwhile_is_a_conflict(world: World) -> None:
    await world.ours.lead()
    await world.theirs.add_topic("t", [[1]])
    image = (await world.ours.store.topics.read_topics(["t"])).topics["t"]
    await world.theirs.add_topic("t", [[1], [2]])

    results = await world.ours.store.topics.write_topics({"t": image})

    assert isinstance(results["t"], Conflict)


async def test_a_topic_of_a_newer_format_is_never_rewritten(world: World) -> None:
    await world.ours.lead()
    await world.theirs.put(paths.topic("t"), b'{"version":99,"partitions":{"0":[1]}}')
    await world.theirs.add_topic("u", [[1]])
    images = (await world.ours.store.topics.read_topics(["t", "u"])).topics

    results = await world.ours.store.topics.write_topics(images)

    assert isinstance(results["t"], WriteFailed)
    assert results["u"] == Written(1)


async def test_a_topic_is_created_with_its_configuration_or_not_at_all(world: World) -> None:
    await world.ours.lead()
    await world.theirs.add_topic("old", [[1]])
    await world.theirs.put(paths.topic_config("stray"), codecs.encode_config({"retention.ms": "1"}))
    names = ("new", "old", "stray")
    images = {name: TopicImage(name, {0: ReplicaAssignment((B1, B2))}, TOPIC_ID, 0) for name in names}

    results = await world.ours.store.topics.create_topics(
        {name: NewTopicZnodes(images[name], {"retention.ms": "2"}) for name in names}
    )

    assert [type(results[name]) for name in names] == [Written, Conflict, Written]
    assert (await world.ours.store.topics.read_topics(["new"])).topics["new"].assignments == images["new"].assignments
    configs = await world.ours.store.configs.read_topic_configs(names)
    assert configs == {"new": {"retention.ms": "2"}, "old": {}, "stray": {"retention.ms": "2"}}
