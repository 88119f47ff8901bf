"""A controller follows broker settings that change while it is active or standby, or refuses to lead."""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from controllerd.core.broker_answers import SettingsAnswer
from controllerd.core.cluster_settings import (
    DELETE_TOPICS,
    MUST_BE_ABSENT,
    NAMES,
    PROTOCOL_VERSION,
    UNCLEAN,
    understood,
)
from controllerd.core.model import BrokerId
from controllerd.core.settings_book import Configured, Remembered, SettingsBook
from controllerd.errors import RefusedToLead
from controllerd.record.families.operators import SettingsRecord
from controllerd.record.records import AlarmRecord, TermRecord
from controllerd.views import Role
from events.base import Event
from events.cluster import Takeover
from events.elections import AutoPreferredReplicaLeaderElection, ConfigChange
from events.responses import BrokerSettingsReceived
from tests.fakes.disagreements import COMMON, DISAGREEMENTS, Disagreement, title
from tests.fakes.world import World

OPERATIONS = (Path(__file__).parents[2] / "docs" / "operations.md").read_text("utf-8")
DOCUMENTED = re.findall(r"^\| `([^`]+)` \| .*\(#settings-of-the-cluster\)", OPERATIONS, re.MULTILINE)
"""The alarms that docs/operations.md lists with a link to the settings of the cluster."""
DEFAULTS = "/config/brokers/<default>"
NEWEST = {PROTOCOL_VERSION: "3.9-IV0"}


def news(world: World, changed: Mapping[int, Mapping[str, str]]) -> BrokerSettingsReceived:
    """Answers of these brokers with these settings, else Kafka's defaults; no other broker has a new answer."""
    prefix = "/brokers/ids/"
    nodes = {path.removeprefix(prefix): node for path, node in world.tree.nodes.items() if path.startswith(prefix)}
    registered = {BrokerId(int(name)): node.czxid for name, node in nodes.items()}
    answers = {
        BrokerId(broker): SettingsAnswer(
            registered[BrokerId(broker)], understood(dict.fromkeys(NAMES) | NEWEST | dict(values))
        )
        for broker, values in changed.items()
    }
    return BrokerSettingsReceived(answers, registered)


async def hear(world: World, **changed: Mapping[str, str]) -> None:
    """Queue the answers of brokers ``b1``, ``b2`` ... with these settings, and handle them."""
    world.queue.put(news(world, {int(name[1:]): values for name, values in changed.items()}))
    await world.settle()


def discovering(configured: Mapping[str, Configured] | None = None, settings: SettingsBook | None = None) -> World:
    """A cluster of two brokers whose settings are unknown, with a topic that has an id."""
    world = World(settings=settings or SettingsBook(configured))
    world.register(1)
    world.register(2)
    world.put_topic("orders", {0: [1, 2]})
    return world


async def led() -> World:
    """Both brokers have answered with Kafka's defaults of 3.9 before the election."""
    world = discovering()
    await hear(world, b1={}, b2={})
    return await world.start()


async def set_default(world: World, config: Mapping[str, str]) -> None:
    """Replace the dynamic default of all brokers."""
    world.tree.put(DEFAULTS, json.dumps({"version": 1, "config": dict(config)}).encode())
    change = {"version": 2, "entity_path": "brokers/<default>"}
    world.tree.put("/config/changes/config_change_0000000001", json.dumps(change).encode())
    world.queue.put(ConfigChange())
    await world.settle()


def alarms(world: World) -> list[str]:
    """The alarms that operators got."""
    return [f"{each.what}: {each.detail}" for each in world.audit.records if isinstance(each, AlarmRecord)]


def terms(world: World) -> list[str]:
    """The changes of the role that the audit log has."""
    return [each.change for each in world.audit.records if isinstance(each, TermRecord)]


def delayed_events(world: World) -> list[Event]:
    """The events that are delayed."""
    return [event for _, event in world.timers.later]


async def test_settings_that_brokers_answered_before_the_election_hold_from_its_first_moment() -> None:
    world = discovering()
    await hear(world, b1={"default.replication.factor": "2"}, b2={"default.replication.factor": "2"})

    await world.start()

    assert world.c.policy.default_replication_factor == 2
    assert world.context.features.leader_recovery
    assert terms(world) == ["elected"]


async def test_a_changed_setting_is_used_at_once_and_recorded_once() -> None:
    world = await led()
    world.forget()

    await hear(world, b1={"num.partitions": "4"}, b2={"num.partitions": "4"})

    (record,) = [each for each in world.audit.records if isinstance(each, SettingsRecord)]
    assert (record.settings, record.befores, record.values, record.sources) == (
        ["num.partitions"], ["1"], ["4"], ["brokers"],
    )  # fmt: skip
    assert world.c.policy.num_partitions == 4
    assert terms(world) == []


async def test_a_disagreement_is_an_alarm_once_and_ends_by_itself() -> None:
    world = await led()
    world.forget()

    await hear(world, b2={DELETE_TOPICS: "false"})
    await hear(world, b1={"num.partitions": "1"}, b2={DELETE_TOPICS: "false"})
    assert alarms(world) == [
        "settings of brokers differ: delete.topic.enable: false is used as the safer value, but broker 1 says true"
    ]
    await hear(world, b2={})

    assert world.c.settings.current.problems == {}
    assert world.c.policy.delete_topic_enable


@pytest.mark.parametrize("case", DISAGREEMENTS, ids=title)
async def test_a_setting_in_which_one_broker_differs_raises_the_documented_alarm(case: Disagreement) -> None:
    world = World(settings=SettingsBook())
    for broker in (1, 2, 3):
        world.register(broker)
    await world.start()
    agreed, other = COMMON | {case.name: case.agreed}, COMMON | {case.name: case.other}

    await hear(world, b1=agreed, b2=agreed, b3=other)

    (documented,) = DOCUMENTED
    assert alarms(world) == [f"{documented}: {case.problem}"]
    assert world.c.settings.current.values[case.name] == case.used


async def test_the_rise_of_the_protocol_version_is_one_event_and_one_new_term_that_gives_ids_to_topics() -> None:
    world = discovering()
    world.put_topic("old", {0: [1]}, topic_id=None)
    world.tree.remove("/brokers/topics/orders")
    await hear(world, b1={PROTOCOL_VERSION: "2.7"}, b2={PROTOCOL_VERSION: "2.7"})
    await world.start()
    assert world.context.topic_id("old") is None
    world.forget()

    await hear(world, b1={PROTOCOL_VERSION: "3.9"})
    assert (terms(world), world.context.topic_id("old")) == ([], None)
    await hear(world, b2={PROTOCOL_VERSION: "3.9"})

    assert terms(world) == ["ended", "renewed"]
    assert world.context.topic_id("old") is not None
    assert world.context.features.leader_recovery
    assert world.snapshot.role is Role.ACTIVE


async def test_the_protocol_version_does_not_fall_when_a_broker_comes_back_with_a_lower_one() -> None:
    world = await led()
    world.forget()

    await hear(world, b2={PROTOCOL_VERSION: "2.7"})

    assert world.context.features.topic_ids
    assert terms(world) == []
    (alarm,) = alarms(world)
    assert "never falls by itself" in alarm


async def test_without_any_answer_the_first_term_enables_no_feature_that_brokers_may_not_know() -> None:
    world = discovering()
    world.put_topic("old", {0: [1]}, topic_id=None)

    await world.start()

    assert world.context.features.topic_ids, "a topic has an id, so a controller had the version for it"
    assert not world.context.features.leader_recovery
    assert "/feature" not in world.tree.nodes
    assert AutoPreferredReplicaLeaderElection() not in delayed_events(world)


async def test_a_cluster_without_topic_ids_gets_none_before_brokers_have_answered_that_they_know_them() -> None:
    world = discovering()
    world.tree.remove("/brokers/topics/orders")
    world.put_topic("old", {0: [1]}, topic_id=None)

    await world.start()
    assert world.context.topic_id("old") is None
    await hear(world, b1={}, b2={})

    assert world.context.topic_id("old") is not None


async def test_a_kept_version_that_is_older_than_the_features_in_zookeeper_turns_no_feature_off() -> None:
    """An instance that was down while the cluster was upgraded takes over, and no broker answers."""
    book = SettingsBook()
    values = understood(dict.fromkeys(NAMES) | {PROTOCOL_VERSION: "2.6-IV0"})
    book.recall(Remembered({BrokerId(1): SettingsAnswer(7, values)}, "2.6-IV0"))
    world = discovering(settings=book)
    features = b'{"version":2,"status":1,"features":{}}'
    world.tree.put("/feature", features)

    await world.start()

    assert world.tree.nodes["/feature"].data == features
    assert world.context.features.feature_versioning
    assert world.context.features.topic_ids, "a topic has an id: an earlier controller had the version for it"
    await hear(world, b1={}, b2={})
    assert world.context.features.leader_recovery


FEATURES = b'{"version":2,"status":1,"features":{"f":{"min_version_level":1,"max_version_level":3}}}'


def keeps_features_in_use(world: World) -> bool:
    """Whether ``/feature`` is unchanged, and the features that ZooKeeper proves to be in use still are."""
    features = world.context.features
    return world.tree.nodes["/feature"].data == FEATURES and features.topic_ids and features.feature_versioning


async def test_a_kept_version_turns_no_feature_off_when_only_one_of_two_brokers_has_answered() -> None:
    book = SettingsBook()
    values = understood(dict.fromkeys(NAMES) | {PROTOCOL_VERSION: "2.6-IV0"})
    book.recall(Remembered({BrokerId(1): SettingsAnswer(7, values), BrokerId(2): SettingsAnswer(8, values)}, "2.6-IV0"))
    world = discovering(settings=book)
    world.tree.put("/feature", FEATURES)
    await hear(world, b2={})

    await world.start()

    assert keeps_features_in_use(world)


async def test_answers_of_brokers_from_before_their_upgrade_turn_no_feature_off() -> None:
    """A broker's own controller led meanwhile, and wrote what the higher version demands."""
    world = discovering()
    await hear(world, b1={PROTOCOL_VERSION: "2.6-IV0"}, b2={PROTOCOL_VERSION: "2.6-IV0"})
    world.bounce(2)
    await hear(world, b2={})
    world.bounce(1)
    world.tree.put("/feature", FEATURES)
    await hear(world)

    await world.start()

    assert keeps_features_in_use(world)


async def test_a_broker_with_a_wrong_version_turns_no_feature_off_though_all_have_answered() -> None:
    world = discovering()
    world.tree.put("/feature", FEATURES)
    await hear(world, b1={}, b2={PROTOCOL_VERSION: "2.6-IV0"})

    await world.start()

    assert keeps_features_in_use(world)
    world.bounce(2)
    await hear(world, b1={}, b2={})
    assert b'"f"' in (world.tree.nodes["/feature"].data or b"")


async def test_a_rise_of_the_protocol_version_that_zookeeper_proves_is_recorded() -> None:
    book = SettingsBook()
    values = understood(dict.fromkeys(NAMES) | {PROTOCOL_VERSION: "2.6-IV0"})
    book.recall(Remembered({BrokerId(1): SettingsAnswer(7, values)}, "2.6-IV0"))
    world = discovering(settings=book)
    world.tree.put("/feature", FEATURES)

    await world.start()

    records = [each for each in world.audit.records if isinstance(each, SettingsRecord)]
    written = [(each.befores, each.values) for each in records if each.settings == [PROTOCOL_VERSION]]
    assert written[0][0] == ["2.6-IV0"]
    assert written[-1][1] == [book.current.values[PROTOCOL_VERSION]]


async def test_deletion_requests_wait_until_a_broker_has_answered_whether_topics_may_be_deleted() -> None:
    world = discovering()
    world.tree.put("/admin/delete_topics")
    world.tree.put("/admin/delete_topics/orders", b"")

    await world.start()
    assert "/admin/delete_topics/orders" in world.tree.nodes
    assert not world.context.queued_for_deletion
    await hear(world, b1={}, b2={})

    assert world.context.queued_for_deletion == {"orders"}


async def test_a_deletion_that_has_begun_keeps_its_request_when_a_broker_turns_deletions_off() -> None:
    """The deletion goes on in this term. The next term drops it, as the built-in controller does."""
    world = await led()
    world.tree.put("/admin/delete_topics")
    world.die(2)
    await world.settle()
    world.tree.put("/admin/delete_topics/orders", b"")
    await world.settle()
    assert "orders" in world.context.deletions.started

    await hear(world, b1={DELETE_TOPICS: "false"})
    world.put_topic("other", {0: [1]})
    world.tree.put("/admin/delete_topics/other", b"")
    await world.settle()

    assert "/admin/delete_topics/orders" in world.tree.nodes
    assert "/admin/delete_topics/other" not in world.tree.nodes


async def test_the_rebalance_begins_when_brokers_turn_it_on_and_ends_when_one_turns_it_off() -> None:
    world = discovering()
    off = {"auto.leader.rebalance.enable": "false"}
    await hear(world, b1=off, b2=off)
    await world.start()
    assert AutoPreferredReplicaLeaderElection() not in delayed_events(world)

    await hear(world, b1={}, b2={})
    assert AutoPreferredReplicaLeaderElection() in delayed_events(world)
    await hear(world, b1=off)
    world.timers.clear()
    world.queue.put(AutoPreferredReplicaLeaderElection())
    await world.settle()

    assert AutoPreferredReplicaLeaderElection() not in delayed_events(world)


@pytest.mark.parametrize("name", MUST_BE_ABSENT)
async def test_a_cluster_with_rules_that_controllerd_would_bypass_is_not_led(name: str) -> None:
    world = discovering()
    await hear(world, b1={}, b2={name: "org.example.Rules"})

    await world.start()

    assert terms(world) == []
    assert world.snapshot.reason == f"{name} (broker 2): {MUST_BE_ABSENT[name]}"
    with pytest.raises(RefusedToLead):
        await world.call(Takeover("an operator"))


async def test_the_role_is_given_up_when_a_broker_comes_with_an_authorizer() -> None:
    world = await led()
    world.forget()

    await hear(world, b2={"authorizer.class.name": "org.example.Acls"})

    assert set(terms(world)) == {"resigned"}
    assert "/controller" not in world.tree.nodes
    assert "authorizer.class.name (broker 2)" in world.snapshot.reason
    await hear(world, b2={})
    assert world.snapshot.role is Role.ACTIVE


async def test_the_role_is_not_taken_again_while_the_broker_with_the_authorizer_restarts() -> None:
    """The ACLs of the broker are in force as soon as it is back, and its peers may have them already."""
    world = await led()
    await hear(world, b2={"authorizer.class.name": "org.example.Acls"})
    world.forget()

    world.die(2)
    await hear(world)

    assert terms(world) == []
    assert (world.c.settings.current.refusal or "").startswith("authorizer.class.name (broker 2, by its last answer)")
    world.register(2)
    await hear(world, b2={})
    assert terms(world) == ["elected"]


async def test_the_answer_of_a_broker_that_bounced_since_it_was_asked_is_ignored() -> None:
    world = await led()
    event = news(world, {2: {DELETE_TOPICS: "false"}})
    world.bounce(2)
    await world.settle()

    world.queue.put(event)
    await world.settle()

    assert world.c.settings.current.settings[DELETE_TOPICS].brokers[BrokerId(2)] == "false"


async def test_unclean_elections_that_brokers_allow_bring_partitions_online() -> None:
    world = discovering()
    await hear(world, b1={}, b2={UNCLEAN: "true"})
    await world.start()
    world.die(1)
    world.die(2)
    await world.settle()
    world.register(1)
    await world.settle()
    assert world.state("orders")[0] == -1

    await hear(world, b1={"unclean.leader.election.enable": "true"})

    assert world.state("orders")[0] == 1


async def test_the_failure_of_the_broker_that_forbids_unclean_elections_starts_none() -> None:
    """Broker 2 is the only ISR member when it fails: the records that only it has would be lost."""
    world = discovering()
    await hear(world, b1={UNCLEAN: "true"}, b2={UNCLEAN: "false"})
    await world.start()
    world.die(1)
    await world.settle()
    world.register(1)
    await world.settle()
    await hear(world, b1={UNCLEAN: "true"})
    world.die(2)
    await world.settle()

    await hear(world)

    assert world.state("orders")[0] == -1
    assert world.c.settings.current.problems == {
        UNCLEAN: f"{UNCLEAN}: false is used as the last answer of broker 2, now gone (configure "
        "kafka.unclean_leader_election_enable to decide it), but broker 1 says true"
    }

    world.register(2)
    await hear(world, b2={UNCLEAN: "true"})

    assert world.c.configs.topics.unclean_by_default()


def under_default(world: World, *, hidden: str, brokers: Collection[int] = (1, 2)) -> BrokerSettingsReceived:
    """Answers of brokers on which the dynamic default turns unclean elections on and hides this value."""
    received = news(world, {broker: {UNCLEAN: "true"} for broker in brokers})
    return replace(
        received, answers={b: answer._replace(hidden={UNCLEAN: hidden}) for b, answer in received.answers.items()}
    )


def with_own(world: World, own: Mapping[int, str], others: Mapping[int, str]) -> BrokerSettingsReceived:
    """Answers of brokers, of which some have a dynamic configuration of their own (``--entity-name``)."""
    received = news(world, {broker: {UNCLEAN: value} for broker, value in {**own, **others}.items()})
    mark = frozenset({UNCLEAN})
    answers = {b: answer._replace(of_broker=mark) if b in own else answer for b, answer in received.answers.items()}
    return replace(received, answers=answers)


def put_default(world: World, value: str) -> None:
    """Set the dynamic default of all brokers before the election."""
    world.tree.put(DEFAULTS, json.dumps({"version": 1, "config": {UNCLEAN: value}}).encode())


async def test_unclean_elections_end_with_the_dynamic_default_before_any_broker_has_answered_again() -> None:
    world = discovering()
    put_default(world, "true")
    world.queue.put(under_default(world, hidden="false"))
    await world.start()
    assert world.c.configs.topics.unclean_by_default()

    await set_default(world, {})

    assert not world.c.configs.topics.unclean_by_default()


async def test_unclean_elections_that_files_turn_on_outlive_the_dynamic_default() -> None:
    world = discovering()
    put_default(world, "true")
    world.queue.put(under_default(world, hidden="true"))
    await world.start()

    await set_default(world, {})

    assert world.c.configs.topics.unclean_by_default()


async def test_the_dynamic_default_counts_although_a_broker_that_is_gone_had_unclean_elections_off() -> None:
    """An operator sets it to end an outage, and the broker that is gone may never return."""
    world = discovering()
    await hear(world, b1={UNCLEAN: "false"}, b2={UNCLEAN: "false"})
    await world.start()
    world.die(2)
    await world.settle()
    await hear(world, b1={UNCLEAN: "true"})

    await set_default(world, {UNCLEAN: "true"})

    assert world.c.configs.topics.unclean_by_default()


async def test_the_file_of_a_broker_that_is_gone_counts_again_when_the_dynamic_default_is_deleted() -> None:
    world = discovering()
    put_default(world, "true")
    world.queue.put(under_default(world, hidden="false", brokers=[2]))
    world.queue.put(under_default(world, hidden="true", brokers=[1]))
    await world.start()
    world.die(2)
    await world.settle()
    world.queue.put(under_default(world, hidden="true", brokers=[1]))
    await world.settle()
    assert world.c.configs.topics.unclean_by_default()
    assert world.c.settings.current.problems == {}

    await set_default(world, {})
    await hear(world, b1={UNCLEAN: "true"})

    assert not world.c.configs.topics.unclean_by_default()


@pytest.mark.parametrize(("own", "others"), [({1: "false"}, {2: "true"}), ({1: "false", 2: "false"}, {})])
async def test_the_dynamic_default_does_not_override_the_configuration_of_a_single_broker(
    own: Mapping[int, str], others: Mapping[int, str]
) -> None:
    """``kafka-configs --entity-name 1`` beats ``--entity-default`` (DynamicBrokerConfig)."""
    world = discovering()
    put_default(world, "true")
    world.queue.put(with_own(world, own, others))
    await world.start()

    assert not world.c.configs.topics.unclean_by_default()


async def test_the_dynamic_default_does_not_override_the_configuration_of_a_single_broker_that_fails() -> None:
    world = discovering()
    put_default(world, "true")
    world.queue.put(with_own(world, {2: "false"}, {1: "true"}))
    await world.start()
    world.die(2)
    await world.settle()

    world.queue.put(under_default(world, hidden="false", brokers=[1]))
    await world.settle()

    assert not world.c.configs.topics.unclean_by_default()


async def test_the_dynamic_default_turns_unclean_elections_off_on_no_broker_with_its_own_configuration() -> None:
    world = discovering()
    put_default(world, "false")
    world.queue.put(with_own(world, {1: "true", 2: "true"}, {}))
    await world.start()

    assert world.c.configs.topics.unclean_by_default()


async def test_the_dynamic_default_counts_before_every_broker_was_asked_again() -> None:
    """An older answer only shows the value that was in force before the default was set."""
    world = discovering()
    put_default(world, "true")
    await hear(world, b1={UNCLEAN: "true"}, b2={UNCLEAN: "false"})
    await world.start()

    assert world.c.configs.topics.unclean_by_default()


@pytest.mark.parametrize("dynamic", [None, "true"])
async def test_no_unclean_leader_is_elected_while_a_live_broker_has_never_answered(dynamic: str | None) -> None:
    """Such a broker may forbid unclean elections in its file, or by a dynamic configuration of its own."""
    world = discovering()
    if dynamic is not None:
        put_default(world, dynamic)
    await hear(world, b1={UNCLEAN: "true"})
    await world.start()
    assert not world.c.configs.topics.unclean_by_default()

    await hear(world, b2={UNCLEAN: "true"})

    assert world.c.configs.topics.unclean_by_default()


async def test_the_dynamic_default_overrides_the_configuration_of_controllerd_without_an_alarm() -> None:
    """An alarm would say that the configured value is used."""
    world = discovering({UNCLEAN: Configured("false", "prod.toml")})
    put_default(world, "true")
    world.queue.put(under_default(world, hidden="false"))
    await world.start()

    assert world.c.configs.topics.unclean_by_default()
    assert world.c.settings.current.problems == {}


async def test_a_cluster_without_topics_takes_its_protocol_version_without_a_new_term() -> None:
    """A controller that starts together with its brokers would otherwise begin a term for each answer."""
    world = World(settings=SettingsBook())
    world.register(1)
    world.register(2)
    await world.start()

    await hear(world, b1={})
    await hear(world, b2={})

    assert terms(world) == ["elected"]
    assert json.loads(world.tree.nodes["/feature"].data or b"")["version"] == 2
    assert world.context.features.topic_ids
    assert any(isinstance(event, AutoPreferredReplicaLeaderElection) for event in delayed_events(world))

    world.put_topic("orders", {0: [1, 2]}, topic_id=None)
    await world.settle()

    assert world.context.topic_id("orders") is not None
