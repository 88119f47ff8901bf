"""Looking at thousands of lines at once finds what looking at each would find."""

from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from random import Random

import pytest

from controllerd.audit.chain import Chain, RawLine
from controllerd.audit.findings import LinePlace
from controllerd.audit.reader import read_chunks
from controllerd.audit.segments import list_segments
from tests.audit.forgery import Line, Log, lines_of, new_log, relinked, swapped, with_lines, without, write


class Careful(Chain):
    """Looks at each line."""

    def _all_follow(self, lines: Sequence[RawLine]) -> bool:
        return False


def harmed(rng: Random, log: Log) -> Log:
    """The log with some of everything."""
    lines = lines_of(log)
    victim: Line = rng.choice(lines)
    return rng.choice(
        [
            log,
            without(log, rng.sample(lines, rng.randint(1, len(lines) // 2 + 1))),
            with_lines(log, lambda _: rng.sample(lines, len(lines))),
            swapped(log, victim, [victim, victim]),
            swapped(log, victim, [victim._replace(data=victim.data.replace(b'"seq":', b'"seq":1', 1))]),
            swapped(log, victim, [victim._replace(data=victim.data.replace(b'"node":', b'"node":1', 1))]),
            swapped(log, victim, [victim._replace(data=victim.data[:-3])]),
            relinked(swapped(log, victim, [victim._replace(data=victim.data.replace(b'"v":1', b'"v":2', 1))]), 1),
        ]
    )


def seen(chain: Chain, directory: Path) -> object:
    """All that a chain keeps after a reading."""
    for segment in list_segments(directory):
        for chunk in read_chunks(segment.path):
            if isinstance(chunk, list):
                chain.add(chunk, segment.number)
            else:
                chain.add_unreadable(LinePlace(segment.number, chunk.segment, chunk.line), is_block=False)
    runs = [astuple(run) for run in chain.runs]
    return runs, chain.trailing, chain.gaps, chain.newest_version, chain.since_ms, chain.heads_found, chain.head


@pytest.mark.parametrize("group", range(4))
def test_many_lines_at_once_are_judged_as_each_by_itself(group: int, tmp_path: Path) -> None:
    for seed in range(100):
        rng = Random(f"paths {group} {seed}")
        log = harmed(rng, new_log(rng))
        heads = [each.head for each in lines_of(log) if rng.random() < 0.2]
        directory = write(log, tmp_path / str(seed), lambda part: part.number % 2 == 0)
        assert seen(Chain(heads), directory) == seen(Careful(heads), directory)
