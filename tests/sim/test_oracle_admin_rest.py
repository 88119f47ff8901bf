"""Each leftover of a request at the end of a story trips its rule and no other; an allowed one trips none."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from tests.sim import oracle_admin_rest
from tests.sim.oracle import AtRest, BrokerAtRest, CachedPartition, judge_quiescence
from tests.sim.oracle_samples import A_NODE, STATE, TOPIC, SampleHistory, create, delete, document, set_, state, topic
from tests.sim.test_oracle_admin import (
    MARKED,
    MARKER,
    ONE_REPLICA,
    PENDING_DELETION,
    Step,
    by_tool,
    called,
    fenced,
    in_order,
    wants,
)
from tests.sim.test_oracle_quiescence import at_rest, with_broker, with_leader

End = Callable[[AtRest], AtRest]


def third(**fields: Any) -> End:
    """Give broker 3 another state."""
    return lambda end: replace(end, brokers=[*end.brokers[:2], replace(end.brokers[2], **fields)])


def as_it_is(end: AtRest) -> AtRest:
    return end


def shrinking(sample: SampleHistory) -> None:
    """Begin a move from [1, 2, 3] to [1, 2]."""
    lists = {"adding_replicas": {}, "removing_replicas": {"0": [3]}}
    in_order(called([1, 2]), fenced(set_(TOPIC, topic({0: [1, 2, 3]}, **lists), 0)))(sample)


def deleted(sample: SampleHistory) -> None:
    in_order(MARKED, fenced(delete(STATE)), fenced(delete(TOPIC)), fenced(delete(MARKER)))(sample)


UNDONE: Final[list[tuple[str, Step, End]]] = [
    ("Q-02", in_order(), with_broker(offline=[("t", 0)])),
    ("Q-04", deleted, lambda end: with_broker(replicas={})(second_and_third_know_nothing(end))),
    ("Q-07", deleted, lambda end: with_broker(metadata={})(second_and_third_know_nothing(end))),
    ("Q-16", shrinking, as_it_is),
    ("Q-17", wants([1, 2]), as_it_is),
    ("Q-17", wants([1, 2, 3]), as_it_is),
    ("Q-18", MARKED, as_it_is),
    ("Q-18", MARKED, with_broker(refused=[("t", 0)])),
    ("Q-18", by_tool(create("/admin/delete_topics/u")), as_it_is),
    ("Q-19", in_order(), third(logs=[("u", 0)])),
    ("Q-20", by_tool(create("/admin/preferred_replica_election")), as_it_is),
    ("Q-20", by_tool(create("/log_dir_event_notification/log_dir_event_0000000000")), as_it_is),
    ("Q-22", fenced(create(PENDING_DELETION, ONE_REPLICA)), as_it_is),
]


def second_and_third_know_nothing(end: AtRest) -> AtRest:
    rest = [replace(broker, metadata={}, replicas={}) for broker in end.brokers[1:]]
    return replace(end, brokers=[end.brokers[0], *rest])


@pytest.mark.parametrize(("rule", "before", "wrong"), UNDONE)
def test_a_leftover_at_the_end_trips_its_rule_and_only_it(rule: str, before: Step, wrong: End) -> None:
    sample = SampleHistory()
    before(sample)
    end = wrong(at_rest(sample))
    assert {found.id for found in judge_quiescence(sample.zookeeper, end)} == {rule}


def test_an_unassigned_broker_in_an_isr_is_found() -> None:
    sample = SampleHistory()
    in_order(called([1, 2]), by_tool(set_(TOPIC, topic({0: [1, 2]}), 0)))(sample)
    end = third(replicas={})(at_rest(sample))
    assert [found.id for found in judge_quiescence(sample.zookeeper, end)] == ["Q-21"]


def test_a_partition_with_an_eligible_replica_has_a_leader() -> None:
    sample = SampleHistory(unclean=True)
    sample.die(2)
    sample.die(3)
    sample.fenced(set_(STATE, state(-1, 1, [3]), 0))
    known = {("t", 0): CachedPartition(-1, 1, (3,), 1)}
    first = replace(at_rest(sample).brokers[0], live_brokers=[1, A_NODE], metadata=known)
    end = replace(at_rest(sample), brokers=[first])
    assert [found.id for found in judge_quiescence(sample.zookeeper, end)] == ["Q-23"]


def test_a_replica_that_is_being_added_need_not_be_elected() -> None:
    """A replica that is being added has no records: a reassignment is no request for an empty partition."""
    sample = SampleHistory(unclean=True)
    sample.fenced(set_(STATE, state(2, 1, [2]), 0))
    sample.die(2)
    lists = {"adding_replicas": {"0": [3]}, "removing_replicas": {}}
    called([2])(sample)
    sample.fenced(set_(TOPIC, topic({0: [2]}), 0))
    called([3, 2])(sample)
    sample.fenced(set_(TOPIC, topic({0: [3, 2]}, **lists), 1))
    sample.fenced(set_(STATE, state(-1, 2, [2]), 1))

    found = judge_quiescence(sample.zookeeper, at_rest(sample))

    assert "Q-23" not in {each.id for each in found}


def out_of_order(broker: BrokerAtRest) -> BrokerAtRest:
    """Fail the log directory of the broker's replica."""
    return replace(broker, offline=[("t", 0)])


MAY_BE: Final[list[tuple[Step, End]]] = [
    (deleted, lambda end: replace(end, brokers=[replace(each, metadata={}, replicas={}) for each in end.brokers])),
    (MARKED, lambda end: with_leader(halted={"t": "broker 1 refused"})(with_broker(refused=[("t", 0)])(end))),
    (fenced(create(PENDING_DELETION, ONE_REPLICA)), third(logs=[("u", 0)], refused=[("u", 0)])),
    (in_order(), third(logs=[("t", 0)])),
    (shrinking, lambda end: replace(end, brokers=[end.brokers[0], out_of_order(end.brokers[1]), end.brokers[2]])),
]


@pytest.mark.parametrize(("before", "so"), MAY_BE)
def test_an_allowed_leftover_trips_nothing(before: Step, so: End) -> None:
    sample = SampleHistory()
    before(sample)
    assert judge_quiescence(sample.zookeeper, so(at_rest(sample))) == []


def test_a_reassignment_that_waits_for_a_broker_may_stay() -> None:
    sample = SampleHistory()
    lists = {"adding_replicas": {"0": [4]}, "removing_replicas": {"0": [2, 3]}}
    in_order(wants([4, 1]), fenced(set_(TOPIC, topic({0: [4, 1, 2, 3]}, **lists), 0)))(sample)
    assert judge_quiescence(sample.zookeeper, at_rest(sample)) == []


def test_an_unreadable_request_is_left_to_its_writer() -> None:
    sample = SampleHistory()
    by_tool(create("/admin/reassign_partitions", document(version=1)))(sample)
    assert sample.zookeeper.history.asked.is_unreadable_request
    assert judge_quiescence(sample.zookeeper, at_rest(sample)) == []


ELSEWHERE: Final = {"Q-21", "Q-23"}
"""Rules that depend on ZooKeeper at the end: the tests above trip them."""


def test_every_rule_can_be_tripped() -> None:
    assert oracle_admin_rest.RULES.keys() <= {rule for rule, _, _ in UNDONE} | ELSEWHERE
