"""A writer that is killed at random moments: what was accepted is there, and the chain holds over all of its lives."""

import asyncio
import random
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections import defaultdict
from pathlib import Path
from typing import Final

import pytest

from controllerd.audit.reader import verify
from controllerd.audit.segments import log_directory
from tests.audit.samples import CLUSTER, NODE, alarms, read_log, write_log

LONGEST_S: Final = 0.4


async def live_and_die(root: Path, boot: str, seconds: float) -> int:
    """Let a writer write for so long after its first record, kill it, and tell which record was accepted last."""
    command = (sys.executable, "-m", "tests.audit.endless", str(root), boot)
    process = await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stdout=PIPE)
    assert process.stdout is not None
    first = await process.stdout.readline()
    reading = asyncio.create_task(process.stdout.read())
    await asyncio.wait({reading}, timeout=seconds)
    process.kill()
    await process.wait()
    said = (first + await reading).decode()
    return int(said.rpartition("\n")[0].splitlines()[-1])


@pytest.mark.parametrize("kills", [20, pytest.param(200, marks=pytest.mark.chaos)])
@pytest.mark.timeout(600)
async def test_nothing_that_was_accepted_is_lost_by_a_sigkill(tmp_path: Path, kills: int) -> None:
    chance, accepted = random.Random(kills), {}
    for number in range(kills):
        accepted[f"boot-{number}"] = await live_and_die(tmp_path, f"boot-{number}", chance.uniform(0, LONGEST_S))
    await write_log(tmp_path, *alarms(1), boot="the last one")

    directory = log_directory(tmp_path, CLUSTER, NODE)
    report = verify(directory)
    assert report.is_intact
    assert len(report.torn_tails) <= kills
    written: defaultdict[str, list[int]] = defaultdict(list)
    for envelope, _ in read_log(directory):
        written[envelope.boot].append(envelope.seq)
    assert all(seqs == list(range(1, len(seqs) + 1)) for seqs in written.values())
    assert {boot: len(written[boot]) >= seq for boot, seq in accepted.items()} == dict.fromkeys(accepted, True)
