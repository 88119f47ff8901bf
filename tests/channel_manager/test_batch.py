"""The requests of a batch, by transition, are those that the built-in controller was recorded to send."""

from collections.abc import Iterable

import pytest

from channel_manager.batch import RequestBatch
from controllerd.core.context import ControllerContext
from controllerd.core.model import (
    Broker,
    BrokerId,
    Endpoint,
    Features,
    LeaderAndIsr,
    LeaderRecoveryState,
    ReplicaAssignment,
    TopicImage,
    TopicPartition,
)
from controllerd.core.requests import (
    ControlRequest,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
    api_name,
)
from controllerd.errors import IllegalState

ME = 2_000_000_000
B1, B2, B3 = BrokerId(1), BrokerId(2), BrokerId(3)
NO_BROKER = BrokerId(-1)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
T_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def broker(number: int, listener: str = "PLAINTEXT") -> Broker:
    return Broker(BrokerId(number), 100 + number, (Endpoint(listener, f"host{number}", 9090 + number),))


def state(leader: int = 1, epoch: int = 0, isr: Iterable[int] = (1, 2, 3), controller_epoch: int = 4) -> LeaderAndIsr:
    members = tuple(BrokerId(number) for number in isr)
    return LeaderAndIsr(BrokerId(leader), epoch, members, controller_epoch, 7)


def cluster(*, live: Iterable[int] = (1, 2, 3), features: Features | None = None) -> ControllerContext:
    """Controller epoch 5; topic t with partitions 0 and 1 on brokers 1, 2, 3; only partition 0 has leadership."""
    context = ControllerContext(features)
    context.begin_term(5, 1)
    for number in live:
        context.add_broker(broker(number))
    assignment = ReplicaAssignment((B1, B2, B3))
    context.put_topic(TopicImage("t", {0: assignment, 1: assignment}, T_ID, 0))
    context.set_leadership(T0, state())
    return context


def batch(context: ControllerContext, our_entry: Broker | None = None) -> RequestBatch:
    return RequestBatch(ME, context, inter_broker_listener="PLAINTEXT", our_entry=our_entry)


def outline(requests: Iterable[tuple[BrokerId, ControlRequest]]) -> list[tuple[str, int]]:
    return [(api_name(request), to) for to, request in requests]


def leader_and_isr(requests: Iterable[tuple[BrokerId, ControlRequest]], to: BrokerId = B1) -> LeaderAndIsrRequest:
    return next(each for broker, each in requests if broker == to and isinstance(each, LeaderAndIsrRequest))


def update_metadata(requests: Iterable[tuple[BrokerId, ControlRequest]], to: BrokerId = B1) -> UpdateMetadataRequest:
    return next(each for broker, each in requests if broker == to and isinstance(each, UpdateMetadataRequest))


def stop_replica(requests: Iterable[tuple[BrokerId, ControlRequest]], to: BrokerId = B1) -> StopReplicaRequest:
    return next(each for broker, each in requests if broker == to and isinstance(each, StopReplicaRequest))


def test_leader_and_isr_is_sent_before_update_metadata_and_stop_replica_last() -> None:
    filled = batch(cluster())
    filled.add_stop_replica([B3], T0, delete=False)
    filled.add_leader_and_isr([B1, B2], T0, is_new=True)

    assert outline(filled.take()) == [
        ("LeaderAndIsr", 1), ("LeaderAndIsr", 2),
        ("UpdateMetadata", 1), ("UpdateMetadata", 2), ("UpdateMetadata", 3),
        ("StopReplica", 3),
    ]  # fmt: skip


def test_a_leader_and_isr_has_the_state_of_the_znode() -> None:
    filled = batch(cluster())
    filled.add_leader_and_isr([B1], T0, is_new=True)

    request = leader_and_isr(filled.take())

    assert (request.controller_id, request.controller_epoch, request.broker_epoch) == (ME, 5, 101)
    assert request.partitions[T0].state == state()
    assert request.partitions[T0].assignment == ReplicaAssignment((B1, B2, B3))
    assert request.partitions[T0].is_new
    assert request.topic_ids == {"t": T_ID}
    assert request.live_leaders == ((B1, Endpoint("PLAINTEXT", "host1", 9091)),)


def test_a_new_replica_stays_new_when_a_newer_state_replaces_the_one_in_the_batch() -> None:
    context = cluster()
    filled = batch(context)
    filled.add_leader_and_isr([B1], T0, is_new=True)
    context.set_leadership(T0, state(leader=2, epoch=1))
    filled.add_leader_and_isr([B1], T0, is_new=False)

    partition = leader_and_isr(filled.take()).partitions[T0]

    assert (partition.state.leader, partition.is_new) == (2, True)


def test_a_batch_keeps_the_values_of_the_moment_they_were_added() -> None:
    context = cluster()
    filled = batch(context)
    filled.add_leader_and_isr([B1], T0, is_new=False)
    context.set_leadership(T0, state(leader=2, epoch=1))

    requests = filled.take()

    assert leader_and_isr(requests).partitions[T0].state.leader == 1
    assert update_metadata(requests).body.partitions[T0].state.leader == 1


def test_a_leader_and_isr_without_recipients_still_updates_the_metadata_of_all_live_brokers() -> None:
    filled = batch(cluster())
    filled.add_leader_and_isr([], T0, is_new=False)

    assert outline(filled.take()) == [("UpdateMetadata", 1), ("UpdateMetadata", 2), ("UpdateMetadata", 3)]


def test_negative_broker_ids_are_sent_no_request() -> None:
    filled = batch(cluster())
    filled.add_leader_and_isr([NO_BROKER], T0, is_new=False)
    filled.add_stop_replica([NO_BROKER], T0, delete=True)
    filled.add_update_metadata([NO_BROKER])

    assert {api for api, _ in outline(filled.take())} == {"UpdateMetadata"}


def test_dead_brokers_are_sent_no_request() -> None:
    filled = batch(cluster(live=(2, 3)))
    filled.add_leader_and_isr([B1, B2], T0, is_new=False)
    filled.add_stop_replica([B1], T0, delete=False)

    assert outline(filled.take()) == [("LeaderAndIsr", 2), ("UpdateMetadata", 2), ("UpdateMetadata", 3)]


def test_a_broker_in_controlled_shutdown_is_still_sent_requests_and_listed_as_live() -> None:
    context = cluster()
    context.mark_shutting_down(B1)
    filled = batch(context)
    filled.add_leader_and_isr([B1], T0, is_new=False)

    requests = filled.take()

    assert ("LeaderAndIsr", 1) in outline(requests)
    assert [live.id for live in update_metadata(requests).body.live_brokers] == [1, 2, 3]
    assert update_metadata(requests).body.partitions[T0].offline_replicas == (B1,)


def test_a_dead_leader_is_named_but_not_among_the_live_leaders() -> None:
    filled = batch(cluster(live=(2, 3)))
    filled.add_leader_and_isr([B2], T0, is_new=False)

    request = leader_and_isr(filled.take(), B2)

    assert request.partitions[T0].state.leader == 1
    assert request.live_leaders == ()


def test_a_leader_without_the_listener_stops_no_request() -> None:
    context = cluster()
    context.add_broker(broker(1, "OTHER"))
    filled = batch(context)
    filled.add_leader_and_isr([B2], T0, is_new=False)

    assert leader_and_isr(filled.take(), B2).live_leaders == ()


def test_a_leader_and_isr_for_a_partition_without_leadership_is_a_defect() -> None:
    with pytest.raises(IllegalState, match="t-1"):
        batch(cluster()).add_leader_and_isr([B1], T1, is_new=False)


def test_all_brokers_share_one_body_and_differ_in_their_epoch() -> None:
    filled = batch(cluster())
    filled.add_update_metadata([B1, B2], [T0])

    requests = filled.take()

    assert update_metadata(requests, B1).body is update_metadata(requests, B2).body
    assert [update_metadata(requests, each).broker_epoch for each in (B1, B2)] == [101, 102]


def test_update_metadata_is_sent_to_the_named_brokers_alone() -> None:
    filled = batch(cluster())
    filled.add_update_metadata([B2], [T0])

    assert outline(filled.take()) == [("UpdateMetadata", 2)]


def test_a_partition_without_leadership_is_left_out_but_its_brokers_are_sent_the_live_brokers() -> None:
    filled = batch(cluster())
    filled.add_update_metadata([B1], [T1])

    body = update_metadata(filled.take()).body

    assert body.partitions == {}
    assert [live.id for live in body.live_brokers] == [1, 2, 3]


def test_metadata_names_the_replicas_that_are_not_online() -> None:
    context = cluster(live=(2, 3))
    context.set_offline_dirs(B3, frozenset({T0}))
    filled = batch(context)
    filled.add_update_metadata([B2], [T0])

    assert update_metadata(filled.take(), B2).body.partitions[T0].offline_replicas == (B1, B3)


def test_a_topic_queued_for_deletion_is_removed_from_the_brokers_metadata() -> None:
    context = cluster()
    context.queued_for_deletion.add("t")
    filled = batch(context)
    filled.add_update_metadata([B1], [T0])

    sent = update_metadata(filled.take()).body.partitions[T0].state

    assert (sent.leader, sent.leader_epoch, sent.partition_epoch) == (-2, 0, 0)
    assert (sent.isr, sent.controller_epoch) == ((B1, B2, B3), 4)


def test_brokers_forget_a_partition_of_a_deleted_topic_though_its_state_is_unreadable() -> None:
    """Brokers may know the partition from an earlier controller, and no later request would remove it."""
    context = cluster()
    context.put_in_quarantine(T1.state_path, "not JSON")
    context.queued_for_deletion.add("t")
    filled = batch(context)
    filled.add_update_metadata([B1], [T1])

    sent = update_metadata(filled.take()).body

    assert sent.partitions[T1].state == LeaderAndIsr(BrokerId(-2), 0, (), controller_epoch=5, partition_epoch=0)
    assert sent.topic_ids == {"t": T_ID}


@pytest.mark.parametrize(("isr", "expected"), [((1, 2), 1), ((1,), -2)])
def test_a_topic_whose_deletion_waits_for_a_reassignment_stays_in_the_brokers_metadata(
    isr: tuple[int, ...], expected: int
) -> None:
    """A leader without the topic in its metadata answers no fetch of it, so no replica would ever catch up.

    A deletion does not wait for a reassignment that cannot complete: here the leader is gone, and no ISR
    member can follow it.
    """
    context = cluster(live=(1, 2, 3) if expected == 1 else (2, 3))
    context.set_assignment(T0, ReplicaAssignment((B3, B1, B2), (B3,), (B1,)))
    context.set_leadership(T0, state(1, 1, isr))
    context.queued_for_deletion.add("t")
    filled = batch(context)
    filled.add_update_metadata([B2], [T0])

    assert update_metadata(filled.take(), B2).body.partitions[T0].state.leader == expected


def test_a_leader_and_isr_for_a_topic_queued_for_deletion_still_names_its_leader() -> None:
    context = cluster()
    context.queued_for_deletion.add("t")
    filled = batch(context)
    filled.add_leader_and_isr([B1], T0, is_new=False)

    requests = filled.take()

    assert leader_and_isr(requests).partitions[T0].state.leader == 1
    assert update_metadata(requests).body.partitions[T0].state.leader == -2


@pytest.mark.parametrize(
    ("tp", "queued", "expected"), [(T0, False, 0), (T0, True, -2), (T1, False, -1), (T1, True, -2)]
)
def test_a_stop_replica_has_the_leader_epoch_that_the_broker_checks(
    tp: TopicPartition, queued: bool, expected: int
) -> None:
    context = cluster()
    if queued:
        context.queued_for_deletion.add("t")
    filled = batch(context)
    filled.add_stop_replica([B1], tp, delete=False)

    assert stop_replica(filled.take()).partitions[tp].leader_epoch == expected


def test_a_stop_replica_with_deletion_is_not_replaced_by_one_without() -> None:
    filled = batch(cluster())
    filled.add_stop_replica([B1], T0, delete=True)
    filled.add_stop_replica([B1], T0, delete=False)

    assert stop_replica(filled.take()).partitions[T0].delete


def test_the_entry_of_controllerd_is_listed_last_when_it_is_visible() -> None:
    ours = Broker(BrokerId(ME), -1, (Endpoint("PLAINTEXT", "controller", 9000),))
    filled = batch(cluster(), ours)
    filled.add_update_metadata([B1])

    assert update_metadata(filled.take()).body.live_brokers[-1] is ours


def test_known_topic_ids_are_sent_despite_the_protocol_version() -> None:
    filled = batch(cluster(features=Features(topic_ids=False)))
    filled.add_leader_and_isr([B1], T0, is_new=False)

    requests = filled.take()

    assert leader_and_isr(requests).topic_ids == {"t": T_ID}
    assert update_metadata(requests).body.topic_ids == {"t": T_ID}


def test_the_leader_recovery_state_of_an_unclean_election_is_sent() -> None:
    context = cluster()
    context.set_leadership(T0, state()._replace(recovery_state=LeaderRecoveryState.RECOVERING))
    filled = batch(context)
    filled.add_leader_and_isr([B1], T0, is_new=False)

    partition = leader_and_isr(filled.take()).partitions[T0]

    assert partition.state.recovery_state is LeaderRecoveryState.RECOVERING


def test_a_taken_batch_is_empty() -> None:
    filled = batch(cluster())
    filled.add_leader_and_isr([B1], T0, is_new=False)
    taken = filled.take()

    assert taken != []
    assert filled.take() == []


@pytest.mark.parametrize("kind", ["leader_and_isr", "update_metadata", "stop_replica"])
def test_a_batch_with_any_entry_has_requests(kind: str) -> None:
    filled = batch(cluster())
    if kind == "leader_and_isr":
        filled.add_leader_and_isr([], T0, is_new=False)
    elif kind == "update_metadata":
        filled.add_update_metadata([B1])
    else:
        filled.add_stop_replica([B1], T0, delete=False)

    assert filled.take() != []
