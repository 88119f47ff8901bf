"""All read endpoints, with ``/v1/status`` and ``/v1/observations`` among them. They change nothing."""

from http import HTTPStatus
from typing import Final

from aiohttp import web

from controllerd.core.model import LeaderAndIsr
from controllerd.status.http.problems import Refused
from controllerd.status.http.routing import Api, Route, route
from controllerd.status.reads.brokers import BrokerReads
from controllerd.status.reads.configuration import ConfigReads
from controllerd.status.reads.context import ReadContext, Reads
from controllerd.status.reads.events import EventReads
from controllerd.status.reads.history import HistoryReads
from controllerd.status.reads.partitions import PartitionReads
from controllerd.status.reads.queue import QueueReads
from controllerd.status.reads.reassignments import ReassignmentReads
from controllerd.status.reads.topics import TopicReads
from controllerd.status.schema.history import (
    Observations,
    ObservationsResponse,
    ObservedPartition,
    ObservedState,
    ObservedTotal,
)
from controllerd.status.schema.status import StatusResponse
from controllerd.status.sources import ComparedPartition, StatusSources
from controllerd.status.view import view_status


class StatusReads(Reads):
    """The status of this instance and of the cluster, and the findings of an observer."""

    @route("/v1/status", "Status of this instance and of the cluster", StatusResponse)
    async def status(self, _request: web.Request) -> StatusResponse:
        """Answer with the status of this instance."""
        slicer = await self._context.slicer()
        return view_status(self._sources, await self._context.counts.total(self._snapshot, slicer))

    @route("/v1/observations", "Findings of an observer", ObservationsResponse)
    async def observations(self, _request: web.Request) -> ObservationsResponse:
        """Answer with all findings. :raises Refused: this instance is not an observer."""
        found = self._sources.observations()
        if found is None:
            detail = "this instance can become the controller, and is not an observer"
            hint = 'run another instance with controller.mode = "observe"'
            raise Refused(HTTPStatus.CONFLICT, "not_observing", detail, hint)
        observations = Observations(
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
        return ObservationsResponse(meta=self._context.meta(), observations=observations)


def _partition(row: ComparedPartition) -> ObservedPartition:
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


class ReadApi(Api):
    """All read endpoints. Those that the dashboard uses as well are attributes."""

    def __init__(self, sources: StatusSources) -> None:
        self.context: Final = ReadContext(sources)
        self.brokers: Final = BrokerReads(self.context)
        self.topics: Final = TopicReads(self.context)
        self.partitions: Final = PartitionReads(self.context)
        self.queue: Final = QueueReads(self.context)
        self.reassignments: Final = ReassignmentReads(self.context)

    def routes(self) -> list[Route]:
        """Return the routes of all read endpoints."""
        named = (self.brokers, self.topics, self.partitions, self.queue, self.reassignments)
        others = (kind(self.context) for kind in (HistoryReads, ConfigReads, EventReads))
        return [each for reads in (StatusReads(self.context), *named, *others) for each in reads.routes()]
