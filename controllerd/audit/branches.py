"""Finds lines that name the same predecessor: copies of lines, and forks. Keeps one branch and reports the others.

``Run`` is a sequence of lines whose chain is unbroken (``audit.chain``).
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import pairwise, permutations
from typing import Final, NamedTuple

from controllerd.audit.chain import Run
from controllerd.audit.findings import AuditFinding, Harm, LinePlace, found

_PROVEN: Final = 1 << 60
"""The weight of a run with an exported head: more than any number of lines."""


class LocatedLine(NamedTuple):
    """The place and number of a line that was looked up by its hash."""

    place: LinePlace
    seq: int


Locate = Callable[[AbstractSet[str]], Mapping[str, list[LocatedLine]]]
"""Finds lines by their hashes, which reads the whole log once more."""


def resolve_branches(runs: list[Run], locate: Locate, proven: LinePlace | None) -> tuple[list[Run], list[AuditFinding]]:
    """The runs of one branch in the order of the log, cut where another run continues; and a finding per run left out.

    Of two branches, the one with the ``proven`` line (of an exported head) is kept, or else the one with more lines.
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


def _finding(harm: Harm, run: Run, detail: str) -> AuditFinding:
    return found(harm, (run.boot, run.first, run.last), run.begin, detail)


def _with_cuts(runs: list[Run], spots: Mapping[str, list[LocatedLine]]) -> Iterator[list[Run]]:
    """Each run in pieces, so that a run that continues from some line continues from the end of a piece."""
    begins = [run.begin for run in runs]
    cuts: defaultdict[int, set[tuple[LinePlace, int, str]]] = defaultdict(set)
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


def _copies(runs: list[Run], spots: Mapping[str, list[LocatedLine]]) -> Iterator[Run]:
    """The runs that are copies: among runs with the same predecessor, each one that another run contains."""
    before = {id(after): earlier.hash for earlier, after in pairwise(runs)}
    for siblings in _by_prev(runs).values():
        gone: set[int] = set()
        for run, other in permutations(siblings, 2):
            if id(run) not in gone and id(other) not in gone and _holds(other, run.hash, spots):
                gone.add(id(_out_of_place(run, other, before)) if run.hash == other.hash else id(run))
        yield from (run for run in siblings if id(run) in gone)


def _holds(run: Run, line_hash: str, spots: Mapping[str, list[LocatedLine]]) -> bool:
    return any(run.begin <= spot.place <= run.end for spot in spots.get(line_hash, ()))


def _out_of_place(run: Run, other: Run, before: Mapping[int, str]) -> Run:
    """Of two equal runs, the one whose predecessor in the chain is not before it in the log; or else the second."""
    first, second = sorted((run, other), key=lambda each: each.begin)
    return first if before.get(id(second)) == second.prev != before.get(id(first)) else second


def _side_branches(runs: list[Run], proven: LinePlace | None) -> Iterator[Run]:
    """The runs of every branch that is not the main one, with their descendants."""
    children = _by_prev(runs)
    weights = _weights(runs, children, proven)
    for siblings in children.values():
        if len(siblings) > 1:
            main = max(siblings, key=lambda run: weights[id(run)])
            yield from _descend([run for run in siblings if run is not main], children)


def _descend(tops: Iterable[Run], children: Mapping[str, list[Run]]) -> list[Run]:
    """The runs and all their descendants in the chain, each one after its predecessor."""
    found_runs, waiting = [], list(tops)
    while waiting:
        run = waiting.pop()
        found_runs.append(run)
        waiting += children.get(run.hash, ())
    return found_runs


def _weights(runs: list[Run], children: Mapping[str, list[Run]], proven: LinePlace | None) -> dict[int, int]:
    """The number of lines of each run and of its descendants, by the identity of the run."""
    hashes = {run.hash for run in runs}
    weights: dict[int, int] = {}
    for run in reversed(_descend((run for run in runs if run.prev not in hashes), children)):
        own = _PROVEN if proven is not None and run.begin <= proven <= run.end else run.count
        weights[id(run)] = own + sum(weights[id(child)] for child in children.get(run.hash, ()))
    return weights
