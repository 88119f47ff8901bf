"""Which runs of lines were moved: the fewest lines that have to be taken out so that the others stand in order."""

from bisect import bisect_left
from collections.abc import Sequence

from controllerd.audit.chain import Run


def displaced(ordered: Sequence[Run]) -> list[Run]:
    """Of the runs in the order that they should have, those that stand elsewhere in the log."""
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
