"""The socket of a simulated broker: frames in, responses out, and every fault of a response."""

from collections import defaultdict, deque
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

from controllerd.core.kafka_error import KafkaError
from tests.sim import broker_frames as frames
from tests.sim.broker_frames import API_VERSIONS, DESCRIBE_CONFIGS, SimRequest
from tests.sim.network import SimLink

if TYPE_CHECKING:
    from tests.sim.broker import SimBroker
    from tests.sim.broker_life import Errors

_SIZE_BYTES: Final = 4


class Fault(Enum):
    """The fault of one request, or of its response."""

    CUT_BEFORE = "the link is cut before the request is processed"
    CUT_AFTER = "the request is processed, then the link is cut and the answer lost"
    NO_ANSWER = "the request is processed and never answered"
    CLOSE_MID_FRAME = "the broker closes in the middle of its answer"
    SHORT = "the answer is a whole frame that ends too early"
    GARBAGE = "the answer is no answer"
    NEGATIVE_SIZE = "the size of the answer is below zero"
    WRONG_CORRELATION = "the answer belongs to another request"
    DUPLICATE = "the answer comes twice"
    LATE = "the answer comes late"


@dataclass(slots=True)
class Injected:
    """The fault or error for the next matching request."""

    api: int | None
    fault: Fault | None = None
    error: KafkaError = KafkaError.NONE


@dataclass(slots=True)
class _Line:
    """The requests that one run of a broker has read from one sender and not served yet, in the order of arrival."""

    waiting: deque[tuple[SimLink, bytes]] = field(default_factory=deque)
    busy_until: float = 0.0


class ControlSocket:
    """Reads and answers control requests for one broker."""

    def __init__(self, broker: "SimBroker") -> None:
        self.injected: deque[Injected] = deque()
        """The faults of the next requests."""
        self._broker = broker
        self._lines: defaultdict[tuple[str, str], _Line] = defaultdict(_Line)
        """Queues by run and sender, not by link: a broker has one request queue for all connections of a sender."""

    def arrived(self, link: SimLink, data: bytes) -> None:
        """Take bytes of a link and serve every frame that is complete."""
        buffer = link.received + data if link.received else data
        at = 0
        while len(buffer) - at >= _SIZE_BYTES:
            end = at + _SIZE_BYTES + int.from_bytes(buffer[at : at + _SIZE_BYTES])
            if end > len(buffer):
                break
            self._received(link, buffer[at + _SIZE_BYTES : end])
            at = end
        link.received = buffer[at:]

    def _received(self, link: SimLink, frame: bytes) -> None:
        broker = self._broker
        if broker.is_silent:
            return
        line = self._lines[broker.owner, link.owner]
        if broker.work_s is None and not line.waiting:
            self._serve(link, frame)
            return
        now = broker.cluster.loop.time()
        work_s = 0.0 if broker.work_s is None else broker.work_s.draw(broker.cluster.rng)
        line.busy_until = max(line.busy_until, now) + work_s
        line.waiting.append((link, frame))
        broker.call_later(line.busy_until - now, self._serve_next, line)

    def _serve_next(self, line: _Line) -> None:
        """Serve the first request of the queue.

        Timers of one instant run in any order, timers of a frozen process late.
        """
        self._serve(*line.waiting.popleft())

    def _serve(self, link: SimLink, frame: bytes) -> None:
        if self._broker.life is None:
            return
        try:
            api, version, correlation_id, _ = frames.header(frame)
            if api == API_VERSIONS:
                link.answer(frames.api_versions_answer(correlation_id, version, self._broker.spoken))
                return
            if api == DESCRIBE_CONFIGS:
                link.answer(frames.settings_answer(frame, *self._broker.settings_sources()))
                return
            request = frames.decode(frame)
        except frames.Malformed as error:
            self._broker.cluster.malformed.append(f"broker {self._broker.id} from {link.owner}: {error}")
            link.hang_up()
            return
        self._process(link, request, self._injected_for(api))

    def _injected_for(self, api: int) -> Injected | None:
        for index, injected in enumerate(self.injected):
            if injected.api in {None, api}:
                del self.injected[index]
                return injected
        return None

    def _process(self, link: SimLink, request: SimRequest, injected: Injected | None) -> None:
        assert self._broker.life is not None
        fault = None if injected is None else injected.fault
        if fault is Fault.CUT_BEFORE:
            link.cut()
            return
        errors: Errors
        if injected is not None and fault is None:
            error, errors = injected.error, []
        else:
            error, errors = self._broker.life.handle(request)
        self._broker.cluster.trace(_line(self._broker.id, link.owner, request, error, fault))
        for observer in self._broker.cluster.on_request:
            observer(self._broker.id, link.owner, request.api_name, request, error)
        self._answer(link, frames.answer(request, error, errors), fault)

    def _answer(self, link: SimLink, answer: bytes, fault: Fault | None) -> None:
        match fault:
            case None:
                link.answer(answer)
            case Fault.CUT_BEFORE | Fault.CUT_AFTER:
                link.cut()
            case Fault.NO_ANSWER:
                return
            case Fault.DUPLICATE:
                link.answer(answer)
                link.answer(answer)
            case Fault.LATE:
                link.answer(answer, self._broker.settings.late_s.draw(self._broker.cluster.rng))
            case _:
                link.answer(_spoilt(answer, fault))
                link.hang_up()


def _spoilt(answer: bytes, fault: Fault) -> bytes:
    """The response (a whole frame), broken in one way."""
    size, head, content = answer[:4], answer[4:8], answer[8:]
    match fault:
        case Fault.CLOSE_MID_FRAME:
            return answer[: len(answer) // 2 + 2]
        case Fault.SHORT:
            return frames.framed(head + content[:1])
        case Fault.NEGATIVE_SIZE:
            return b"\xff" * 4 + head + content
        case Fault.WRONG_CORRELATION:
            return size + (int.from_bytes(head) ^ 1).to_bytes(4) + content
        case _:
            return frames.framed(head + b"\xff" * 24)


def _line(broker: int, owner: str, request: SimRequest, error: KafkaError, fault: Fault | None) -> str:
    """Format a request and its response as one line of the trace."""
    rows = " ".join(
        f"{row.topic}-{row.partition}:{row.leader}/{row.leader_epoch}{'!' if row.delete else ''}"
        for row in request.rows
    )
    outcome = error.name if fault is None else f"{error.name}, {fault.name}"
    return (
        f"broker {broker} < {owner} {request.api_name} {request.correlation_id} epoch {request.controller_epoch} "
        f"broker epoch {request.broker_epoch} [{rows}]: {outcome}"
    )
