"""The beginning of the present leadership of a partition, found in the recent records."""

from controllerd.core.model import TopicPartition
from controllerd.record.envelope import RecentRecord
from controllerd.record.records import LeadershipRecord, PartitionStateRecord, Record, SnapshotBegin, SnapshotEnd
from controllerd.slicer import Slicer
from controllerd.status.reads.changes import WantedPartitions, last_changes

TP = TopicPartition("t", 0)
NONE, NEW, ONLINE, OFFLINE = ("NonExistentPartition", "NewPartition", "OnlinePartition", "OfflinePartition")


def led(leader: int, isr: tuple[int, ...] = (1, 2)) -> LeadershipRecord:
    return LeadershipRecord(["t"], [0], [leader], [5], [list(isr)], [11], [10], [0])


def moved(before: str, after: str) -> PartitionStateRecord:
    return PartitionStateRecord(["t"], [0], [before], [after])


LOADED_BY_1: list[Record] = [SnapshotBegin(1), led(1), SnapshotEnd(2, 1, 1), moved(NONE, ONLINE)]


async def since(*records: Record) -> int | None:
    """The number, from 0, of the record that changed the partition last; None if it is not among the records."""
    entries = [RecentRecord(number, number, 1, number, "event", record) for number, record in enumerate(records)]
    wanted = WantedPartitions()
    wanted.add("t", 0)
    found = (await last_changes(entries[::-1], wanted, Slicer())).of(TP).since
    return None if found is None else found.number


async def test_an_orderly_move_of_the_leader_is_a_change_though_the_state_stays_online() -> None:
    assert await since(led(1), moved(NEW, ONLINE), led(2)) == 2


async def test_an_orderly_move_after_a_takeover_counts_and_not_the_takeover() -> None:
    assert await since(*LOADED_BY_1, led(2)) == 4


async def test_an_isr_change_after_an_orderly_move_is_no_change_of_the_leader() -> None:
    assert await since(*LOADED_BY_1, led(2), led(2, (2, 1, 3)), led(2, (2,))) == 4


async def test_an_isr_change_after_an_election_is_no_change_of_the_leader() -> None:
    assert await since(led(1), moved(ONLINE, OFFLINE), led(2), moved(OFFLINE, ONLINE), led(2, (2, 3))) == 3


async def test_the_newest_of_several_orderly_moves_counts() -> None:
    assert await since(*LOADED_BY_1, led(2), led(1), led(2)) == 6


async def test_without_a_move_the_last_transition_is_the_change() -> None:
    assert await since(*LOADED_BY_1, led(1, (1,))) == 3


async def test_without_the_leadership_before_a_transition_the_transition_is_the_change() -> None:
    assert await since(moved(OFFLINE, ONLINE), led(2, (2, 3))) == 0
