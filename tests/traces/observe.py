"""The actions of our controller in a run, in the normal form of the traces, to be compared with one."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tests.traces.format import Json, Op, ReplyLine, RequestLine, TraceZnode, ZkLine
from tests.traces.symbols import Symbols

EPOCH_PATH: Final = "/controller_epoch"


@dataclass
class Observed:
    """All actions of the controller in a run, each sequence in order. Line numbers count from 1 in each."""

    writes: list[ZkLine] = field(default_factory=list)
    requests: list[RequestLine] = field(default_factory=list)
    replies: list[ReplyLine] = field(default_factory=list)
    znodes: Mapping[str, TraceZnode] = field(default_factory=dict)

    def requests_to(self, broker: int) -> Sequence[RequestLine]:
        """All requests to one stub."""
        return [line for line in self.requests if line.to == broker]


def normal_data(path: str, data: bytes | None, symbols: Symbols) -> Json:
    """The data of a znode in the form of the traces: JSON, else text, null when empty."""
    if not data:
        return None
    if path == EPOCH_PATH:
        return symbols.symbolise(int(data), "controller_epoch")
    try:
        return symbols.symbolise(json.loads(data))
    except ValueError:
        return data.decode()


def raw_data(form: Json, symbols: Symbols) -> bytes | None:
    """The inverse: the bytes of the znode."""
    if form is None:
        return None
    value = symbols.resolve(form)
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


def normal_op(op: Op, symbols: Symbols) -> Op:
    """The operation with the versions of ``/controller_epoch`` as symbols."""
    if op.path != EPOCH_PATH:
        return op
    version, expect = (value if value is None else symbols.symbolise(value, "epoch version") for value in _both(op))
    return replace(op, version=version, expect=expect)


def _both(op: Op) -> tuple[Json, Json]:
    return op.version, op.expect


def normal_request(number: int, line: RequestLine, symbols: Symbols) -> RequestLine:
    """The request with symbols instead of values."""
    client = symbols.symbolise(int(line.client_id), "controller_id") if line.client_id.isdecimal() else line.client_id
    return replace(line, number=number, client_id=client, body=symbols.symbolise(line.body))
