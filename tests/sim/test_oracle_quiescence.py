"""A violation at the end of a story trips its rule and no other; a story that ended well trips none."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from tests.sim import oracle_admin_rest, oracle_alter_partition, oracle_registration, oracle_settings, oracle_tokens
from tests.sim.oracle import OF_STORIES, RULES, AtRest, BrokerAtRest, CachedPartition, InstanceAtRest, judge_quiescence
from tests.sim.oracle_samples import A_NODE, B_NODE, CACHED, STATE, TOOL_SESSION, SampleHistory, create, set_, state
from tests.sim.oracle_seen import state_path
from tests.sim.test_oracle import WRONG, leads_anew, with_topic
from tests.sim.test_oracle_admin import WRONG as WRONG_REQUESTS
from tests.sim.test_oracle_calls import WRONG as WRONG_CALLS
from tests.sim.test_oracle_calls import outlived


def at_rest(sample: SampleHistory) -> AtRest:
    """The cluster as it should be after the beginning."""
    brokers = [
        BrokerAtRest(broker, A_NODE, [1, 2, 3, A_NODE], {("t", 0): CACHED}, {("t", 0): CACHED}) for broker in (1, 2, 3)
    ]
    instances = [InstanceAtRest("a", A_NODE, True, 1), InstanceAtRest("b", B_NODE, False, 0)]
    return AtRest(sample.time, instances, brokers, {"call 1": 1})


def test_the_path_of_a_state_znode_is_that_of_zookeeper() -> None:
    assert state_path(("t", 0)) == STATE == "/brokers/topics/t/partitions/0/state"


def with_broker(**fields: Any) -> Callable[[AtRest], AtRest]:
    """Give broker 1 another state."""
    return lambda end: replace(end, brokers=[replace(end.brokers[0], **fields), *end.brokers[1:]])


def with_leader(**fields: Any) -> Callable[[AtRest], AtRest]:
    """Give the active instance another state."""
    return lambda end: replace(end, instances=[replace(end.instances[0], **fields), *end.instances[1:]])


UNRESTED: Final[list[tuple[str, Callable[[AtRest], AtRest]]]] = [
    ("Q-01", with_leader(is_active=False)),
    ("Q-01", with_leader(controller_epoch=2)),
    ("Q-01", lambda end: replace(end, instances=[end.instances[0], replace(end.instances[1], is_active=True)])),
    ("Q-04", with_broker(metadata={})),
    ("Q-04", with_broker(metadata={("t", 0): CACHED._replace(partition_epoch=1)})),
    ("Q-04", with_broker(metadata={("t", 0): CACHED, ("x", 0): CACHED})),
    ("Q-05", with_broker(live_brokers=[1, 2, A_NODE])),
    ("Q-05", with_broker(live_brokers=[1, 2, 3])),
    ("Q-05", with_broker(live_brokers=[1, 2, 3, A_NODE, B_NODE])),
    ("Q-06", with_broker(controller_id=B_NODE)),
    ("Q-07", with_broker(replicas={})),
    ("Q-07", with_broker(replicas={("t", 0): CACHED._replace(leader_epoch=1)})),
    ("Q-07", with_broker(replicas={("t", 0): CACHED._replace(partition_epoch=1)})),
    ("Q-08", with_leader(log_differences=["the log differs"])),
    ("Q-09", with_leader(queued_events=1)),
    ("Q-09", with_leader(pending_requests=1)),
    ("Q-10", lambda end: replace(end, answers={"call 1": 0})),
    ("Q-10", lambda end: replace(end, answers={"call 1": 2})),
    ("Q-11", with_leader(context_differences=["the context differs"])),
    ("Q-13", lambda end: replace(end, lost_records=["t-0 lost 7"])),
    ("Q-15", with_broker(stuck=[("t", 0)])),
]


@pytest.mark.parametrize(("rule", "wrong"), UNRESTED)
def test_a_wrong_end_trips_its_rule_and_only_it(rule: str, wrong: Callable[[AtRest], AtRest]) -> None:
    sample = SampleHistory()
    end = wrong(at_rest(sample))
    assert {found.id for found in judge_quiescence(sample.zookeeper, end)} == {rule}


def at_end(*brokers: int, shown: CachedPartition) -> Callable[[SampleHistory], AtRest]:
    """Let these brokers run and agree about the partition."""

    def end(sample: SampleHistory) -> AtRest:
        known = {("t", 0): shown}
        rest = [BrokerAtRest(broker, A_NODE, [*brokers, A_NODE], known, known) for broker in brokers]
        return replace(at_rest(sample), brokers=rest)

    return end


def test_a_partition_without_leader_though_a_replica_could_lead_is_found() -> None:
    sample = SampleHistory()
    sample.die(1)
    sample.fenced(set_(STATE, state(-1, 1, [2, 3]), 0))
    end = at_end(2, 3, shown=CachedPartition(-1, 1, (2, 3), 1))(sample)
    assert [found.id for found in judge_quiescence(sample.zookeeper, end)] == ["Q-02"]


def test_a_partition_that_was_never_started_is_found() -> None:
    sample = SampleHistory()
    with_topic({0: [1, 2]}, lambda _tale: None)(sample)
    assert [found.id for found in judge_quiescence(sample.zookeeper, at_rest(sample))] == ["Q-03"]


def test_a_partition_that_names_an_instance_is_found_when_there_is_a_broker_in_its_place() -> None:
    sample = SampleHistory()
    with_topic({0: [1, A_NODE]}, lambda _tale: None)(sample)
    assert [found.id for found in judge_quiescence(sample.zookeeper, at_rest(sample))] == ["Q-03"]


def test_a_partition_that_was_started_on_an_instance_alone_is_found_while_brokers_live() -> None:
    sample = SampleHistory()
    started = create("/brokers/topics/u/partitions/0/state", state(A_NODE, 0, [A_NODE]))
    with_topic({0: [A_NODE]}, lambda sample: sample.write(TOOL_SESSION, started))(sample)
    assert "Q-02" in {found.id for found in judge_quiescence(sample.zookeeper, at_rest(sample))}


def test_a_partition_without_live_replica_cannot_be_placed() -> None:
    sample = SampleHistory()
    with_topic({0: [4], 1: [1, 2, A_NODE, B_NODE]}, lambda _tale: None)(sample)
    assert judge_quiescence(sample.zookeeper, at_rest(sample)) == []


def test_a_dead_broker_that_stays_in_an_isr_is_found() -> None:
    sample = SampleHistory()
    sample.die(3)
    end = at_end(1, 2, shown=CACHED)(sample)
    assert [found.id for found in judge_quiescence(sample.zookeeper, end)] == ["Q-14"]


def test_the_last_member_of_an_isr_stays_in_it_though_it_is_dead() -> None:
    sample = SampleHistory()
    sample.die(2)
    sample.die(3)
    sample.fenced(set_(STATE, state(1, 1, [1]), 0))
    sample.die(1)
    sample.fenced(set_(STATE, state(-1, 2, [1]), 1))
    assert judge_quiescence(sample.zookeeper, at_end(shown=CACHED)(sample)) == []


def test_a_replica_that_never_comes_back_into_the_isr_is_found() -> None:
    sample = SampleHistory()
    leads_anew(sample)
    sample.register(3)
    end = at_end(1, 2, 3, shown=CachedPartition(1, 1, (1, 2), 1))(sample)
    assert judge_quiescence(sample.zookeeper, end) == []
    assert [found.id for found in judge_quiescence(sample.zookeeper, end, isr_is_full=True)] == ["Q-12"]


def test_a_configuration_that_outlives_its_topic_is_found() -> None:
    sample = SampleHistory()
    outlived(sample)
    assert [found.id for found in judge_quiescence(sample.zookeeper, at_rest(sample))] == ["Q-24"]


ELSEWHERE: Final = {"Q-02", "Q-03", "Q-12", "Q-14", "Q-24"}
"""Rules that depend on ZooKeeper at the end: the tests above trip them."""


def test_every_rule_can_be_tripped() -> None:
    tripped = {rule for rule, _ in (*WRONG, *UNRESTED, *WRONG_REQUESTS, *WRONG_CALLS)} | ELSEWHERE
    # The modules of these names trip the other rules (test_oracle_admin_rest.py builds on this one).
    apart = (oracle_admin_rest, oracle_alter_partition, oracle_registration, oracle_settings, oracle_tokens)
    others = OF_STORIES.keys() | {"Q-25", "Q-26"} | {rule for part in apart for rule in part.RULES}
    assert tripped | others == RULES.keys()


def test_a_state_at_rest_trips_nothing() -> None:
    sample = SampleHistory()
    assert sample.oracle.at_rest(at_rest(sample), isr_is_full=True) == []
