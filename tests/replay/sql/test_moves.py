"""Reassignments and deletions, and the causes of their delays."""

from tests.replay.sql.book import Book, answer, columns

T = "t-0"
MOVE = ("begun_ms", "ended_ms", "duration_us", "outcome", "adding", "waited_for", "caught_up_ms")


def step(book: Book, name: str) -> Book:
    """A step of the reassignment of t-0."""
    return book.add("reassignment", topic="t", partition=0, after=name)


def begun(*adding: int) -> Book:
    """A reassignment to these brokers is asked for."""
    book = Book().leads(T, 1, 1, 2).at(100)
    return step(book, "begun").assigned(T, [*adding, 1, 2], adding, [1, 2]).leads(T, 1, 1, 2, epoch=1)


def test_a_reassignment_waits_for_the_last_replica_that_joined() -> None:
    book = begun(3, 4).at(200).leads(T, 1, 1, 2, 4).at(300).leads(T, 1, 1, 2, 4, 3).at(310)
    step(step(book, "completing"), "completed").leads(T, 3, 3, 4)
    assert columns(answer(book, "reassignments"), *MOVE) == [(100, 311, 211_000, "completed", [3, 4], [3], 300)]
    assert columns(answer(book, "reassignments"), "replicas", "removing") == [([3, 4, 1, 2], [1, 2])]


def test_an_open_reassignment_waits_for_all_replicas_that_have_not_joined() -> None:
    assert columns(answer(begun(3, 4, 5).leads(T, 1, 1, 2, 4), "reassignments"), *MOVE) == [
        (100, None, None, None, [3, 4, 5], [3, 5], None)
    ]


def test_a_replica_that_falls_out_again_is_waited_for_again() -> None:
    book = begun(3).at(200).leads(T, 1, 1, 2, 3).at(300).leads(T, 1, 1, 2)
    assert columns(answer(book, "reassignments"), "waited_for", "caught_up_ms") == [([3], None)]
    book.at(400).leads(T, 1, 1, 2, 3)
    assert columns(answer(book, "reassignments"), "waited_for", "caught_up_ms") == [([3], 400)]


def test_an_overridden_reassignment_ends_where_the_next_begins_and_a_cancelled_one_at_its_cancellation() -> None:
    book = begun(3).at(200)
    step(book, "overridden").assigned(T, [4, 1, 2], [4], [1, 2]).at(300)
    step(book, "cancelled").assigned(T, [1, 2])
    step(step(book, "completing"), "completed")
    assert columns(answer(book, "reassignments"), *MOVE) == [
        (100, 200, 100_000, "overridden", [3], [3], None),
        (200, 300, 100_000, "cancelled", [4], [4], None),
    ]


def test_a_reassignment_without_new_replicas_waits_for_no_broker() -> None:
    book = step(Book(), "begun").assigned(T, [2, 1])
    step(book.at(50), "completed")
    assert columns(answer(book, "reassignments"), *MOVE) == [(0, 50, 50_000, "completed", [], [], None)]


def test_the_next_controller_continues_the_same_reassignment() -> None:
    book = begun(3).at(500, epoch=2, node=8, boot="d").snapshot()
    step(book, "resumed").at(600)
    step(book.leads(T, 1, 1, 2, 3), "completed")
    assert columns(answer(book, "reassignments"), *MOVE) == [(100, 601, 501_000, "completed", [3], [3], 600)]


def test_a_reassignment_that_another_controller_finished_ended_before_its_snapshot() -> None:
    book = begun(3).at(500, epoch=3, node=8).event(1, "Startup").add("snapshot_begin").assigned(T, [3]).leads(T, 3, 3)
    book.add("snapshot_end").done()
    assert columns(answer(book, "reassignments"), "ended_ms", "outcome") == [(502, "completed")]
    book.rows[-4]["replicas"] = [1, 2]
    assert columns(answer(book, "reassignments"), "ended_ms", "outcome") == [(502, "cancelled")]


def test_a_reassignment_of_a_deleted_topic_has_the_outcome_deleted() -> None:
    book = begun(3).at(500).add("topics_forgotten", topic="t")
    assert columns(answer(book, "reassignments"), "ended_ms", "outcome") == [(500, "deleted")]


DELETION = ("asked_ms", "started_ms", "ended_ms", "duration_us", "halts", "halted_us", "blocked_by")


def deletion(book: Book, change: str, reason: str | None = None) -> Book:
    """A step of the deletion of t."""
    return book.add("deletion", topic="t", after=change, reason=reason)


def test_a_deletion_counts_its_halts_and_names_every_reason_once() -> None:
    book = deletion(deletion(Book(event=5), "queued"), "started").at(100)
    deletion(deletion(book, "halted", "broker 3 is away").at(150), "halted", "broker 4 is away").at(300)
    deletion(deletion(book, "resumed").at(400), "halted", "broker 3 is away").at(450)
    deletion(book, "resumed").at(500).add("topics_forgotten", topic="t")
    assert columns(answer(book, "deletions"), *DELETION) == [
        (0, 1, 500, 500_000, 2, 250_000, "broker 3 is away; broker 4 is away")
    ]


def test_a_deletion_that_lasts_is_halted_up_to_the_last_record() -> None:
    book = deletion(deletion(Book(event=5), "queued").at(10), "halted", "reassignment").at(1000).add("alarm", name="x")
    assert columns(answer(book, "deletions"), *DELETION) == [(0, None, None, None, 1, 990_000, "reassignment")]


def test_a_periodic_snapshot_adds_no_halt() -> None:
    book = deletion(deletion(Book(event=5), "queued"), "started").at(10)
    deletion(book, "halted", "r").at(100, event=0).add("snapshot_begin")
    deletion(deletion(deletion(book, "queued"), "started"), "halted", "r").add("snapshot_end").at(200, event=6)
    deletion(book, "resumed").at(300).add("topics_forgotten", topic="t")
    assert columns(answer(book, "deletions"), *DELETION) == [(0, 1, 300, 300_000, 1, 190_000, "r")]


def test_the_next_term_queues_the_same_deletion_again() -> None:
    book = deletion(Book(event=5), "queued").at(100, epoch=2, node=8).snapshot(event=1)
    deletion(deletion(book, "queued"), "started").at(200).add("topics_forgotten", topic="t").done()
    assert columns(answer(book, "deletions"), *DELETION) == [(0, 104, 200, 200_000, 0, 0, None)]


def test_a_deletion_that_the_next_snapshot_does_not_know_ended_before_it() -> None:
    book = deletion(deletion(Book(event=5), "queued"), "halted", "r").at(100, epoch=2, node=8).snapshot(event=1).done()
    book.at(900, epoch=3, node=9).snapshot(event=1)
    deletion(book.at(950), "queued").done()
    assert columns(answer(book, "deletions"), *DELETION) == [
        (0, None, 101, 101_000, 1, 100_000, "r"),
        (950, None, None, None, 0, 0, None),
    ]


def test_a_topic_may_be_deleted_again() -> None:
    book = deletion(Book(event=5), "queued").at(50).add("topics_forgotten", topic="t").at(90)
    deletion(book, "queued").add("topics_forgotten", topic="t").at(99).add("topics_forgotten", topic="other")
    assert columns(answer(book, "deletions"), "asked_ms", "ended_ms") == [(0, 50), (90, 91)]
