"""Long operations: what was asked for, how far it has come, and what became of each item."""

import msgspec

from controllerd.status.schema.common import Answer


class TaskItem(msgspec.Struct, frozen=True, kw_only=True):
    """One topic or partition of an operation.

    ``state`` is ``planned``, ``waiting``, ``running``, ``done``, ``not-needed`` or ``failed``.
    """

    subject: str
    state: str
    detail: str = ""
    kafka_error: str | None = None


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One operation. ``state`` is ``planned`` (a dry run), ``running``, ``done``, ``partial``, ``failed``, ``lost``.

    Lost: this instance ceased to lead while the operation was under way; what was begun continues under whoever leads.
    """

    id: str
    verb: str
    state: str
    asked_by: str
    reason: str
    began: str
    began_ms: int
    ended: str | None
    percent: float | None
    eta_seconds: float | None
    """What is left at the speed so far; null before anything ended, and once all did."""
    message: str
    """Where it stands, as a sentence."""
    items: list[TaskItem]
    items_total: int
    """``items`` has at most 1,000 of them, those that failed first."""


class TaskResponse(Answer, frozen=True, kw_only=True):
    """``GET /v1/tasks/{id}``, and the answer of every verb; 202 while it runs, 200 once it ended or for a dry run."""

    kind: str = "Task"
    task: Task


class TaskList(Answer, frozen=True, kw_only=True):
    """``GET /v1/tasks``, newest first, those that ended within the last hour included."""

    kind: str = "TaskList"
    items: list[Task]
