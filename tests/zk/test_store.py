"""Reads and writes of every family of znodes: the same on the fake and on a real server."""

import json

import pytest

from controllerd.core.model import Broker, BrokerId, Endpoint, LeaderAndIsr, ReplicaAssignment, TopicPartition
from controllerd.errors import BadZnode, ControllerMoved
from controllerd.results import Conflict, ProducerIds, WriteFailed, Written
from controllerd.zk import codecs, paths
from controllerd.zk.access import ANY_VERSION, Create, Delete, SetData
from tests.zk.world import World, states_of

ENDPOINT = Endpoint("PLAINTEXT", "host", 9092)
T0 = TopicPartition("t", 0)


async def test_brokers_are_read_with_the_creating_transaction_as_epoch(world: World) -> None:
    await world.ours.lead()
    await world.theirs.put(paths.broker(BrokerId(7)), codecs.encode_broker(Broker(BrokerId(7), 0, (ENDPOINT,))))

    read = await world.ours.store.read_brokers()

    node = await world.ours.node("/brokers/ids/7")
    assert node is not None
    assert read.brokers == {7: Broker(BrokerId(7), node.czxid, (ENDPOINT,))}
    assert await world.ours.store.read_broker(BrokerId(7)) == read.brokers[BrokerId(7)]


async def test_a_broker_that_is_not_registered_is_none(world: World) -> None:
    await world.ours.lead()
    assert await world.ours.store.read_broker(BrokerId(9)) is None


async def test_registrations_that_cannot_be_used_are_reported_beside_the_good_ones(world: World) -> None:
    await world.ours.lead()
    await world.theirs.put("/brokers/ids/1", codecs.encode_broker(Broker(BrokerId(1), 0, (ENDPOINT,))))
    await world.theirs.put("/brokers/ids/2", b"\xff\xfe")
    await world.theirs.put("/brokers/ids/two", b"{}")

    read = await world.ours.store.read_brokers()

    assert list(read.brokers) == [1]
    assert sorted(bad.path for bad in read.broken) == ["/brokers/ids/2", "/brokers/ids/two"]


async def test_topics_are_read_or_missing_or_broken(world: World) -> None:
    await world.ours.lead()
    await world.theirs.add_topic("good", [[1, 2]])
    await world.theirs.put(paths.topic("latin"), b'{"version":1,"partitions":{"\xe9":[1]}}')
    await world.theirs.put(paths.topic("empty"), b"")

    read = await world.ours.store.read_topics(["good", "latin", "empty", "gone"])

    assert read.topics["good"].assignments == {0: ReplicaAssignment((BrokerId(1), BrokerId(2)))}
    assert read.missing == {"gone"}
    assert sorted(bad.path for bad in read.broken) == ["/brokers/topics/empty", "/brokers/topics/latin"]


async def test_the_names_of_topics_are_the_children(world: World) -> None:
    await world.ours.lead()
    await world.theirs.add_topic("a", [[1]])
    await world.theirs.add_topic("b", [[1]])
    assert await world.ours.store.read_topic_names() == {"a", "b"}


async def test_a_topic_is_rewritten_at_its_version_and_keeps_what_we_do_not_know(world: World) -> None:
    await world.ours.lead()
    await world.theirs.put(paths.topic("t"), b'{"version":3,"partitions":{"0":[1]},"colour":"red"}')
    image = (await world.ours.store.read_topics(["t"])).topics["t"]

    assert await world.ours.store.write_topics({"t": image}) == {"t": Written(1)}

    node = await world.ours.node(paths.topic("t"))
    assert node is not None
    assert json.loads(node.data or b"")["colour"] == "red"


async def test_a_topic_that_somebody_changed_meanwhile_is_a_conflict(world: World) -> None:
    await world.ours.lead()
    await world.theirs.add_topic("t", [[1]])
    image = (await world.ours.store.read_topics(["t"])).topics["t"]
    await world.theirs.add_topic("t", [[1], [2]])

    results = await world.ours.store.write_topics({"t": image})

    assert isinstance(results["t"], Conflict)


async def test_a_topic_of_a_newer_format_is_never_rewritten(world: World) -> None:
    await world.ours.lead()
    await world.theirs.put(paths.topic("t"), b'{"version":99,"partitions":{"0":[1]}}')
    await world.theirs.add_topic("u", [[1]])
    images = (await world.ours.store.read_topics(["t", "u"])).topics

    results = await world.ours.store.write_topics(images)

    assert isinstance(results["t"], WriteFailed)
    assert results["u"] == Written(1)


async def test_states_are_created_with_their_parents(world: World) -> None:
    await world.ours.lead()
    await world.theirs.add_topic("t", [[1, 2], [1, 2]])
    states = states_of("t", 2)

    assert await world.ours.store.create_states(states) == dict.fromkeys(states, Written(0))

    assert (await world.ours.store.read_states(states)).states == states


async def test_creating_the_very_same_states_again_is_written_and_other_ones_are_conflicts(world: World) -> None:
    await world.ours.lead()
    await world.theirs.add_topic("t", [[1, 2], [1, 2]])
    states = states_of("t", 2)
    await world.ours.store.create_states(states)

    same = await world.ours.store.create_states({T0: states[T0]})
    other = await world.ours.store.create_states(states_of("t", 2, leader=2))

    assert same == {T0: Written(0)}
    assert all(isinstance(result, Conflict) for result in other.values())


async def test_a_state_below_a_topic_that_is_gone_is_a_conflict(world: World) -> None:
    await world.ours.lead()
    await world.theirs.add_topic("t", [[1, 2]])
    results = await world.ours.store.create_states(states_of("gone", 1) | states_of("t", 1))

    assert isinstance(results[TopicPartition("gone", 0)], Conflict)
    assert results[T0] == Written(0)


async def test_states_are_updated_at_their_partition_epoch(world: World) -> None:
    await world.ours.lead()
    await world.theirs.add_topic("t", [[1, 2]])
    state = states_of("t", 1)[T0]
    await world.ours.store.create_states({T0: state})

    first = await world.ours.store.update_states({T0: state})
    second = await world.ours.store.update_states({T0: state})

    assert first == {T0: Written(1)}
    assert isinstance(second[T0], Conflict)
    assert (await world.ours.store.read_states([T0])).states[T0].partition_epoch == 1


async def test_the_states_that_nobody_moved_are_written_beside_conflicts(world: World) -> None:
    await world.ours.lead()
    await world.theirs.add_topic("t", [[1, 2]] * 40)
    states = states_of("t", 40)
    await world.ours.store.create_states(states)
    for partition in (3, 17, 39):
        await world.theirs.put(paths.partition_state(TopicPartition("t", partition)), b"{}")
    await world.theirs.remove(paths.partition_state(TopicPartition("t", 5)))

    results = await world.ours.store.update_states(states)

    conflicts = {tp.partition for tp, result in results.items() if isinstance(result, Conflict)}
    assert conflicts == {3, 5, 17, 39}
    assert all(result == Written(1) for tp, result in results.items() if tp.partition not in conflicts)


async def test_what_a_state_says_that_we_do_not_know_survives_the_rewrite(world: World) -> None:
    await world.ours.lead()
    await world.theirs.put(
        paths.partition_state(T0),
        b'{"version":1,"leader":1,"leader_epoch":4,"controller_epoch":1,"isr":[1],"colour":"red"}',
    )
    state = (await world.ours.store.read_states([T0])).states[T0]

    await world.ours.store.update_states({T0: state})

    node = await world.ours.node(paths.partition_state(T0))
    assert node is not None
    assert json.loads(node.data or b"")["colour"] == "red"


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xff", b'{"leader":1}', b'{"version":1,"leader":1,"isr":"x"}'])
async def test_a_state_that_cannot_be_understood_concerns_its_partition_alone(world: World, data: bytes) -> None:
    await world.ours.lead()
    await world.theirs.add_topic("t", [[1, 2], [1, 2]])
    await world.ours.store.create_states(states_of("t", 2))
    await world.theirs.put(paths.partition_state(T0), data)

    read = await world.ours.store.read_states([*states_of("t", 2), TopicPartition("t", 2)])

    assert list(read.states) == [TopicPartition("t", 1)]
    assert read.broken[T0].path == paths.partition_state(T0)
    assert read.missing == {TopicPartition("t", 2)}


async def test_two_thousand_partitions_take_few_transactions(world: World) -> None:
    await world.ours.lead()
    await world.theirs.add_topic("t", [[1, 2]])
    states = states_of("t", 2000)

    before = len(world.ours.transactions())
    created = await world.ours.store.create_states(states)
    between = len(world.ours.transactions())
    updated = await world.ours.store.update_states(states)

    assert set(created.values()) == {Written(0)}
    assert set(updated.values()) == {Written(1)}
    assert between - before == 9  # 1 + 2,000 parents and 2,000 states in chunks of 500
    assert len(world.ours.transactions()) - between == 4


async def test_one_write_beyond_the_size_of_a_request_fails_alone_kafka_13270(world: World) -> None:
    await world.ours.lead()
    await world.theirs.add_topic("t", [[1]])
    await world.theirs.add_topic("u", [[1]])
    images = dict((await world.ours.store.read_topics(["t", "u"])).topics)
    huge = {p: ReplicaAssignment((BrokerId(1),)) for p in range(100_000)}
    images["t"] = type(images["t"])("t", huge, None, 0)

    results = await world.ours.store.write_topics(images)

    assert isinstance(results["t"], WriteFailed)
    assert results["u"] == Written(1)


async def test_a_deposed_controller_writes_nothing(world: World) -> None:
    await world.ours.lead()
    await world.theirs.add_topic("t", [[1, 2]] * 3)
    states = states_of("t", 3)
    await world.ours.store.create_states(states)
    await world.theirs.lead()

    with pytest.raises(ControllerMoved):
        await world.ours.store.update_states(states)

    assert (await world.ours.store.read_states(states)).states == states
    assert world.ours.transactions()[-1].results == ["fenced"] * 3


async def test_without_a_term_nothing_is_written_or_sent(world: World) -> None:
    await world.ours.store.ensure_paths()
    before = len(world.ours.transactions())
    with pytest.raises(ControllerMoved):
        await world.ours.store.update_states(states_of("t", 1))
    assert len(world.ours.transactions()) == before


async def test_every_transaction_is_recorded_with_its_fence_and_results(world: World) -> None:
    won = await world.ours.lead()
    await world.theirs.add_topic("t", [[1, 2], [1, 2]])
    await world.ours.store.create_states(states_of("t", 2))
    await world.theirs.put(paths.partition_state(T0), b"{}")

    await world.ours.store.update_states(states_of("t", 2))

    failed, written = world.ours.transactions()[-2:]
    assert failed.fence == written.fence == won.epoch_zk_version
    assert failed.results == ["BadVersion", "rolled back"]
    assert written.operations == ["setData"]
    assert (written.paths, written.expected, written.versions) == (["/brokers/topics/t/partitions/1/state"], [0], [1])
    assert written.zxid > failed.zxid > 0


async def test_paths_that_are_missing_are_created_once(world: World) -> None:
    await world.ours.store.ensure_paths()
    await world.theirs.store.ensure_paths()
    assert None not in await world.ours.zk.read(list(paths.PERSISTENT_PATHS))


async def test_both_contenders_see_the_same_cluster_id(world: World) -> None:
    first = await world.ours.store.cluster_id()
    assert len(first) == 22
    assert await world.theirs.store.cluster_id() == first


async def test_isr_notifications_are_read_and_deleted(world: World) -> None:
    await world.ours.lead()
    await world.theirs.put("/isr_change_notification/isr_change_0000000001", codecs.encode_isr_change([T0]))
    await world.theirs.put("/isr_change_notification/isr_change_0000000002", b"nonsense")
    await world.theirs.put("/isr_change_notification/isr_change_0000000003", b'{"version":9,"partitions":[]}')

    read = await world.ours.store.read_isr_notifications()
    await world.ours.store.delete_isr_notifications([*read.names, "isr_change_0000000099"])

    assert read.partitions == {T0}
    assert len(read.broken) == 2
    assert await world.ours.zk.children(paths.ISR_CHANGES) == ["isr_change_0000000003"]


async def test_log_dir_notifications_are_read_and_deleted(world: World) -> None:
    await world.ours.lead()
    await world.theirs.put(f"{paths.LOG_DIR_EVENT_PREFIX}0000000001", codecs.encode_log_dir_event(BrokerId(3)))

    read = await world.ours.store.read_log_dir_notifications()
    await world.ours.store.delete_log_dir_notifications(read.names)

    assert read.brokers == {3}
    assert await world.ours.zk.children(paths.LOG_DIR_EVENTS) == []


async def test_topic_deletions_are_the_children(world: World) -> None:
    await world.ours.lead()
    await world.theirs.put(paths.delete_topic("t"))
    assert await world.ours.store.read_topic_deletions() == {"t"}


async def test_topic_configs_are_overrides_or_nothing_or_broken(world: World) -> None:
    await world.ours.lead()
    await world.theirs.put(paths.topic_config("t"), codecs.encode_config({"retention.ms": "5"}))
    await world.theirs.put(paths.topic_config("bad"), b"[]")

    configs = await world.ours.store.read_topic_configs(["t", "bad", "none"])

    assert configs["t"] == {"retention.ms": "5"}
    assert configs["none"] == {}
    assert isinstance(configs["bad"], BadZnode)


async def test_producer_ids_are_handed_out_on_the_condition_of_the_version(world: World) -> None:
    await world.ours.lead()
    none = await world.ours.store.read_producer_ids()
    block = ProducerIds(BrokerId(1), 0, 999, none.version)

    assert none == ProducerIds(None, 0, -1, -1)
    assert await world.ours.store.write_producer_ids(block) == Written(0)
    assert await world.ours.store.read_producer_ids() == block._replace(version=0)
    assert await world.ours.store.write_producer_ids(ProducerIds(BrokerId(2), 1000, 1999, 0)) == Written(1)
    assert isinstance(await world.ours.store.write_producer_ids(ProducerIds(BrokerId(2), 1000, 1999, 0)), Conflict)


async def test_null_data_of_the_producer_ids_means_that_none_was_handed_out(world: World) -> None:
    await world.ours.lead()
    await world.theirs.act(Create(paths.LATEST_PRODUCER_ID_BLOCK, None))
    assert await world.ours.store.read_producer_ids() == ProducerIds(None, 0, -1, 0)


async def test_the_feature_znode_is_created_then_left_alone_then_corrected(world: World) -> None:
    await world.ours.lead()

    await world.ours.store.ensure_feature_znode(enabled=True)
    created = await world.ours.node(paths.FEATURE)
    await world.ours.store.ensure_feature_znode(enabled=True)
    kept = await world.ours.node(paths.FEATURE)
    await world.ours.store.ensure_feature_znode(enabled=False)
    corrected = await world.ours.node(paths.FEATURE)

    assert created == kept
    assert created is not None
    assert corrected is not None
    assert json.loads(created.data or b"") == {"version": 2, "status": 1, "features": {}}
    assert json.loads(corrected.data or b"")["status"] == 0


async def test_a_feature_znode_that_cannot_be_understood_is_left_as_it_is(world: World) -> None:
    await world.ours.lead()
    await world.theirs.put(paths.FEATURE, b"?")
    with pytest.raises(BadZnode):
        await world.ours.store.ensure_feature_znode(enabled=True)
    node = await world.ours.node(paths.FEATURE)
    assert node is not None
    assert node.data == b"?"


async def test_the_foreign_operations_of_these_tests_do_what_the_server_does(world: World) -> None:
    await world.theirs.store.ensure_paths()
    await world.theirs.act(Create("/a", b"1"))
    await world.theirs.act(SetData("/a", b"2", 0), Create("/a/b", None))
    outcomes = await world.theirs.zk.commit(
        [
            [SetData("/a", b"3", ANY_VERSION), SetData("/a", b"4", 7)],
            [Delete("/a")],
            [Create("/x/y", None)],
            [Create("/a", None)],
            [Delete("/nothing")],
        ]
    )
    assert [(getattr(o, "failed", None), getattr(o, "code", None)) for o in outcomes] == [
        (1, -103),
        (0, -111),
        (0, -101),
        (0, -110),
        (0, -101),
    ]
    node = await world.theirs.node("/a")
    assert node is not None
    assert (node.data, node.version) == (b"2", 1)


async def test_a_state_keeps_the_order_of_its_isr(world: World) -> None:
    await world.ours.lead()
    await world.theirs.add_topic("t", [[3, 1, 2]])
    state = LeaderAndIsr(BrokerId(3), 0, (BrokerId(3), BrokerId(1), BrokerId(2)), 1, 0)
    await world.ours.store.create_states({T0: state})
    assert (await world.ours.store.read_states([T0])).states[T0] == state


LATER = b'{"controller_epoch":9,"leader":2,"version":1,"leader_epoch":5,"isr":[2]%s}'


@pytest.mark.parametrize("more", [b"", b',"colour":"red"'])
async def test_input_13_a_state_of_a_later_controller_ends_our_term_at_once(world: World, more: bytes) -> None:
    await world.ours.lead()
    await world.theirs.add_topic("t", [[1, 2]] * 2)
    await world.ours.store.create_states(states_of("t", 2))
    await world.theirs.lead()
    await world.theirs.put(paths.partition_state(T0), LATER % more)
    before = len(world.ours.transactions())

    with pytest.raises(ControllerMoved):
        await world.ours.store.read_states(states_of("t", 2))

    assert len(world.ours.transactions()) == before


async def test_input_13_a_state_that_names_a_later_controller_that_was_never_elected_is_read(world: World) -> None:
    await world.ours.lead()
    await world.theirs.add_topic("t", [[1, 2]] * 2)
    await world.ours.store.create_states(states_of("t", 2))
    await world.theirs.put(paths.partition_state(T0), LATER % b"")

    read = await world.ours.store.read_states(states_of("t", 2))

    assert read.states[T0].controller_epoch == 9
