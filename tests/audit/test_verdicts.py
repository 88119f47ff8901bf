"""The texts of a verification, for example about heads that are too old and about files that cannot be opened."""

from pathlib import Path
from random import Random

import pytest

from controllerd.audit.findings import Harm
from controllerd.audit.heads import ExportedHead
from controllerd.audit.lines import GENESIS, Head
from controllerd.audit.reader import Report, verify
from controllerd.audit.segments import compress, list_segments
from controllerd.record.records import AlarmRecord
from tests.audit.forgery import Line, Log, Part, line, lines_of, relinked, swapped, without, write, written
from tests.audit.samples import CLUSTER, NODE, alarms, read_log, write_log


@pytest.fixture
def log() -> Log:
    """Two boots of two segments with five lines each."""
    rng = Random("verdicts")
    first = written(rng, "one", GENESIS, 10)
    second = written(rng, "two", first[-1].head.hash, 10)
    halves = (("one", first[:5]), ("one", first[5:]), ("two", second[:5]), ("two", second[5:]))
    return tuple(Part(number, boot, tuple(lines)) for number, (boot, lines) in enumerate(halves, 1))


def exported(*lines: Line, node: int = NODE, exported_ms: int = 1) -> list[ExportedHead]:
    """Heads as of these lines."""
    return [ExportedHead.of(each.head, cluster=CLUSTER, node=node, epoch=7, exported_ms=exported_ms) for each in lines]


def judged(log: Log, folder: Path, heads: list[ExportedHead]) -> Report:
    """The report of ``verify``."""
    return verify(write(log, folder / "log"), heads=heads)


def test_a_head_among_segments_that_were_removed_as_old_is_no_fork(log: Log, tmp_path: Path) -> None:
    report = judged(log[1:], tmp_path, exported(log[0].lines[2]))

    (finding,) = report.findings
    assert (finding.harm, finding.boot, finding.last_seq) == (Harm.DELETED, "one", log[1].lines[0].first - 1)
    assert "only a newer one can vouch" in finding.detail


def test_heads_older_than_the_remaining_log_are_one_note(log: Log, tmp_path: Path) -> None:
    report = judged(log[1:], tmp_path, exported(*log[0].lines, log[3].lines[-1]))

    assert report.is_intact
    assert "5 of the exported heads are older than what is left of the log" in report.notes


def test_many_heads_in_the_cut_off_part_are_one_finding(log: Log, tmp_path: Path) -> None:
    cut = log[3].lines

    (finding,) = judged(log[:3], tmp_path, exported(*lines_of(log))).findings

    assert (finding.harm, finding.first_seq, finding.last_seq) == (Harm.TRUNCATED, cut[0].first, cut[-1].seq)


def test_many_heads_of_a_rewritten_history_are_one_finding_per_boot(log: Log, tmp_path: Path) -> None:
    old = log[0].lines[2]
    forged = line("one", old.seq, log[0].lines[1].head.hash, AlarmRecord("test", "forged"), old.first)
    rewritten = relinked(swapped(log, old, [forged]), 3)

    findings = judged(rewritten, tmp_path, exported(*lines_of(log), log[3].lines[-1])).findings

    assert {finding.harm for finding in findings} == {Harm.FORKED}
    assert [(finding.boot, finding.first_seq, finding.last_seq) for finding in findings] == [
        ("one", log[0].lines[1].seq + 1, log[1].lines[-1].seq),
        ("two", 1, log[3].lines[-1].seq),
    ]


def ranges(report: Report) -> list[tuple[Harm, str, int, int | None]]:
    """Harm, boot and numbers of every finding."""
    return [(found.harm, found.boot, found.first_seq, found.last_seq) for found in report.findings]


def test_a_head_of_a_removed_boot_brings_no_line_in_doubt_that_an_earlier_head_proves(log: Log, tmp_path: Path) -> None:
    first = lines_of(log[:2])
    removed = written(Random("removed"), "removed", first[-1].head.hash, 3)
    after_it = written(Random("after it"), "two", removed[-1].head.hash, 10)

    report = judged(log, tmp_path, exported(first[4], removed[-1], after_it[-1], exported_ms=1_700_000_060_000))

    assert ranges(report) == [
        (Harm.ROLLED_BACK, "removed", 1, removed[-1].seq),
        (Harm.FORKED, "one", first[4].seq + 1, first[-1].seq),
        (Harm.FORKED, "two", 1, after_it[-1].seq),
    ]


def test_lines_before_a_cut_off_head_are_in_doubt_if_the_history_after_it_was_rewritten(
    log: Log, tmp_path: Path
) -> None:
    first, last = lines_of(log[:2]), lines_of(log[2:])
    cut = relinked(without(log, first[7:]), 7)

    report = judged(cut, tmp_path, exported(first[4], first[-1], last[-1]))

    assert ranges(report) == [
        (Harm.ROLLED_BACK, "one", first[6].seq + 1, first[-1].seq),
        (Harm.FORKED, "one", first[4].seq + 1, first[6].seq),
        (Harm.FORKED, "two", 1, last[-1].seq),
    ]


def test_no_line_that_was_removed_as_old_is_in_doubt(log: Log, tmp_path: Path) -> None:
    first = lines_of(log[:2])
    forged = line("one", first[6].seq, first[5].head.hash, AlarmRecord("test", "forged"), first[6].first)
    rest = relinked(swapped(log[1:], first[6], [forged]), 2)

    report = judged(rest, tmp_path, exported(first[2], first[-1]))

    assert ranges(report) == [
        (Harm.DELETED, "one", 1, first[5].first - 1),
        (Harm.FORKED, "one", first[5].first, first[-1].seq),
    ]


def test_heads_of_another_log_in_the_same_file_are_not_used(log: Log, tmp_path: Path) -> None:
    foreign = ExportedHead.of(Head("far", 3, "0" * 64), cluster=CLUSTER, node=5, epoch=1, exported_ms=1)

    report = judged(log, tmp_path, [foreign, *exported(log[3].lines[-1])])

    assert report.is_intact
    assert "1 exported head of another cluster or node than the newest one: not used" in report.notes


def test_a_file_with_the_heads_of_another_log_is_asked_about(log: Log, tmp_path: Path) -> None:
    report = judged(log, tmp_path, exported(log[3].lines[-1], node=5))

    assert not report.is_intact
    assert any("node 5, but no line is: are the heads right?" in note for note in report.notes)


async def test_damage_is_named_where_it_is(tmp_path: Path) -> None:
    for boot in ("one", "two"):
        await write_log(tmp_path, *alarms(3), boot=boot)
    directory = await write_log(tmp_path, *alarms(3), boot="three")
    second = list_segments(directory)[1]
    # A writer that is closed on a busy machine leaves compressing to the next one.
    damaged = second.path if second.is_compressed else compress(second.path)
    damaged.write_bytes(damaged.read_bytes()[:9])

    (finding,) = verify(directory).findings

    assert (finding.harm, finding.segment, finding.line) == (Harm.DAMAGED, damaged.name, 1)


def test_kinds_that_are_not_known_are_counted_without_decoding_records(log: Log, tmp_path: Path) -> None:
    directory = write(log, tmp_path / "log")
    last = directory / "two-00000004.jsonl"
    content = last.read_bytes()
    last.write_bytes(
        content[: content.rindex(b'"alarm"')] + content[content.rindex(b'"alarm"') :].replace(b"alarm", b"dream")
    )

    assert verify(directory).unknown_kinds == {"dream": 1}


async def test_an_unreadable_segment_is_reported_with_the_reason_and_does_not_prevent_writing(tmp_path: Path) -> None:
    directory = await write_log(tmp_path, *alarms(3), boot="one")
    (directory / "stray-00000009.jsonl").mkdir()

    await write_log(tmp_path, *alarms(3), boot="two")

    assert [envelope.boot for envelope, _ in read_log(directory)] == ["one"] * 3 + ["two"] * 3
    report = verify(directory)
    assert [finding.harm for finding in report.findings] == [Harm.DAMAGED]
    assert "nothing is lost" in report.findings[0].detail
    assert "stray-00000009.jsonl cannot be opened: Is a directory" in report.notes
