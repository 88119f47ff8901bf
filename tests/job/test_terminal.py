"""What an operator sees while the job runs."""

from io import StringIO

from replay.facts.engine import ReplayProgress
from replay.job.main import ProgressLines


def test_a_stage_is_told_at_its_beginning_and_at_its_end() -> None:
    said = StringIO()
    terminal = ProgressLines(said)
    for done in (0, 10, 20, 2_000):
        terminal(ReplayProgress("ingest", done, 2_000, "bytes"))
    lines = said.getvalue().splitlines()
    assert lines[0] == "ingest: 0 of 2,000 bytes"
    assert lines[1].startswith("ingest: 2,000 of 2,000 bytes, ")
    assert lines[1].endswith("/s")
    assert len(lines) == 2


def test_a_refusal_is_told_and_gives_its_code() -> None:
    said = StringIO()
    assert ProgressLines(said).refuse("there is nothing to read", 66) == 66
    assert said.getvalue() == "replay: there is nothing to read\n"
