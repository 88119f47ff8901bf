"""From what an observer has found to the answer of ``GET /v1/observations``."""

from http import HTTPStatus

from controllerd.core.model import LeaderAndIsr
from controllerd.status.problems import Refused
from controllerd.status.schema.observations import (
    Observations,
    ObservationsResponse,
    ObservedPartition,
    ObservedState,
    ObservedTotal,
)
from controllerd.status.sources import Compared, ObservationsView, StatusSources
from controllerd.status.view import view_meta


def view_observations(sources: StatusSources) -> ObservationsResponse:
    """Everything that was found. :raises Refused: this instance does not observe."""
    found = sources.observations()
    if found is None:
        detail = "this instance contends for the role and observes nobody"
        hint = 'run another instance with controller.mode = "observe"'
        raise Refused(HTTPStatus.CONFLICT, "not_observing", detail, hint)
    return ObservationsResponse(meta=view_meta(sources), observations=_view(found))


def _view(found: ObservationsView) -> Observations:
    return Observations(
        looks=found.looks,
        torn=found.torn,
        unsettled=found.unsettled,
        would_refuse=found.refusal,
        totals=[
            ObservedTotal(cause=cause, ruling=ruling, partitions=partitions)
            for (cause, ruling), partitions in sorted(found.totals.items())
        ],
        latest=list(map(_partition, found.latest)),
        not_judged=list(found.not_judged),
        cannot_be_seen=list(found.cannot_be_seen),
    )


def _partition(row: Compared) -> ObservedPartition:
    return ObservedPartition(
        cause=row.cause,
        topic=row.tp.topic,
        partition=row.tp.partition,
        before=_state(row.before),
        would=_state(row.would),
        after=_state(row.after),
        verdict=row.verdict,
    )


def _state(state: LeaderAndIsr | None) -> ObservedState | None:
    if state is None:
        return None
    return ObservedState(leader=state.leader, leader_epoch=state.leader_epoch, isr=list(state.isr))
