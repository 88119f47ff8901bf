"""The records that each level writes; every level but ``off`` is enough to know the cluster."""

from pathlib import Path

import pytest

from controllerd.audit.settings import Level, at_level, is_written
from controllerd.record.digest import digest_of
from controllerd.record.envelope import Envelope
from controllerd.record.fold import apply
from controllerd.record.kinds import KINDS
from controllerd.record.records import DigestRecord, Record, ResponseRecord, SnapshotBegin
from controllerd.record.state import ClusterState
from tests.audit.samples import CLUSTER, ONE_OF_EACH, alarms, make_writer, read_log, write_log
from tests.audit.test_checkpoints import DIGEST_S, INTERVAL_S, Rested

LEFT_OUT_OF_SUMMARY = {"decision", "replica_state", "request", "zk"}


async def kinds_at(root: Path, level: Level) -> set[str]:
    """The kinds that are written of one record of each kind."""
    return {record.kind for _, record in read_log(await write_log(root, *ONE_OF_EACH, level=level))}


async def test_normal_and_full_write_every_kind(tmp_path: Path) -> None:
    assert await kinds_at(tmp_path / "normal", "normal") == KINDS.keys()
    assert await kinds_at(tmp_path / "full", "full") == KINDS.keys()


async def test_summary_leaves_out_the_kinds_that_only_rules_about_writes_and_requests_need(tmp_path: Path) -> None:
    assert await kinds_at(tmp_path, "summary") == KINDS.keys() - LEFT_OUT_OF_SUMMARY


async def test_off_writes_nothing_and_numbers_nothing(tmp_path: Path) -> None:
    writer = make_writer(tmp_path, level="off")
    await writer.start(CLUSTER)
    writer.record(*alarms(3))
    await writer.accepted()
    await writer.close()
    assert read_log(writer.directory) == []
    assert writer.records_lost == 0


async def test_records_that_are_left_out_leave_no_gap_in_the_numbers(tmp_path: Path) -> None:
    directory = await write_log(tmp_path, *ONE_OF_EACH, level="summary")
    assert [envelope.seq for envelope, _ in read_log(directory)] == list(range(1, 1 + len(read_log(directory))))


@pytest.mark.parametrize("level", ["summary", "normal", "full"])
def test_each_snapshot_says_at_which_level_it_was_written(level: Level) -> None:
    assert at_level(level, SnapshotBegin(7)) == SnapshotBegin(7, level=level)


def test_an_answer_keeps_its_latency_but_not_its_errors_in_a_summary() -> None:
    answer = ResponseRecord(1, 77, "LeaderAndIsr", 7, 5, 120, 1, 2.5, 0, {"a-0": 3})
    assert at_level("summary", answer) == ResponseRecord(1, 77, "LeaderAndIsr", 7, 5, 120, 1, 2.5, 0, {})
    assert at_level("normal", answer) is answer


def test_kinds_that_are_not_written_need_not_be_made() -> None:
    assert [kind for kind in KINDS.values() if is_written("off", kind)] == []
    assert {kind.kind for kind in KINDS.values() if not is_written("summary", kind)} == LEFT_OUT_OF_SUMMARY


async def test_at_every_level_the_fold_has_what_zookeeper_has_and_the_digests_agree() -> None:
    rested = await Rested(seed=11).start()
    for _ in range(20):
        await rested.happen()
        rested.world.clock.now += DIGEST_S
        rested.finish()
    rested.world.clock.now += INTERVAL_S
    rested.finish()
    full, summary = ClusterState(), ClusterState()
    digests = 0
    for envelope, record in rested.log():
        apply(full, envelope, record)
        digests += _fold(summary, envelope, at_level("summary", record))
    assert summary.assignments() == full.assignments()
    assert summary.leaderships() == full.leaderships()
    assert summary.topic_ids() == full.topic_ids()
    assert summary.partition_states() == full.partition_states()
    assert digests > 10


def _fold(state: ClusterState, envelope: Envelope, record: Record | None) -> bool:
    """Whether the record was a digest, which has to be that of the state."""
    if record is not None:
        apply(state, envelope, record)
    if not isinstance(record, DigestRecord):
        return False
    assert record.digest == digest_of(state)
    return True
