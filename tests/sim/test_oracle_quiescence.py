"""What is wrong at the end of a story trips its rule and no other; a story that ended well trips none."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from tests.sim import oracle_admin_rest, oracle_questions, oracle_registration, oracle_settings, oracle_tokens
from tests.sim.oracle import OF_STORIES, RULES, AtRest, BrokerAtRest, CachedPartition, InstanceAtRest, judge_quiescence
from tests.sim.oracle_samples import A_NODE, B_NODE, CACHED, STATE, TOOL_SESSION, Tale, create, set_, state
from tests.sim.test_oracle import WRONG, leads_anew, with_topic
from tests.sim.test_oracle_admin import WRONG as WRONG_REQUESTS
from tests.sim.test_oracle_calls import WRONG as WRONG_CALLS
from tests.sim.test_oracle_calls import outlived


def at_rest(tale: Tale) -> AtRest:
    """Everybody is as it should be after the beginning."""
    brokers = [
        BrokerAtRest(broker, A_NODE, [1, 2, 3, A_NODE], {("t", 0): CACHED}, {("t", 0): CACHED}) for broker in (1, 2, 3)
    ]
    instances = [InstanceAtRest("a", A_NODE, True, 1), InstanceAtRest("b", B_NODE, False, 0)]
    return AtRest(tale.time, instances, brokers, {"call 1": 1})


def with_broker(**fields: Any) -> Callable[[AtRest], AtRest]:
    """Broker 1 is in another state."""
    return lambda end: replace(end, brokers=[replace(end.brokers[0], **fields), *end.brokers[1:]])


def with_leader(**fields: Any) -> Callable[[AtRest], AtRest]:
    """The active instance is in another state."""
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
def test_what_is_wrong_at_the_end_trips_its_rule_and_only_it(rule: str, wrong: Callable[[AtRest], AtRest]) -> None:
    tale = Tale()
    end = wrong(at_rest(tale))
    assert {found.id for found in judge_quiescence(tale.zookeeper, end)} == {rule}


def at_end(*brokers: int, shown: CachedPartition) -> Callable[[Tale], AtRest]:
    """These brokers run and agree about the partition."""

    def end(tale: Tale) -> AtRest:
        known = {("t", 0): shown}
        rest = [BrokerAtRest(broker, A_NODE, [*brokers, A_NODE], known, known) for broker in brokers]
        return replace(at_rest(tale), brokers=rest)

    return end


def test_a_partition_without_leader_though_somebody_could_lead_is_found() -> None:
    tale = Tale()
    tale.die(1)
    tale.fenced(set_(STATE, state(-1, 1, [2, 3]), 0))
    end = at_end(2, 3, shown=CachedPartition(-1, 1, (2, 3), 1))(tale)
    assert [found.id for found in judge_quiescence(tale.zookeeper, end)] == ["Q-02"]


def test_a_partition_that_was_never_started_is_found() -> None:
    tale = Tale()
    with_topic({0: [1, 2]}, lambda _tale: None)(tale)
    assert [found.id for found in judge_quiescence(tale.zookeeper, at_rest(tale))] == ["Q-03"]


def test_a_partition_that_names_an_instance_is_found_when_there_is_a_broker_in_its_place() -> None:
    tale = Tale()
    with_topic({0: [1, A_NODE]}, lambda _tale: None)(tale)
    assert [found.id for found in judge_quiescence(tale.zookeeper, at_rest(tale))] == ["Q-03"]


def test_a_partition_that_was_started_on_an_instance_alone_is_found_while_brokers_live() -> None:
    tale = Tale()
    started = create("/brokers/topics/u/partitions/0/state", state(A_NODE, 0, [A_NODE]))
    with_topic({0: [A_NODE]}, lambda tale: tale.write(TOOL_SESSION, started))(tale)
    assert "Q-02" in {found.id for found in judge_quiescence(tale.zookeeper, at_rest(tale))}


def test_a_partition_without_live_replica_cannot_be_placed() -> None:
    tale = Tale()
    with_topic({0: [4], 1: [1, 2, A_NODE, B_NODE]}, lambda _tale: None)(tale)
    assert judge_quiescence(tale.zookeeper, at_rest(tale)) == []


def test_a_dead_broker_that_stays_in_an_isr_is_found() -> None:
    tale = Tale()
    tale.die(3)
    end = at_end(1, 2, shown=CACHED)(tale)
    assert [found.id for found in judge_quiescence(tale.zookeeper, end)] == ["Q-14"]


def test_the_last_member_of_an_isr_stays_in_it_though_it_is_dead() -> None:
    tale = Tale()
    tale.die(2)
    tale.die(3)
    tale.fenced(set_(STATE, state(1, 1, [1]), 0))
    tale.die(1)
    tale.fenced(set_(STATE, state(-1, 2, [1]), 1))
    assert judge_quiescence(tale.zookeeper, at_end(shown=CACHED)(tale)) == []


def test_a_replica_that_never_comes_back_into_the_isr_is_found() -> None:
    tale = Tale()
    leads_anew(tale)
    tale.register(3)
    end = at_end(1, 2, 3, shown=CachedPartition(1, 1, (1, 2), 1))(tale)
    assert judge_quiescence(tale.zookeeper, end) == []
    assert [found.id for found in judge_quiescence(tale.zookeeper, end, isr_is_full=True)] == ["Q-12"]


def test_a_configuration_that_outlives_its_topic_is_found() -> None:
    tale = Tale()
    outlived(tale)
    assert [found.id for found in judge_quiescence(tale.zookeeper, at_rest(tale))] == ["Q-24"]


ELSEWHERE: Final = {"Q-02", "Q-03", "Q-12", "Q-14", "Q-24"}
"""Rules that are tripped by what is in ZooKeeper at the end: the tests above."""


def test_every_rule_can_be_tripped() -> None:
    tripped = {rule for rule, _ in (*WRONG, *UNRESTED, *WRONG_REQUESTS, *WRONG_CALLS)} | ELSEWHERE
    # Modules of these names trip the others (test_oracle_admin_rest.py builds on this one).
    apart = (oracle_admin_rest, oracle_questions, oracle_registration, oracle_settings, oracle_tokens)
    others = OF_STORIES.keys() | {"Q-25", "Q-26"} | {rule for part in apart for rule in part.RULES}
    assert tripped | others == RULES.keys()


def test_a_state_at_rest_trips_nothing() -> None:
    tale = Tale()
    assert tale.oracle.at_rest(at_rest(tale), isr_is_full=True) == []
