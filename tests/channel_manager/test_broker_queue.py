"""The queue of a broker: which UpdateMetadata it merges, and which requests it keeps when it is dropped."""

from dataclasses import dataclass, replace

import pytest

from channel_manager.broker_queue import BrokerQueue
from channel_manager.coalesce import BodyMerger
from channel_manager.settings import ChannelSettings
from controllerd.core.model import TopicPartition
from controllerd.core.requests import (
    ControlRequest,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataBody,
    UpdateMetadataRequest,
)
from tests.channel_manager.requests import NEW_ID, T_ID, leader_and_isr, stop_replica, update_metadata


class ChannelClock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def queue(
    settings: ChannelSettings | None = None, *, clock: ChannelClock | None = None, merger: BodyMerger | None = None
) -> BrokerQueue:
    return BrokerQueue(clock or ChannelClock(), settings or ChannelSettings(), merger or BodyMerger())


def merging_queue(merger: BodyMerger | None = None) -> BrokerQueue:
    """A queue that merges every UpdateMetadata that may be merged."""
    return queue(ChannelSettings(coalesce_depth=1), merger=merger)


def content(waiting: BrokerQueue) -> list[ControlRequest]:
    return [waiting.pop().request for _ in range(len(waiting))]


def only_update(waiting: BrokerQueue) -> UpdateMetadataRequest:
    (request,) = content(waiting)
    assert isinstance(request, UpdateMetadataRequest)
    return request


def leaders_queued(waiting: BrokerQueue) -> list[dict[str, int]]:
    """Return the leader of each partition in each waiting request."""
    requests = [request for request in content(waiting) if isinstance(request, UpdateMetadataRequest)]
    return [{str(tp): entry.state.leader for tp, entry in request.body.partitions.items()} for request in requests]


def test_a_broker_that_is_not_behind_gets_every_update_metadata() -> None:
    waiting = queue()
    waiting.append(update_metadata(0))
    waiting.append(update_metadata(1))

    assert len(waiting) == 2


def test_a_request_past_the_merge_age_absorbs_the_next_one() -> None:
    clock = ChannelClock()
    waiting = queue(ChannelSettings(coalesce_age_s=1.0), clock=clock)
    waiting.append(update_metadata(0))
    clock.now = 1.5
    waiting.append(update_metadata(1))

    assert (len(waiting), waiting.coalesced) == (1, 1)


def test_merging_can_be_switched_off() -> None:
    waiting = queue(ChannelSettings(coalesce=False, coalesce_depth=1))
    waiting.append(update_metadata(0))
    waiting.append(update_metadata(1))

    assert len(waiting) == 2


def test_the_newer_state_of_a_partition_wins() -> None:
    waiting = merging_queue()
    waiting.append(update_metadata(0, 1, leader=1))
    waiting.append(update_metadata(1, 2, leader=2, live=3))

    merged = only_update(waiting).body

    assert {tp.partition: entry.state.leader for tp, entry in merged.partitions.items()} == {0: 1, 1: 2, 2: 2}
    assert len(merged.live_brokers) == 3


def test_a_queued_removal_is_kept() -> None:
    waiting = merging_queue()
    waiting.append(update_metadata(0, leader=-2))
    waiting.append(update_metadata(0, topic="u"))

    assert only_update(waiting).body.partitions[TopicPartition("t", 0)].state.leader == -2


@pytest.mark.parametrize("topic_id", [NEW_ID, T_ID, None])
def test_a_removal_is_not_lost_when_its_partition_is_created_anew(topic_id: str | None) -> None:
    waiting = merging_queue()
    waiting.append(update_metadata(0, leader=-2, topic_id=None if topic_id is None else T_ID))
    waiting.append(update_metadata(0, leader=1, topic_id=topic_id))

    assert leaders_queued(waiting) == [{"t-0": -2}, {"t-0": 1}]


def test_a_removal_that_was_merged_is_not_lost_either() -> None:
    waiting = merging_queue()
    for request in (update_metadata(0), update_metadata(0, leader=-2), update_metadata(0, topic="u")):
        waiting.append(request)
    waiting.append(update_metadata(0, topic_id=NEW_ID))

    assert leaders_queued(waiting) == [{"t-0": -2, "u-0": 1}, {"t-0": 1}]


def test_a_request_after_the_recreated_topic_is_merged_into_its_update() -> None:
    waiting = merging_queue()
    for leader, topic_id in ((-2, T_ID), (1, NEW_ID), (2, NEW_ID), (-2, NEW_ID), (-2, NEW_ID)):
        waiting.append(update_metadata(0, leader=leader, topic_id=topic_id))

    assert leaders_queued(waiting) == [{"t-0": -2}, {"t-0": -2}]


def test_a_removal_replaces_a_queued_state() -> None:
    waiting = merging_queue()
    waiting.append(update_metadata(0, 1, leader=1))
    waiting.append(update_metadata(0, leader=-2))

    assert leaders_queued(waiting) == [{"t-0": -2, "t-1": 1}]


def test_a_removal_without_topic_ids_is_merged_with_the_state_of_another_partition() -> None:
    waiting = merging_queue()
    waiting.append(update_metadata(1, leader=-2, topic_id=None))
    waiting.append(update_metadata(0, leader=1, topic_id=None))

    assert leaders_queued(waiting) == [{"t-0": 1, "t-1": -2}]


@pytest.mark.parametrize(("first", "second"), [(T_ID, NEW_ID), (None, T_ID), (T_ID, None)])
@pytest.mark.parametrize("leaders", [(1, 1), (1, -2), (-2, 1)])
def test_two_topics_of_one_name_are_not_merged(first: str | None, second: str | None, leaders: tuple[int, int]) -> None:
    waiting = merging_queue()
    waiting.append(update_metadata(0, leader=leaders[0], topic_id=first))
    waiting.append(update_metadata(1, leader=leaders[1], topic_id=second))

    assert leaders_queued(waiting) == [{"t-0": leaders[0]}, {"t-1": leaders[1]}]


@pytest.mark.parametrize(("first", "second"), [(T_ID, NEW_ID), (None, T_ID), (T_ID, None)])
def test_removals_of_two_topics_of_one_name_are_merged(first: str | None, second: str | None) -> None:
    waiting = merging_queue()
    waiting.append(update_metadata(0, leader=-2, topic_id=first))
    waiting.append(update_metadata(0, 1, leader=-2, topic_id=second))

    assert leaders_queued(waiting) == [{"t-0": -2, "t-1": -2}]


def test_a_state_is_not_merged_with_the_removal_of_another_topic_of_that_name() -> None:
    waiting = merging_queue()
    older, other = update_metadata(0, leader=-2).body, update_metadata(1, topic="u").body
    mixed = UpdateMetadataBody({**older.partitions, **other.partitions}, {"t": T_ID, "u": T_ID}, ())
    waiting.append(UpdateMetadataRequest(1, 5, 1, mixed))
    waiting.append(update_metadata(1, leader=-2, topic="u", topic_id=NEW_ID))

    assert leaders_queued(waiting) == [{"t-0": -2, "u-1": 1}, {"u-1": -2}]


def test_bodies_that_may_not_be_merged_stay_unchanged_for_every_broker() -> None:
    merger, older, newer = BodyMerger(), update_metadata(0, leader=-2), update_metadata(0, topic_id=NEW_ID)
    for waiting in (merging_queue(merger), merging_queue(merger)):
        waiting.append(older)
        waiting.append(newer)

        assert content(waiting) == [older, newer]


def test_a_dropped_queue_does_not_lose_a_removal_to_a_later_state() -> None:
    waiting = merging_queue()
    waiting.append(update_metadata(0, leader=-2))
    waiting.append(leader_and_isr())
    waiting.drop_all_but_deletions()
    waiting.append(update_metadata(0, 1, leader=1, topic_id=NEW_ID))

    assert leaders_queued(waiting) == [{"t-0": -2}, {"t-0": 1, "t-1": 1}]


def test_a_dropped_queue_keeps_no_id_of_a_topic_that_it_does_not_remove() -> None:
    gone, other = update_metadata(0, leader=-2).body, update_metadata(0, topic="u").body
    both = UpdateMetadataBody({**gone.partitions, **other.partitions}, {"t": T_ID, "u": T_ID}, ())
    waiting = merging_queue()
    waiting.append(UpdateMetadataRequest(1, 5, 1, both))
    waiting.drop_all_but_deletions()
    waiting.append(update_metadata(0, topic="u", topic_id=None))

    assert only_update(waiting).body.topic_ids == {"t": T_ID}


def test_an_update_metadata_is_not_moved_across_another_request() -> None:
    waiting = merging_queue()
    for request in (update_metadata(0), leader_and_isr(), update_metadata(1)):
        waiting.append(request)

    assert len(waiting) == 3


def test_a_request_in_flight_absorbs_no_other() -> None:
    waiting = merging_queue()
    waiting.append(update_metadata(0))
    begun = waiting.pop().request
    waiting.append(update_metadata(1))

    assert isinstance(begun, UpdateMetadataRequest)
    assert [tp.partition for tp in begun.body.partitions] == [0]


def test_brokers_that_merge_the_same_bodies_share_the_result() -> None:
    merger, older, newer = BodyMerger(), update_metadata(0), update_metadata(1)
    queues = [merging_queue(merger), merging_queue(merger)]
    for waiting in queues:
        waiting.append(older)
        waiting.append(newer)

    first, second = (only_update(waiting) for waiting in queues)

    assert first.body is second.body


def test_a_dropped_queue_keeps_its_deletions() -> None:
    both = {
        TopicPartition("u", 0): StopReplicaPartition(-2, True),
        TopicPartition("v", 0): StopReplicaPartition(3, False),
    }
    mixed = StopReplicaRequest(1, 5, 1, both)
    waiting = queue()
    for request in (leader_and_isr(), stop_replica(delete=True), update_metadata(0), mixed, stop_replica(delete=False)):
        waiting.append(request)

    assert waiting.drop_all_but_deletions() == 3
    kept = [list(request.partitions) for request in content(waiting) if isinstance(request, StopReplicaRequest)]
    assert kept == [[TopicPartition("t", 0)], [TopicPartition("u", 0)]]


def test_a_dropped_queue_keeps_removals_from_the_metadata() -> None:
    waiting = queue()
    for request in (update_metadata(0, 1, leader=1), update_metadata(2, leader=-2), update_metadata(3, leader=1)):
        waiting.append(request)

    assert waiting.drop_all_but_deletions() == 2
    assert list(only_update(waiting).body.partitions) == [TopicPartition("t", 2)]


def test_a_dropped_queue_keeps_all_removals_in_one_request() -> None:
    waiting = queue()
    for topic_id in (T_ID, NEW_ID):
        waiting.append(update_metadata(0, leader=-2, topic_id=topic_id))
        waiting.append(update_metadata(0, leader=1, topic_id=topic_id))
        waiting.append(stop_replica(delete=True))
    waiting.append(update_metadata(3, leader=-2, topic="u", live=2))
    waiting.append(update_metadata(4, live=3))

    assert waiting.drop_all_but_deletions() == 5
    kept = content(waiting)
    assert [type(request) for request in kept] == [UpdateMetadataRequest, StopReplicaRequest, StopReplicaRequest]
    assert isinstance(kept[0], UpdateMetadataRequest)
    assert {str(tp): entry.state.leader for tp, entry in kept[0].body.partitions.items()} == {"t-0": -2, "u-3": -2}
    assert kept[0].body.topic_ids == {"t": NEW_ID, "u": T_ID}
    assert len(kept[0].body.live_brokers) == 3


@dataclass(frozen=True, eq=False)
class LaterBody(UpdateMetadataBody):
    """A body with a field of a later version."""

    kind: str = "none"


def with_kind(request: UpdateMetadataRequest, kind: str) -> UpdateMetadataRequest:
    body = request.body
    return replace(request, body=LaterBody(body.partitions, body.topic_ids, body.live_brokers, kind))


def kind_of(request: UpdateMetadataRequest) -> str:
    assert isinstance(request.body, LaterBody)
    return request.body.kind


def test_a_merged_request_has_every_other_field_of_the_newer_one() -> None:
    waiting = merging_queue()
    waiting.append(with_kind(update_metadata(0), "older"))
    waiting.append(with_kind(update_metadata(1), "newer"))

    assert kind_of(only_update(waiting)) == "newer"


def test_a_request_of_removals_has_every_other_field_of_the_latest_one() -> None:
    waiting = queue()
    waiting.append(with_kind(update_metadata(0, leader=-2), "removal"))
    waiting.append(with_kind(update_metadata(1), "latest"))
    waiting.drop_all_but_deletions()

    assert kind_of(only_update(waiting)) == "latest"


def test_the_queue_of_a_silent_broker_does_not_grow_with_topics_that_are_deleted_and_created_anew() -> None:
    waiting = merging_queue()
    waiting.append(update_metadata(0, leader=-2))
    waiting.drop_all_but_deletions()
    for topic_id in (NEW_ID, T_ID) * 50:
        waiting.append(update_metadata(0, leader=-2, topic_id=topic_id))

    assert len(waiting) == 1


def test_a_dropped_queue_keeps_the_age_and_order_of_its_requests() -> None:
    clock = ChannelClock()
    waiting = queue(clock=clock)
    for request in (stop_replica(delete=True), update_metadata(0, leader=-2), stop_replica(delete=True, partition=1)):
        waiting.append(request)
        clock.now += 1.0
    waiting.drop_all_but_deletions()

    assert [age_s for _, age_s in waiting.first(3)] == [3.0, 2.0, 1.0]


def test_the_age_limit_of_a_dropped_queue_starts_anew_when_it_may_be_filled_again() -> None:
    clock = ChannelClock()
    waiting = queue(ChannelSettings(max_queue_age_s=10.0), clock=clock)
    waiting.append(stop_replica(delete=True))
    clock.now = 11.0
    waiting.drop_all_but_deletions()
    clock.now = 1000.0
    before = waiting.is_beyond_limits()
    waiting.restart_age_limit()
    after = waiting.is_beyond_limits()
    clock.now = 1011.0

    assert (before, after, waiting.is_beyond_limits()) == (True, False, True)


def test_the_size_is_that_of_the_queued_requests() -> None:
    waiting = merging_queue()
    for request in (leader_and_isr(), update_metadata(0), update_metadata(1), stop_replica(delete=True)):
        waiting.append(request)
    waiting.drop_all_but_deletions()
    waiting.append(leader_and_isr())
    content(waiting)

    assert waiting.bytes == 0


def test_a_queue_is_beyond_its_limits_by_size_or_by_age() -> None:
    clock = ChannelClock()
    waiting = queue(ChannelSettings(max_queue_bytes=500, max_queue_age_s=10.0), clock=clock)
    waiting.append(leader_and_isr())
    small = waiting.is_beyond_limits()
    clock.now = 11.0
    old = waiting.is_beyond_limits()
    clock.now = 0.0
    for _ in range(10):
        waiting.append(leader_and_isr())

    assert (small, old, waiting.is_beyond_limits()) == (False, True, True)
