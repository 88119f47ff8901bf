"""Where two lines say that they come after the same one: copies of lines, and forks. Afterwards there is one branch."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import pairwise, permutations
from typing import Final, NamedTuple

from controllerd.audit.chain import Run
from controllerd.audit.findings import Finding, Harm, Place, found

_PROVEN: Final = 1 << 60
"""Outweighs every number of lines."""


class Spot(NamedTuple):
    """Where the line with a certain hash stands."""

    place: Place
    seq: int


Locate = Callable[[AbstractSet[str]], Mapping[str, list[Spot]]]
"""Finds lines by their hashes, which takes another reading of the log."""


def untangle(runs: list[Run], locate: Locate, proven: Place | None) -> tuple[list[Run], list[Finding]]:
    """The runs of one history in the order of the log, cut where another run goes on, and what had to be left out.

    Of two branches the one is kept that leads to the ``proven`` line (of an exported head), or else to more lines.
    """
    spots = locate({run.prev for run in runs} | {run.hash for run in runs})
    runs = [piece for run in _with_cuts(runs, spots) for piece in run]
    copies = list(_copies(runs, spots))
    runs = _without(runs, copies)
    branches = list(_side_branches(runs, proven))
    findings = [_finding(Harm.DUPLICATED, run, "these lines stand in the log twice") for run in copies]
    findings += [_finding(Harm.FORKED, run, "the log goes on from the same line in two ways") for run in branches]
    return _without(runs, branches), findings


def _without(runs: list[Run], left_out: Iterable[Run]) -> list[Run]:
    gone = set(map(id, left_out))
    return [run for run in runs if id(run) not in gone]


def _finding(harm: Harm, run: Run, detail: str) -> Finding:
    return found(harm, (run.boot, run.first, run.last), run.begin, detail)


def _with_cuts(runs: list[Run], spots: Mapping[str, list[Spot]]) -> Iterator[list[Run]]:
    """Each run in pieces, so that whatever goes on from a line goes on from the end of a piece."""
    begins = [run.begin for run in runs]
    cuts: defaultdict[int, set[tuple[Place, int, str]]] = defaultdict(set)
    for line_hash in {run.prev for run in runs}:
        for place, seq in spots.get(line_hash, ()):
            cuts[bisect_right(begins, place) - 1].add((place, seq, line_hash))
    for index, run in enumerate(runs):
        pieces, rest = [], run
        for place, seq, line_hash in sorted(cuts[index]):
            if place < rest.end:
                piece, rest = rest.cut(seq, line_hash, place)
                pieces.append(piece)
        yield [*pieces, rest]


def _by_prev(runs: Iterable[Run]) -> dict[str, list[Run]]:
    children: defaultdict[str, list[Run]] = defaultdict(list)
    for run in runs:
        children[run.prev].append(run)
    return children


def _copies(runs: list[Run], spots: Mapping[str, list[Spot]]) -> Iterator[Run]:
    """Of runs that begin alike, those that are in another one as well."""
    before = {id(after): earlier.hash for earlier, after in pairwise(runs)}
    for siblings in _by_prev(runs).values():
        gone: set[int] = set()
        for run, other in permutations(siblings, 2):
            if id(run) not in gone and id(other) not in gone and _holds(other, run.hash, spots):
                gone.add(id(_out_of_place(run, other, before)) if run.hash == other.hash else id(run))
        yield from (run for run in siblings if id(run) in gone)


def _holds(run: Run, line_hash: str, spots: Mapping[str, list[Spot]]) -> bool:
    return any(run.begin <= spot.place <= run.end for spot in spots.get(line_hash, ()))


def _out_of_place(run: Run, other: Run, before: Mapping[int, str]) -> Run:
    """Of two equal runs the one that does not stand after the line that it goes on from, or else the second."""
    first, second = sorted((run, other), key=lambda each: each.begin)
    return first if before.get(id(second)) == second.prev != before.get(id(first)) else second


def _side_branches(runs: list[Run], proven: Place | None) -> Iterator[Run]:
    """All runs but those of the main branch, wherever there is more than one."""
    children = _by_prev(runs)
    weights = _weights(runs, children, proven)
    for siblings in children.values():
        if len(siblings) > 1:
            main = max(siblings, key=lambda run: weights[id(run)])
            yield from _descend([run for run in siblings if run is not main], children)


def _descend(tops: Iterable[Run], children: Mapping[str, list[Run]]) -> list[Run]:
    """The runs and everything that goes on from them, each after what it goes on from."""
    found_runs, waiting = [], list(tops)
    while waiting:
        run = waiting.pop()
        found_runs.append(run)
        waiting += children.get(run.hash, ())
    return found_runs


def _weights(runs: list[Run], children: Mapping[str, list[Run]], proven: Place | None) -> dict[int, int]:
    """The lines of each run and of everything that goes on from it."""
    hashes = {run.hash for run in runs}
    weights: dict[int, int] = {}
    for run in reversed(_descend((run for run in runs if run.prev not in hashes), children)):
        own = _PROVEN if proven is not None and run.begin <= proven <= run.end else run.count
        weights[id(run)] = own + sum(weights[id(child)] for child in children.get(run.hash, ()))
    return weights
