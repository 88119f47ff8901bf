"""The differences between a recorded trace and the actions of our controller, by the rules of the traces' format.

Per znode and per broker the sequences must be equal; the order between them is not significant.
"""

import difflib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Final

from controllerd.zk.access import ANY_VERSION
from tests.traces.format import CLOSED, Json, Op, ReplyLine, RequestLine, Trace, TraceZnode, ZkLine
from tests.traces.observe import EPOCH_PATH, Observed

_COMPARED: Final = (
    "/brokers/ids/",
    "/brokers/topics/",
    "/admin/",
    "/config/topics/",
    "/isr_change_notification/",
    "/log_dir_event_notification/",
    EPOCH_PATH,
)
"""Paths whose final data are compared; ``/controller`` differs by design and is compared among the writes."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference: the lines of the trace (none when there is no counterpart), its kind, and its text."""

    lines: tuple[int, ...]
    kind: str
    text: str

    def __str__(self) -> str:
        where = f"line {', '.join(map(str, self.lines))}" if self.lines else "no line of the trace"
        return f"[{self.kind}] {where}\n{self.text}"


def differences(trace: Trace, observed: Observed, *, with_repeats: bool = True) -> list[Difference]:
    """All differences. ``with_repeats`` is False where requests are not sent through sockets and so never repeated."""
    found = [*_writes(trace, observed), *_groups(trace, observed), *_requests(trace, observed, with_repeats)]
    found += _replies(trace, observed)
    return found + (_final(trace.final, observed.znodes) if trace.final is not None else [])


# -- znodes ------------------------------------------------------------------------------------------------------------

Numbered = tuple[ZkLine, Op]


def _committed(lines: Iterable[ZkLine]) -> dict[str, list[Numbered]]:
    """The writes that took effect, per znode."""
    found: defaultdict[str, list[Numbered]] = defaultdict(list)
    for line in lines:
        if not any(op.error for op in line.ops):
            for op in line.ops:
                if op.op != "check":
                    found[op.path].append((line, op))
    return found


def _refused(lines: Iterable[ZkLine]) -> list[Numbered]:
    return [(line, op) for line in lines for op in line.ops if op.error]


def _writes(trace: Trace, observed: Observed) -> list[Difference]:
    expected, ours = _committed(trace.writes), _committed(observed.writes)
    found = []
    for path in sorted({*expected, *ours}):
        for theirs, mine in zip_longest(expected.get(path, []), ours.get(path, [])):
            found += _write(theirs, mine)
    return found + _attempts(_refused(trace.writes), _refused(observed.writes))


def _write(theirs: Numbered | None, mine: Numbered | None) -> list[Difference]:
    if theirs is None or mine is None:
        if theirs is not None:
            return [Difference((theirs[0].number,), "missing write", _show(theirs[1]))]
        return [] if mine is None else [Difference((), "extra write", _show(mine[1]))]
    (line, expected), (own_line, op) = theirs, mine
    texts = {
        _kind_of_write(expected, op): _diff(_show(expected), _show(op)),
        _kind_of_condition(expected, op): f"{op.path}: {expected.expect} -> {op.expect}",
        _kind_of_fence(line, own_line): f"{op.path}: {_show(line.ops[0])} -> {_show(own_line.ops[0])}",
    }
    return [Difference((line.number,), kind, text) for kind, text in texts.items() if kind]


def _kind_of_write(expected: Op, ours: Op) -> str:
    """The kind of a difference between two writes; empty if there is none."""
    theirs, mine = _state(expected.data), _state(ours.data)
    same = (expected.op, expected.version, expected.ephemeral) == (ours.op, ours.version, ours.ephemeral)
    if same and theirs == mine:
        return ""
    if same and isinstance(theirs, dict) and isinstance(mine, dict) and theirs.items() <= mine.items():
        return f"extra field {', '.join(sorted(mine.keys() - theirs.keys()))}"
    return "write"


def _kind_of_condition(expected: Op, ours: Op) -> str:
    if expected.expect == ours.expect or ours.expect is None:  # ZooKeeper's log does not have the required version
        return ""
    return "compares the version" if expected.expect == ANY_VERSION else "condition"


def _kind_of_fence(line: ZkLine, ours: ZkLine) -> str:
    if line.is_fenced and ours.is_fenced:
        return "" if line.ops[0] == ours.ops[0] else "fence"
    if line.is_fenced:
        return "fence"
    return "fenced too" if ours.is_fenced else ""


def _state(data: Json) -> Json:
    """The state without the order of keys and without a recovery state of 0."""
    is_plain = isinstance(data, dict) and data.get("leader_recovery_state") == 0
    return {key: value for key, value in data.items() if key != "leader_recovery_state"} if is_plain else data


def _attempts(theirs: Sequence[Numbered], ours: Sequence[Numbered]) -> list[Difference]:
    """The differences between refused writes."""
    left = [(op.op, op.path, op.error) for _, op in ours]
    found = []
    for line, op in theirs:
        if (op.op, op.path, op.error) in left:
            left.remove((op.op, op.path, op.error))
        else:
            found.append(Difference((line.number,), "not tried", _show(op)))
    return found + [Difference((), "refused", f"{op} {path}: {error}") for op, path, error in left]


def _groups(trace: Trace, observed: Observed) -> list[Difference]:
    """The transactions of the trace that our controller does as one."""
    expected, ours = _committed(trace.writes), _committed(observed.writes)
    merged: defaultdict[int, set[int]] = defaultdict(set)
    for path, theirs in expected.items():
        for (line, _), (own_line, _) in zip(theirs, ours.get(path, []), strict=False):
            merged[own_line.number].add(line.number)
    return [
        Difference(tuple(sorted(lines)), "one transaction", "several transactions of the trace are one of ours")
        for lines in merged.values()
        if len(lines) > 1
    ]


# -- brokers -----------------------------------------------------------------------------------------------------------


def _requests(trace: Trace, observed: Observed, with_repeats: bool) -> list[Difference]:
    found = []
    for broker in trace.brokers:
        expected = [line for line in trace.requests_to(broker) if with_repeats or line.answer != CLOSED]
        for theirs, mine in _paired(expected, observed.requests_to(broker)):
            if theirs is None:
                found.append(Difference((), "extra request", f"to broker {broker}: {_show_request(mine)}"))
            elif mine is None:
                found.append(Difference((theirs.number,), "missing request", _show_request(theirs)))
            elif _key(theirs) != _key(mine):
                text = _diff(_show_request(theirs), _show_request(mine))
                found.append(Difference((theirs.number,), "request", text))
    return found


def _paired(
    expected: Sequence[RequestLine], ours: Sequence[RequestLine]
) -> Iterable[tuple[RequestLine | None, RequestLine | None]]:
    """Each request with its counterpart. A missing request in the middle does not shift all later ones."""
    if len(expected) == len(ours):
        return zip(expected, ours, strict=True)
    texts, own_texts = ([json.dumps(_key(line), sort_keys=True) for line in lines] for lines in (expected, ours))
    aligned = difflib.SequenceMatcher(None, texts, own_texts, autojunk=False).get_opcodes()
    return chain.from_iterable(
        zip_longest(expected[start:end], ours[own_start:own_end]) for _, start, end, own_start, own_end in aligned
    )


def _key(line: RequestLine) -> tuple[str, int, str, Json]:
    return line.api, line.version, line.client_id, line.body


def _show_request(line: RequestLine | None) -> str:
    if line is None:
        return "nothing"
    body = json.dumps(line.body, indent=1, sort_keys=True)
    return f"to {line.to} {line.api} v{line.version} of {line.client_id}\n{body}"


def _replies(trace: Trace, observed: Observed) -> list[Difference]:
    found = []
    for theirs, mine in zip_longest(trace.replies, observed.replies):
        if theirs is None or mine is None:
            number = () if theirs is None else (theirs.number,)
            found.append(Difference(number, "missing reply" if mine is None else "extra reply", str(theirs or mine)))
        elif _reply(theirs) != _reply(mine):
            text = _diff(json.dumps(theirs.body, indent=1), json.dumps(mine.body, indent=1))
            found.append(Difference((theirs.number,), "reply", text))
    return found


def _reply(line: ReplyLine) -> tuple[str, str, int, Json]:
    return line.to, line.api, line.version, _comparable(line.body)


def _comparable(body: Json) -> Json:
    """The body without the texts of errors, which are for people, and with sorted topics."""
    if isinstance(body, list):
        rows = [_comparable(row) for row in body]
        return sorted(rows, key=_topic_of) if rows and _topic_of(rows[0]) else rows
    if isinstance(body, dict):
        return {key: _comparable(value) for key, value in body.items() if key != "error_message"}
    return body


def _topic_of(row: Json) -> str:
    return str(row.get("topic") or row.get("name") or "") if isinstance(row, dict) else ""


# -- the end -----------------------------------------------------------------------------------------------------------


def _final(expected: Mapping[str, TraceZnode], ours: Mapping[str, TraceZnode]) -> list[Difference]:
    """The differences between the final znodes.

    Empty folders that only one of the two controllers creates do not count.
    """
    found = []
    for path in sorted({*expected, *ours}):
        if not path.startswith(_COMPARED) or path == "/brokers/ids/CTRL":
            continue
        theirs, mine = expected.get(path), ours.get(path)
        if theirs is None and path.startswith("/admin/") and mine == TraceZnode(None, 0):
            continue
        if theirs is None or mine is None or (_state(theirs.data), theirs.version) != (_state(mine.data), mine.version):
            found.append(Difference((), "final", f"{path}: {theirs} -> {mine}"))
    return found


def _show(op: Op) -> str:
    return json.dumps({name: value for name, value in _fields(op).items() if value not in (None, False)}, indent=1)


def _fields(op: Op) -> dict[str, Json]:
    return {
        "op": op.op,
        "path": op.path,
        "data": op.data,
        "version": op.version,
        "expect": op.expect,
        "ephemeral": op.ephemeral,
        "error": op.error,
    }


def _diff(expected: str, ours: str) -> str:
    lines = difflib.unified_diff(expected.splitlines(), ours.splitlines(), "recorded", "ours", lineterm="", n=2)
    return "\n".join(lines)
