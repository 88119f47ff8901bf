"""Puts the runs of a log into the order in which they were written: by their links or, where those fail, their numbers.

``moved_runs`` compares that order with the places in the log. ``Run`` is in ``audit.chain``.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from controllerd.audit.chain import Run
from controllerd.audit.findings import AuditFinding, Harm, found
from controllerd.audit.lines import GENESIS, Head

_Path = list[Run]


def own_runs(runs: Sequence[Run], owner: tuple[str, int] | None) -> tuple[list[Run], list[AuditFinding]]:
    """The runs of this cluster and node (None: those of most lines), and a finding per foreign run.

    A foreign run with a boot of this log consists of edited lines, so it is among the returned runs too.
    """
    lines: Counter[tuple[str, int]] = Counter()
    for run in runs:
        lines[run.owner] += run.count
    owner = owner or max(lines, key=lines.__getitem__, default=None)
    boots = {run.boot for run in runs if run.owner == owner}
    own = [run for run in runs if run.owner == owner or run.boot in boots]
    return own, [_foreign(run, owner) for run in runs if run.owner != owner]


def _foreign(run: Run, owner: tuple[str, int] | None) -> AuditFinding:
    detail = "cluster {} node {}".format(*run.owner)
    if owner is not None:
        detail += " in the log of cluster {} node {}".format(*owner)
    return found(Harm.FOREIGN, (run.boot, run.first, run.last), run.begin, detail)


def without_renumbered(
    runs: Sequence[Run], missing: Head | None, exported: Mapping[str, tuple[str, int]]
) -> tuple[list[Run], list[AuditFinding]]:
    """The runs without lines whose number or boot was edited; the previous run is extended in their place.

    The newest exported head, if it is ``missing`` in the log, represents the lines after the last one. ``exported`` has
    the boots and numbers of exported lines by their hashes.
    """
    following = _run_after_missing_head(runs, missing)
    kept, findings = _without_renumbered([*runs, *following], exported)
    return kept[: len(kept) - len(following)], findings


def _run_after_missing_head(runs: Sequence[Run], head: Head | None) -> list[Run]:
    """A list with a made-up run that continues from the head, to judge the last run of the log by.

    It is empty without a missing head, and if the last run is in its place: it is in a segment of another boot than the
    head's, or continues the run before it under the boot of its segment.
    """
    if head is None or len(runs) < 2 or not _is_named(runs[-1], head.boot):
        return []
    if runs[-1].continues(runs[-2]) and _is_named(runs[-1], runs[-1].boot):
        return []
    after, seq = runs[-1].end._replace(line=runs[-1].end.line + 1), head.seq + 1
    return [Run(runs[-1].owner, head.boot, seq, seq, head.hash, "", after, after, seq)]


def _without_renumbered(
    runs: Sequence[Run], exported: Mapping[str, tuple[str, int]]
) -> tuple[list[Run], list[AuditFinding]]:
    ends, links = {run.hash for run in runs}, {run.prev for run in runs}
    kept: list[Run] = []
    findings: list[AuditFinding] = []
    pending = list(reversed(runs))
    while pending:
        run = pending.pop()
        before, after = kept[-1] if kept else None, pending[-1] if pending else None
        if after is None or run.hash in links or after.prev in ends or not _is_misnumbered(before, run, after):
            kept.append(run)
            continue
        boot, first, last = _numbers_between(before, run, after)
        if exported.get(after.prev, ("", 0))[0] == boot:
            last = exported[after.prev][1]
        detail = f"a line with seq {run.first} of boot {run.boot} stands in its place"
        findings.append(found(Harm.EDITED, (boot, first, last), run.begin, detail))
        if (before is None or before.boot != boot) and after.boot != boot:
            kept.append(replace(run, boot=boot, first=1, last=last, first_of_last_line=last, hash=after.prev))
        elif before is not None and before.boot == boot:
            kept[-1] = replace(before, last=last, first_of_last_line=last, hash=after.prev)
        else:
            pending[-1] = replace(after, first=1, prev=run.prev)
    return kept, findings


def _is_misnumbered(before: Run | None, run: Run, after: Run) -> bool:
    """Whether a run is linked to the previous one, but its numbers fit neither after that one nor before ``after``."""
    if run.unreadable or after.unreadable or run.prev != (before.hash if before is not None else GENESIS):
        return False
    if run.continues(before):  # the numbers fit, so only the boot can have been edited
        is_new_boot = before is None or before.boot != run.boot
        is_all_of_a_boot = run.count == 1 == after.first
        is_misnamed = run.boot != after.boot and not _is_named(run, run.boot)
        return is_new_boot and is_misnamed and (is_all_of_a_boot or run.last + 1 == after.first)
    if before is not None and before.boot == after.boot:
        fits = run.boot == after.boot and before.last < run.first and run.last < after.first
        return not fits and after.first > before.last + 1  # numbers are missing between the two, which the run had
    if after.first == 1:  # ``after`` begins a boot
        return before is not None and (run.count == 1 or run.boot != before.boot or run.first <= before.last)
    return run.boot != after.boot or run.first >= after.first


def _is_named(run: Run, boot: str) -> bool:
    """Whether the segment in which the run begins is named after this boot."""
    return run.begin.segment.startswith(f"{boot}-")


def _numbers_between(before: Run | None, run: Run, after: Run) -> tuple[str, int, int]:
    if run.continues(before) and after.first == 1:
        return run.begin.segment.rpartition("-")[0], 1, run.last
    if before is not None and after.boot != before.boot and after.first == 1:
        if run.boot != before.boot and _is_named(run, run.boot):
            return run.boot, 1, run.count
        return before.boot, before.last + 1, run.last if run.first == before.last + 1 else before.last + run.count
    first = before.last + 1 if before is not None and before.boot == after.boot else 1
    return after.boot, first, after.first - 1


def order_runs(runs: Sequence[Run]) -> tuple[list[Run], list[AuditFinding]]:
    """The runs in the order in which they were written, and a finding per run whose numbers another run has."""
    runs, doubled = _without_doubled(runs)
    paths = _paths(runs)
    joined = _join_within_boots(paths)
    # The path from the beginning of the log comes first. The others have the order of their longest runs in the log.
    joined.sort(key=lambda path: (path[0].prev != GENESIS, max(path, key=lambda run: run.count).begin))
    return [run for path in joined for run in path], doubled


def _without_doubled(runs: Sequence[Run]) -> tuple[list[Run], list[AuditFinding]]:
    """The runs without overlaps: of runs of one boot with common numbers, the better linked or the longer one stays."""
    links = Counter(run.prev for run in runs) + Counter(run.hash for run in runs)
    ranking = {id(run): (links[run.hash] + links[run.prev], run.count) for run in runs}
    kept: dict[str, Run] = {}
    out: list[Run] = []
    for run in sorted(runs, key=lambda run: (run.boot, run.first)):
        other = kept.get(run.boot)
        if other is not None and run.first <= other.last:
            out.append(min(run, other, key=lambda each: ranking[id(each)]))
            if out[-1] is run:
                continue
        kept[run.boot] = run
    gone = set(map(id, out))
    detail = "another line has these numbers, with another content"
    findings = [found(Harm.FORKED, (run.boot, run.first, run.last), run.begin, detail) for run in out]
    return [run for run in runs if id(run) not in gone], findings


def _paths(runs: Sequence[Run]) -> list[_Path]:
    """The chains of linked runs, each in its order."""
    after = {run.prev: run for run in runs}
    ends = {run.hash for run in runs}
    return [list(_follow(run, after)) for run in runs if run.prev not in ends]


def _follow(run: Run | None, after: dict[str, Run]) -> Iterator[Run]:
    while run is not None:
        yield run
        run = after.get(run.hash)


def _join_within_boots(paths: list[_Path]) -> list[_Path]:
    """Append each path that begins within a boot to the path that ends in that boot with the next lower number."""
    ends: defaultdict[str, list[_Path]] = defaultdict(list)
    for path in sorted(paths, key=lambda path: path[-1].last, reverse=True):
        ends[path[-1].boot].append(path)
    behind: dict[int, _Path] = {}
    path_before = {id(path): path for path in paths}
    below: defaultdict[str, list[_Path]] = defaultdict(list)
    for path in sorted(paths, key=lambda path: path[0].first):
        boot, first = path[0].boot, path[0].first
        while ends[boot] and ends[boot][-1][-1].last < first:
            below[boot].append(ends[boot].pop())
        # Two paths with one root are joined already: to join them again would close a circle.
        if first > 1 and below[boot] and _root(below[boot][-1], path_before) is not _root(path, path_before):
            before = below[boot].pop()
            behind[id(before)] = path
            path_before[id(path)] = before
    return [_joined(path, behind) for path in paths if path_before[id(path)] is path]


def _root(path: _Path, before: dict[int, _Path]) -> _Path:
    while before[id(path)] is not path:
        path = before[id(path)]
    return path


def _joined(path: _Path | None, behind: dict[int, _Path]) -> _Path:
    runs: list[Run] = []
    while path is not None:
        runs += path
        path = behind.get(id(path))
    return runs


def moved_runs(ordered: Sequence[Run]) -> list[Run]:
    """The runs that are not at their place in the log, given all runs in the order in which they were written.

    They have the fewest lines that must be removed so that the other lines are in order.
    """
    kept = _heaviest_rising(ordered)
    return [run for run in ordered if id(run) not in kept]


def _heaviest_rising(ordered: Sequence[Run]) -> set[int]:
    """The heaviest subsequence with rising places, found by a Fenwick tree of the best sums up to each place."""
    places = sorted(run.begin for run in ordered)
    best: list[tuple[int, int]] = [(0, -1)] * (len(ordered) + 1)
    before = [-1] * len(ordered)
    sums = [0] * len(ordered)
    for index, run in enumerate(ordered):
        position = bisect_left(places, run.begin)
        total, before[index] = _best_up_to(best, position)
        sums[index] = total + max(1, run.count)
        _improve(best, position + 1, (sums[index], index))
    kept = set()
    at = max(range(len(ordered)), key=sums.__getitem__, default=-1)
    while at >= 0:
        kept.add(id(ordered[at]))
        at = before[at]
    return kept


def _best_up_to(tree: list[tuple[int, int]], position: int) -> tuple[int, int]:
    best = (0, -1)
    while position > 0:
        best = max(best, tree[position], key=lambda entry: entry[0])
        position -= position & -position
    return best


def _improve(tree: list[tuple[int, int]], position: int, entry: tuple[int, int]) -> None:
    while position < len(tree):
        tree[position] = max(tree[position], entry, key=lambda each: each[0])
        position += position & -position
