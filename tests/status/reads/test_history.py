"""``/v1/history`` and ``/v1/elections``."""

from controllerd.record.records import (
    DecisionRecord,
    EventBegin,
    EventEnd,
    LeadershipRecord,
    RefusedRecord,
    TermRecord,
)
from controllerd.status.schema.history import ElectionList, TermList
from tests.status.fake_controller import NODE_ID, FakeController
from tests.status.reads.conftest import Client


def led(topic: str, number: int, leader: int) -> LeadershipRecord:
    """One partition's leadership."""
    return LeadershipRecord([topic], [number], [leader], [5], [[leader]], [11], [10], [0])


async def test_terms_are_listed_newest_first(client: Client, controller: FakeController) -> None:
    controller.recent.record(
        TermRecord("held", 0, -1, "broker 2 (built-in)", "it was faster"),
        TermRecord("held", 0, -1, "broker 2 (built-in)", "it was faster"),
        TermRecord("elected", 11, 4, "broker 2 (built-in)", ""),
    )

    ours, before = (await client.get("/v1/history", TermList)).items

    assert (ours.controller_epoch, ours.holder, ours.ended) == (11, f"controllerd {NODE_ID}", None)
    assert (before.holder, before.ended is not None) == ("broker 2 (built-in)", True)
    assert before.controller_epoch is None, "its epoch was not read"


async def test_the_term_of_another_controller_has_its_epoch_if_that_was_read(
    client: Client, controller: FakeController
) -> None:
    controller.recent.record(
        TermRecord("elected", 11, 4, "nobody", ""),
        TermRecord("fenced", 11, 4, f"{NODE_ID}", "another controller has the epoch"),
        TermRecord("held", 12, -1, "broker 2 (built-in)", "it was faster"),
    )
    controller.stand_by("broker 2 (built-in) holds the role")

    theirs, ours = (await client.get("/v1/history", TermList)).items

    assert (theirs.controller_epoch, ours.controller_epoch) == (12, 11)


async def test_an_ended_term_has_its_reason(client: Client, controller: FakeController) -> None:
    controller.recent.record(
        TermRecord("elected", 11, 4, "nobody", ""),
        TermRecord("fenced", 11, 4, f"{NODE_ID}", "another controller has the epoch"),
    )
    controller.stand_by("fenced")

    now, ended = (await client.get("/v1/history", TermList)).items

    assert (ended.controller_epoch, ended.reason) == (11, "another controller has the epoch")
    assert (now.holder, now.ended) == ("broker 2 (built-in)", None)
    assert now.controller_epoch is None, "this instance only knows the epoch of its own term"


async def test_the_present_holder_is_listed_without_a_record_of_its_beginning(
    client: Client, controller: FakeController
) -> None:
    (term,) = (await client.get("/v1/history", TermList)).items

    assert (term.holder, term.ended) == (f"controllerd {NODE_ID}", None)
    assert term.controller_epoch == controller.snapshot.controller_epoch > 0


async def test_elections_name_the_leader_before(client: Client, controller: FakeController) -> None:
    controller.recent.record(
        led("orders", 0, 1),
        EventBegin(8, "BrokerChange", 2, 0.0),
        DecisionRecord("Offline", ["orders", "orders"], [0, 1], [2, 3], [[2], [3]], [False, True]),
        led("orders", 0, 2),
        RefusedRecord("election Preferred", ["audit"], [0], ["not in sync"]),
        RefusedRecord("replica transition", ["audit"], [0], ["no election"]),
        EventEnd(8, "BrokerChange", "done", 1.0),
    )

    failed, clean, unclean = (await client.get("/v1/elections", ElectionList)).items

    assert (failed.strategy, failed.leader, failed.cause) == ("Preferred", None, "not in sync")
    assert (clean.strategy, clean.trigger, clean.was, clean.leader) == ("Offline", "BrokerChange", 1, 2)
    assert (unclean.unclean, unclean.was) == (True, None)


async def test_elections_are_filtered_by_topic_and_limited(client: Client, controller: FakeController) -> None:
    for topic in ("orders", "audit", "orders"):
        controller.recent.record(DecisionRecord("Offline", [topic], [0], [2], [[2]], [False]))

    orders = await client.get("/v1/elections", ElectionList, topic="ord*")
    newest = await client.get("/v1/elections", ElectionList, limit=1)

    assert [len(orders.items), len(newest.items)] == [2, 1]
