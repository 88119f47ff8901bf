"""Operations and their tasks, kept in memory while they run and for an hour after their end.

Each operation runs in an asyncio task of its own, so that no client has to stay connected. The task ends with the
server; changes that the controller has begun by then continue without it.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from http import HTTPStatus
from itertools import chain, islice
from operator import itemgetter
from typing import Any, ClassVar, Final, Generic, Literal, NamedTuple, TypeVar
from uuid import uuid4

import msgspec
import structlog

from controllerd.clock import iso
from controllerd.core.kafka_error import KafkaError
from controllerd.errors import ControllerdError, ControllerMoved, NotController
from controllerd.record.families.operators import AdminRecord
from controllerd.record.records import MAX_ROWS, Record
from controllerd.slicer import sliced
from controllerd.status.http.problems import Refused
from controllerd.status.schema.tasks import Task, TaskItem
from controllerd.status.schema.verbs import VerbRequest
from controllerd.status.verbs.cluster import OperatedCluster, yielding_to_loop
from events.admin import Requester

log = structlog.get_logger(__name__)

SHOWN: Final = 1_000
"""The most items of a task that are shown, and kept after its end."""
KEPT_MS: Final = 3_600_000
MAX_KEPT: Final = 200
MAX_RUNNING: Final = 50

ItemState = Literal["planned", "waiting", "running", "done", "not-needed", "failed"]
TaskState = Literal["planned", "running", "done", "partial", "failed", "lost"]
_ORDER: Final[tuple[ItemState, ...]] = ("failed", "running", "waiting", "planned", "done", "not-needed")
"""The order in which items are shown: items that need an operator's attention come first."""
_ENDED: Final[tuple[ItemState, ...]] = ("failed", "done", "not-needed")

Body = TypeVar("Body", bound=VerbRequest)


def item(subject: object, state: ItemState, detail: str = "", error: KafkaError | None = None) -> TaskItem:
    """Return the item of one topic, partition or broker."""
    return TaskItem(subject=str(subject), state=state, detail=detail, kafka_error=None if error is None else error.name)


class TaskItems:
    """The topics, partitions or brokers of one operation, indexed by state."""

    def __init__(self, items: Iterable[TaskItem] = ()) -> None:
        self._by_state: dict[str, dict[str, TaskItem]] = {state: {} for state in _ORDER}
        self._states: dict[str, str] = {}
        for each in items:
            self.put(each)

    def __len__(self) -> int:
        return len(self._states)

    def put(self, new: TaskItem) -> None:
        """Add an item, or replace the item of the same subject."""
        before = self._states.get(new.subject)
        if before is not None:
            del self._by_state[before][new.subject]
        self._states[new.subject] = new.state
        self._by_state[new.state][new.subject] = new

    def mark(self, subject: object, state: ItemState, detail: str = "", error: KafkaError | None = None) -> None:
        """Add or replace the item of a subject."""
        self.put(item(subject, state, detail, error))

    def of(self, *states: ItemState) -> list[TaskItem]:
        """Return the items in these states, in the order of the states."""
        return [each for state in states for each in self._by_state[state].values()]

    def count(self, *states: ItemState) -> int:
        """Return how many items are in these states."""
        return sum(len(self._by_state[state]) for state in states)

    def first(self, limit: int) -> list[TaskItem]:
        """Return the first items, failed ones before all others, in a time that depends on the limit alone."""
        return list(islice(chain.from_iterable(self._by_state[state].values() for state in _ORDER), limit))

    @property
    def percent(self) -> float | None:
        """The share of the items that ended; None without items."""
        return round(100 * self.count(*_ENDED) / len(self), 1) if len(self) else None

    def __str__(self) -> str:
        counts = [f"{number} {state}" for state in _ORDER if (number := self.count(state))]
        return ", ".join(counts) or "nothing to do"


class VerbCall(NamedTuple):
    """The requester of a verb, the cluster, and the target in the path."""

    by: Requester
    cluster: OperatedCluster
    target: str = ""
    """The topic or the broker."""


class Operation(ABC, Generic[Body]):
    """One verb with its request. Its plan changes nothing, and it runs at most once."""

    verb: ClassVar[str]
    """Its name in tasks and in the audit log."""
    summary: ClassVar[str]
    """The summary in OpenAPI."""
    needs_role: ClassVar[bool] = True
    """Whether only the active controller can run it."""
    requires_reason: bool = False
    """Whether the request must give a reason, also where ``http.require_reason`` is off."""
    result: msgspec.Struct | None = None
    """The response of a verb that does not respond with its task; None for other verbs, and before it is known."""

    def __init__(self, request: Body, call: VerbCall) -> None:
        self.request: Final = request
        self._by, self._cluster, self._target = call

    def check(self) -> None:
        """Check the request beyond its types. The default checks nothing: for most requests the types suffice.

        :raises Refused: it is not valid.
        """

    @abstractmethod
    async def plan(self) -> list[TaskItem]:
        """Return the foreseen state of each item: ``planned``, ``not-needed`` or ``failed``.

        :raises Refused: nothing of it can be done. :raises ControllerdError: the outcome cannot be foreseen.
        """

    @abstractmethod
    async def run(self, items: TaskItems) -> str:
        """Carry the request out, mark each item, and return the outcome as a sentence.

        An empty sentence stands for the counts of the items' states. :raises ControllerdError: it failed as a whole.
        """


class LiveTask:
    """One operation and its progress."""

    def __init__(self, operation: Operation[Any], by: Requester, now_ms: Callable[[], int]) -> None:
        self.id: Final = uuid4().hex[:16]
        self.verb: Final = operation.verb
        self.operation: Operation[Any] | None = operation
        """None after the end, because the request may be large."""
        self.result: msgspec.Struct | None = None
        self.by: Final = by
        self.reason: Final = operation.request.reason
        self._now_ms = now_ms
        self.began_ms: Final = now_ms()
        self.ended_ms: int | None = None
        self.state: TaskState = "running"
        self.items = TaskItems()
        self.error: ControllerdError | None = None
        """The reason why it failed as a whole."""
        self.over: Final = asyncio.Event()
        """Set at the end."""
        self._message = ""
        self._ended_before = 0
        """The items that had ended when it began; they do not count for the speed."""
        self._total = 0
        self._percent: float | None = None

    async def plan(self, items: list[TaskItem]) -> None:
        """End as a dry run with these items."""
        async for each in yielding_to_loop(items):
            self.items.put(each)
        self.state = "planned"
        self._drop_operation()
        self._message = f"dry run, nothing was changed: {self.items}"

    async def begin(self, items: list[TaskItem]) -> None:
        """Begin with these items; the planned ones are waiting from now on."""
        async for each in yielding_to_loop(items):
            self.items.put(item(each.subject, "waiting", each.detail) if each.state == "planned" else each)
        self._ended_before = self.items.count(*_ENDED)

    def end(self, now_ms: int, message: str = "", *, state: TaskState | None = None) -> None:
        """End, and keep only the items that are shown."""
        failed, total = self.items.count("failed"), len(self.items)
        if state is not None:
            self.state = state
        elif not failed:
            self.state = "done"
        else:
            self.state = "failed" if failed == total else "partial"
        self._message = message or str(self.items)
        self.ended_ms, self._total, self._percent = now_ms, total, self.items.percent
        self.items = TaskItems(self.items.first(SHOWN))
        self._drop_operation()

    def _drop_operation(self) -> None:
        self.result = None if self.operation is None else self.operation.result
        self.operation = None

    @property
    def _eta_s(self) -> float | None:
        """The remaining seconds at the speed so far; None before the first item ended."""
        ended = self.items.count(*_ENDED)
        since, left = ended - self._ended_before, len(self.items) - ended
        return round((self._now_ms() - self.began_ms) / 1000 * left / since, 1) if since > 0 else None

    def drop_items(self) -> None:
        """Keep the outcome as a whole, but no items."""
        self.items = TaskItems()

    def shown(self, limit: int = SHOWN) -> Task:
        """Return the task for clients, with at most ``limit`` of its items."""
        has_ended = self.ended_ms is not None
        return Task(
            id=self.id,
            verb=self.verb,
            state=self.state,
            asked_by=self.by.principal,
            reason=self.reason,
            began=iso(self.began_ms),
            began_ms=self.began_ms,
            ended=None if self.ended_ms is None else iso(self.ended_ms),
            percent=self._percent if has_ended else self.items.percent,
            eta_seconds=self._eta_s if self.state == "running" else None,
            message=self._message or str(self.items),
            items=self.items.first(limit),
            items_total=self._total if has_ended else len(self.items),
        )


class TaskBook:
    """The tasks of this instance that run, or ended within the last hour."""

    def __init__(self, record: Callable[[Record], None], now_ms: Callable[[], int]) -> None:
        """``record`` writes to the audit log; ``now_ms`` is the wall clock."""
        self._record = record
        self._now_ms = now_ms
        self._tasks: dict[str, LiveTask] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._beginning = 0
        """The number of tasks that are being started. They count for the limit, as a start may yield to the loop."""

    async def begin(self, task: LiveTask, operation: Operation[Any], items: list[TaskItem]) -> None:
        """Start a task. :raises Refused: too many tasks run already."""
        if len(self._running) + self._beginning >= MAX_RUNNING:
            detail = f"{MAX_RUNNING} operations run already, which is the limit"
            hint = "GET /v1/tasks shows them; repeat when one of them has ended"
            raise Refused(HTTPStatus.TOO_MANY_REQUESTS, "too_many_tasks", detail, hint)
        self._beginning += 1
        try:
            await task.begin(items)
        finally:
            self._beginning -= 1
        self._tasks[task.id] = task
        self._audit(task, "asked")
        running = asyncio.create_task(self._carry_out(task, operation), name=f"{task.verb} {task.id}")
        self._running[task.id] = running
        running.add_done_callback(lambda done: self._ended(task, done))

    def find(self, task_id: str) -> LiveTask | None:
        """Return a task that runs, or ended within the last hour; None for any other."""
        self._sweep()
        return self._tasks.get(task_id)

    def newest_first(self) -> list[LiveTask]:
        """Return all kept tasks."""
        self._sweep()
        return list(reversed(self._tasks.values()))

    async def close(self) -> None:
        """Cancel all running tasks. Harmless when none runs."""
        running = list(self._running.values())
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _carry_out(self, task: LiveTask, operation: Operation[Any]) -> None:
        try:
            task.end(self._now_ms(), await operation.run(task.items))
        except (NotController, ControllerMoved) as lost:
            task.error = lost
            outlook = "changes that have begun continue under the next active controller"
            task.end(self._now_ms(), f"this instance lost the role: {lost}; {outlook}", state="lost")
        except ControllerdError as error:
            task.error = error
            task.end(self._now_ms(), str(error), state="failed")

    def _ended(self, task: LiveTask, done: "asyncio.Task[None]") -> None:
        del self._running[task.id]
        if done.cancelled():
            task.end(self._now_ms(), "the daemon stops; changes that have begun continue", state="lost")
        elif (defect := done.exception()) is not None:
            log.error("operation failed", verb=task.verb, task=task.id, exc_info=defect)
            task.end(self._now_ms(), f"failed, see the log of the daemon: {type(defect).__name__}", state="failed")
        self._audit(task, task.state)
        task.over.set()

    def _audit(self, task: LiveTask, step: str) -> None:
        """Write the requester, the request and the state of each item to the audit log, in records of bounded size."""
        shown = task.shown()
        name = "operation began" if step == "asked" else "operation ended"
        log.info(name, step=step, verb=shown.verb, task=task.id, by=shown.asked_by, reason=shown.reason)
        parts = sliced(shown.items, MAX_ROWS) if shown.items else [[]]  # one record even without items
        for number, part in enumerate(parts):
            self._record(
                AdminRecord(
                    step=step,
                    task=task.id,
                    verb=shown.verb,
                    principal=task.by.principal,
                    peer=task.by.peer,
                    reason=task.reason,
                    message=shown.message,
                    subjects=[each.subject for each in part],
                    states=[each.state for each in part],
                    details=[" ".join(filter(None, (each.kafka_error, each.detail))) for each in part],
                    continues=number > 0,
                )
            )

    def _sweep(self) -> None:
        """Remove the tasks that ended an hour ago, and the oldest ended ones beyond the limit."""
        ended = [(task.ended_ms, task.id) for task in self._tasks.values() if task.ended_ms is not None]
        horizon, surplus = self._now_ms() - KEPT_MS, len(ended) - MAX_KEPT
        for number, (at_ms, task_id) in enumerate(sorted(ended, key=itemgetter(0))):
            if number < surplus or at_ms < horizon:
                self._tasks.pop(task_id).drop_items()
