"""Recorded traces of the built-in controller as typed steps: the triggers, and the actions of the controller.

One JSON object per line. ``data/`` holds our own recordings of Apache Kafka 3.9 with stub brokers; values that differ
from
run to run (epochs, ports, topic ids) are symbols there, see ``tests.traces.symbols``.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

Json = Any
CONTROLLER: Final = "controller"
CLOSED: Final = "connection closed"
"""The answer of a stub that closed the connection instead: the same request must come again."""
_DATA: Final = Path(__file__).parent / "data"


@dataclass(frozen=True, slots=True)
class Op:
    """One operation on a znode. ``version`` is the one after a setData, ``expect`` the one that the writer required."""

    op: str
    path: str
    data: Json = None
    version: Json = None
    expect: Json = None
    ephemeral: bool = False
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ZkLine:
    """One transaction. With an ``error`` in one of its operations the whole transaction had no effect."""

    number: int
    session: str
    ops: tuple[Op, ...]
    deletes: tuple[str, ...] = ()
    """Ephemeral znodes that were deleted with their closed session."""

    @property
    def is_fenced(self) -> bool:
        """Whether it checks the version of ``/controller_epoch`` first."""
        return self.ops[0].op == "check"


@dataclass(frozen=True, slots=True)
class RequestLine:
    """One control request that arrived at stub ``to``, with the stub's answer."""

    number: int
    to: int
    api: str
    version: int
    client_id: str
    body: Json
    answer: Json = "NONE"


@dataclass(frozen=True, slots=True)
class ReplyLine:
    """The controller's answer to a request of a stub."""

    number: int
    to: str
    api: str
    version: int
    body: Json


@dataclass(frozen=True, slots=True)
class TriggerLine:
    """A trigger of the controller; a request of a stub has its body."""

    number: int
    what: str
    api: str | None = None
    version: int = 0
    body: Json = None
    by: str = ""


@dataclass(frozen=True, slots=True)
class TraceStep:
    """A trigger, the writes of stubs or testers that belong to it, and the actions of the controller after it."""

    trigger: TriggerLine
    foreign: tuple[ZkLine, ...]
    writes: tuple[ZkLine, ...]
    requests: tuple[RequestLine, ...]
    replies: tuple[ReplyLine, ...]


@dataclass(frozen=True, slots=True)
class TraceZnode:
    """The data and the version of a znode."""

    data: Json
    version: Json


@dataclass(frozen=True, slots=True)
class Trace:
    """One scenario. ``final`` is None when the trace was cut before its end."""

    scenario: str
    description: str
    brokers: tuple[int, ...]
    live: tuple[int, ...]
    initial: Mapping[str, TraceZnode]
    steps: tuple[TraceStep, ...]
    final: Mapping[str, TraceZnode] | None
    config: Mapping[str, str]
    """Broker settings that differ from the defaults."""

    @property
    def writes(self) -> tuple[ZkLine, ...]:
        """All transactions of the controller, in order."""
        return tuple(line for step in self.steps for line in step.writes)

    @property
    def replies(self) -> tuple[ReplyLine, ...]:
        """All replies, in order."""
        return tuple(line for step in self.steps for line in step.replies)

    def requests_to(self, broker: int) -> tuple[RequestLine, ...]:
        """All requests to one stub, in order."""
        return tuple(line for step in self.steps for line in step.requests if line.to == broker)

    @property
    def starts_deposed(self) -> bool:
        """Whether another controller holds the role when the scenario begins."""
        return bool(self.initial["/controller"].data["brokerid"] != "CTRL")


def load(scenario: str, *, before: int | None = None) -> Trace:
    """Read a trace; with ``before`` only the lines with a smaller number (the first line is 1)."""
    lines = list(_lines(_DATA / f"{scenario}.jsonl", before))
    header, final = lines[0][1], lines[-1][1]
    starts = [index for index, (_, line) in enumerate(lines) if line["t"] == "trigger"]
    ends = [*starts[1:], len(lines)]
    return Trace(
        scenario=header["scenario"],
        description=header["description"],
        brokers=tuple(header["brokers"]),
        live=tuple(header["live"]),
        initial=_znodes(header["initial"]),
        steps=tuple(_step(lines[start:end]) for start, end in zip(starts, ends, strict=True)),
        final=_znodes(final["znodes"]) if final["t"] == "final" else None,
        config=header["config"],
    )


def _lines(path: Path, before: int | None) -> Iterator[tuple[int, Json]]:
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if before is None or number < before:
                yield number, json.loads(line)


def _znodes(found: Mapping[str, Json]) -> Mapping[str, TraceZnode]:
    return {path: TraceZnode(node["data"], node["version"]) for path, node in found.items()}


def _step(lines: list[tuple[int, Json]]) -> TraceStep:
    number, first = lines[0]
    writes = [_zk(at, line) for at, line in lines if line["t"] == "zk"]
    return TraceStep(
        trigger=TriggerLine(number, **_without_kind(first)),
        foreign=tuple(line for line in writes if line.session != CONTROLLER),
        writes=tuple(line for line in writes if line.session == CONTROLLER),
        requests=tuple(RequestLine(at, **_without_kind(line)) for at, line in lines if line["t"] == "request"),
        replies=tuple(ReplyLine(at, **_without_kind(line)) for at, line in lines if line["t"] == "reply"),
    )


def _without_kind(line: Json) -> dict[str, Json]:
    return {key: value for key, value in line.items() if key != "t"}


def _zk(number: int, line: Json) -> ZkLine:
    if line.get("op") == "closeSession":
        return ZkLine(number, line["session"], (), tuple(line["deletes"]))
    inline = {key: value for key, value in line.items() if key not in {"t", "session", "multi"}}
    return ZkLine(number, line["session"], tuple(Op(**op) for op in line.get("multi", [inline])))
