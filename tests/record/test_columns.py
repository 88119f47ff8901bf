"""Changes and requests become few records, and the order that matters stays."""

from collections.abc import Iterable
from typing import Final

from controllerd.core.changes import (
    AssignmentSet,
    BrokerGone,
    Change,
    DeletionChanged,
    LeadershipSet,
    OfflineDirsSet,
    PartitionMoved,
    PendingDeletionsSet,
    TopicForgotten,
    TopicKnown,
)
from controllerd.core.model import Broker, BrokerId, LeaderAndIsr, PartitionState, ReplicaAssignment, TopicPartition
from controllerd.core.requests import (
    ControlRequest,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataBody,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
)
from controllerd.record.columns import records_of
from controllerd.record.records import (
    MAX_ROWS,
    DeletionRecord,
    LeadershipRecord,
    OfflineDirsRecord,
    PendingDeletionsRecord,
    Record,
    RequestRecord,
)
from controllerd.record.request_columns import request_records

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)
STATE: Final = LeaderAndIsr(ONE, 4, (ONE, TWO), 7, 9)
ASSIGNMENT: Final = ReplicaAssignment((ONE, TWO))


def partitions(count: int) -> list[TopicPartition]:
    return [TopicPartition("a", number) for number in range(count)]


def kinds(records: list[Record]) -> list[str]:
    return [record.kind for record in records]


def test_changes_that_alternate_become_one_record_per_kind() -> None:
    changes: list[Change] = [
        change
        for tp in partitions(100)
        for change in (
            LeadershipSet(tp, STATE),
            PartitionMoved(tp, PartitionState.OFFLINE, PartitionState.ONLINE),
        )
    ]
    assert kinds(records_of(changes)) == ["leadership", "partition_state"]


def test_the_order_of_the_changes_of_one_partition_stays() -> None:
    (tp,) = partitions(1)
    offline = PartitionMoved(tp, PartitionState.ONLINE, PartitionState.OFFLINE)
    online = PartitionMoved(tp, PartitionState.OFFLINE, PartitionState.ONLINE)
    records = records_of([offline, LeadershipSet(tp, STATE), online])
    assert kinds(records) == ["partition_state", "leadership", "partition_state"]


def test_many_topics_with_their_partitions_are_two_records() -> None:
    changes: list[Change] = [
        change
        for name in ("a", "b", "c")
        for change in (TopicKnown(name, None, 0), AssignmentSet(TopicPartition(name, 0), ASSIGNMENT))
    ]
    assert kinds(records_of(changes)) == ["topics", "assignment"]


def test_a_topic_is_known_before_its_partitions() -> None:
    first = AssignmentSet(TopicPartition("a", 0), ASSIGNMENT)
    changes: list[Change] = [first, TopicKnown("b", None, 0), AssignmentSet(TopicPartition("b", 0), ASSIGNMENT)]
    assert kinds(records_of(changes)) == ["assignment", "topics", "assignment"]


def test_no_change_is_moved_across_a_forgotten_topic_or_a_failed_broker() -> None:
    known: list[Change] = [TopicKnown("a", None, 0), AssignmentSet(TopicPartition("a", 0), ASSIGNMENT)]
    changes: list[Change] = [*known, TopicForgotten("a"), *known, BrokerGone(ONE), BrokerGone(TWO)]
    assert kinds(records_of(changes)) == ["topics", "assignment", "topics_forgotten", "topics", "assignment", "brokers"]


def test_a_record_has_a_limited_number_of_rows() -> None:
    records = records_of([LeadershipSet(tp, STATE) for tp in partitions(MAX_ROWS + 1)])
    rows = [len(record.topics) for record in records if isinstance(record, LeadershipRecord)]
    assert rows == [MAX_ROWS, 1]


def test_many_offline_partitions_are_continued_in_the_next_record() -> None:
    records = records_of([OfflineDirsSet(ONE, frozenset(partitions(MAX_ROWS + 1)))])
    assert [
        (record.continues, len(record.partitions)) for record in records if isinstance(record, OfflineDirsRecord)
    ] == [
        (False, MAX_ROWS),
        (True, 1),
    ]


def test_a_log_directory_that_is_good_again_is_an_empty_record() -> None:
    assert records_of([OfflineDirsSet(ONE, frozenset())]) == [OfflineDirsRecord(1, [], [])]


def leader_and_isr(broker_epoch: int, count: int = 1, *, is_new: bool = False) -> LeaderAndIsrRequest:
    rows = {tp: LeaderAndIsrPartition(STATE, ASSIGNMENT, is_new) for tp in partitions(count)}
    return LeaderAndIsrRequest(2_000_000_000, 7, broker_epoch, rows, {}, ())


def metadata_body(count: int = 1) -> UpdateMetadataBody:
    rows = {tp: UpdateMetadataPartition(STATE, ASSIGNMENT.replicas, ()) for tp in partitions(count)}
    return UpdateMetadataBody(rows, {}, (Broker(ONE, 101, ()), Broker(TWO, 102, ())))


def update_metadata(broker_epoch: int, body: UpdateMetadataBody) -> UpdateMetadataRequest:
    return UpdateMetadataRequest(2_000_000_000, 7, broker_epoch, body)


def stop_replica(broker_epoch: int) -> StopReplicaRequest:
    rows = {tp: StopReplicaPartition(4, delete=True) for tp in partitions(1)}
    return StopReplicaRequest(2_000_000_000, 7, broker_epoch, rows)


def summary(records: Iterable[Record]) -> list[tuple[str, list[int]]]:
    return [(record.api, record.brokers) for record in records if isinstance(record, RequestRecord)]


def test_brokers_that_get_the_same_metadata_share_a_record() -> None:
    body = metadata_body()
    (record,) = request_records([(ONE, update_metadata(101, body)), (TWO, update_metadata(102, body))])
    assert record == RequestRecord("UpdateMetadata", 7, [1, 2], [101, 102], ["a"], [0], [1], [4], [9], [1, 2])


def test_brokers_that_get_an_equal_request_share_a_record() -> None:
    requests = [(ONE, leader_and_isr(101)), (TWO, leader_and_isr(102)), (THREE, leader_and_isr(103, is_new=True))]
    assert summary(request_records(requests)) == [("LeaderAndIsr", [1, 2]), ("LeaderAndIsr", [3])]


def test_the_order_of_each_broker_stays_when_requests_are_shared() -> None:
    body, later = metadata_body(), metadata_body()
    requests: list[tuple[BrokerId, ControlRequest]] = [
        (broker, request)
        for broker, epoch in ((ONE, 101), (TWO, 102))
        for request in (
            leader_and_isr(epoch),
            update_metadata(epoch, body),
            stop_replica(epoch),
            update_metadata(epoch, later),
        )
    ]
    assert summary(request_records(requests)) == [
        ("LeaderAndIsr", [1, 2]),
        ("UpdateMetadata", [1, 2]),
        ("StopReplica", [1, 2]),
        ("UpdateMetadata", [1, 2]),
    ]


def test_stop_replica_says_what_is_deleted() -> None:
    assert list(request_records([(ONE, stop_replica(101))])) == [
        RequestRecord("StopReplica", 7, [1], [101], ["a"], [0], [], [4], [], delete=[True])
    ]


def test_a_large_request_is_continued_in_the_next_record() -> None:
    records = list(request_records([(ONE, leader_and_isr(101, MAX_ROWS + 1))]))
    assert [record.continues for record in records if isinstance(record, RequestRecord)] == [False, True]


def test_the_first_record_of_a_large_request_counts_what_the_others_name() -> None:
    orders = [(ONE, leader_and_isr(101, 2 * MAX_ROWS + 1)), (TWO, leader_and_isr(102, 2 * MAX_ROWS + 1))]
    metadata = [(ONE, update_metadata(101, metadata_body(MAX_ROWS + 2)))]
    records = [*request_records(orders), *request_records(metadata)]
    assert [(record.unnamed, record.led) for record in records if isinstance(record, RequestRecord)] == [
        (MAX_ROWS + 1, [MAX_ROWS + 1, 0]), (0, []), (0, []), (2, []), (0, [])
    ]  # fmt: skip


def test_records_of_requests_are_made_one_by_one() -> None:
    records = request_records([(ONE, leader_and_isr(101, 3 * MAX_ROWS))])

    assert [len(next(records).topics) for _ in range(3)] == [MAX_ROWS] * 3  # type: ignore[attr-defined]  # all are requests


def test_below_the_level_full_a_request_says_how_many_partitions_each_broker_is_to_lead() -> None:
    (orders,) = request_records([(ONE, leader_and_isr(101, 3)), (TWO, leader_and_isr(102, 3))], names_partitions=False)
    assert isinstance(orders, RequestRecord)
    assert (orders.brokers, orders.led) == ([ONE, TWO], [3, 0])


def test_below_the_level_full_a_request_has_its_brokers_and_the_number_of_its_partitions() -> None:
    requests: list[tuple[BrokerId, ControlRequest]] = [
        (ONE, leader_and_isr(101, 3 * MAX_ROWS)),
        (ONE, update_metadata(101, metadata_body(2))),
        (ONE, stop_replica(101)),
    ]
    orders, metadata, stops = request_records(requests, names_partitions=False)
    assert isinstance(orders, RequestRecord)
    assert isinstance(metadata, RequestRecord)
    assert (orders.unnamed, orders.topics, orders.brokers) == (3 * MAX_ROWS, [], [ONE])
    assert (metadata.unnamed, metadata.topics, metadata.led) == (2, [], [])
    assert metadata.live_brokers == [broker.id for broker in metadata_body(2).live_brokers]
    assert stops == next(request_records(requests[2:]))


def test_a_request_without_partitions_is_recorded() -> None:
    assert summary(request_records([(ONE, update_metadata(101, metadata_body(0)))])) == [("UpdateMetadata", [1])]


def test_deletions_have_the_reason_of_their_halt() -> None:
    changes = [DeletionChanged("a", "queued"), DeletionChanged("a", "halted", "broker 3 is away")]

    assert records_of(changes) == [DeletionRecord(["a", "a"], ["queued", "halted"], [None, "broker 3 is away"])]


def test_pending_deletions_name_every_replica_with_the_id_of_its_topic() -> None:
    pending = {TopicPartition("b", 1): None, TopicPartition("a", 0): "an id"}

    assert records_of([PendingDeletionsSet(THREE, pending)]) == [
        PendingDeletionsRecord(3, ["a", "b"], [0, 1], ["an id", None])
    ]


def test_a_broker_without_pending_deletions_has_a_record_without_rows() -> None:
    assert records_of([PendingDeletionsSet(THREE, {})]) == [PendingDeletionsRecord(3, [], [], [])]


def test_many_pending_deletions_are_several_records() -> None:
    first, second = records_of([PendingDeletionsSet(THREE, dict.fromkeys(partitions(MAX_ROWS + 1)))])

    assert isinstance(first, PendingDeletionsRecord)
    assert isinstance(second, PendingDeletionsRecord)
    assert (first.continues, second.continues) == (False, True)
    assert len(first.partitions) + len(second.partitions) == MAX_ROWS + 1
