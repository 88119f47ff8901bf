"""The comparison finds every significant difference and no other."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.traces.compare import differences
from tests.traces.format import Op, RequestLine, Trace, TraceZnode, ZkLine, load
from tests.traces.observe import Observed

STATE = "/brokers/topics/t/partitions/0/state"


def as_recorded(trace: Trace) -> Observed:
    """The actions of the recorded controller, as if they were ours."""
    requests = [line for step in trace.steps for line in step.requests]
    return Observed(list(trace.writes), requests, list(trace.replies), dict(trace.final or {}))


def kinds(trace: Trace, observed: Observed) -> list[str]:
    return [difference.kind for difference in differences(trace, observed)]


def with_op(line: ZkLine, **changes: object) -> ZkLine:
    """The line with another second operation, the one after the fence."""
    return replace(line, ops=(line.ops[0], replace(line.ops[1], **changes)))  # type: ignore[arg-type]  # any field


@pytest.mark.parametrize("scenario", ["B1", "C1", "C2", "C7", "F1", "G1", "N1", "P1", "X1"])
def test_a_trace_does_not_differ_from_itself(scenario: str) -> None:
    trace = load(scenario)

    assert kinds(trace, as_recorded(trace)) == []


def other_data(observed: Observed) -> None:
    line = observed.writes[0]
    observed.writes[0] = with_op(line, data={**line.ops[1].data, "isr": [3, 2]})


def other_version(observed: Observed) -> None:
    observed.writes[0] = with_op(observed.writes[0], version=2)


def other_condition(observed: Observed) -> None:
    observed.writes[0] = with_op(observed.writes[0], expect=-1)


def no_fence(observed: Observed) -> None:
    observed.writes[0] = replace(observed.writes[0], ops=observed.writes[0].ops[1:])


def old_fence(observed: Observed) -> None:
    check, write = observed.writes[0].ops
    observed.writes[0] = replace(observed.writes[0], ops=(replace(check, expect="CEV-1"), write))


def no_write(observed: Observed) -> None:
    observed.writes.clear()


def one_write_more(observed: Observed) -> None:
    observed.writes.append(observed.writes[0])


def refused_write(observed: Observed) -> None:
    observed.writes.append(ZkLine(9, "controller", (Op("refused", "", error="BadVersion"),)))


def other_body(observed: Observed) -> None:
    observed.requests[0] = replace(observed.requests[0], body={**observed.requests[0].body, "type": 1})


def other_request_version(observed: Observed) -> None:
    observed.requests[0] = replace(observed.requests[0], version=6)


def swapped_requests(observed: Observed) -> None:
    places = [index for index, line in enumerate(observed.requests) if line.to == 2]
    first, second = places[:2]
    requests = observed.requests
    requests[first], requests[second] = requests[second], requests[first]


def no_last_request(observed: Observed) -> None:
    del observed.requests[-1]


def one_request_more(observed: Observed) -> None:
    observed.requests.append(observed.requests[-1])


def other_end(observed: Observed) -> None:
    observed.znodes = {**observed.znodes, STATE: TraceZnode(None, 7)}


def one_znode_more(observed: Observed) -> None:
    observed.znodes = {**observed.znodes, "/brokers/topics/x": TraceZnode(None, 0)}


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (other_data, "write"),
        (other_version, "write"),
        (other_condition, "condition"),
        (no_fence, "fence"),
        (old_fence, "fence"),
        (no_write, "missing write"),
        (one_write_more, "extra write"),
        (refused_write, "refused"),
        (other_body, "request"),
        (other_request_version, "request"),
        (swapped_requests, "request"),
        (no_last_request, "missing request"),
        (one_request_more, "extra request"),
        (other_end, "final"),
        (one_znode_more, "final"),
    ],
)
def test_what_differs_is_found(change: Callable[[Observed], None], kind: str) -> None:
    trace = load("C2")
    observed = as_recorded(trace)
    change(observed)

    assert set(kinds(trace, observed)) == {kind}


def test_a_request_that_is_missing_in_the_middle_is_one_difference() -> None:
    trace = load("C2")
    observed = as_recorded(trace)
    first = next(index for index, line in enumerate(observed.requests) if line.to == 2)
    missing = observed.requests.pop(first)

    (difference,) = differences(trace, observed)

    assert (difference.lines, difference.kind) == ((missing.number,), "missing request")


def test_another_reply_is_found() -> None:
    trace = load("N1")
    observed = as_recorded(trace)
    observed.replies[0] = replace(observed.replies[0], body={**observed.replies[0].body, "producer_id_start": 5})

    assert kinds(trace, observed) == ["reply"]


def test_several_transactions_done_as_one_are_found_with_their_lines() -> None:
    trace = load("C1")
    observed = as_recorded(trace)
    check, ops = observed.writes[0].ops[0], [line.ops[1] for line in observed.writes]
    observed.writes = [ZkLine(1, "controller", (check, *ops))]

    (found,) = differences(trace, observed)

    assert (found.kind, found.lines) == ("one transaction", (4, 5, 6))


def test_a_recovery_state_of_zero_says_no_more_than_none() -> None:
    trace = load("C2")
    observed = as_recorded(trace)
    line = observed.writes[0]
    observed.writes[0] = with_op(line, data={**line.ops[1].data, "leader_recovery_state": 0})

    assert kinds(trace, observed) == []


def test_order_between_brokers_and_between_znodes_does_not_count() -> None:
    trace = load("F1")
    observed = as_recorded(trace)
    observed.requests.sort(key=_broker)
    observed.writes.sort(key=_path)

    assert kinds(trace, observed) == []


def _broker(line: RequestLine) -> int:
    return line.to


def _path(line: ZkLine) -> str:
    return line.ops[-1].path
