"""The digest shows every change of the state, depends on no order, and equals the controller's own at any moment."""

import random
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any, Final

import pytest

from controllerd.core.model import BrokerId, LeaderAndIsr, PartitionState, ReplicaAssignment
from controllerd.record.digest import FoldDigest, RunningDigest, cluster_digest, digest_of, topic_digest
from controllerd.record.fold import apply
from controllerd.record.records import BrokerRow, EventEnd
from controllerd.record.state import ClusterState, FoldedPartition
from tests.fakes.world import tp
from tests.record.logs import busy_log, good_log, stamped_log
from tests.record.random_story import RandomStory
from tests.scenarios.witness import digest_of_world

ROWS: Final = [
    (number, PartitionState.ONLINE, ReplicaAssignment((BrokerId(1), BrokerId(2))), None) for number in range(3)
]
POINTS: Final = 100


def good_state() -> ClusterState:
    state = ClusterState()
    for envelope, record in good_log():
        apply(state, envelope, record)
    return state


def partition(state: ClusterState) -> FoldedPartition:
    found = state.partition(tp("a"))
    assert found is not None
    return found


def leadership(**fields: Any) -> Callable[[ClusterState], None]:
    def change(state: ClusterState) -> None:
        known = partition(state)
        assert known.leadership is not None
        known.leadership = known.leadership._replace(**fields)

    return change


def assignment(**fields: Any) -> Callable[[ClusterState], None]:
    def change(state: ClusterState) -> None:
        known = partition(state)
        known.assignment = known.assignment._replace(**fields)

    return change


def offline(state: ClusterState) -> None:
    partition(state).state = PartitionState.OFFLINE


def without_state(state: ClusterState) -> None:
    partition(state).leadership = None


def another_id(state: ClusterState) -> None:
    state.topics["a"].topic_id = "another"


def another_number(state: ClusterState) -> None:
    partitions = state.topics["a"].partitions
    partitions[1] = partitions.pop(0)


def another_topic(state: ClusterState) -> None:
    state.topics["b"] = deepcopy(state.topics["a"])


def renamed(state: ClusterState) -> None:
    state.topics["b"] = state.topics.pop("a")


def broker_epoch(state: ClusterState) -> None:
    state.brokers[BrokerId(1)] = BrokerRow(1, 112, [], None)


def shutting_down(state: ClusterState) -> None:
    state.shutting_down.add(BrokerId(1))


CHANGES: Final[list[Callable[[ClusterState], None]]] = [
    leadership(leader=BrokerId(1)),
    leadership(leader_epoch=9),
    leadership(isr=(BrokerId(1), BrokerId(2))),
    leadership(isr=(BrokerId(2),)),
    leadership(controller_epoch=8),
    leadership(partition_epoch=11),
    leadership(recovery_state=LeaderAndIsr(BrokerId(1), 1, (), 1, 1).recovery_state.RECOVERING),
    assignment(replicas=(BrokerId(2), BrokerId(1))),
    assignment(adding=(BrokerId(2),)),
    assignment(removing=(BrokerId(2),)),
    offline,
    without_state,
    another_id,
    another_number,
    another_topic,
    renamed,
    broker_epoch,
    shutting_down,
]


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_of_the_state_changes_the_digest(change: Callable[[ClusterState], None]) -> None:
    state = good_state()
    change(state)
    assert digest_of(state) != digest_of(good_state())


def test_no_two_changes_give_one_digest() -> None:
    digests = set()
    for change in CHANGES:
        change(state := good_state())
        digests.add(digest_of(state))
    assert len(digests) == len(CHANGES)


def test_the_order_of_rows_topics_and_brokers_makes_no_difference() -> None:
    assert topic_digest("t", "id", ROWS) == topic_digest("t", "id", reversed(ROWS))
    first, second = RunningDigest(), RunningDigest()
    for digest, names in ((first, "abc"), (second, "cba")):
        for name in names:
            digest.update(name, None, ROWS)
    assert first.of({1: 101, 2: 102}, [1, 2]) == second.of({2: 102, 1: 101}, [2, 1])


def test_a_created_and_deleted_topic_does_not_change_the_digest() -> None:
    digest = RunningDigest()
    digest.update("t", "id", ROWS)
    before = digest.of({}, ())
    digest.update("u", "id", ROWS)
    digest.update("u", "other", ROWS[:1])
    digest.forget("u")
    digest.forget("unknown")
    assert digest.of({}, ()) == before == cluster_digest(topic_digest("t", "id", ROWS), {}, ())


def test_the_digest_is_the_same_in_every_version() -> None:
    """Logs with digests are read years later."""
    assert digest_of(ClusterState()) == "0000000000000000"
    assert digest_of(good_state()) == "0ce5f1cb767be365"


def test_a_digest_that_runs_with_the_fold_is_that_of_the_state_at_every_record() -> None:
    state, running = ClusterState(), FoldDigest()
    for envelope, record in busy_log(400, topics=3, partitions=2):
        apply(state, envelope, record)
        running.add(record)
        assert running.of(state) == digest_of(state)


def test_a_digest_begins_anew_with_a_snapshot() -> None:
    state, running = ClusterState(), FoldDigest()
    for envelope, record in good_log() + [(replace(e, epoch=8), r) for e, r in good_log()[:5]]:
        apply(state, envelope, record)
        running.add(record)
    assert running.of(state) == digest_of(state)
    assert not state.topics["a"].partitions


@pytest.mark.parametrize("seed", range(3))
async def test_the_digest_of_the_replay_at_a_hundred_random_points_is_the_controllers_own(seed: int) -> None:
    """A random workload; at each end of an event the controller says what it has, and the log is cut there."""
    story = RandomStory(seed)
    own: dict[int, str] = {}
    await story.run(lambda world: own.update({len(world.audit.whole): digest_of_world(world)}), ends=4 * POINTS)
    log = stamped_log(story.world.audit.whole)
    points = set(random.Random(seed).sample(sorted(own), POINTS))

    state, running, compared = ClusterState(), FoldDigest(), 0
    for at, (envelope, record) in enumerate(log, 1):
        apply(state, envelope, record)
        running.add(record)
        if at in points:
            assert isinstance(record, EventEnd)
            assert digest_of(state) == running.of(state) == own[at], f"at record {at}"
            compared += 1

    assert compared == POINTS
    assert len(set(own.values())) > POINTS
