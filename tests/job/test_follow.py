"""A folder that grows while the job follows it."""

from pathlib import Path
from threading import Event

import pytest

from replay.facts.engine import Inputs, ReplayProgress
from replay.job.engine import SparkEngine
from replay.job.follow import CHECKPOINT, follow
from replay.run import Options
from tests.job.test_engine import lines_in
from tests.record.logs import good_log
from tests.replay.local.logs import write_segment

pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]  # five reports, one after the other
LINES = lines_in("followed", good_log())


def test_new_and_growing_segments_come_into_the_report(engine: SparkEngine, tmp_path: Path) -> None:
    log, out = tmp_path / "log", tmp_path / "out"
    write_segment(log, LINES[:8])
    options = Options(Inputs((str(log),)), str(out), "spark")
    stop, ingests = Event(), list[int]()

    def grow(progress: ReplayProgress) -> None:
        """After each ingest the log is longer, until it is whole."""
        if progress.stage == "ingest" and progress.done == progress.total:
            ingests.append(progress.total)
            if len(ingests) == 1:
                write_segment(log, LINES[8:20], number=2)
            elif len(ingests) == 3:
                write_segment(log, LINES[8:], number=2)
            elif len(ingests) > 4:
                stop.set()

    outcome = follow(engine, options, stop, 0.0, grow)
    assert outcome.ingested is not None
    assert outcome.ingested.unchanged == 1
    assert [row["records"] for row in engine.tables(str(out), ["sources"])["sources"]] == [len(LINES)]
    assert (out / "report.html").exists()
    assert (out / CHECKPOINT).is_dir()
