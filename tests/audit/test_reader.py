"""The findings of the reader about logs that were damaged by accident or by hand."""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from zstandard import ZstdCompressor

from controllerd.audit.chain import RawLine
from controllerd.audit.findings import Harm
from controllerd.audit.heads import ExportedHead
from controllerd.audit.lines import Head, decode_line
from controllerd.audit.reader import (
    AuditReader,
    Report,
    TornTail,
    Unreadable,
    fold_directory,
    read_segment,
    verify,
)
from controllerd.audit.segments import Segment, compress, list_segments, read_lines
from controllerd.record.envelope import UnknownRecord
from controllerd.record.records import TopicsRecord
from tests.audit.forgery import new_log, write
from tests.audit.samples import CLUSTER, NODE, alarms, make_writer, read_log, write_log

Lines = list[bytes]


async def two_segments(root: Path) -> list[Segment]:
    """Ten records of one boot: seq 1 to 5 in one segment and 6 to 10 in the next."""
    writer = make_writer(root, boot="boot", segment_bytes=1)
    await writer.start(CLUSTER)
    writer.record(*alarms(5))
    await writer.accepted()
    writer.record(*alarms(5, 6))
    await writer.close()
    segments = plain_segments(writer.directory)
    assert len(segments) == 2
    return segments


def plain_segments(directory: Path) -> list[Segment]:
    """The segments of a closed log, each as plain text, so that a test can change them."""
    for segment in list_segments(directory):
        if segment.is_compressed:
            segment.path.with_suffix("").write_bytes(b"".join(read_lines(segment)))
            segment.path.unlink()
    return list_segments(directory)


def rewrite(segment: Segment, change: Callable[[Lines], Lines]) -> None:
    """Change the lines of a segment, as plain text."""
    segment.path.write_bytes(b"".join(change(segment.path.read_bytes().splitlines(keepends=True))))


def edited(line: bytes) -> bytes:
    """The line with another detail."""
    document = json.loads(line)
    document["data"]["detail"] = "something else"
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def harms(report: Report) -> list[tuple[Harm, int, int | None]]:
    """The harms of a report with their ranges."""
    return [(finding.harm, finding.first_seq, finding.last_seq) for finding in report.findings]


@pytest.fixture
async def log(tmp_path: Path) -> Path:
    """A log of one segment with seq 1 to 9."""
    return await write_log(tmp_path, *alarms(9), boot="boot")


def segment_of(log: Path) -> Segment:
    """The only segment."""
    (segment,) = list_segments(log)
    return segment


def test_an_untouched_log_is_intact(log: Path) -> None:
    report = verify(log)
    assert (report.findings, report.lines, report.exit_code) == ((), 9, 0)


def test_an_edited_line_is_named(log: Path) -> None:
    rewrite(segment_of(log), lambda lines: [*lines[:4], edited(lines[4]), *lines[5:]])
    assert harms(verify(log)) == [(Harm.EDITED, 5, 5)]


def test_deleted_lines_are_named(log: Path) -> None:
    rewrite(segment_of(log), lambda lines: lines[:3] + lines[6:])
    assert harms(verify(log)) == [(Harm.DELETED, 4, 6)]


def test_reordered_lines_are_named(log: Path) -> None:
    rewrite(segment_of(log), lambda lines: [*lines[:4], lines[5], lines[4], *lines[6:]])
    assert harms(verify(log)) == [(Harm.REORDERED, 6, 6)]


def test_a_repeated_line_is_named_and_costs_nothing(log: Path) -> None:
    rewrite(segment_of(log), lambda lines: [*lines[:5], lines[4], *lines[5:]])
    assert harms(verify(log)) == [(Harm.DUPLICATED, 5, 5)]


def test_a_repeated_number_is_a_fork(log: Path) -> None:
    rewrite(segment_of(log), lambda lines: [*lines[:5], edited(lines[4]), *lines[5:]])
    assert harms(verify(log)) == [(Harm.FORKED, 5, 5)]


def test_damaged_bytes_cost_only_the_line_they_are_in(log: Path) -> None:
    rewrite(segment_of(log), lambda lines: [*lines[:4], b"\x00" * 50 + b"\n", *lines[5:]])
    assert harms(verify(log)) == [(Harm.DAMAGED, 5, 5)]
    assert [envelope.seq for envelope, _ in read_log(log)] == [1, 2, 3, 4, 6, 7, 8, 9]
    assert verify(log).exit_code == 65


def test_a_torn_tail_of_the_last_segment_is_normal(log: Path) -> None:
    path = segment_of(log).path
    path.write_bytes(path.read_bytes()[:-5])
    report = verify(log)
    assert (report.findings, report.lines, len(report.torn_tails)) == ((), 8, 1)


def test_garbage_after_the_last_line_is_damage_of_unknown_extent(log: Path) -> None:
    rewrite(segment_of(log), lambda lines: [*lines, b"garbage\n"])
    assert harms(verify(log)) == [(Harm.DAMAGED, 10, None)]


async def test_a_segment_without_its_end_is_truncated(tmp_path: Path) -> None:
    first, second = await two_segments(tmp_path)
    rewrite(first, lambda lines: lines[:3])
    assert harms(verify(second.path.parent)) == [(Harm.TRUNCATED, 4, 5)]


async def test_swapped_segments_are_reordered(tmp_path: Path) -> None:
    first, second = await two_segments(tmp_path)
    one, other = first.path.read_bytes(), second.path.read_bytes()
    first.path.write_bytes(other)
    second.path.write_bytes(one)
    report = verify(first.path.parent)
    assert {finding.harm for finding in report.findings} == {Harm.REORDERED}


async def test_a_removed_first_segment_is_noted_because_old_segments_may_be_gone(tmp_path: Path) -> None:
    first, second = await two_segments(tmp_path)
    first.path.unlink()
    report = verify(second.path.parent)
    assert report.is_intact
    assert "older segments are gone" in report.notes[0]


async def test_the_missing_end_of_an_earlier_boot_is_truncated(tmp_path: Path) -> None:
    directory = await write_log(tmp_path, *alarms(5), boot="one")
    await write_log(tmp_path, *alarms(2), boot="two")
    rewrite(plain_segments(directory)[0], lambda lines: lines[:2])
    assert harms(verify(directory)) == [(Harm.TRUNCATED, 3, None)]


async def test_a_damaged_compressed_segment_costs_its_rest_only(tmp_path: Path) -> None:
    first, second = await two_segments(tmp_path)
    path = compress(first.path)
    path.write_bytes(path.read_bytes()[:-20])
    assert harms(verify(second.path.parent)) == [(Harm.DAMAGED, 1, 5)]


async def test_an_empty_segment_is_no_damage(tmp_path: Path) -> None:
    directory = await write_log(tmp_path, *alarms(2), boot="one")
    (directory / "zero-00000002.jsonl").touch()
    await write_log(tmp_path, *alarms(2), boot="two")
    assert verify(directory).is_intact


def test_lines_of_another_cluster_are_foreign(log: Path) -> None:
    rewrite(segment_of(log), lambda lines: [*lines[:8], lines[8].replace(CLUSTER.encode(), b"other")])
    assert harms(verify(log)) == [(Harm.FOREIGN, 9, 9)]


def test_with_the_exported_head_a_cut_end_is_found(log: Path) -> None:
    head = verify(log).head
    rewrite(segment_of(log), lambda lines: lines[:7])
    assert verify(log).is_intact
    assert harms(verify(log, head)) == [(Harm.TRUNCATED, 8, 9)]


def test_with_the_exported_head_a_rewritten_history_is_a_fork(log: Path) -> None:
    head = verify(log).head
    rewrite(segment_of(log), lambda lines: [*lines[:8], edited(lines[8])])
    assert verify(log).is_intact
    assert harms(verify(log, head)) == [(Harm.FORKED, 1, 9)]


def test_with_the_exported_head_a_restored_old_copy_is_rolled_back(log: Path) -> None:
    assert harms(verify(log, Head("later boot", 4, "0" * 64))) == [(Harm.ROLLED_BACK, 1, 4)]


async def test_kinds_of_a_newer_version_are_counted_and_left_out(log: Path) -> None:
    rewrite(segment_of(log), lambda lines: [line.replace(b'"kind":"alarm"', b'"kind":"omen"') for line in lines])
    reader = AuditReader(log)
    assert list(reader) == []
    assert reader.report().unknown_kinds == {"omen": 9}
    assert [record for _, record in AuditReader(log, keep_unknown=True)] == [UnknownRecord("omen")] * 9


async def test_a_directory_is_folded_to_the_state_after_its_last_record(tmp_path: Path) -> None:
    directory = await write_log(tmp_path, TopicsRecord(["a"], ["id"], [3]))
    assert fold_directory(directory).topic_ids() == {"a": "id"}


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_with_the_exported_head_every_changed_byte_is_found(log: Path, data: st.DataObject) -> None:
    path = segment_of(log).path
    whole, head = path.read_bytes(), verify(log).head
    at = data.draw(st.integers(0, len(whole) - 1))
    other = data.draw(st.integers(0, 255).filter(lambda byte: byte != whole[at]))
    try:
        path.write_bytes(whole[:at] + bytes([other]) + whole[at + 1 :])
        assert not verify(log, head).is_intact
    finally:
        path.write_bytes(whole)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=st.lists(st.integers(0, 8), max_size=12))
def test_with_the_exported_head_every_other_order_or_choice_of_lines_is_found(log: Path, order: list[int]) -> None:
    path = segment_of(log).path
    whole, head = path.read_bytes(), verify(log).head
    lines = whole.splitlines(keepends=True)
    try:
        path.write_bytes(b"".join(lines[index] for index in order))
        assert verify(log, head).is_intact == (order == list(range(9)))
    finally:
        path.write_bytes(whole)


async def test_a_segment_that_is_compressed_while_it_is_read_is_found_again(tmp_path: Path) -> None:
    first, _ = await two_segments(tmp_path)
    compress(first.path)
    assert len(list(read_lines(first))) == 5


def test_lines_of_a_newer_schema_are_counted_and_noted(log: Path) -> None:
    rewrite(segment_of(log), lambda lines: [*lines[:4], *(line.replace(b'{"v":1', b'{"v":2') for line in lines[4:])])
    report = verify(log)
    assert report.newer_lines == 5
    assert any(note.startswith("5 lines were written with schema 2, this version knows 1: ") for note in report.notes)


def test_a_record_with_other_fields_is_counted_and_left_out(log: Path) -> None:
    rewrite(segment_of(log), lambda lines: [*lines[:8], lines[8].replace(b'"what"', b'"wot"')])
    reader = AuditReader(log)
    assert len(list(reader)) == 8
    assert reader.report().unknown_kinds == {"alarm": 1}


# -- bad input ---------------------------------------------------------------------------------------------------------


def test_a_flipped_bit_costs_the_line_that_it_is_in(tmp_path: Path) -> None:
    for seed in range(300):
        rng = Random(f"bit {seed}")
        directory = write(new_log(rng, boots=2), tmp_path / str(seed))
        segment = rng.choice(list_segments(directory)[:-1])
        content = bytearray(segment.path.read_bytes())
        lines = [line for line in bytes(content).splitlines(keepends=True) if line.endswith(b"\n")]
        at = rng.randrange(len(lines))
        if at + 1 == bytes(content).count(b"\n") or b'"kind":"gap"' in lines[at]:
            continue  # the next line is elsewhere, or this one stands for others: that has its own tests
        victim = sum(map(len, lines[:at])) + rng.randrange(len(lines[at]) - 1)
        content[victim] ^= 1 << rng.randrange(8)
        segment.path.write_bytes(content)
        report = verify(directory)
        own = decode_line(lines[at][:-1])
        assert report.exit_code == 65
        assert all(finding.covers(own.boot, own.seq) or finding.harm is Harm.FOREIGN for finding in report.findings), (
            seed
        )


async def test_a_duplicated_file_is_reported_and_costs_nothing(tmp_path: Path) -> None:
    first, second = await two_segments(tmp_path)
    copy = second.path.with_name("boot-00000009.jsonl")
    copy.write_bytes(first.path.read_bytes())
    assert harms(verify(copy.parent)) == [(Harm.DUPLICATED, 1, 5)]


async def test_a_file_of_another_cluster_is_reported_and_disturbs_nothing(tmp_path: Path) -> None:
    first, second = await two_segments(tmp_path)
    other = first.path.read_bytes().replace(CLUSTER.encode(), b"other").replace(b'"boot":"boot"', b'"boot":"alien"')
    first.path.with_name("alien-00000002.jsonl").write_bytes(other[: other.index(b"\n") + 1])
    assert harms(verify(second.path.parent)) == [(Harm.FOREIGN, 1, 1)]


async def test_a_missing_middle_is_exact(tmp_path: Path) -> None:
    directory = write(new_log(Random("missing")), tmp_path / "log")
    middle = list_segments(directory)[1]
    entries = [decode_line(line[:-1]) for line in read_lines(middle) if line.endswith(b"\n")]
    middle.path.unlink()
    (finding,) = verify(directory).findings
    assert finding.covers(entries[0].boot, entries[0].seq)
    assert not finding.covers(entries[0].boot, entries[0].seq - 1)


async def test_a_damaged_frame_costs_its_own_lines_only(tmp_path: Path) -> None:
    first, second = await two_segments(tmp_path)
    frames = [ZstdCompressor(write_checksum=True).compress(line) for line in read_lines(first)]
    frames[1] = frames[1][:40] + bytes([frames[1][40] ^ 255]) + frames[1][41:]
    first.path.with_name(first.path.name + ".zst").write_bytes(b"".join(frames))
    first.path.unlink()
    assert [envelope.seq for envelope, _ in read_log(second.path.parent)] == [1, 3, 4, 5, 6, 7, 8, 9, 10]
    assert harms(verify(second.path.parent)) == [(Harm.DAMAGED, 2, 2)]


async def test_a_compressed_segment_of_no_bytes_is_damage(tmp_path: Path) -> None:
    first, second = await two_segments(tmp_path)
    first.path.with_name(first.path.name + ".zst").touch()
    first.path.unlink()
    assert harms(verify(second.path.parent)) == [(Harm.DAMAGED, 1, 5)]


def test_zeros_after_the_last_newline_are_a_torn_tail(log: Path) -> None:
    path = segment_of(log).path
    path.write_bytes(path.read_bytes() + bytes(4096))
    report = verify(log)
    assert (report.is_intact, [torn.bytes for torn in report.torn_tails]) == (True, [4096])


def test_an_empty_directory_has_no_lines_and_no_harm(tmp_path: Path) -> None:
    report = verify(tmp_path)
    assert (report.lines, report.head, report.findings) == (0, None, ())


def test_an_empty_directory_is_rolled_back_against_a_head(tmp_path: Path) -> None:
    assert harms(verify(tmp_path, Head("boot", 3, "0" * 64))) == [(Harm.ROLLED_BACK, 1, 3)]


async def test_a_single_record_is_a_whole_log(tmp_path: Path) -> None:
    report = verify(await write_log(tmp_path, *alarms(1)))
    assert (report.is_intact, report.lines) == (True, 1)


async def test_a_segment_is_read_by_itself_with_what_is_wrong_in_it(tmp_path: Path) -> None:
    first, _ = await two_segments(tmp_path)
    rewrite(first, lambda lines: [lines[0], b"garbage\n", lines[2], b"torn"])
    whole, bad, other, torn = read_segment(first.path)
    assert isinstance(whole, RawLine)
    assert isinstance(other, RawLine)
    assert (whole.entry.seq, other.line, other.entry.seq) == (1, 3, 3)
    assert isinstance(bad, Unreadable)
    assert (bad.segment, bad.line) == (first.path.name, 2)
    assert torn == TornTail(first.path.name, 4, 4)


def test_segments_before_the_log_that_hold_the_only_head_are_missed(log: Path) -> None:
    old = ExportedHead.of(Head("before", 3, "0" * 64), cluster=CLUSTER, node=NODE, epoch=1, exported_ms=1)
    (finding,) = verify(log, heads=[old]).findings
    assert (finding.harm, finding.boot, finding.last_seq) == (Harm.DELETED, "before", 3)
