"""Admin clients create topics and add partitions: ZooKeeper, other writers and quotas may refuse or change that."""

import json
from collections.abc import Mapping

import pytest

from controllerd.core.cluster_settings import Policy
from controllerd.core.kafka_error import KafkaError, Refusal
from controllerd.core.model import BrokerId, PartitionState, ReplicaAssignment, TopicImage
from controllerd.core.mutation_quota import Mutation, QuotaEntity
from controllerd.core.partition_growth import GrowthRequest
from controllerd.core.placement import MAX_PARTITIONS, TOO_MANY_AT_ONCE
from controllerd.core.protocol_versions import features_of
from controllerd.core.releases import Release
from controllerd.core.settings_book import SettingsBook
from controllerd.core.topic_creation import TopicRequest
from controllerd.errors import CallFailed, NotController
from controllerd.record.records import AlarmRecord, RejectedRecord
from events.admin import CreatePartitions, CreateTopics, MutationReply, Requester, TopicOutcome
from tests.fakes.world import World, ids, topic_id_of, tp

BY = Requester("User:alice", "alice", "app", 7, "127.0.0.1")
ALREADY_THERE = Refusal(KafkaError.TOPIC_ALREADY_EXISTS, "Topic 't' already exists.")
THROTTLED = Refusal(KafkaError.THROTTLING_QUOTA_EXCEEDED)
CONFIG, TOPIC = "/config/topics/t", "/brokers/topics/t"


def create(*topics: TopicRequest, by: Requester = BY, validate_only: bool = False) -> CreateTopics:
    return CreateTopics(by, topics, validate_only)


def grow(*topics: GrowthRequest, by: Requester = BY, validate_only: bool = False) -> CreatePartitions:
    return CreatePartitions(by, topics, validate_only)


def refusals(reply: MutationReply) -> dict[str, Refusal | None]:
    return {topic: outcome.refusal for topic, outcome in reply.outcomes.items()}


def content(world: World, path: str) -> Mapping[str, object]:
    data = world.tree.nodes[path].data
    assert data is not None
    found: Mapping[str, object] = json.loads(data)
    return found


def configured(**configs: str) -> bytes:
    return json.dumps({"version": 1, "config": configs}).encode()


async def test_a_created_topic_is_led_when_the_reply_comes(world: World) -> None:
    reply = world.queue.call(create(TopicRequest("t", 2, 3)))

    await world.loop.handle(await world.queue.take())

    outcome = (await reply).outcomes["t"]
    assert outcome == TopicOutcome(None, topic_id_of("new 1"), frozenset({0, 1}), 3, {})
    assert world.state("t", 0) == (1, 0, [1, 2, 3], 0)
    assert world.context.partition_state(tp("t", 1)) is PartitionState.ONLINE
    assert world.brief(2)[0] == "LeaderAndIsr(t-0 1/0 [1, 2, 3] new; t-1 2/0 [2, 3, 1] new)"


@pytest.mark.parametrize(
    ("wanted", "setting", "code"),
    [
        (TopicRequest("t", 1), "default.replication.factor", KafkaError.INVALID_REPLICATION_FACTOR),
        (TopicRequest("t", replication_factor=1), "num.partitions", KafkaError.INVALID_PARTITIONS),
        (TopicRequest("t"), "num.partitions", KafkaError.INVALID_PARTITIONS),
    ],
)
async def test_no_topic_gets_a_default_that_no_broker_has_answered(
    wanted: TopicRequest, setting: str, code: KafkaError
) -> None:
    world = World(settings=SettingsBook())
    world.register(1)
    await world.start()

    reply = await world.call(create(wanted, TopicRequest("both", 1, 1)))

    refused = refusals(reply)["t"]
    assert refused is not None
    assert (refused.error, str(refused.text).split(";")[0]) == (code, f"No broker has said its {setting} yet")
    assert refusals(reply)["both"] is None


async def test_the_configuration_is_written_before_the_topic_in_one_transaction(world: World) -> None:
    await world.call(create(TopicRequest("t", 1, 1, configs={"retention.ms": "5"}), TopicRequest("u", 1, 1)))

    (fence, *operations) = world.zk.transactions[0]
    assert fence.path == "/controller_epoch"
    assert [each.path for each in operations] == [CONFIG, TOPIC, "/config/topics/u", "/brokers/topics/u"]
    assert content(world, CONFIG) == {"version": 1, "config": {"retention.ms": "5"}}
    assert content(world, "/config/topics/u") == {"version": 1, "config": {}}


async def test_the_topic_znode_is_written_as_kafka_writes_it(world: World) -> None:
    await world.call(create(TopicRequest("t", 1, 2)))

    assert content(world, TOPIC) == {
        "version": 3,
        "partitions": {"0": [1, 2]},
        "adding_replicas": {},
        "removing_replicas": {},
        "topic_id": topic_id_of("new 1"),
    }


async def test_below_2_8_a_topic_gets_no_id() -> None:
    world = World(features=features_of("2.7"))
    world.register(1)
    await world.start()

    reply = await world.call(create(TopicRequest("t", 1, 1)))

    assert reply.outcomes["t"].topic_id is None
    assert content(world, TOPIC)["version"] == 2
    assert "topic_id" not in content(world, TOPIC)


async def test_missing_counts_are_the_defaults_of_the_cluster() -> None:
    world = World(policy=Policy(num_partitions=2, default_replication_factor=3))
    for broker in (1, 2, 3):
        world.register(broker)
    await world.start()

    reply = await world.call(create(TopicRequest("t")))

    assert reply.outcomes["t"].partitions == {0, 1}
    assert reply.outcomes["t"].replication_factor == 3


@pytest.mark.parametrize(("tiered", "error"), [(False, KafkaError.INVALID_CONFIG), (True, None)])
async def test_remote_storage_is_refused_unless_brokers_have_tiered_storage(
    *, tiered: bool, error: KafkaError | None
) -> None:
    world = World(policy=Policy(tiered_storage=tiered))
    world.register(1)
    await world.start()

    reply = await world.call(create(TopicRequest("t", 1, 1, configs={"remote.storage.enable": "true"})))

    refusal = reply.outcomes["t"].refusal
    assert (refusal and refusal.error) == error


async def test_configs_are_validated_by_the_oldest_release_among_the_live_brokers(world: World) -> None:
    wanted = create(TopicRequest("t", 1, 1, configs={"message.format.version": "3.9-IV0"}))
    world.context.releases[BrokerId(2)] = Release(2, 8)
    world.context.releases[BrokerId(3)] = Release(3, 9)

    refused = await world.call(wanted)

    assert refusals(refused)["t"] == Refusal(
        KafkaError.INVALID_CONFIG,
        "message.format.version=3.9-IV0 is not understood by broker 2 (Kafka 2.8): Invalid value 3.9-IV0 for "
        "configuration message.format.version: Version `3.9-IV0` is not a valid version",
    )
    assert "/brokers/topics/t" not in world.tree.nodes

    world.context.releases[BrokerId(2)] = Release(3, 9)

    assert refusals(await world.call(wanted)) == {"t": None}


FORMAT_OF_39 = create(TopicRequest("new", 1, 1, configs={"message.format.version": "3.9-IV0"}))


async def upgraded_world(*replicas: int, down: bool = False) -> World:
    """A cluster with one topic on these brokers. Its broker 3 still runs 2.8, or was down at the takeover."""
    world = World(policy=Policy(protocol_release=Release(2, 8)))
    releases = {1: Release(3, 9), 2: Release(3, 9)} | ({} if down else {3: Release(2, 8)})
    for broker in releases:
        world.register(broker)
    world.put_topic("t", {0: replicas})
    await world.start()
    world.context.releases.update({BrokerId(broker): release for broker, release in releases.items()})
    return world


async def test_a_broker_that_restarts_can_read_the_configs_of_topics_that_were_created_meanwhile() -> None:
    world = await upgraded_world(3, 1)
    world.die(3)
    await world.settle()

    refused = refusals(await world.call(FORMAT_OF_39))["new"]

    assert refused is not None
    assert "is not understood by broker 3 (Kafka 2.8, not live)" in (refused.text or "")


async def test_a_broker_that_returns_with_a_newer_release_counts_with_the_newer_one() -> None:
    world = await upgraded_world(3, 1)
    world.die(3)
    await world.settle()
    world.register(3)
    await world.settle()
    world.context.releases[BrokerId(3)] = Release(3, 9)

    assert refusals(await world.call(FORMAT_OF_39)) == {"new": None}


async def test_after_a_takeover_a_broker_that_is_down_counts_with_the_protocol_version() -> None:
    world = await upgraded_world(3, 1, down=True)

    refused = refusals(await world.call(FORMAT_OF_39))["new"]

    assert refused is not None
    assert "(inter.broker.protocol.version, which stands for broker 3, not live)" in (refused.text or "")


async def test_a_dead_broker_without_replicas_does_not_count() -> None:
    world = await upgraded_world(2, 1)
    world.die(3)
    await world.settle()

    assert refusals(await world.call(FORMAT_OF_39)) == {"new": None}


async def test_controllerd_ids_are_no_brokers_that_have_to_read_configs() -> None:
    world = World(policy=Policy(protocol_release=Release(2, 8)))
    world.register(1)
    await world.start()
    world.context.put_topic(TopicImage("t", {0: ReplicaAssignment((BrokerId(1), BrokerId(2_000_000_000)))}, None, 0))
    world.context.releases[BrokerId(1)] = Release(3, 9)

    assert refusals(await world.call(FORMAT_OF_39)) == {"new": None}


async def test_configs_are_validated_by_the_protocol_version_while_no_release_is_known() -> None:
    world = World(policy=Policy(protocol_release=Release(2, 8)))
    world.register(1)
    await world.start()
    world.context.releases.clear()

    reply = await world.call(create(TopicRequest("t", 1, 1, configs={"message.format.version": "3.9-IV0"})))

    refusal = reply.outcomes["t"].refusal
    assert refusal is not None
    assert "is not understood by Kafka 2.8 (inter.broker.protocol.version)" in (refusal.text or "")


async def test_the_reply_names_the_release_that_validated_the_configs(world: World) -> None:
    for broker in (1, 2, 3):
        world.context.releases[BrokerId(broker)] = Release(2, 8)

    reply = await world.call(create(TopicRequest("t", 1, 1, configs={"flush.messages": "0"})))

    assert reply.outcomes["t"].refusal is None
    assert reply.outcomes["t"].release == Release(2, 8)


async def test_the_first_replica_is_drawn_at_random(world: World) -> None:
    await world.call(create(TopicRequest("t", 1, 1)))

    assert world.drawn == [3, 3]


async def test_validating_writes_nothing_and_returns_the_outcome(world: World) -> None:
    reply = await world.call(create(TopicRequest("t", 2, 3), validate_only=True))

    assert reply.outcomes["t"] == TopicOutcome(None, None, frozenset({0, 1}), 3, {})
    assert world.zk.transactions == []


async def test_a_refused_topic_does_not_keep_others_from_being_created(world: World) -> None:
    world.put_topic("t", {0: [1]})
    await world.settle()

    reply = await world.call(create(TopicRequest("t", 1, 1), TopicRequest("u", 1, 1), TopicRequest("v", 1, 9)))

    assert list(reply.outcomes) == ["t", "u", "v"]
    assert refusals(reply) == {
        "t": ALREADY_THERE,
        "u": None,
        "v": Refusal(KafkaError.INVALID_REPLICATION_FACTOR, "Replication factor: 9 larger than available brokers: 3."),
    }


async def test_a_topic_in_quarantine_counts_as_existing(world: World) -> None:
    world.tree.put(TOPIC, b"rubbish")
    await world.settle()

    assert refusals(await world.call(create(TopicRequest("t", 1, 1)))) == {"t": ALREADY_THERE}


async def test_a_topic_that_is_marked_for_deletion_cannot_be_created(world: World) -> None:
    world.put_topic("t", {0: [1, 2]})
    await world.settle()
    world.tree.put("/admin/delete_topics/t")
    await world.settle()

    reply = await world.call(create(TopicRequest("t", 1, 1)))

    assert refusals(reply) == {"t": Refusal(KafkaError.TOPIC_ALREADY_EXISTS, "Topic 't' is marked for deletion.")}


async def test_two_topics_of_one_request_may_not_collide_in_metrics(world: World) -> None:
    reply = await world.call(create(TopicRequest("a.b", 1, 1), TopicRequest("a_b", 1, 1)))

    text = "Topic 'a_b' collides with existing topics: a.b"
    assert refusals(reply) == {"a.b": None, "a_b": Refusal(KafkaError.INVALID_TOPIC_EXCEPTION, text)}


async def test_a_topic_that_another_controller_creates_first_keeps_its_configuration(world: World) -> None:
    def broker_creates() -> None:
        world.tree.put(CONFIG, configured(**{"retention.ms": "1"}))
        world.put_topic("t", {0: [3]})

    world.zk.before_transaction[1] = broker_creates

    reply = await world.call(create(TopicRequest("t", 1, 1, configs={"retention.ms": "2"}), TopicRequest("u", 1, 1)))

    assert refusals(reply) == {"t": ALREADY_THERE, "u": None}
    assert content(world, CONFIG)["config"] == {"retention.ms": "1"}
    assert world.state("t") == (3, 0, [3], 0)


async def test_the_configuration_that_a_deleted_topic_left_behind_is_overwritten(world: World) -> None:
    world.tree.put(CONFIG, configured(**{"retention.ms": "1"}))

    assert refusals(await world.call(create(TopicRequest("t", 1, 1)))) == {"t": None}
    assert content(world, CONFIG)["config"] == {}


async def test_a_lost_race_for_the_configuration_alone_is_retried(world: World) -> None:
    world.zk.before_transaction[1] = lambda: world.tree.put(CONFIG, configured(**{"retention.ms": "1"}))

    assert refusals(await world.call(create(TopicRequest("t", 1, 1)))) == {"t": None}
    assert content(world, CONFIG)["config"] == {}


async def test_a_creation_that_keeps_losing_the_race_for_the_configuration_is_refused_with_an_alarm(
    world: World,
) -> None:
    for number in range(1, 20):
        world.zk.before_transaction[number] = lambda: world.tree.put(CONFIG, configured())

    reply = await world.call(create(TopicRequest("t", 1, 1)))

    assert refusals(reply) == {"t": Refusal(KafkaError.UNKNOWN_SERVER_ERROR)}
    assert [alarm.what for alarm in world.audit.of(AlarmRecord)] == ["topic was not created"]


async def test_a_lost_answer_to_the_creation_is_resolved(world: World) -> None:
    world.zk.lose_reply_of.add(1)

    reply = await world.call(create(TopicRequest("t", 1, 1)))

    assert refusals(reply) == {"t": None}
    assert world.state("t") == (1, 0, [1], 0)


async def test_a_topic_too_large_for_zookeeper_is_refused_alone(world: World) -> None:
    wide = TopicRequest("t", 100_000, 3)

    reply = await world.call(create(wide, TopicRequest("u", 1, 1)))

    assert refusals(reply) == {"t": Refusal(KafkaError.UNKNOWN_SERVER_ERROR), "u": None}
    assert CONFIG not in world.tree.nodes


async def test_a_deposed_controller_creates_nothing(world: World) -> None:
    world.tree.put("/controller_epoch", b"7")

    with pytest.raises(NotController):
        await world.call(create(TopicRequest("t", 1, 1)))

    assert TOPIC not in world.tree.nodes


async def test_a_standby_creates_nothing() -> None:
    with pytest.raises(NotController):
        await World().call(create(TopicRequest("t", 1, 1)))
    with pytest.raises(NotController):
        await World().call(grow(GrowthRequest("t", 2)))


async def test_a_topic_that_was_created_and_not_started_is_started_in_the_next_term(world: World) -> None:
    def fail() -> None:
        raise ValueError

    world.zk.before_transaction[2] = fail

    with pytest.raises(CallFailed):
        await world.call(create(TopicRequest("t", 1, 1)))

    assert world.context.epoch == 2
    assert world.state("t") == (1, 0, [1], 0)


async def test_a_topic_that_is_deleted_and_created_again_at_once_is_a_new_topic(world: World) -> None:
    world.put_topic("t", {0: [3], 1: [3]})
    await world.settle()
    world.tree.remove(TOPIC)

    reply = await world.call(create(TopicRequest("t", 1, 1)))

    assert refusals(reply) == {"t": None}
    assert world.context.topic_id("t") == topic_id_of("new 1")
    assert world.context.partitions_of("t") == [tp("t", 0)]


async def test_many_topics_cost_few_transactions(world: World) -> None:
    reply = await world.call(create(*(TopicRequest(f"t{number}", 1, 3) for number in range(600))))

    assert set(refusals(reply).values()) == {None}
    assert len(world.zk.transactions) <= 10
    assert world.context.waiting_partitions() == []


# -- quotas ------------------------------------------------------------------------------------------------------------


async def test_the_topic_that_exceeds_the_quota_is_created_and_later_ones_are_refused(world: World) -> None:
    world.c.configs.quotas.set_rate(QuotaEntity("alice", None), 1.0)

    reply = await world.call(create(TopicRequest("t", 13, 1), TopicRequest("u", 1, 1)))

    assert refusals(reply) == {"t": None, "u": THROTTLED}
    assert reply.throttle.wait_ms == 2_000


async def test_an_old_request_is_only_throttled(world: World) -> None:
    world.c.configs.quotas.set_rate(QuotaEntity("alice", None), 1.0)
    old = Requester("User:alice", "alice", "app", 5, "127.0.0.1")

    reply = await world.call(create(TopicRequest("t", 13, 1), TopicRequest("u", 1, 1), by=old))

    assert refusals(reply) == {"t": None, "u": None}
    assert reply.throttle.wait_ms == 3_000


async def test_validating_and_refused_topics_cost_nothing(world: World) -> None:
    world.c.configs.quotas.set_rate(QuotaEntity("alice", None), 1.0)

    await world.call(create(TopicRequest("t", 100, 1), validate_only=True))
    await world.call(create(TopicRequest("t", 100, 9)))

    assert refusals(await world.call(create(TopicRequest("t", 11, 1), TopicRequest("u", 1, 1)))) == {
        "t": None,
        "u": None,
    }


async def test_quotas_are_read_at_the_start_of_a_term() -> None:
    world = World()
    for path, rate in (("users/alice", "1"), ("users/<default>/clients/app", "2"), ("clients/app", "3")):
        world.tree.put(f"/config/{path}", configured(controller_mutation_rate=rate))
    await world.start()

    assert world.c.configs.quotas.rate_of("alice", "app") == 1.0
    assert world.c.configs.quotas.rate_of("bob", "app") == 2.0
    assert world.c.configs.quotas.rate_of("", "app") == 3.0


async def test_a_changed_quota_holds_at_once_and_ends_with_its_configuration(world: World) -> None:
    world.tree.put("/config/users/alice", configured(controller_mutation_rate="4"))
    world.tree.put("/config/changes/config_change_0000000001", b'{"version":2,"entity_path":"users/alice"}')
    await world.settle()
    assert world.c.configs.quotas.rate_of("alice", "app") == 4.0

    world.tree.put("/config/users/alice", configured())
    world.tree.put("/config/changes/config_change_0000000002", b'{"version":2,"entity_path":"users/alice"}')
    await world.settle()
    assert world.c.configs.quotas.rate_of("alice", "app") is None


@pytest.mark.parametrize("data", [configured(controller_mutation_rate="many"), b"rubbish"])
async def test_a_quota_that_cannot_be_understood_stays_as_it_was(world: World, data: bytes) -> None:
    world.c.configs.quotas.set_rate(QuotaEntity("alice", None), 1.0)
    world.tree.put("/config/users/alice", data)
    world.tree.put("/config/changes/config_change_0000000001", b'{"version":2,"entity_path":"users/alice"}')

    await world.settle()

    assert world.c.configs.quotas.rate_of("alice", "app") == 1.0
    assert len(world.audit.of(AlarmRecord)) == 1


# -- more partitions ---------------------------------------------------------------------------------------------------


@pytest.fixture
async def grown(world: World) -> World:
    """A world with a topic of one partition."""
    world.put_topic("t", {0: [1, 2]})
    await world.settle()
    world.forget()
    return world


async def test_added_partitions_are_led_when_the_reply_comes(grown: World) -> None:
    reply = grown.queue.call(grow(GrowthRequest("t", 3)))

    await grown.loop.handle(await grown.queue.take())

    assert (await reply).outcomes["t"] == TopicOutcome(partitions=frozenset({1, 2}))
    assert grown.context.partition_state(tp("t", 2)) is PartitionState.ONLINE
    assert content(grown, TOPIC)["topic_id"] == topic_id_of("t")


async def test_added_partitions_may_have_an_explicit_assignment(grown: World) -> None:
    await grown.call(grow(GrowthRequest("t", 2, (ids(3, 1),))))

    assert grown.state("t", 1) == (3, 0, [3, 1], 0)


async def test_growth_that_is_only_validated_writes_nothing(grown: World) -> None:
    reply = await grown.call(grow(GrowthRequest("t", 3), validate_only=True))

    assert refusals(reply) == {"t": None}
    assert grown.zk.transactions == []


async def test_each_topic_of_a_request_is_validated_by_itself(grown: World) -> None:
    reply = await grown.call(grow(GrowthRequest("none", 2), GrowthRequest("t", 2), GrowthRequest("__t", 2)))

    assert list(reply.outcomes) == ["none", "t", "__t"]
    gone = Refusal(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'none' does not exist.")
    assert reply.outcomes["none"].refusal == gone
    assert reply.outcomes["t"].refusal is None


async def test_a_topic_that_is_being_deleted_does_not_grow(grown: World) -> None:
    grown.tree.put("/admin/delete_topics/t")
    await grown.settle()

    reply = await grown.call(grow(GrowthRequest("t", 2)))

    text = "The topic is queued for deletion."
    assert refusals(reply) == {"t": Refusal(KafkaError.INVALID_TOPIC_EXCEPTION, text)}


async def test_a_topic_that_cannot_be_understood_does_not_grow(grown: World) -> None:
    grown.tree.put(TOPIC, b"rubbish")

    reply = await grown.call(grow(GrowthRequest("t", 2)))

    text = "The znode of the topic 't' cannot be understood."
    assert refusals(reply) == {"t": Refusal(KafkaError.UNKNOWN_SERVER_ERROR, text)}
    assert grown.tree.nodes[TOPIC].data == b"rubbish"


async def test_a_topic_that_changes_meanwhile_is_validated_again_and_charged_once(grown: World) -> None:
    grown.c.configs.quotas.set_rate(QuotaEntity("alice", None), 1.0)
    grown.zk.before_transaction[1] = lambda: grown.put_topic("t", {0: [1, 2], 1: [3, 1]})

    reply = await grown.call(grow(GrowthRequest("t", 12)))

    assert reply.outcomes["t"] == TopicOutcome(partitions=frozenset(range(2, 12)))
    assert grown.state("t", 1) == (3, 0, [3, 1], 0)
    now = grown.clock.monotonic()
    assert grown.c.configs.quotas.quota_for("alice", "app", Mutation.CREATE_PARTITIONS, 3, now).take(0, 0.0)


async def test_growth_that_keeps_losing_the_race_is_refused(grown: World) -> None:
    node = grown.tree.nodes[TOPIC].data or b""
    for number in range(1, 20):
        grown.zk.before_transaction[number] = lambda: grown.tree.put(TOPIC, node)

    reply = await grown.call(grow(GrowthRequest("t", 2)))

    text = "Somebody else keeps changing the topic."
    assert refusals(reply) == {"t": Refusal(KafkaError.UNKNOWN_SERVER_ERROR, text)}


async def test_unknown_fields_of_a_topic_survive_its_growth(grown: World) -> None:
    grown.tree.put(TOPIC, json.dumps({**content(grown, TOPIC), "owner": "alice"}).encode())
    await grown.settle()

    await grown.call(grow(GrowthRequest("t", 2)))

    assert content(grown, TOPIC)["owner"] == "alice"


async def test_growth_beyond_the_quota_is_refused(grown: World) -> None:
    grown.c.configs.quotas.set_rate(QuotaEntity("alice", None), 1.0)
    await grown.call(grow(GrowthRequest("t", 20)))

    assert refusals(await grown.call(grow(GrowthRequest("t", 21)))) == {"t": THROTTLED}


# -- the limit of one request ------------------------------------------------------------------------------------------


async def test_topics_beyond_the_partition_limit_of_a_request_are_refused(world: World) -> None:
    requests = (TopicRequest("a", MAX_PARTITIONS, 1), TopicRequest("b", MAX_PARTITIONS, 1), TopicRequest("c", 1, 1))

    reply = await world.call(create(*requests, validate_only=True))

    assert refusals(reply) == {"a": None, "b": None, "c": TOO_MANY_AT_ONCE}


async def test_growth_beyond_the_partition_limit_of_a_request_is_refused(grown: World) -> None:
    await grown.call(create(TopicRequest("u", 1, 1), TopicRequest("v", 1, 1)))

    requests = (
        GrowthRequest("t", MAX_PARTITIONS),
        GrowthRequest("u", MAX_PARTITIONS),
        GrowthRequest("v", MAX_PARTITIONS),
    )
    reply = await grown.call(grow(*requests, GrowthRequest("w", 2), validate_only=True))

    assert refusals(reply) == {"t": None, "u": None, "v": None, "w": TOO_MANY_AT_ONCE}


@pytest.mark.parametrize("name", ["t/partitions/0/state", "t/partitions", "t/", "", "..", "\x00"])
async def test_an_invalid_topic_name_is_not_looked_up(grown: World, name: str) -> None:
    reply = await grown.call(grow(GrowthRequest(name, 5)))

    text = f"The topic '{name}' does not exist."
    assert refusals(reply) == {name: Refusal(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, text)}
    assert not grown.audit.of(RejectedRecord)


async def test_a_topic_in_quarantine_does_not_keep_others_from_growing(grown: World) -> None:
    twin = grown.tree.nodes[TOPIC].data
    grown.tree.put("/brokers/topics/younger", twin)  # with the same topic id
    await grown.settle()
    assert "/brokers/topics/younger" in grown.context.quarantine

    reply = await grown.call(grow(GrowthRequest("younger", 3), GrowthRequest("t", 3)))

    assert refusals(reply) == {
        "younger": Refusal(KafkaError.UNKNOWN_SERVER_ERROR, "The topic 'younger' is in quarantine."),
        "t": None,
    }
    assert grown.tree.nodes["/brokers/topics/younger"].data == twin
