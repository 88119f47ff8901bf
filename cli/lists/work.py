"""What is under way, and what was of late, as tables."""

from typing import TYPE_CHECKING, Final

from cli.listing import Column, Listing
from cli.units import dash, human_bytes, human_duration, human_rate, ids

if TYPE_CHECKING:
    from controllerd.explain.answers import Transition
    from controllerd.status.schema.tasks import Task, TaskItem
    from controllerd.status.schema.work import (
        DeletionItem,
        ElectionItem,
        QueueItem,
        ReassignmentItem,
        RequestQueue,
        Term,
    )


def _duration(seconds: float | None) -> str:
    return "-" if seconds is None else human_duration(seconds)


def _size(number: int | None) -> str:
    return "-" if number is None else human_bytes(number)


def _rate(bytes_per_s: float | None) -> str:
    return "-" if bytes_per_s is None else human_rate(bytes_per_s)


def _percent(percent: float | None) -> str:
    return "-" if percent is None else f"{percent:.1f}%"


def _milliseconds(ms: float | None) -> str:
    return "-" if ms is None else human_duration(ms / 1000)


def _blockers(item: "DeletionItem") -> str:
    told = item.deletion.held_up_by
    named = "; ".join(f"broker {one.broker} ({one.replicas} {one.state}): {one.why}" for one in item.blockers)
    return dash(named or told)


def _by_state(item: "DeletionItem") -> str:
    return ", ".join(f"{number} {state}" for state, number in item.replicas_by_state.items()) or "-"


def _progress(item: "ReassignmentItem") -> str:
    """How far each replica that is being added is behind."""
    return (
        ", ".join(
            f"{one.broker}: {'in sync' if one.in_isr else f'{_size(one.lag_bytes)} behind'}" for one in item.progress
        )
        or "-"
    )


QUEUE: Final["Listing[QueueItem]"] = Listing(
    "/v1/queue",
    (
        Column("EVENT", lambda item: str(item.event_id), right=True),
        Column("TYPE", lambda item: item.event),
        Column("PHASE", lambda item: item.phase),
        Column("WAITED", lambda item: _milliseconds(item.wait_ms), right=True),
        Column("RAN", lambda item: _milliseconds(item.run_ms), right=True),
        Column("OUTCOME", lambda item: dash(item.error or item.outcome)),
        Column("STATE", lambda item: str(item.state), wide=True, right=True),
        Column("DETAIL", lambda item: dash(item.detail), wide=True),
    ),
    lambda item: str(item.event_id),
    "no events: nothing waits and nothing was handled of late",
)

REQUESTS: Final["Listing[RequestQueue]"] = Listing(
    "/v1/requests",
    (
        Column("BROKER", lambda item: str(item.broker), right=True),
        Column("CONNECTED", lambda item: "yes" if item.connected else "no"),
        Column("WAITING", lambda item: str(item.depth), right=True),
        Column("OLDEST", lambda item: _duration(item.oldest_age_s) if item.depth else "-", right=True),
        Column("IN FLIGHT", lambda item: dash(item.in_flight)),
        Column("ATTEMPTS", lambda item: str(item.attempts), right=True),
        Column("BYTES", lambda item: _size(item.bytes_waiting), right=True),
        Column("ERROR", lambda item: dash(item.error)),
        Column("LAST SENT", lambda item: dash(item.last_sent), wide=True),
        Column("LAST ANSWERED", lambda item: dash(item.last_answered), wide=True),
    ),
    lambda item: str(item.broker),
    "no brokers are talked to",
)

REASSIGNMENTS: Final["Listing[ReassignmentItem]"] = Listing(
    "/v1/reassignments",
    (
        Column("PARTITION", lambda item: f"{item.topic}-{item.partition}"),
        Column("ADDING", lambda item: ids(item.adding)),
        Column("REMOVING", lambda item: ids(item.removing)),
        Column("DONE", lambda item: _percent(item.percent), right=True),
        Column("LEFT", lambda item: _size(item.bytes_left), right=True),
        Column("RATE", lambda item: _rate(item.bytes_per_s), right=True),
        Column("ETA", lambda item: _duration(item.eta_seconds), right=True),
        Column("AGE", lambda item: _duration(item.age_s), right=True),
        Column("WAITS FOR", lambda item: dash(item.blocker)),
        Column("REPLICAS", lambda item: ids(item.replicas), wide=True),
        Column("TARGET", lambda item: ids(item.target), wide=True),
        Column("THROTTLE", lambda item: _rate(item.throttle_bytes_per_s), wide=True, right=True),
        Column("PROGRESS", _progress, wide=True),
    ),
    lambda item: f"{item.topic}-{item.partition}",
    "no partition is being reassigned",
    is_paged=True,
)

DELETIONS: Final["Listing[DeletionItem]"] = Listing(
    "/v1/deletions",
    (
        Column("TOPIC", lambda item: item.deletion.topic),
        Column("BEGUN", lambda item: "yes" if item.deletion.has_begun else "no"),
        Column("AGE", lambda item: _duration(item.age_s), right=True),
        Column("WAITS FOR BROKERS", lambda item: ids(item.deletion.deleting)),
        Column("HELD UP BY", lambda item: dash(item.deletion.held_up_by)),
        Column("REPLICAS", _by_state, wide=True),
        Column("BLOCKERS", _blockers, wide=True),
    ),
    lambda item: item.deletion.topic,
    "no topic is being deleted",
)

ELECTIONS: Final["Listing[ElectionItem]"] = Listing(
    "/v1/elections",
    (
        Column("AT", lambda item: item.at),
        Column("PARTITION", lambda item: f"{item.topic}-{item.partition}"),
        Column("STRATEGY", lambda item: item.strategy),
        Column("TRIGGER", lambda item: item.trigger),
        Column("WAS", lambda item: str(item.was), right=True),
        Column("LEADER", lambda item: "failed" if item.leader is None else str(item.leader), right=True),
        Column("UNCLEAN", lambda item: "DATA LOSS" if item.unclean else "-"),
        Column("CAUSE", lambda item: dash(item.cause)),
        Column("EVENT", lambda item: str(item.event_id), wide=True, right=True),
    ),
    lambda item: f"{item.topic}-{item.partition}",
    "no elections of late",
)

TERMS: Final["Listing[Term]"] = Listing(
    "/v1/history",
    (
        Column("EPOCH", lambda item: dash(item.controller_epoch), right=True),
        Column("HOLDER", lambda item: item.holder),
        Column("BEGAN", lambda item: item.began),
        Column("ENDED", lambda item: dash(item.ended)),
        Column("REASON", lambda item: dash(item.reason)),
    ),
    lambda item: dash(item.controller_epoch),
    "no terms were seen",
)

TASKS: Final["Listing[Task]"] = Listing(
    "/v1/tasks",
    (
        Column("TASK", lambda item: item.id),
        Column("VERB", lambda item: item.verb),
        Column("STATE", lambda item: item.state),
        Column("DONE", lambda item: _percent(item.percent), right=True),
        Column("ETA", lambda item: _duration(item.eta_seconds), right=True),
        Column("BEGAN", lambda item: item.began),
        Column("MESSAGE", lambda item: dash(item.message)),
        Column("ENDED", lambda item: dash(item.ended), wide=True),
        Column("ASKED BY", lambda item: dash(item.asked_by), wide=True),
        Column("REASON", lambda item: dash(item.reason), wide=True),
    ),
    lambda item: item.id,
    "no operations under way, and none ended within the last hour",
)

TASK_ITEMS: Final[tuple[Column["TaskItem"], ...]] = (
    Column("SUBJECT", lambda item: item.subject),
    Column("STATE", lambda item: item.state),
    Column("DETAIL", lambda item: dash(item.detail)),
    Column("ERROR", lambda item: dash(item.kafka_error)),
)

TRANSITIONS: Final[tuple[Column["Transition"], ...]] = (
    Column("AT", lambda item: item.at),
    Column("EVENT", lambda item: f"{item.event_id} {item.event}"),
    Column("WHAT", lambda item: item.what),
    Column("WAS", lambda item: dash(item.was)),
    Column("NOW", lambda item: dash(item.now)),
    Column("REASON", lambda item: dash(item.reason)),
)
