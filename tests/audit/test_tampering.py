"""Every change of a log by hand is found with its kind and its exact numbers.

A thousand random trials of each kind, each on another log: several boots, open and compressed segments, gap records,
torn tails. The newest line, and often others, were exported as a head before the change.
"""

import shutil
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

import pytest

from controllerd.audit.findings import AuditFinding, Harm
from controllerd.audit.heads import ExportedHead
from controllerd.audit.lines import GENESIS
from controllerd.audit.reader import Report, verify
from controllerd.record.records import GapRecord
from tests.audit.forgery import (
    Line,
    Log,
    Part,
    line,
    lines_of,
    new_log,
    relinked,
    swapped,
    with_lines,
    without,
    write,
    written,
)
from tests.audit.samples import CLUSTER, NODE

TRIALS: Final = 1000
EXPORTED_MS: Final = 1_700_000_060_000
Numbers = set[tuple[str, int]]
Check = Callable[[Report], None]


class Trial(NamedTuple):
    """A log after the hand, what was exported before, and what must be found."""

    log: Log
    heads: list[Line]
    check: Check


def exported(lines: Iterable[Line]) -> list[ExportedHead]:
    """Heads of these lines."""
    return [ExportedHead.of(each.head, cluster=CLUSTER, node=NODE, epoch=7, exported_ms=EXPORTED_MS) for each in lines]


def some_heads(rng: Random, lines: Sequence[Line]) -> list[Line]:
    """The newest line, and often others before it, in order."""
    return [each for each in lines if each is lines[-1] or rng.random() < 0.15]


def numbers_of(lines: Iterable[Line]) -> Numbers:
    """All numbers of these lines."""
    return {number for each in lines for number in each.numbers}


def named(findings: Iterable[AuditFinding]) -> Numbers:
    """The numbers that findings name; of a range without end only the first."""
    return {
        (found.boot, seq)
        for found in findings
        for seq in range(found.first_seq, (found.first_seq if found.last_seq is None else found.last_seq) + 1)
    }


def finds(numbers: Numbers, *harms: Harm) -> Check:
    """The check that nothing but these harms was found, and exactly these numbers."""

    def check(report: Report) -> None:
        assert named(report.findings) == numbers
        assert {found.harm for found in report.findings} <= set(harms)
        assert report.exit_code == 65

    return check


def is_last_of_boot(lines: Sequence[Line], index: int) -> bool:
    """Whether another boot, or nothing, comes after this line."""
    return index + 1 == len(lines) or lines[index + 1].boot != lines[index].boot


def after(lines: Sequence[Line], index: int) -> Numbers:
    """The number after a line, from which on its boot is in doubt."""
    return {(lines[index].boot, lines[index].seq + 1)}


def since_good_head(lines: Sequence[Line], heads: Sequence[Line], first: int, last: int) -> Numbers:
    """The numbers after the last head before the line ``first``, up to the line ``last``."""
    good = max((lines.index(head) for head in heads if lines.index(head) < first), default=-1)
    return numbers_of(lines[good + 1 : last + 1])


# -- edited ------------------------------------------------------------------------------------------------------------


def change_content(rng: Random, old: Line) -> Line:
    """Another value somewhere in the line, its number and link as they were."""
    places = [(b'"epoch":7', b'"epoch":8'), (b'"ts_ms":17', b'"ts_ms":16'), (b'"data":{', b'"data":{"x":1,')]
    before, then = rng.choice(places)
    return old._replace(data=old.data.replace(before, then, 1))


def change_link(rng: Random, old: Line) -> Line:
    """Another link to the line before."""
    at = old.data.index(b'"prev":"') + 8 + rng.randrange(64)
    return old._replace(data=old.data[:at] + (b"0" if old.data[at : at + 1] != b"0" else b"1") + old.data[at + 1 :])


def change_number(rng: Random, old: Line) -> Line:
    """Another number."""
    other = rng.choice([number for number in range(1, 40) if not old.first <= number <= old.seq])
    return old._replace(data=old.data.replace(b'"seq":%d' % old.seq, b'"seq":%d' % other, 1))


def change_boot(rng: Random, old: Line) -> Line:
    """A boot that never was."""
    return old._replace(data=old.data.replace(b'"boot":"boot', b'"boot":"root', 1))


CHANGES: Final = (change_content, change_content, change_link, change_number, change_boot)


def edited(rng: Random, log: Log) -> Trial:
    """One line is changed, and nothing else."""
    lines = lines_of(log)
    heads = some_heads(rng, lines)
    index = rng.randrange(len(lines))
    old = lines[index]
    trial = Trial(swapped(log, old, [rng.choice(CHANGES)(rng, old)]), heads, finds(old.numbers, Harm.EDITED))
    if index + 1 == len(lines):
        return trial._replace(
            check=either(trial.check, finds(since_good_head(lines, heads, index, index), Harm.FORKED))
        )
    if is_last_of_boot(lines, index) and old not in heads:
        ends = after(lines, index)
        both = ends | (after(lines, index - 1) if index and lines[index - 1].boot != old.boot else ends)
        shown = either(finds(ends, Harm.TRUNCATED, Harm.DELETED), finds(both, Harm.TRUNCATED))
        return trial._replace(check=either(trial.check, shown))
    return trial


def either(*checks: Check) -> Check:
    """The first check, or where the log cannot show that the next."""

    def check(report: Report) -> None:
        problems = []
        for each in checks:
            try:
                return each(report)
            except AssertionError as problem:
                problems.append(problem)
        raise problems[0]

    return check


def edited_and_relinked(rng: Random, log: Log) -> Trial:
    """Some lines are changed, and all links after them made to fit: only the heads show it."""
    lines = lines_of(log)
    heads = some_heads(rng, lines)
    index = rng.randrange(len(lines))
    new = relinked(swapped(log, lines[index], [change_content(rng, lines[index])]), index + 1)
    return Trial(new, heads, finds(since_good_head(lines, heads, index, len(lines) - 1), Harm.FORKED))


def edited_and_relinked_up_to_some_line(rng: Random, log: Log) -> Trial:
    """A line is changed and the links after it made to fit up to a line within a boot, which is where it shows."""
    lines = lines_of(log)
    inner = [index for index in range(1, len(lines)) if not is_last_of_boot(lines, index)]
    if not inner:
        return edited(rng, log)
    last = rng.choice(inner)
    index = rng.randrange(last)
    new = relinked(swapped(log, lines[index], [change_content(rng, lines[index])]), index + 1, last + 1)
    return Trial(new, lines[-1:], finds(lines[last].numbers, Harm.EDITED))


# -- deleted -----------------------------------------------------------------------------------------------------------


def deleted(rng: Random, log: Log) -> Trial:
    """Lines somewhere before the last one are gone: single ones, many, whole segments, whole boots."""
    lines = lines_of(log)
    count = rng.choice([1, 2, rng.randint(1, len(lines) - 1)])
    gone = rng.choice([rng.sample(lines[:-1], min(count, len(lines) - 1)), a_stretch(rng, lines), a_part(rng, log)])
    gone = gone or lines[:1]
    return Trial(without(log, gone), lines[-1:], finds_missing(log, gone))


def a_stretch(rng: Random, lines: list[Line]) -> list[Line]:
    """Neighbours."""
    first, last = sorted(rng.sample(range(len(lines)), 2))
    return lines[first:last]


def a_part(rng: Random, log: Log) -> list[Line]:
    """All of a segment or of a boot, but not of the last ones."""
    if rng.random() < 0.5:
        return list(rng.choice(log[:-1]).lines)
    boot = rng.choice(log).boot
    return [each for each in lines_of(log)[:-1] if each.boot == boot]


def finds_missing(log: Log, gone: list[Line]) -> Check:
    """Exactly these are missing; of the end of a boot only where it begins, of the beginning of a log nothing."""
    lines = lines_of(log)
    left = [each for each in lines if each not in gone]
    first = lines.index(left[0])
    expected = numbers_of(each for each in gone if any(kept.boot == each.boot and kept.seq > each.seq for kept in left))
    for kept, following in pairwise(left):
        is_cut = kept.boot != following.boot and following.first == 1 and lines[lines.index(following) - 1] is not kept
        expected |= after(lines, lines.index(kept)) if is_cut else set()
    return finds_or_notes(expected, lines[:first], is_beginning_kept=left[0] in log[0].lines)


def finds_or_notes(expected: Numbers, beginning: list[Line], *, is_beginning_kept: bool) -> Check:
    """A missing beginning is no harm if whole first segments are gone, because old segments may be removed."""

    def check(report: Report) -> None:
        numbers = expected - (set() if is_beginning_kept else numbers_of(beginning))
        assert named(report.findings) == numbers
        assert {found.harm for found in report.findings} <= {Harm.DELETED, Harm.TRUNCATED}
        assert report.findings or any("older segments are gone" in note for note in report.notes)

    return check


def deleted_and_relinked(rng: Random, log: Log) -> Trial:
    """Lines of one boot are gone, and the links after them made to fit, but not the numbers."""
    lines = lines_of(log)
    inner = [index for index in range(1, len(lines)) if not is_last_of_boot(lines, index)]
    if not inner:
        return deleted(rng, log)
    index = rng.choice(inner)
    new = relinked(without(log, [lines[index]]), index)
    return Trial(new, lines[-1:], finds(numbers_of(lines), Harm.DELETED, Harm.FORKED))


def declared_lost(rng: Random, log: Log) -> Trial:
    """Lines are gone and a forged gap record stands in their place, with or without links made to fit."""
    lines = lines_of(log)
    index = rng.randrange(len(lines) - 1)
    last = rng.choice([at for at in range(index, len(lines)) if lines[at].boot == lines[index].boot])
    gone = lines[index : last + 1]
    record = GapRecord(9, gone[0].first, gone[-1].seq - 1, "No space left on device")
    prev = lines[index - 1].head.hash if index else GENESIS
    new = swapped(without(log, gone[1:]), gone[0], [line(gone[0].boot, gone[-1].seq, prev, record, gone[0].first)])
    heads = some_heads(rng, lines)
    if rng.random() < 0.5 or last + 1 == len(lines):
        return Trial(
            relinked(new, index + 1), heads, finds(since_good_head(lines, heads, index, len(lines) - 1), Harm.FORKED)
        )
    honest = finds(numbers_of(gone), Harm.EDITED)
    if is_last_of_boot(lines, last):
        honest = finds(after(lines, last), Harm.TRUNCATED, Harm.DELETED)
    return Trial(new, lines[-1:], honest)


# -- reordered ---------------------------------------------------------------------------------------------------------


def reordered(rng: Random, log: Log) -> Trial:
    """Lines, segments or boots stand elsewhere."""
    lines = lines_of(log)
    new = rng.choice([move_lines, swap_parts, shuffle])(rng, log)
    return Trial(new, some_heads(rng, lines), finds_moved(lines, lines_of(new)) if new != log else finds(set()))


def move_lines(rng: Random, log: Log) -> Log:
    """A stretch of lines is put elsewhere."""
    lines = lines_of(log)
    stretch = a_stretch(rng, lines)
    rest = [each for each in lines if each not in stretch]
    at = rng.choice([at for at in range(len(rest) + 1) if at != lines.index(stretch[0])])
    return with_lines(log, lambda _: [*rest[:at], *stretch, *rest[at:]])


def swap_parts(rng: Random, log: Log) -> Log:
    """Two segments change their names."""
    first, second = rng.sample(range(len(log)), 2)
    parts = list(log)
    parts[first] = replace(log[second], number=log[first].number)
    parts[second] = replace(log[first], number=log[second].number)
    return tuple(parts)


def shuffle(rng: Random, log: Log) -> Log:
    """All lines are in disorder."""
    lines = lines_of(log)
    mixed = rng.sample(lines, len(lines))
    return with_lines(log, lambda _: mixed) if mixed != lines else move_lines(rng, log)


def finds_moved(true: list[Line], now: list[Line]) -> Check:
    """The finding names the moved lines. Without them the others are in order; with one line less they would not be."""

    def check(report: Report) -> None:
        assert {found.harm for found in report.findings} == {Harm.REORDERED}
        moved = named(report.findings)
        left = [true.index(each) for each in now if not each.numbers & moved]
        assert left == sorted(left)
        assert len(true) - len(left) == len(true) - longest_rising([true.index(each) for each in now])

    return check


def longest_rising(numbers: list[int]) -> int:
    """The length of the longest subsequence that rises."""
    ends: list[int] = []
    for number in numbers:
        at = bisect_left(ends, number)
        ends[at : at + 1] = [number]
    return len(ends)


# -- truncated ---------------------------------------------------------------------------------------------------------


def truncated(rng: Random, log: Log) -> Trial:
    """The end of the log, of a boot, or of a segment is cut off, perhaps in the middle of a line."""
    return rng.choice([cut_log, cut_log, cut_boot, cut_segment])(rng, log)


def cut_log(rng: Random, log: Log) -> Trial:
    """The last boot has lost its end."""
    lines = lines_of(log)
    last = [each for each in lines if each.boot == lines[-1].boot]
    gone = last[rng.randint(1, len(last)) :] or last[-1:]
    new = cut(rng, log, gone)
    if len(gone) == len(last):
        return Trial(new, lines[-1:], finds(numbers_of(gone), Harm.ROLLED_BACK))
    return Trial(new, some_heads(rng, lines), finds(numbers_of(gone), Harm.TRUNCATED))


def cut_boot(rng: Random, log: Log) -> Trial:
    """An earlier boot has lost its end, but not all of its last segment."""
    lines = lines_of(log)
    part = rng.choice([part for part, then in pairwise(log) if part.boot != then.boot])
    gone = part.lines[rng.randint(1, len(part.lines)) :]
    if not gone:
        return cut_log(rng, log)
    expected = after(lines, lines.index(gone[0]) - 1)
    return Trial(cut(rng, log, gone), lines[-1:], finds(expected, Harm.TRUNCATED))


def cut_segment(rng: Random, log: Log) -> Trial:
    """A segment has lost its end, and its boot goes on in the next one."""
    parts = [part for part, then in pairwise(log) if part.boot == then.boot and len(part.lines) > 1]
    if not parts:
        return cut_log(rng, log)
    part = rng.choice(parts)
    gone = part.lines[rng.randint(1, len(part.lines) - 1) :]
    return Trial(cut(rng, log, gone), lines_of(log)[-1:], finds(numbers_of(gone), Harm.TRUNCATED))


def cut(rng: Random, log: Log, gone: Sequence[Line]) -> Log:
    """The log without these lines but for the beginning of the first."""
    stump = gone[0].data[: rng.choice([0, rng.randrange(len(gone[0].data))])]
    stumped = [replace(part, torn=stump) if gone[0] in part.lines else part for part in log]
    return without(tuple(stumped), gone)


# -- forked ------------------------------------------------------------------------------------------------------------


def forked(rng: Random, log: Log) -> Trial:
    """From some line on there are two histories, or there is another one than was exported."""
    return rng.choice([write_anew, keep_both, go_on_twice])(rng, log)


def write_anew(rng: Random, log: Log) -> Trial:
    """From a line of the last boot on everything is written anew, with at least as many numbers."""
    lines = lines_of(log)
    heads = some_heads(rng, lines)
    last = [each for each in lines if each.boot == lines[-1].boot]
    at = rng.randrange(len(lines) - len(last), len(lines))
    prev = lines[at - 1].head.hash
    new = written(rng, lines[-1].boot, prev, lines[-1].seq, lines[at].first)
    return Trial(with_lines(log, lambda _: [*lines[:at], *new]), heads, finds_any(lines, heads, at))


def finds_any(lines: list[Line], heads: list[Line], at: int) -> Check:
    """A fork from the last head that is in the log up to the newest that is not."""
    return finds(since_good_head(lines, heads, at, len(lines) - 1), Harm.FORKED)


def keep_both(rng: Random, log: Log) -> Trial:
    """After a line forged ones go on from it, and then the true ones."""
    lines = lines_of(log)
    at = rng.randrange(len(lines) - 1)
    new = written(rng, lines[at].boot, lines[at].head.hash, rng.randint(1, 4), lines[at].seq + 1)
    return Trial(swapped(log, lines[at], [lines[at], *new]), lines[-1:], finds(numbers_of(new), Harm.FORKED))


def go_on_twice(rng: Random, log: Log) -> Trial:
    """Another boot goes on from a line in the middle."""
    lines = lines_of(log)
    at = rng.randrange(len(lines) - 1)
    new = written(rng, "other", lines[at].head.hash, rng.randint(1, 4))
    part = Part(log[-1].number + 1, "other", tuple(new))
    return Trial((*log, part), lines[-1:], finds(numbers_of(new), Harm.FORKED))


# -- rolled back -------------------------------------------------------------------------------------------------------


def rolled_back(rng: Random, log: Log) -> Trial:
    """An older copy is put back; perhaps new boots have gone on from it."""
    lines = lines_of(log)
    at = rng.randrange(len(lines) - 1)
    old = without(log, lines[at + 1 :])
    new = written(rng, "later", lines[at].head.hash, rng.randint(1, 4)) if rng.random() < 0.5 else []
    if not new and lines[at].boot == lines[-1].boot:
        return rolled_back(rng, log)
    lost = [each for each in lines[at + 1 :] if each.boot == lines[-1].boot]
    parts = (*old, Part(log[-1].number + 1, "later", tuple(new))) if new else old
    return Trial(parts, lines[-1:], finds(numbers_of(lost), Harm.ROLLED_BACK))


# -- the trials --------------------------------------------------------------------------------------------------------

KINDS: Final[Mapping[str, tuple[Callable[[Random, Log], Trial], ...]]] = {
    "edited": (edited, edited, edited_and_relinked, edited_and_relinked_up_to_some_line),
    "deleted": (deleted, deleted, deleted_and_relinked, declared_lost),
    "reordered": (reordered,),
    "truncated": (truncated,),
    "forked": (forked,),
    "rolled back": (rolled_back,),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_of_a_thousand_logs_that_were_tampered_with_is_found(kind: str, tmp_path: Path) -> None:
    for seed in range(TRIALS):
        rng = Random(f"{kind} {seed}")
        trial = rng.choice(KINDS[kind])(rng, new_log(rng))
        compressed = {part.number for part in trial.log if rng.random() < 0.5}
        report = judged(trial, tmp_path, partial(is_among, compressed))
        with naming(seed, report):
            trial.check(report)


def test_each_of_a_thousand_torn_tails_is_found_and_is_no_harm(tmp_path: Path) -> None:
    for seed in range(TRIALS):
        rng = Random(f"torn {seed}")
        log = new_log(rng)
        last = log[-1].lines[-1]
        torn = last.data[: rng.randint(1, len(last.data))]
        kept = replace(log[-1], lines=log[-1].lines[:-1], torn=torn)
        report = judged(Trial((*log[:-1], kept), lines_of(log)[-2:-1], finds(set())), tmp_path, is_odd)
        with naming(seed, report):
            assert report.is_intact
            assert report.torn_tails[-1][1:] == (len(kept.lines) + 1, len(torn))
            assert report.torn_tails[-1].segment.startswith(f"{kept.boot}-{kept.number:08d}.jsonl")


@pytest.mark.parametrize("kind", KINDS)
def test_the_verdict_does_not_depend_on_the_compression(kind: str, tmp_path: Path) -> None:
    for seed in range(50):
        rng = Random(f"compressed {kind} {seed}")
        trial = rng.choice(KINDS[kind])(rng, new_log(rng))
        plain = judged(trial, tmp_path, lambda part: False)
        compressed = judged(trial, tmp_path, lambda part: True)
        assert sorted(map(verdict, plain.findings)) == sorted(map(verdict, compressed.findings))


def verdict(found: AuditFinding) -> tuple[str, str, int, int]:
    """The parts of a finding that do not depend on files."""
    return found.harm.value, found.boot, found.first_seq, -1 if found.last_seq is None else found.last_seq


@pytest.mark.parametrize("hand", [cut_log, rolled_back, edited_and_relinked])
def test_without_a_head_the_report_names_what_cannot_be_detected(
    hand: Callable[[Random, Log], Trial], tmp_path: Path
) -> None:
    for seed in range(50):
        rng = Random(f"no head {seed}")
        report = judged(hand(rng, new_log(rng))._replace(heads=[]), tmp_path, is_odd)
        assert report.is_intact
        assert any("without an exported head" in note for note in report.notes)


@pytest.mark.parametrize("kind", KINDS)
def test_every_log_that_was_changed_twice_is_found(kind: str, tmp_path: Path) -> None:
    for seed in range(100):
        rng = Random(f"two {kind} {seed}")
        log = new_log(rng)
        trial = rng.choice(KINDS[kind])(rng, log)
        if len(lines_of(trial.log)) > 1:
            twice = edited(rng, trial.log)._replace(heads=lines_of(log)[-1:])
            assert not judged(twice, tmp_path, is_odd).is_intact


def is_among(numbers: set[int], part: Part) -> bool:
    """Compress the segments with these numbers."""
    return part.number in numbers


def is_odd(part: Part) -> bool:
    """Compress every other segment."""
    return part.number % 2 == 1


def judged(trial: Trial, folder: Path, compressed: Callable[[Part], bool]) -> Report:
    """The report of ``verify`` on the trial, with its heads."""
    directory = write(trial.log, folder / "log", compressed)
    try:
        return verify(directory, heads=exported(trial.heads))
    finally:
        shutil.rmtree(directory)


@contextmanager
def naming(seed: int, report: Report) -> Iterator[None]:
    """Name the trial that failed."""
    try:
        yield
    except AssertionError as problem:
        found = "\n".join(map(str, report.findings))
        raise AssertionError(f"trial {seed}: {problem}\n{found}") from problem
