"""``GET /v1/status``: pauses, pending deletions, counts, the holder, and the last events."""

from types import MappingProxyType

import msgspec

from controllerd.core.intents import PauseView
from controllerd.core.model import BrokerId
from controllerd.record.records import AlarmRecord, EventBegin, EventEnd
from controllerd.status.reads.counts import Counts
from controllerd.status.schema.status import Status
from controllerd.status.view import view_status
from tests.status.fake_controller import NOW_MS, FakeController, compared


def shown(controller: FakeController, counts: Counts | None = None) -> Status:
    """The status."""
    return view_status(controller.sources(), counts or Counts()).status


def leading() -> FakeController:
    """A controller that leads."""
    controller = FakeController()
    controller.lead(12)
    return controller


def test_pauses_have_a_requester_and_an_end() -> None:
    controller = leading()
    controller.snapshot.pauses = MappingProxyType({"deletions": PauseView(NOW_MS, "migration", "alice")})

    (pause,) = shown(controller).pauses

    assert msgspec.to_builtins(pause) == {
        "what": "deletions",
        "until": "2023-11-14T22:17:32.000Z",
        "until_ms": NOW_MS,
        "reason": "migration",
        "asked_by": "alice",
    }


def test_the_last_five_events_come_newest_first() -> None:
    controller = leading()
    for number in range(1, 8):
        controller.recent.record(
            EventBegin(number, "TopicChange", 1, 0.0),
            AlarmRecord("a", "b"),
            EventEnd(number, "TopicChange", "done", number / 2),
        )
    controller.recent.record(EventEnd(8, "BrokerChange", "error", 4.0, "boom"))

    latest = shown(controller).latest_events

    assert [(each.event_id, each.outcome, each.error) for each in latest[:2]] == [
        (8, "error", "boom"),
        (7, "done", None),
    ]
    assert [each.took_ms for each in latest] == [4.0, 3.5, 3.0, 2.5, 2.0]
    assert {each.at for each in latest} == {"2023-11-14T22:17:32.000Z"}


def test_pending_deletions_are_sorted_by_broker_and_deletions_by_topic() -> None:
    controller = leading()
    controller.snapshot.pending_deletions = MappingProxyType({BrokerId(3): 7, BrokerId(2): 1})
    controller.delete("orders", held_up_by="offline replicas")
    controller.delete("audit", deleting=(1,))

    status = shown(controller)

    assert [(pending.broker, pending.replicas) for pending in status.pending_deletions] == [(2, 1), (3, 7)]
    assert [(each.topic, each.held_up_by, each.deleting) for each in status.deletions] == [
        ("audit", None, [1]),
        ("orders", "offline replicas", []),
    ]
    assert status.counts.deleting == 2


def test_the_counts_cover_all_partitions() -> None:
    counts = shown(leading(), Counts(9, under_replicated=4, non_preferred=3, waiting=2, reassigning=5)).counts

    assert (counts.topics, counts.partitions, counts.offline) == (2, 9, 1)
    assert (counts.under_replicated, counts.non_preferred, counts.waiting, counts.reassigning) == (4, 3, 2, 5)


def test_listeners_without_a_controller_are_named() -> None:
    controller = leading()
    controller.snapshot.uncovered = MappingProxyType({"EXTERNAL": "no listener of ours has this name"})

    (uncovered,) = shown(controller).uncovered

    assert (uncovered.listener, uncovered.reason) == ("EXTERNAL", "no listener of ours has this name")


def test_a_registered_instance_says_so() -> None:
    controller = leading()
    assert not shown(controller).registered

    controller.snapshot.registered = True

    assert shown(controller).registered


def test_the_holder_has_a_host_if_it_is_registered() -> None:
    controller = FakeController()
    unregistered = shown(controller).holder
    assert unregistered is not None
    assert (unregistered.kind, unregistered.host) == ("broker", None)
    controller.lead(12)
    controller.stand_by("broker 2 (built-in) holds the role")

    holder = shown(controller).holder

    assert holder is not None
    assert (holder.node_id, holder.host, holder.since) == (2, "kafka2", "2023-11-14T22:13:20.000Z")


def test_only_an_observer_shows_how_partitions_compared() -> None:
    controller = leading()
    assert shown(controller).observed is None

    controller.observe(compared("equal"), compared("equal"), compared("not judged: another leader"))

    assert shown(controller).observed == {"equal": 2, "not judged": 1}
