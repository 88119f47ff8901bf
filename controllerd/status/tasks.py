"""What operators asked for, while it is under way and for an hour after its end: one task each, in memory.

A task is carried out by an asyncio task of its own, so that nobody has to stay connected. It ends with the server; what
the controller was told to do by then goes on without it.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from http import HTTPStatus
from itertools import chain, islice
from typing import ClassVar, Final, Literal
from uuid import uuid4

import msgspec
import structlog

from controllerd.clock import iso
from controllerd.errors import ControllerdError, ControllerMoved, NotController
from controllerd.pace import Pace, sliced
from controllerd.record.observation import AdminRecord
from controllerd.record.records import MAX_ROWS, Record
from controllerd.status.problems import Refused
from controllerd.status.schema.tasks import Task, TaskItem
from events.admin import Requester

log = structlog.get_logger(__name__)

SHOWN: Final = 1_000
"""Items of a task that are shown, and kept once it ended."""
KEPT_MS: Final = 3_600_000
MAX_KEPT: Final = 200
MAX_RUNNING: Final = 50

State = Literal["planned", "waiting", "running", "done", "not-needed", "failed"]
_ORDER: Final[tuple[State, ...]] = ("failed", "running", "waiting", "planned", "done", "not-needed")
"""In which they are shown: what needs somebody's eyes first."""
_ENDED: Final[tuple[State, ...]] = ("failed", "done", "not-needed")


class Items:
    """The topics, partitions or brokers of one operation, by state, so that none has to be searched for."""

    def __init__(self, items: Iterable[TaskItem] = ()) -> None:
        self._by_state: dict[str, dict[str, TaskItem]] = {state: {} for state in _ORDER}
        self._states: dict[str, str] = {}
        for item in items:
            self.put(item)

    def __len__(self) -> int:
        return len(self._states)

    def put(self, item: TaskItem) -> None:
        """Add an item, or replace what is known of its subject."""
        before = self._states.get(item.subject)
        if before is not None:
            del self._by_state[before][item.subject]
        self._states[item.subject] = item.state
        self._by_state[item.state][item.subject] = item

    def mark(self, subject: str, state: State, detail: str = "", kafka_error: str | None = None) -> None:
        """What is known of a subject now."""
        self.put(TaskItem(subject=subject, state=state, detail=detail, kafka_error=kafka_error))

    def of(self, *states: State) -> list[TaskItem]:
        """The items in these states, in the order of the states."""
        return [item for state in states for item in self._by_state[state].values()]

    def count(self, *states: State) -> int:
        """How many items are in these states."""
        return sum(len(self._by_state[state]) for state in states)

    def first(self, limit: int) -> list[TaskItem]:
        """The first of them, those that failed before all others; at the cost of the limit."""
        return list(islice(chain.from_iterable(self._by_state[state].values() for state in _ORDER), limit))

    @property
    def percent(self) -> float | None:
        """How many of them ended; None when there are none."""
        return round(100 * self.count(*_ENDED) / len(self), 1) if len(self) else None

    def __str__(self) -> str:
        counts = [f"{number} {state}" for state in _ORDER if (number := self.count(state))]
        return ", ".join(counts) or "nothing to do"


class Operation(ABC):
    """One verb with what was asked for; it plans without changing anything, and runs once at most."""

    verb: ClassVar[str]
    result: msgspec.Struct | None = None
    """What the verb answers instead of the task, once that is known; of most verbs nothing."""

    @abstractmethod
    async def plan(self) -> list[TaskItem]:
        """What would become of each item: ``planned``, ``not-needed`` or ``failed``.

        :raises Refused: none of it can be done. :raises ControllerdError: nobody can say.
        """

    @abstractmethod
    async def run(self, items: Items) -> str:
        """Do it, and mark each item; returns where it ended as a sentence, empty for one made of the items' states.

        :raises ControllerdError: it could not be done, or not to its end.
        """


class LiveTask:
    """One operation and how far it has come."""

    def __init__(self, operation: Operation, by: Requester, reason: str, now_ms: Callable[[], int]) -> None:
        self.id: Final = uuid4().hex[:16]
        self.verb: Final = operation.verb
        self.operation: Operation | None = operation
        """None once it ended: what was asked for may be large."""
        self.result: msgspec.Struct | None = None
        self.by: Final = by
        self.reason: Final = reason
        self._now_ms = now_ms
        self.began_ms: Final = now_ms()
        self.ended_ms: int | None = None
        self.state = "running"
        self.items = Items()
        self.error: ControllerdError | None = None
        """Why it failed as a whole."""
        self.over: Final = asyncio.Event()
        """Set at its end."""
        self._message = ""
        self._ended_before = 0
        """Items that had ended when it began: they say nothing of its speed."""
        self._total = 0
        self._percent: float | None = None

    async def plan(self, items: list[TaskItem]) -> None:
        """A dry run: these items, and no more."""
        pace = Pace()
        for item in items:
            self.items.put(item)
            await pace.breathe()
        self.state = "planned"
        self._let_go()
        self._message = f"dry run, nothing was changed: {self.items}"

    async def begin(self, items: list[TaskItem]) -> None:
        """What was planned waits for its turn."""
        pace = Pace()
        for item in items:
            if item.state == "planned":
                self.items.mark(item.subject, "waiting", item.detail)
            else:
                self.items.put(item)
            await pace.breathe()
        self._ended_before = self.items.count(*_ENDED)

    def end(self, now_ms: int, message: str = "", *, state: str | None = None) -> None:
        """It is over; only what is shown is kept."""
        failed, total = self.items.count("failed"), len(self.items)
        self.state = state or ("done" if not failed else "failed" if failed == total else "partial")
        self._message = message or str(self.items)
        self.ended_ms, self._total, self._percent = now_ms, total, self.items.percent
        self.items = Items(self.items.first(SHOWN))
        self._let_go()

    def _let_go(self) -> None:
        self.result = None if self.operation is None else self.operation.result
        self.operation = None

    @property
    def _eta_s(self) -> float | None:
        """At the speed so far; None before anything ended."""
        ended = self.items.count(*_ENDED)
        since = ended - self._ended_before
        left = len(self.items) - ended
        return round((self._now_ms() - self.began_ms) / 1000 * left / since, 1) if since > 0 else None

    def drop_items(self) -> None:
        """Keep the outcome, but not what became of each item."""
        self.items = Items()

    @property
    def view(self) -> Task:
        """As it is shown."""
        return self.shown(SHOWN)

    def shown(self, limit: int) -> Task:
        """With so many of its items."""
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
    """All tasks of this instance since it started, as far as they are kept."""

    def __init__(self, record: Callable[[Record], None], now_ms: Callable[[], int]) -> None:
        """``record`` writes to the audit log; ``now_ms`` is the wall clock."""
        self._record = record
        self._now_ms = now_ms
        self._tasks: dict[str, LiveTask] = {}
        self._running: dict[str, asyncio.Task[None]] = {}

    def new(self, operation: Operation, by: Requester, reason: str) -> LiveTask:
        """A task that is neither begun nor kept yet."""
        return LiveTask(operation, by, reason, self._now_ms)

    async def begin(self, task: LiveTask, operation: Operation, items: list[TaskItem]) -> None:
        """Carry it out. :raises Refused: too much is under way already."""
        if len(self._running) >= MAX_RUNNING:
            detail = f"{MAX_RUNNING} operations are under way already, and no more are begun"
            hint = "GET /v1/tasks shows them; repeat when one of them has ended"
            raise Refused(HTTPStatus.TOO_MANY_REQUESTS, "too_many_tasks", detail, hint)
        await task.begin(items)
        self._tasks[task.id] = task
        self._write_down(task, "asked")
        running = asyncio.create_task(self._carry_out(task, operation), name=f"{task.verb} {task.id}")
        self._running[task.id] = running
        running.add_done_callback(lambda done: self._ended(task, done))

    def find(self, task_id: str) -> LiveTask | None:
        """A task that runs, or ended within the last hour; None for any other."""
        self._sweep()
        return self._tasks.get(task_id)

    def newest_first(self) -> list[LiveTask]:
        """All that are kept."""
        self._sweep()
        return list(reversed(self._tasks.values()))

    async def close(self) -> None:
        """Let go of everything that is under way. Harmless when nothing is."""
        running = list(self._running.values())
        for one in running:
            one.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _carry_out(self, task: LiveTask, operation: Operation) -> None:
        try:
            task.end(self._now_ms(), await operation.run(task.items))
        except (NotController, ControllerMoved) as lost:
            task.error = lost
            message = f"this instance ceased to lead: {lost}; what was begun continues under whoever leads"
            task.end(self._now_ms(), message, state="lost")
        except ControllerdError as error:
            task.error = error
            task.end(self._now_ms(), str(error), state="failed")

    def _ended(self, task: LiveTask, done: "asyncio.Task[None]") -> None:
        del self._running[task.id]
        if done.cancelled():
            task.end(self._now_ms(), "the daemon stops; what was begun continues", state="lost")
        elif (defect := done.exception()) is not None:
            log.error("operation failed", verb=task.verb, task=task.id, exc_info=defect)
            task.end(self._now_ms(), f"failed, see the log of the daemon: {type(defect).__name__}", state="failed")
        self._write_down(task, task.state)
        task.over.set()

    def _write_down(self, task: LiveTask, step: str) -> None:
        """Who asked for what, and what became of each item that is shown, in records of a bounded size."""
        view = task.view
        log.info("operation", step=step, verb=view.verb, task=task.id, by=view.asked_by, reason=view.reason)
        for number, part in enumerate(sliced(view.items, MAX_ROWS) if view.items else [[]]):
            self._record(
                AdminRecord(
                    step=step,
                    task=task.id,
                    verb=view.verb,
                    principal=task.by.principal,
                    peer=task.by.peer,
                    reason=task.reason,
                    message=view.message,
                    subjects=[item.subject for item in part],
                    states=[item.state for item in part],
                    details=[" ".join(filter(None, (item.kafka_error, item.detail))) for item in part],
                    continues=number > 0,
                )
            )

    def _sweep(self) -> None:
        """Forget what ended long ago, and the oldest of too many."""
        ended = [task for task in self._tasks.values() if task.ended_ms is not None]
        horizon = self._now_ms() - KEPT_MS
        surplus = len(ended) - MAX_KEPT
        for number, task in enumerate(sorted(ended, key=lambda task: task.ended_ms or 0)):
            if number < surplus or (task.ended_ms or 0) < horizon:
                task.drop_items()
                del self._tasks[task.id]
