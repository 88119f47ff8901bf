"""The cluster at a moment of the past: of one log, and of several nodes' logs in the right order."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import pytest

from controllerd.record.digest import digest_of
from controllerd.record.envelope import Envelope
from controllerd.record.fold import apply
from controllerd.record.records import (
    AlarmRecord,
    BrokerRow,
    BrokersRecord,
    EventEnd,
    GapRecord,
    LeadershipRecord,
    Record,
    SessionRecord,
    SnapshotBegin,
    SnapshotEnd,
    TermRecord,
    TopicsRecord,
)
from controllerd.record.state import ClusterState
from controllerd.record.travel import NoSuchMoment, StateFold, merged, state_at
from tests.fakes.world import tp
from tests.record.logs import NODE, Log, good_log, index_of
from tests.record.true_logs import true_log

OTHER: Final = NODE + 1
Line = tuple[int, int, str]


def leader(state: ClusterState) -> int | None:
    known = state.partition(tp("a"))
    return None if known is None or known.leadership is None else known.leadership.leader


def lines(node: int, *of: Line) -> Log:
    """Records that say nothing but their name: epoch, wall clock, name."""
    return [
        (Envelope(1, "alarm", "cluster", node, "boot", seq, epoch, 0, ts_ms, seq, ""), AlarmRecord(name, ""))
        for seq, (epoch, ts_ms, name) in enumerate(of, 1)
    ]


def names(log: Iterator[tuple[Envelope, Record]]) -> str:
    return "".join(record.what for _, record in log if isinstance(record, AlarmRecord))


# -- moments -----------------------------------------------------------------------------------------------------------


def test_without_a_moment_it_is_the_end() -> None:
    moment = state_at(good_log())
    assert (leader(moment.state), moment.at) == (2, good_log()[-1][0])


def test_a_time_is_the_last_record_that_is_not_later() -> None:
    log = good_log()
    elected = index_of(log, LeadershipRecord, 1)
    at = log[elected][0].ts_ms
    assert [leader(state_at(log, time_ms=at + by).state) for by in (-1, 0, 1)] == [1, 2, 2]


def test_a_number_is_the_state_after_that_record() -> None:
    log = good_log()
    elected = log[index_of(log, LeadershipRecord, 1)][0].seq
    before, after = state_at(log, seq=elected - 1), state_at(log, seq=elected)
    assert (leader(before.state), leader(after.state), after.at.seq) == (1, 2, elected)


def test_a_number_is_searched_in_the_selected_log() -> None:
    others = [(replace(envelope, node=OTHER, epoch=8), record) for envelope, record in good_log()]
    log = [*good_log(), *others]
    assert state_at(log, seq=9).at.node == NODE
    assert state_at(log, seq=9, node=OTHER).at == others[8][0]
    assert state_at(log, seq=9, epoch=8).at == others[8][0]


def test_an_epoch_is_its_end() -> None:
    log = [*good_log(), *[(replace(envelope, node=OTHER, epoch=9), record) for envelope, record in good_log()[:9]]]
    assert state_at(log, epoch=7).at == good_log()[-1][0]
    assert leader(state_at(log, epoch=9).state) == 1


def test_the_log_is_read_up_to_the_moment_only() -> None:
    def endless() -> Iterator[tuple[Envelope, Record]]:
        yield from good_log()
        raise AssertionError("read on")

    assert state_at(endless(), seq=12).at.seq == 12
    assert state_at(endless(), time_ms=good_log()[-2][0].ts_ms).at.seq == good_log()[-2][0].seq


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (
            {"time_ms": 5},
            "no record of time 1970-01-01T00:00:00.005Z: the log begins later, with seq 1 of node 2000000000",
        ),
        ({"seq": 500}, "no record of seq 500: the last one before is seq 32 of node 2000000000"),
        ({"seq": 5, "node": 3}, "no record of seq 5, node 3: the last one before is seq 32"),
        ({"epoch": 6}, "no record of epoch 6: the log begins later"),
        ({"epoch": 9}, "no record of epoch 9: the last one before is seq 32"),
    ],
)
def test_a_moment_that_is_not_in_the_log_is_refused_with_the_nearest_record(asked: dict[str, int], why: str) -> None:
    with pytest.raises(NoSuchMoment, match="no record") as refusal:
        state_at(
            good_log(),
            time_ms=asked.get("time_ms"),
            seq=asked.get("seq"),
            epoch=asked.get("epoch"),
            node=asked.get("node"),
        )
    assert str(refusal.value).startswith(why)


def test_an_empty_log_has_no_moment() -> None:
    with pytest.raises(NoSuchMoment, match="no record of any record: the log is empty"):
        state_at([])


def test_while_a_snapshot_is_written_the_state_is_the_one_before_it() -> None:
    log = good_log()
    last = log[-1][0]
    more: list[Record] = [SnapshotBegin(8), BrokersRecord(live=[BrokerRow(3, 103, [], None)]), SnapshotEnd(1, 0, 0)]
    log += [(replace(last, epoch=8, kind=r.kind, seq=last.seq + n), r) for n, r in enumerate(more, 1)]
    during, after = state_at(log, seq=last.seq + 2).state, state_at(log, seq=last.seq + 3).state
    assert (leader(during), sorted(during.brokers)) == (2, [1, 2])
    assert (leader(after), sorted(after.brokers)) == (None, [3])


def test_a_periodic_snapshot_changes_nothing_for_a_reader_of_the_earlier_records() -> None:
    log = good_log()
    last = log[-1][0]
    more: list[Record] = [SnapshotBegin(7, periodic=True), TopicsRecord(["a"], ["id-a"], [0]), SnapshotEnd(2, 1, 1)]
    log += [(replace(last, event=0, kind=r.kind, seq=last.seq + n), r) for n, r in enumerate(more, 1)]
    assert {digest_of(state_at(log, seq=last.seq + by).state) for by in range(4)} == {
        digest_of(state_at(good_log()).state)
    }


def test_a_loss_within_a_snapshot_does_not_mix_the_next_one_with_the_state_before_it() -> None:
    fold = StateFold()
    for envelope, record in good_log():
        fold.apply(envelope, record)
    before, last = digest_of(fold.state), good_log()[-1][0]
    incomplete = [SnapshotBegin(7), TopicsRecord(["b"], [None], [0]), GapRecord(1, 90, 90, "the disk was full")]
    for record in (*incomplete, SnapshotBegin(7, periodic=True), TopicsRecord(["c"], [None], [0])):
        fold.apply(last, record)
        assert digest_of(fold.state) == before
    fold.apply(last, SnapshotEnd(0, 1, 0))
    assert fold.state.topics.keys() == {"c"}


def test_a_log_may_begin_at_a_snapshot() -> None:
    log = good_log()
    begin = index_of(log, SnapshotBegin)
    assert digest_of(state_at(log[begin:]).state) == digest_of(state_at(log).state)


# -- merging -----------------------------------------------------------------------------------------------------------


def test_terms_come_in_the_order_of_their_epochs_whatever_the_clocks_say() -> None:
    first = lines(NODE, (3, 1_000, "a"), (3, 1_100, "b"), (5, 1_400, "e"))
    second = lines(OTHER, (4, 900, "c"), (4, 950, "d"), (6, 1_000, "f"))
    assert names(merged([first, second])) == names(merged([second, first])) == "abcdef"


def test_records_outside_of_a_term_are_placed_by_the_clock() -> None:
    leads = lines(NODE, (3, 1_000, "a"), (3, 2_000, "c"), (3, 3_000, "e"))
    waits = lines(OTHER, (0, 1_500, "b"), (0, 2_500, "d"), (0, 4_000, "f"), (4, 4_500, "g"))
    assert names(merged([leads, waits])) == names(merged([waits, leads])) == "abcdefg"


def test_a_term_behind_records_without_one_is_not_missed() -> None:
    first = lines(NODE, (0, 2_000, "a"), (3, 2_100, "b"))
    second = lines(OTHER, (4, 1_900, "c"))
    assert names(merged([first, second])) == names(merged([second, first])) == "abc"


def test_each_log_stays_in_its_own_order() -> None:
    odd = lines(NODE, (3, 900, "a"), (0, 100, "b"), (0, 800, "c"), (4, 50, "d"))
    assert names(merged([odd, [], lines(OTHER, (0, 5_000, "e"))])) == "abcde"


def test_merging_reads_no_further_than_it_must() -> None:
    def endless(node: int) -> Iterator[tuple[Envelope, Record]]:
        yield from lines(node, (3 + node - NODE, 1_000, "a"), (3 + node - NODE, 1_100, "b"))
        raise AssertionError("read on")

    log = merged([endless(NODE), endless(OTHER)])
    assert next(log)[0].node == NODE


def test_the_logs_of_a_story_are_one_story() -> None:
    """Of several controllers that followed each other: taken apart, and put together again."""
    log = next(log for log in map(true_log, range(24)) if len({(e.node, e.boot) for e, _ in log if e.epoch}) > 2)
    nodes = {envelope.node for envelope, _ in log}
    together = list(merged([[entry for entry in log if entry[0].node == node] for node in nodes]))
    assert len(together) == len(log)
    begun = [r.controller_epoch for _, r in together if isinstance(r, TermRecord) and r.change == "elected"]
    assert begun == sorted(begun)
    led = [envelope for envelope, record in together if envelope.epoch and isinstance(record, EventEnd)]
    newest = max(led, key=lambda envelope: envelope.epoch)
    last = [entry for entry in log if (entry[0].node, entry[0].boot) == (newest.node, newest.boot)]
    alone = ClusterState()
    for envelope, record in last:
        apply(alone, envelope, record)
    assert digest_of(state_at(together).state) == digest_of(alone)


def test_a_controller_that_has_not_noticed_the_end_of_its_term_changes_nothing() -> None:
    log, late = good_log(), good_log()[-1][0]
    shrunk = LeadershipRecord(["a"], [0], [1], [9], [[1]], [6], [99], [0])
    state = state_at([*log, (replace(late, node=OTHER, epoch=6, kind=shrunk.kind), shrunk)]).state
    assert digest_of(state) == digest_of(state_at(log).state)


def test_records_of_other_instances_outside_of_a_term_are_not_the_controllers_state() -> None:
    fold = StateFold()
    for envelope, record in good_log():
        fold.apply(envelope, record)
    for other in (SessionRecord("lost", 1, 1), TermRecord("held", 7, 12, "2000000000", "somebody leads")):
        fold.apply(replace(good_log()[-1][0], node=OTHER, epoch=0, kind=other.kind), other)
    assert (fold.state.controller_epoch, fold.state.term) == (7, "elected")
