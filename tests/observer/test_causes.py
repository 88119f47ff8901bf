"""The causes between two images."""

from collections.abc import Callable
from typing import TypeVar

import pytest

from controllerd.core.model import BrokerId, LeaderAndIsr, ReplicaAssignment, TopicPartition
from controllerd.observer.causes import CauseKind, ObservedCause, UnexplainedChanges, UnexplainedKind, causes
from controllerd.slicer import Slicer
from controllerd.zk import codecs, paths
from controllerd.zk.access import Znode
from controllerd.zk.image import ClusterImage, read_image
from events.cluster import BrokerChange
from events.elections import TopicUncleanLeaderElectionEnable, UncleanLeaderElectionEnable
from events.topics import PartitionModifications, TopicChange
from tests.fakes.store import FakeStore
from tests.fakes.world import ids, tp

T0, T1, U0 = tp("t"), tp("t", 1), tp("u")
Found = ObservedCause | UnexplainedChanges
F = TypeVar("F", ObservedCause, UnexplainedChanges)


def state(leader: int, leader_epoch: int, *isr: int) -> LeaderAndIsr:
    return LeaderAndIsr(BrokerId(leader), leader_epoch, ids(*isr), 1, 0)


def tps(*partitions: TopicPartition) -> frozenset[TopicPartition]:
    return frozenset(partitions)


def allow_unclean(store: FakeStore, path: str) -> None:
    store.tree.put(path, codecs.encode_config({"unclean.leader.election.enable": "true"}))


@pytest.fixture
def store() -> FakeStore:
    """t-0 on 1 and 2, t-1 on 2 and 3, u-0 on 3 alone; all led by their first replica."""
    store = FakeStore()
    store.lead()
    for broker in (1, 2, 3):
        store.add_broker(broker)
    store.add_topic("t", {0: [1, 2], 1: [2, 3]})
    store.add_topic("u", {0: [3]})
    store.set_state(T0, state(1, 0, 1, 2))
    store.set_state(T1, state(2, 0, 2, 3))
    store.set_state(U0, state(3, 0, 3))
    return store


async def seen(store: FakeStore, *steps: Callable[[], object]) -> list[Found]:
    """The causes between an image before and one after these steps."""
    before = await read_image(store.zk)
    for step in steps:
        step()
    return await causes(before, await read_image(store.zk), Slicer())


def only(found: list[Found], kind: type[F]) -> F:
    (one,) = found
    assert isinstance(one, kind)
    return one


async def test_nothing_happened(store: FakeStore) -> None:
    assert await seen(store) == []


async def test_a_failed_broker_is_the_cause_for_its_partitions(store: FakeStore) -> None:
    cause = only(await seen(store, lambda: store.remove_broker(1)), ObservedCause)

    assert (cause.kind, cause.subjects, cause.events) == (CauseKind.BROKER_FAILED, ("1",), (BrokerChange(),))
    assert cause.partitions == tps(T0)
    assert cause.facts["/brokers/ids/1"] is None


async def test_writes_of_the_controller_are_no_facts(store: FakeStore) -> None:
    found = await seen(store, lambda: store.remove_broker(1), lambda: store.set_state(T0, state(2, 1, 2)))

    assert only(found, ObservedCause).facts.keys() == {"/brokers/ids/1", paths.CONTROLLER_EPOCH}


async def test_a_broker_with_another_epoch_restarted(store: FakeStore) -> None:
    cause = only(await seen(store, lambda: store.add_broker(3)), ObservedCause)

    assert (cause.kind, cause.partitions) == (CauseKind.BROKER_RESTARTED, tps(T1, U0))
    assert isinstance(cause.facts["/brokers/ids/3"], Znode)


async def test_a_broker_started(store: FakeStore) -> None:
    cause = only(await seen(store, lambda: store.add_broker(4)), ObservedCause)

    assert (cause.kind, cause.subjects, cause.partitions) == (CauseKind.BROKER_STARTED, ("4",), frozenset())


async def test_brokers_that_failed_together_are_one_cause(store: FakeStore) -> None:
    cause = only(await seen(store, lambda: store.remove_broker(1), lambda: store.remove_broker(3)), ObservedCause)

    assert (cause.kind, cause.subjects, cause.partitions) == (
        CauseKind.BROKER_FAILED,
        ("1", "3"),
        tps(T0, T1, U0),
    )


async def test_a_broker_failure_with_a_later_epoch_was_handled_by_a_new_controller(store: FakeStore) -> None:
    cause = only(await seen(store, lambda: store.remove_broker(1), store.depose), ObservedCause)

    assert (cause.kind, cause.is_failover) == (CauseKind.BROKER_FAILED, True)


async def test_a_failover_is_the_cause_of_the_changes_with_it(store: FakeStore) -> None:
    cause = only(await seen(store, store.depose, lambda: store.set_state(U0, state(-1, 1, 3))), ObservedCause)

    assert (cause.kind, cause.is_failover, cause.partitions) == (CauseKind.FAILOVER, True, tps(U0))


async def test_topics_that_were_created_are_one_cause(store: FakeStore) -> None:
    found = await seen(store, lambda: store.add_topic("v", {0: [1]}), lambda: store.add_topic("w", {0: [1]}))

    cause = only(found, ObservedCause)
    assert (cause.kind, cause.events) == (CauseKind.TOPICS_CREATED, (TopicChange(),))
    assert cause.partitions == tps(tp("v"), tp("w"))


async def test_partitions_were_added(store: FakeStore) -> None:
    cause = only(await seen(store, lambda: store.add_topic("u", {0: [3], 1: [1]})), ObservedCause)

    assert (cause.kind, cause.events) == (CauseKind.PARTITIONS_ADDED, (PartitionModifications("u"),))
    assert cause.partitions == tps(tp("u", 1))


async def test_a_reassignment_is_judged_by_its_end_alone(store: FakeStore) -> None:
    moving = ReplicaAssignment(ids(1, 3), ids(1), ids(3))
    cause = only(await seen(store, lambda: store.add_topic("u", {0: moving})), ObservedCause)

    assert (cause.kind, cause.partitions, cause.events) == (CauseKind.REASSIGNED, tps(U0), ())


async def test_a_topic_allows_unclean_elections_of_its_leaderless_partitions(store: FakeStore) -> None:
    store.set_state(T0, state(-1, 1, 1))
    cause = only(await seen(store, lambda: allow_unclean(store, "/config/topics/t")), ObservedCause)

    assert (cause.kind, cause.partitions) == (CauseKind.UNCLEAN_ALLOWED, tps(T0))
    assert cause.events == (TopicUncleanLeaderElectionEnable("t"),)


async def test_the_cluster_allows_unclean_elections(store: FakeStore) -> None:
    store.set_state(U0, state(-1, 1, 3))
    cause = only(await seen(store, lambda: allow_unclean(store, "/config/brokers/<default>")), ObservedCause)

    assert (cause.partitions, cause.events) == (tps(U0), (UncleanLeaderElectionEnable(),))


async def test_another_configuration_is_no_cause(store: FakeStore) -> None:
    other = codecs.encode_config({"retention.ms": "1"})

    assert await seen(store, lambda: store.tree.put("/config/topics/t", other)) == []


async def test_a_deletion_is_judged_by_its_end_alone(store: FakeStore) -> None:
    found = await seen(store, lambda: store.tree.put("/admin/delete_topics/u"))

    cause = only(found, ObservedCause)
    assert (cause.kind, cause.subjects, cause.partitions, cause.events) == (
        CauseKind.TOPICS_DELETED,
        ("u",),
        tps(U0),
        (),
    )


async def test_a_topic_that_was_removed_on_request_was_deleted(store: FakeStore) -> None:
    store.tree.put("/admin/delete_topics/u")
    found = await seen(store, lambda: store.tree.remove("/brokers/topics/u"))

    assert only(found, ObservedCause).kind is CauseKind.TOPICS_DELETED


async def test_a_broker_failure_is_no_cause_for_topics_that_are_being_deleted(store: FakeStore) -> None:
    store.tree.put("/admin/delete_topics/u")
    found = await seen(store, lambda: store.remove_broker(3), lambda: store.set_state(U0, state(-1, 1, 3)))

    assert [(each.kind, each.partitions) for each in found] == [
        (CauseKind.BROKER_FAILED, tps(T1)),
        (UnexplainedKind.BEING_DELETED, tps(U0)),
    ]


async def test_an_isr_that_its_leader_requested_is_not_judged(store: FakeStore) -> None:
    unjudged = only(await seen(store, lambda: store.set_state(T0, state(1, 0, 1))), UnexplainedChanges)

    assert (unjudged.kind, unjudged.partitions) == (UnexplainedKind.ISR_CHANGED, tps(T0))


async def test_a_leader_that_moved_from_a_live_broker_is_not_judged_but_described(store: FakeStore) -> None:
    unjudged = only(await seen(store, lambda: store.set_state(T0, state(2, 1, 2))), UnexplainedChanges)

    assert (unjudged.kind, unjudged.partitions) == (UnexplainedKind.LEADER_MOVED, tps(T0))
    assert unjudged.notes == {"live": 1, "in sync": 1, "preferred": 0}


async def test_a_later_leader_epoch_alone_is_not_judged(store: FakeStore) -> None:
    found = await seen(store, lambda: store.set_state(T0, state(1, 1, 1, 2)))

    assert only(found, UnexplainedChanges).kind is UnexplainedKind.LEADER_EPOCH_ROSE


async def test_a_topic_that_vanished_is_not_judged(store: FakeStore) -> None:
    unjudged = only(await seen(store, lambda: store.tree.remove("/brokers/topics/u")), UnexplainedChanges)

    assert (unjudged.kind, unjudged.partitions) == (UnexplainedKind.TOPIC_VANISHED, tps(U0))


async def test_a_topic_that_was_created_again_is_not_judged(store: FakeStore) -> None:
    def again() -> None:
        store.tree.remove("/brokers/topics/u")
        store.add_topic("u", {0: [1]})
        store.set_state(U0, state(1, 0, 1))

    assert only(await seen(store, again), UnexplainedChanges).kind is UnexplainedKind.TOPIC_VANISHED


async def test_an_unreadable_state_is_not_judged(store: FakeStore) -> None:
    found = await seen(store, lambda: store.tree.put(paths.partition_state(U0), b"?"))

    assert only(found, UnexplainedChanges).kind is UnexplainedKind.STATE_VANISHED


async def test_a_removed_state_of_an_existing_topic_is_not_judged(store: FakeStore) -> None:
    found = await seen(store, lambda: store.tree.remove(paths.partition_state(U0)))

    assert only(found, UnexplainedChanges).kind is UnexplainedKind.STATE_VANISHED


@pytest.mark.parametrize("name", ["\u00b2", "\uff11", "x", "-1"])
async def test_a_child_that_names_no_broker_concerns_no_partition(store: FakeStore, name: str) -> None:
    cause = only(await seen(store, lambda: store.tree.put(f"/brokers/ids/{name}", b"{}")), ObservedCause)

    assert (cause.kind, cause.subjects, cause.partitions) == (CauseKind.BROKER_STARTED, (name,), frozenset())


async def test_a_child_that_names_no_broker_is_no_live_leader(store: FakeStore) -> None:
    store.tree.put("/brokers/ids/\u00b2", b"{}")
    unjudged = only(await seen(store, lambda: store.set_state(T0, state(2, 1, 2))), UnexplainedChanges)

    assert unjudged.notes["live"] == 1


async def test_an_unreadable_topic_znode_is_no_cause(store: FakeStore) -> None:
    broken = await seen(store, lambda: store.tree.put("/brokers/topics/u", b"?"))

    assert [each.kind for each in broken if isinstance(each, ObservedCause)] == []


async def test_a_partition_is_explained_once(store: FakeStore) -> None:
    store.set_state(U0, state(-1, 1, 3))
    found = await seen(store, lambda: store.add_broker(3), lambda: allow_unclean(store, "/config/topics/u"))

    assert [(each.kind, each.partitions) for each in found] == [(CauseKind.BROKER_RESTARTED, tps(T1, U0))]


async def test_partitions_of_a_broker_and_a_configuration_cause_are_mixed(store: FakeStore) -> None:
    store.set_state(U0, state(-1, 1, 3))
    found = await seen(store, lambda: store.add_broker(3), lambda: allow_unclean(store, "/config/topics/u"))

    assert only(found, ObservedCause).mixed == tps(U0)


async def test_partitions_on_several_changed_brokers_are_mixed(store: FakeStore) -> None:
    one = only(await seen(store, lambda: store.remove_broker(3)), ObservedCause)
    two = only(await seen(store, lambda: store.remove_broker(1), lambda: store.remove_broker(2)), ObservedCause)

    assert (one.mixed, two.mixed) == (tps(), tps(T0))


async def test_a_topic_that_is_created_while_a_broker_changes_is_mixed(store: FakeStore) -> None:
    death, creation = await seen(store, lambda: store.remove_broker(3), lambda: store.add_topic("v", {0: [1, 2]}))

    assert isinstance(death, ObservedCause)
    assert isinstance(creation, ObservedCause)
    assert (death.mixed, creation.mixed) == (tps(), tps(tp("v")))


async def test_the_images_of_an_empty_zookeeper_are_alike() -> None:
    assert await causes(ClusterImage({}, {}), ClusterImage({}, {}), Slicer()) == []
