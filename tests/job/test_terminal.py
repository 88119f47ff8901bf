"""The progress lines that the job prints."""

from io import StringIO

from replay.facts.engine import ReplayProgress
from replay.job.main import ProgressLines


def test_a_stage_is_printed_at_its_beginning_and_at_its_end() -> None:
    output = StringIO()
    terminal = ProgressLines(output)
    for done in (0, 10, 20, 2_000):
        terminal(ReplayProgress("ingest", done, 2_000, "bytes"))
    lines = output.getvalue().splitlines()
    assert lines[0] == "ingest: 0 of 2,000 bytes"
    assert lines[1].startswith("ingest: 2,000 of 2,000 bytes, ")
    assert lines[1].endswith("/s")
    assert len(lines) == 2


def test_a_refusal_is_printed_and_returns_its_code() -> None:
    output = StringIO()
    assert ProgressLines(output).refuse("there is nothing to read", 66) == 66
    assert output.getvalue() == "replay: there is nothing to read\n"
