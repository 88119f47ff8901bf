"""What tools and brokers ask for by znodes, and what absent brokers owe: the same in memory and on a real server."""

import json

import pytest

from controllerd.core.model import BrokerId, ReplicaAssignment, TopicImage, TopicPartition
from controllerd.errors import BadZnode, NewerZnode
from controllerd.results import (
    ConfigRead,
    Conflict,
    ElectionsRead,
    FeaturesRead,
    NewTopicZnodes,
    ReassignmentsRead,
    Written,
)
from controllerd.zk import codecs, paths
from events.elections import ElectionTrigger, ElectionType, ReplicaLeaderElection
from events.reassignments import PartitionReassignmentIsrChange, ZkPartitionReassignment
from tests.fakes.store import FakeStore
from tests.zk.world import World, states_of

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
B1, B2, B3 = BrokerId(1), BrokerId(2), BrokerId(3)
MOVES = {T1: (B3, B2), T0: (B1, B2)}
TOPIC_ID = "Zm9vYmFyYmF6cXV4MTIzNA"


# -- requests to delete ------------------------------------------------------------------------------------------------


async def test_requests_to_delete_are_dropped_and_the_topics_stay(world: World) -> None:
    await world.ours.lead()
    await world.theirs.add_topic("t", [[1]])
    for name in ("t", "u", "v"):
        await world.theirs.put(paths.delete_topic(name))

    await world.ours.store.delete_deletion_markers(["t", "u", "gone"])

    assert await world.ours.store.read_topic_deletions() == {"v"}
    assert await world.ours.node(paths.topic("t")) is not None


async def test_requests_to_delete_are_made_once(world: World) -> None:
    await world.ours.lead()
    await world.theirs.put(paths.delete_topic("t"), b"")

    results = await world.ours.store.create_deletion_markers(["t", "u"])

    assert results == {"t": Written(0), "u": Written(0)}
    assert await world.ours.store.read_topic_deletions() == {"t", "u"}
    made = await world.ours.node(paths.delete_topic("u"))
    assert made is not None
    assert made.data is None


async def test_quotas_are_found_at_every_level(world: World) -> None:
    await world.ours.lead()
    rate = codecs.encode_config({"controller_mutation_rate": "2.5"})
    for entity in ("users/alice", "users/<default>/clients/app", "clients/app"):
        await world.theirs.put(f"{paths.CONFIG}/{entity}", rate)
    await world.theirs.put(f"{paths.CONFIG}/clients/broken", b"rubbish")

    found = dict(await world.ours.store.read_mutation_rates())

    assert isinstance(found.pop("clients/broken"), BadZnode)
    assert found == {
        "users/<default>": None,
        "users/alice": "2.5",
        "clients/app": "2.5",
        "users/<default>/clients/app": "2.5",
    }
    assert await world.ours.store.read_mutation_rates(["users/none", "clients/app"]) == {
        "users/none": None,
        "clients/app": "2.5",
    }


async def test_the_configuration_of_a_user_is_written_and_told_in_one_transaction(world: World) -> None:
    await world.ours.lead()
    path = f"{paths.CONFIG_USERS}/al%20ice"
    await world.theirs.put(path, b'{"version":1,"config":{"a":"1"},"note":"kept"}')
    before = len(world.ours.transactions())

    read = (await world.ours.store.read_user_configs(["al ice"]))["al ice"]
    assert isinstance(read, ConfigRead)
    changed = {"al ice": read._replace(config={**read.config, "b": "2"})}
    result = (await world.ours.store.write_user_configs(changed))["al ice"]

    assert read == ConfigRead({"a": "1"}, 0, {"note": "kept"})
    assert isinstance(result, Written)
    assert len(world.ours.transactions()) == before + 1
    node = await world.ours.node(path)
    assert node is not None
    assert json.loads(node.data or b"") == {"version": 1, "config": {"a": "1", "b": "2"}, "note": "kept"}
    assert list((await world.ours.store.read_config_changes()).entities.values()) == ["users/al%20ice"]


async def test_a_user_that_somebody_else_changed_meanwhile_is_a_conflict_and_nobody_is_told(world: World) -> None:
    await world.ours.lead()
    read = (await world.ours.store.read_user_configs(["alice"]))["alice"]
    assert isinstance(read, ConfigRead)
    await world.theirs.put(f"{paths.CONFIG_USERS}/alice", codecs.encode_config({"a": "1"}))

    results = await world.ours.store.write_user_configs({"alice": read._replace(config={"b": "2"})})
    assert isinstance(results["alice"], Conflict)
    assert (await world.ours.store.read_config_changes()).entities == {}


async def test_a_topic_is_created_with_its_configuration_or_not_at_all(world: World) -> None:
    await world.ours.lead()
    await world.theirs.add_topic("old", [[1]])
    await world.theirs.put(paths.topic_config("stray"), codecs.encode_config({"retention.ms": "1"}))
    names = ("new", "old", "stray")
    images = {name: TopicImage(name, {0: ReplicaAssignment((B1, B2))}, TOPIC_ID, 0) for name in names}

    results = await world.ours.store.create_topics(
        {name: NewTopicZnodes(images[name], {"retention.ms": "2"}) for name in names}
    )

    assert [type(results[name]) for name in names] == [Written, Conflict, Written]
    assert (await world.ours.store.read_topics(["new"])).topics["new"].assignments == images["new"].assignments
    configs = await world.ours.store.read_topic_configs(names)
    assert configs == {"new": {"retention.ms": "2"}, "old": {}, "stray": {"retention.ms": "2"}}


async def test_without_requests_to_drop_nothing_is_written(world: World) -> None:
    await world.ours.lead()
    before = len(world.ours.transactions())
    await world.ours.store.delete_deletion_markers(["gone"])
    await world.ours.store.delete_preferred_election()
    assert len(world.ours.transactions()) == before


# -- reassignments -----------------------------------------------------------------------------------------------------


async def test_reassignments_are_read_in_the_order_of_the_file(world: World) -> None:
    await world.ours.lead()
    await world.theirs.put(paths.REASSIGN_PARTITIONS, codecs.encode_reassignments(MOVES))

    read = await world.ours.store.read_reassignments()

    assert read == ReassignmentsRead(MOVES, 0)
    assert list(read.targets) == [T1, T0]


async def test_without_the_znode_nothing_is_to_be_reassigned(world: World) -> None:
    await world.ours.lead()
    assert await world.ours.store.read_reassignments() is None


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b'{"version":1,"partitions":{}}'])
async def test_reassignments_that_cannot_be_understood_are_an_error_and_stay(world: World, data: bytes) -> None:
    await world.ours.lead()
    await world.theirs.put(paths.REASSIGN_PARTITIONS, data)

    with pytest.raises(BadZnode):
        await world.ours.store.read_reassignments()

    node = await world.ours.node(paths.REASSIGN_PARTITIONS)
    assert node is not None
    assert node.data == data


async def test_what_is_left_of_the_reassignments_is_written_at_their_version(world: World) -> None:
    await world.ours.lead()
    await world.theirs.put(paths.REASSIGN_PARTITIONS, codecs.encode_reassignments(MOVES))

    assert await world.ours.store.write_reassignments({T0: (B1, B2)}, 0) == Written(1)

    assert await world.ours.store.read_reassignments() == ReassignmentsRead({T0: (B1, B2)}, 1)


async def test_when_nothing_is_left_of_the_reassignments_the_znode_goes(world: World) -> None:
    await world.ours.lead()
    await world.theirs.put(paths.REASSIGN_PARTITIONS, codecs.encode_reassignments(MOVES))
    assert await world.ours.store.write_reassignments({}, 0) == Written(-1)
    assert await world.ours.store.read_reassignments() is None


@pytest.mark.parametrize("left", [{}, {T0: (B1, B2)}])
async def test_reassignments_that_somebody_wrote_meanwhile_are_a_conflict(
    world: World, left: dict[TopicPartition, tuple[BrokerId, ...]]
) -> None:
    await world.ours.lead()
    await world.theirs.put(paths.REASSIGN_PARTITIONS, codecs.encode_reassignments(MOVES))
    await world.theirs.put(paths.REASSIGN_PARTITIONS, codecs.encode_reassignments({U0: (B1,)}))

    assert isinstance(await world.ours.store.write_reassignments(left, 0), Conflict)

    assert await world.ours.store.read_reassignments() == ReassignmentsRead({U0: (B1,)}, 1)


async def test_whoever_read_the_reassignments_hears_of_the_next_ones_kafka_9478(world: World) -> None:
    await world.ours.lead()
    await world.ours.store.arm_admin_watches()
    await world.theirs.put(paths.REASSIGN_PARTITIONS, b"nonsense")
    await world.ours.saw(ZkPartitionReassignment())
    with pytest.raises(BadZnode):
        await world.ours.store.read_reassignments()

    await world.theirs.remove(paths.REASSIGN_PARTITIONS)
    await world.theirs.put(paths.REASSIGN_PARTITIONS, codecs.encode_reassignments(MOVES))

    await world.ours.saw(ZkPartitionReassignment(), times=2)


# -- preferred elections -----------------------------------------------------------------------------------------------


async def test_a_preferred_election_is_read_and_deleted(world: World) -> None:
    await world.ours.lead()
    await world.theirs.put(paths.PREFERRED_REPLICA_ELECTION, codecs.encode_preferred_election([T1, T0, T1]))

    assert await world.ours.store.read_preferred_election() == ElectionsRead((T1, T0), 0)
    await world.ours.store.delete_preferred_election()

    assert await world.ours.store.read_preferred_election() is None


async def test_a_preferred_election_that_cannot_be_understood_is_an_error_and_can_be_deleted(world: World) -> None:
    await world.ours.lead()
    await world.theirs.put(paths.PREFERRED_REPLICA_ELECTION, b"?")

    with pytest.raises(BadZnode):
        await world.ours.store.read_preferred_election()
    await world.ours.store.delete_preferred_election()

    assert await world.ours.node(paths.PREFERRED_REPLICA_ELECTION) is None


async def test_two_preferred_elections_in_a_row_are_both_heard_of_kafka_6146(world: World) -> None:
    await world.ours.lead()
    await world.ours.store.arm_admin_watches()
    for times in (1, 2):
        await world.theirs.put(paths.PREFERRED_REPLICA_ELECTION, codecs.encode_preferred_election([T0]))
        event = ReplicaLeaderElection(None, ElectionType.PREFERRED, ElectionTrigger.ZOOKEEPER)
        await world.ours.saw(event, times=times)
        await world.ours.store.delete_preferred_election()


# -- configurations and features ---------------------------------------------------------------------------------------


async def test_changed_configurations_come_in_the_order_of_their_numbers(world: World) -> None:
    await world.ours.lead()
    for child, entity in (("z_0000000002", "topics/b"), ("a_0000000010", "brokers/1"), ("m_0000000001", "topics/a")):
        await world.theirs.put(paths.config_change(child), codecs.encode_config_change(entity))

    read = await world.ours.store.read_config_changes()

    assert list(read.entities.items()) == [
        ("m_0000000001", "topics/a"),
        ("z_0000000002", "topics/b"),
        ("a_0000000010", "brokers/1"),
    ]


async def test_a_changed_configuration_that_cannot_be_understood_hides_no_other(world: World) -> None:
    await world.ours.lead()
    await world.theirs.put(paths.config_change("config_change_0000000001"), b"?")
    await world.theirs.put(paths.config_change("config_change_0000000002"), codecs.encode_config_change("topics/t"))
    await world.theirs.put(paths.config_change("unnumbered"), b'{"version":9}')

    read = await world.ours.store.read_config_changes()

    assert read.entities == {"config_change_0000000002": "topics/t"}
    assert {bad.path: type(bad) for bad in read.broken} == {
        "/config/changes/config_change_0000000001": BadZnode,
        "/config/changes/unnumbered": NewerZnode,
    }


async def test_the_defaults_of_all_brokers_are_there_or_empty_or_broken(world: World) -> None:
    await world.ours.lead()
    assert await world.ours.store.read_broker_defaults() == {}

    await world.theirs.put(paths.CONFIG_BROKER_DEFAULTS, codecs.encode_config({"a": "b"}))
    assert await world.ours.store.read_broker_defaults() == {"a": "b"}

    await world.theirs.put(paths.CONFIG_BROKER_DEFAULTS, b"[]")
    with pytest.raises(BadZnode):
        await world.ours.store.read_broker_defaults()


async def test_features_are_finalized_at_a_version_and_unknown_fields_stay(world: World) -> None:
    await world.ours.lead()
    assert await world.ours.store.read_features() == FeaturesRead({}, -1)
    await world.theirs.put(
        paths.FEATURE, b'{"version":2,"status":1,"features":{"old":{"max_version_level":4}},"colour":"red"}'
    )

    assert await world.ours.store.read_features() == FeaturesRead({"old": 4}, 0, enabled=True, format_version=2)
    assert await world.ours.store.write_features({"new": 1, "old": 5}, 0) == Written(1)
    assert isinstance(await world.ours.store.write_features({}, 0), Conflict)

    assert await world.ours.store.read_features() == FeaturesRead(
        {"new": 1, "old": 5}, 1, enabled=True, format_version=2
    )
    node = await world.ours.node(paths.FEATURE)
    assert node is not None
    assert json.loads(node.data or b"")["colour"] == "red"


async def test_features_of_the_first_format_are_kept_when_it_is_raised_and_finalized_afterwards(world: World) -> None:
    await world.ours.lead()
    old = b'{"max_version_level":4,"min_version_level":1}'
    await world.theirs.put(paths.FEATURE, b'{"version":1,"status":1,"features":{"old":%b},"colour":"red"}' % old)

    await world.ours.store.ensure_feature_znode(enabled=True)
    assert await world.ours.store.read_features() == FeaturesRead({"old": 4}, 1, enabled=True, format_version=2)
    assert await world.ours.store.write_features({"old": 4, "new": 1}, 1) == Written(2)

    node = await world.ours.node(paths.FEATURE)
    assert node is not None
    document = json.loads(node.data or b"")
    assert (document["version"], document["status"], document["colour"]) == (2, 1, "red")
    assert {name: level["max_version_level"] for name, level in document["features"].items()} == {"old": 4, "new": 1}


async def test_features_of_a_newer_format_are_never_written(world: World) -> None:
    await world.ours.lead()
    await world.theirs.put(paths.FEATURE, b'{"version":9,"status":1,"features":{}}')
    with pytest.raises(NewerZnode):
        await world.ours.store.write_features({"new": 1}, 0)


async def test_features_without_their_znode_are_a_conflict(world: World) -> None:
    await world.ours.lead()
    assert isinstance(await world.ours.store.write_features({"new": 1}, -1), Conflict)


# -- debts -------------------------------------------------------------------------------------------------------------


async def test_what_absent_brokers_owe_is_remembered_until_it_is_paid(world: World) -> None:
    await world.ours.lead()
    assert await world.ours.store.read_pending_deletions() == {}

    await world.ours.store.write_pending_deletions({B1: {T0: TOPIC_ID, U0: None}, B2: {T1: TOPIC_ID}})
    assert await world.theirs.store.read_pending_deletions() == {B1: {T0: TOPIC_ID, U0: None}, B2: {T1: TOPIC_ID}}

    await world.ours.store.write_pending_deletions({B1: {U0: None}, B2: {}, B3: {}})
    assert await world.theirs.store.read_pending_deletions() == {B1: {U0: None}}
    assert await world.ours.zk.children(paths.DEBTS) == ["1"]


async def test_the_parents_of_debts_are_created_with_the_first_one(world: World) -> None:
    await world.ours.lead()
    before = len(world.ours.transactions())

    await world.ours.store.write_pending_deletions({B1: {T0: None}})
    await world.ours.store.write_pending_deletions({B2: {T0: None}})

    written = [record.paths for record in world.ours.transactions()[before:]]
    assert written == [["/controllerd", paths.DEBTS, paths.pending_deletions(B1)], [paths.pending_deletions(B2)]]


@pytest.mark.parametrize("data", [b"", b"?", b'{"version":9,"owed":[]}', b'{"version":1,"owed":[{"topic":1}]}'])
async def test_a_debt_that_cannot_be_understood_is_left_alone_and_hides_no_other(world: World, data: bytes) -> None:
    await world.ours.lead()
    await world.ours.store.write_pending_deletions({B1: {T0: None}})
    await world.theirs.put(paths.pending_deletions(B2), data)
    await world.theirs.put(f"{paths.DEBTS}/two", b"?")

    assert await world.ours.store.read_pending_deletions() == {B1: {T0: None}}
    with pytest.raises(BadZnode):
        await world.ours.store.write_pending_deletions({B2: {T1: None}, B1: {T1: None}, B3: {T1: None}})

    node = await world.ours.node(paths.pending_deletions(B2))
    assert node is not None
    assert node.data == data
    assert await world.ours.store.read_pending_deletions() == {B1: {T1: None}, B3: {T1: None}}


async def test_a_debt_of_a_hundred_thousand_replicas_fits(world: World) -> None:
    await world.ours.lead()
    owed = {TopicPartition(f"topic-{t}", p): TOPIC_ID for t in range(1_000) for p in range(100)}
    await world.ours.store.write_pending_deletions({B1: dict.fromkeys(owed, TOPIC_ID)})
    assert await world.ours.store.read_pending_deletions() == {B1: owed}


# -- watched states ----------------------------------------------------------------------------------------------------


def changed_states(world: World) -> list[TopicPartition]:
    """Whose states we heard of."""
    return [event.tp for event in world.ours.events.all if isinstance(event, PartitionReassignmentIsrChange)]


@pytest.mark.parametrize("partitions", [2, 40])
async def test_a_state_that_its_leader_writes_itself_is_seen(world: World, partitions: int) -> None:
    await world.ours.lead()
    await world.theirs.add_topic("t", [[1, 2]] * partitions)
    states = states_of("t", partitions)
    await world.ours.store.create_states(states)

    read = await world.ours.store.watch_states([*states, U0])
    await world.theirs.put(paths.partition_state(T1), codecs.encode_state(states[T1]))

    await world.ours.saw(PartitionReassignmentIsrChange(T1))
    assert read.states == states
    assert read.missing == {U0}
    assert changed_states(world) == [T1]


async def test_reading_states_arms_no_watch(world: World) -> None:
    await world.ours.lead()
    await world.theirs.add_topic("t", [[1, 2]] * 2)
    states = states_of("t", 2)
    await world.ours.store.create_states(states)
    await world.ours.store.watch_states([T1])
    await world.ours.store.read_states([T0])

    for tp in states:
        await world.theirs.put(paths.partition_state(tp), codecs.encode_state(states[tp]))

    await world.ours.saw(PartitionReassignmentIsrChange(T1))
    assert changed_states(world) == [T1]


# -- what it costs, in memory ----------------------------------------------------------------------------------------


async def test_users_without_client_ids_of_their_own_are_not_looked_into_one_by_one() -> None:
    store = FakeStore()
    for number in range(1_000):
        store.tree.put(f"/config/users/user-{number}", codecs.encode_config({"SCRAM-SHA-256": "secret"}))
    store.tree.put("/config/users/user-7/clients/app", codecs.encode_config({"controller_mutation_rate": "2"}))

    found = await store.read_mutation_rates()

    assert len(found) == 1_001
    assert found["users/user-7/clients/app"] == "2"
    assert store.zk.round_trips < 20


# -- lost answers, in memory -------------------------------------------------------------------------------------------


@pytest.fixture
def store() -> FakeStore:
    """A leading store with reassignments to do, the answer to whose next transaction will be lost."""
    store = FakeStore()
    store.lead()
    store.tree.put(paths.REASSIGN_PARTITIONS, codecs.encode_reassignments(MOVES))
    store.zk.lose_reply_of.add(1)
    return store


@pytest.mark.parametrize(("left", "version"), [({}, -1), ({T0: (B1, B2)}, 1)])
async def test_written_reassignments_whose_answer_was_lost_are_written(
    store: FakeStore, left: dict[TopicPartition, tuple[BrokerId, ...]], version: int
) -> None:
    assert await store.write_reassignments(left, 0) == Written(version)


async def test_debts_whose_answer_was_lost_are_written(store: FakeStore) -> None:
    await store.write_pending_deletions({B1: {T0: None}})
    store.zk.lose_reply_of.add(len(store.zk.transactions) + 1)
    await store.write_pending_deletions({B1: {T1: None}})
    assert await store.read_pending_deletions() == {B1: {T1: None}}


async def test_features_whose_answer_was_lost_are_written(store: FakeStore) -> None:
    store.tree.put(paths.FEATURE, b'{"version":2,"status":1,"features":{}}')
    assert await store.write_features({"new": 1}, 0) == Written(1)
