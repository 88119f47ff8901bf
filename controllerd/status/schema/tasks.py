"""The answers of the verbs: a task with the outcome of each item, or (takeover, resign, forget) the result alone."""

import msgspec

from controllerd.status.schema.common import Answer, Envelope


class TaskItem(msgspec.Struct, frozen=True, kw_only=True):
    """One topic, partition or broker of an operation.

    ``state`` is ``planned``, ``waiting``, ``running``, ``done``, ``not-needed`` or ``failed``.
    """

    subject: str
    state: str
    detail: str = ""
    kafka_error: str | None = None


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One operation. ``state`` is ``planned`` (a dry run), ``running``, ``done``, ``partial``, ``failed``, ``lost``.

    Lost: this instance ceased to be the active controller while the operation was under way. Reassignments, deletions
    and elections that have begun continue under the next active controller.
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
    """The remaining time at the speed so far; null before the first item ended, and after the last one."""
    message: str
    """The progress or the outcome, as a sentence."""
    items: list[TaskItem]
    items_total: int
    """The number of all items; ``items`` has at most 1,000 of them, the failed ones first."""


class TaskResponse(Answer, frozen=True, kw_only=True):
    """``GET /v1/tasks/{id}``, and the answer of every verb; 202 while it runs, 200 once it ended or for a dry run."""

    kind: str = "Task"
    task: Task


class TaskList(Answer, frozen=True, kw_only=True):
    """``GET /v1/tasks``, newest first; tasks are kept for an hour after their end."""

    kind: str = "TaskList"
    items: list[Task]


class TakeoverResponse(Envelope, frozen=True, kw_only=True):
    """``POST /v1/takeover``; equal epochs mean that this instance had the role already."""

    kind: str = "Takeover"
    epoch_before: int
    epoch_after: int
    held_by: str
    took_s: float


class ResignResponse(Envelope, frozen=True, kw_only=True):
    """``POST /v1/resign``."""

    kind: str = "Resignation"
    took_s: float


class ForgetResponse(Envelope, frozen=True, kw_only=True):
    """``POST /v1/brokers/{id}/forget``: the topics whose deletion continues without the broker.

    ``replicas`` is the number of its replicas that become pending deletions.
    """

    kind: str = "BrokerForgotten"
    broker: int
    topics: list[str]
    replicas: int
    took_s: float
