"""Puts the runs of a log into the order that their links give or, where links lead nowhere, their numbers.

Afterwards ``moved_runs`` compares that order with the places in the log.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from controllerd.audit.chain import Run
from controllerd.audit.findings import Finding, Harm, found
from controllerd.audit.lines import GENESIS, Head

_Path = list[Run]


def own_runs(runs: Sequence[Run], owner: tuple[str, int] | None) -> tuple[list[Run], list[Finding]]:
    """The runs of this cluster and node (None: that most lines are of), and the foreign ones.

    A foreign line of a boot of this log is an edited one, and stays.
    """
    lines: Counter[tuple[str, int]] = Counter()
    for run in runs:
        lines[run.owner] += run.count
    owner = owner or max(lines, key=lines.__getitem__, default=None)
    boots = {run.boot for run in runs if run.owner == owner}
    own = [run for run in runs if run.owner == owner or run.boot in boots]
    return own, [_foreign(run, owner) for run in runs if run.owner != owner]


def _foreign(run: Run, owner: tuple[str, int] | None) -> Finding:
    detail = "cluster {} node {}".format(*run.owner)
    if owner is not None:
        detail += " in the log of cluster {} node {}".format(*owner)
    return found(Harm.FOREIGN, (run.boot, run.first, run.last), run.begin, detail)


def without_renumbered(
    runs: Sequence[Run], missing: Head | None, exported: Mapping[str, tuple[str, int]]
) -> tuple[list[Run], list[Finding]]:
    """The runs without lines whose number or boot was edited; in their place the run before is made longer.

    The newest head, if it is ``missing``, stands for what came after the last line; ``exported`` are the numbers of
    exported lines by their hashes.
    """
    witness = _witness(runs, missing)
    kept, findings = _without_renumbered([*runs, *witness], exported)
    return kept[: len(kept) - len(witness)], findings


def _witness(runs: Sequence[Run], head: Head | None) -> list[Run]:
    """A run that goes on from the head, where the last run of the log belongs neither there nor to a new boot."""
    if head is None or len(runs) < 2 or not _is_named(runs[-1], head.boot):
        return []
    if runs[-1].continues(runs[-2]) and _is_named(runs[-1], runs[-1].boot):
        return []
    after, seq = runs[-1].end._replace(line=runs[-1].end.line + 1), head.seq + 1
    return [Run(runs[-1].owner, head.boot, seq, seq, head.hash, "", after, after, seq)]


def _without_renumbered(
    runs: Sequence[Run], exported: Mapping[str, tuple[str, int]]
) -> tuple[list[Run], list[Finding]]:
    ends, links = {run.hash for run in runs}, {run.prev for run in runs}
    kept: list[Run] = []
    findings: list[Finding] = []
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
            kept.append(replace(run, boot=boot, first=1, last=last, covered=last, hash=after.prev))
        elif before is not None and before.boot == boot:
            kept[-1] = replace(before, last=last, covered=last, hash=after.prev)
        else:
            pending[-1] = replace(after, first=1, prev=run.prev)
    return kept, findings


def _is_misnumbered(before: Run | None, run: Run, after: Run) -> bool:
    """Whether a run is linked to the one before, but its numbers belong neither there nor before ``after``."""
    if run.unreadable or after.unreadable or run.prev != (before.hash if before is not None else GENESIS):
        return False
    if run.continues(before):
        is_new_boot = before is None or before.boot != run.boot
        is_all_of_a_boot = run.count == 1 == after.first
        is_strange = run.boot != after.boot and not _is_named(run, run.boot)
        return is_new_boot and is_strange and (is_all_of_a_boot or run.last + 1 == after.first)
    if before is not None and before.boot == after.boot:
        fits = run.boot == after.boot and before.last < run.first and run.last < after.first
        return not fits and after.first > before.last + 1
    if after.first == 1:
        return before is not None and (run.count == 1 or run.boot != before.boot or run.first <= before.last)
    return run.boot != after.boot or run.first >= after.first


def _is_named(run: Run, boot: str) -> bool:
    """Whether the segment in which the run begins has the name of this boot."""
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


def order_runs(runs: Sequence[Run]) -> tuple[list[Run], list[Finding]]:
    """The runs in the order in which they were written, and those left out because their numbers are taken."""
    runs, doubled = _without_doubled(runs)
    paths = _paths(runs)
    joined = _join_within_boots(paths)
    joined.sort(key=lambda path: (path[0].prev != GENESIS, max(path, key=lambda run: run.count).begin))
    return [run for path in joined for run in path], doubled


def _without_doubled(runs: Sequence[Run]) -> tuple[list[Run], list[Finding]]:
    """Of runs of one boot that have numbers in common, the one that is linked to others or has more lines stays."""
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
    detail = "these numbers are there with another content"
    findings = [found(Harm.FORKED, (run.boot, run.first, run.last), run.begin, detail) for run in out]
    return [run for run in runs if id(run) not in gone], findings


def _paths(runs: Sequence[Run]) -> list[_Path]:
    """The runs that are linked to one another, each path in its order."""
    after = {run.prev: run for run in runs}
    ends = {run.hash for run in runs}
    return [list(_follow(run, after)) for run in runs if run.prev not in ends]


def _follow(run: Run | None, after: dict[str, Run]) -> Iterator[Run]:
    while run is not None:
        yield run
        run = after.get(run.hash)


def _join_within_boots(paths: list[_Path]) -> list[_Path]:
    """Where a path begins within a boot, it is put behind the one that ends in that boot with the next lower number."""
    ends: defaultdict[str, list[_Path]] = defaultdict(list)
    for path in sorted(paths, key=lambda path: path[-1].last, reverse=True):
        ends[path[-1].boot].append(path)
    behind: dict[int, _Path] = {}
    first_of = {id(path): path for path in paths}
    below: defaultdict[str, list[_Path]] = defaultdict(list)
    for path in sorted(paths, key=lambda path: path[0].first):
        boot, first = path[0].boot, path[0].first
        while ends[boot] and ends[boot][-1][-1].last < first:
            below[boot].append(ends[boot].pop())
        if first > 1 and below[boot] and _root(below[boot][-1], first_of) is not _root(path, first_of):
            before = below[boot].pop()
            behind[id(before)] = path
            first_of[id(path)] = before
    return [_joined(path, behind) for path in paths if first_of[id(path)] is path]


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
    """Of the runs in their right order, those that stand elsewhere in the log.

    They are the fewest lines that have to be taken out so that the others stand in order.
    """
    kept = _heaviest_rising(ordered)
    return [run for run in ordered if id(run) not in kept]


def _heaviest_rising(ordered: Sequence[Run]) -> set[int]:
    """The heaviest subsequence whose places rise, by a Fenwick tree of the best sums up to each place."""
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
