"""The newest lines of a log, and those that come: none is missed, and none is shown twice."""

from itertools import count, islice
from pathlib import Path

import pytest

from controllerd.audit.segments import compress, list_segments, segment_path
from controllerd.audit.tail import LogEnd, end_of, follow, newest_lines
from tests.audit.samples import CLUSTER, alarms, make_writer, write_log


@pytest.mark.parametrize("segment_bytes", [1, 1_000_000])
async def test_lines_that_are_written_during_the_reading_are_followed(tmp_path: Path, segment_bytes: int) -> None:
    writer = make_writer(tmp_path, boot="boot", segment_bytes=segment_bytes)
    await writer.start(CLUSTER)
    writer.record(*alarms(3))
    await writer.accepted()

    end = end_of(writer.directory)
    writer.record(*alarms(2, 4))
    await writer.accepted()
    newest = newest_lines(writer.directory, 2, end=end)
    await writer.close()
    coming = islice(follow(writer.directory, end, _nothing_more), 2)

    assert [line.entry.seq for line in [*newest, *coming]] == [2, 3, 4, 5]


async def test_a_reader_that_lags_finds_a_segment_that_was_compressed_meanwhile(tmp_path: Path) -> None:
    directory = await write_log(tmp_path, *alarms(3), boot="boot")
    for number, line in enumerate(segment_path(directory, "boot", 1).read_bytes().splitlines(keepends=True), start=1):
        segment_path(directory, "boot", number).write_bytes(line)
    lines = follow(directory, LogEnd(0, 0), _nothing_more)
    first = next(lines)

    for segment in list_segments(directory):
        compress(segment.path)

    assert [line.entry.seq for line in [first, *islice(lines, 2)]] == [1, 2, 3]


async def test_a_removed_log_is_waited_for(tmp_path: Path) -> None:
    directory = await write_log(tmp_path, *alarms(1), boot="boot")
    log, aside, pauses = segment_path(directory, "boot", 1), tmp_path / "aside", count()

    def taken_and_given_back() -> None:
        number = next(pauses)
        if number == 0:
            log.rename(aside)
        elif number == 2:
            aside.rename(segment_path(directory, "boot", 2))

    lines = follow(directory, LogEnd(0, 0), taken_and_given_back)

    assert [line.entry.seq for line in islice(lines, 2)] == [1, 1]


def _nothing_more() -> None:
    raise AssertionError("it waits, though there are lines that it has not shown")
