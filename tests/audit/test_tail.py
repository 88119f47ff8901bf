"""The newest lines of a log, and those that come: none is missed, and none is shown twice."""

from itertools import islice
from pathlib import Path

import pytest

from controllerd.audit.tail import end_of, follow, newest_lines
from tests.audit.samples import CLUSTER, alarms, make_writer


@pytest.mark.parametrize("segment_bytes", [1, 1_000_000])
async def test_what_is_written_while_the_newest_are_read_is_followed(tmp_path: Path, segment_bytes: int) -> None:
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


def _nothing_more() -> None:
    raise AssertionError("it waits, though there are lines that it has not shown")
