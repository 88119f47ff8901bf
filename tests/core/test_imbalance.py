"""Which brokers lead too little of what they should lead (controller.md 9.10)."""

import pytest

from controllerd.core.context import ControllerContext
from controllerd.core.imbalance import Imbalance, can_lead, is_imbalanced
from controllerd.core.model import (
    Broker,
    BrokerId,
    LeaderAndIsr,
    PartitionState,
    ReplicaAssignment,
    TopicImage,
    TopicPartition,
)
from controllerd.core.records import PartitionRecord
from tests.fakes.world import ids


def context_of(*live: int) -> ControllerContext:
    context = ControllerContext()
    for broker in live:
        context.add_broker(Broker(BrokerId(broker), 1, ()))
    return context


def partition(
    context: ControllerContext,
    leader: int | None,
    *replicas: int,
    isr: tuple[int, ...] | None = None,
    adding: tuple[int, ...] = (),
) -> PartitionRecord:
    """One more partition, with this leader; None: it was never led."""
    name = f"t{len(context.topics)}"
    tp = TopicPartition(name, 0)
    context.put_topic(TopicImage(name, {0: ReplicaAssignment(ids(*replicas), ids(*adding))}, None, 0))
    context.set_partition_state(tp, PartitionState.NEW)
    if leader is not None:
        in_sync = replicas if isr is None else isr
        context.set_leadership(tp, LeaderAndIsr(BrokerId(leader), 0, ids(*in_sync), 1, 0))
    return context.record(tp)


def above(percentage: int, *records: PartitionRecord) -> dict[int, list[PartitionRecord]]:
    tally = Imbalance()
    for record in records:
        tally.add([record])
    return dict(tally.above(percentage))


def test_a_share_that_is_exactly_the_allowed_one_is_not_too_much() -> None:
    context = context_of(1, 2)
    led = [partition(context, 1, 1, 2) for _ in range(9)]
    bad = [partition(context, 2, 1, 2) for _ in range(2)]

    assert above(10, *led, bad[0]) == {}
    assert above(10, *led, *bad) == {1: bad}
    assert above(9, *led, bad[0]) == {1: bad[:1]}


def test_brokers_are_judged_one_by_one() -> None:
    context = context_of(1, 2)
    good = [partition(context, 1, 1, 2) for _ in range(50)]
    bad = partition(context, 1, 2, 1)

    assert above(10, *good, bad) == {2: [bad]}


def test_a_partition_that_was_never_led_counts_for_its_broker_and_not_as_led_by_another() -> None:
    context = context_of(1, 2)
    bad, waiting = partition(context, 2, 1, 2), partition(context, None, 1, 2)

    assert above(50, bad, waiting) == {}
    assert above(49, bad, waiting) == {1: [bad]}


def test_a_partition_without_leader_is_not_led_by_its_preferred_replica() -> None:
    lost = partition(context_of(2), -1, 1, 2)

    assert above(0, lost) == {1: [lost]}


def test_a_partition_without_replicas_counts_for_no_broker() -> None:
    assert above(0, partition(context_of(1), None)) == {}


@pytest.mark.parametrize(
    ("live", "isr", "expected"),
    [((1, 2), (1, 2), True), ((2,), (1, 2), False), ((1, 2), (2,), False)],
    ids=["online and in sync", "not online", "not in sync"],
)
def test_a_preferred_replica_can_lead_when_it_is_online_and_in_sync_kafka_9866(
    live: tuple[int, ...], isr: tuple[int, ...], expected: bool
) -> None:
    context = context_of(*live)

    assert can_lead(partition(context, 2, 1, 2, isr=isr), context.liveness) is expected


def test_a_broker_that_shuts_down_cannot_lead() -> None:
    context = context_of(1, 2)
    context.mark_shutting_down(BrokerId(1))

    assert not can_lead(partition(context, 2, 1, 2), context.liveness)


def test_a_partition_that_was_never_led_cannot_be_given_back() -> None:
    context = context_of(1, 2)

    assert not can_lead(partition(context, None, 1, 2), context.liveness)


@pytest.mark.parametrize(
    ("leader", "expected"), [(1, False), (2, True), (-1, True), (None, False)], ids=["it leads", "other", "none", "new"]
)
def test_a_partition_counts_as_imbalanced_when_another_than_its_first_replica_leads(
    leader: int | None, expected: bool
) -> None:
    assert is_imbalanced(partition(context_of(1, 2), leader, 1, 2)) is expected


@pytest.mark.parametrize(("isr", "expected"), [((2,), False), ((2, 3), True)], ids=["behind", "caught up"])
def test_a_replica_that_is_being_added_need_not_lead_before_it_has_caught_up(
    isr: tuple[int, ...], expected: bool
) -> None:
    assert is_imbalanced(partition(context_of(2, 3), 2, 3, 2, isr=isr, adding=(3,))) is expected
