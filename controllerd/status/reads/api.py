"""Everything that can be read; nothing here changes anything."""

from typing import Final

from aiohttp import web

from controllerd.status.answers import answer
from controllerd.status.observations import view_observations
from controllerd.status.reads.brokers import BrokerReads
from controllerd.status.reads.configuration import ConfigReads
from controllerd.status.reads.context import Reading, reading
from controllerd.status.reads.deletions import DeletionReads
from controllerd.status.reads.history import HistoryReads
from controllerd.status.reads.partitions import PartitionReads
from controllerd.status.reads.queue import QueueReads
from controllerd.status.reads.reassignments import ReassignmentReads
from controllerd.status.reads.replicas import ReplicaReads
from controllerd.status.reads.settings import Settings
from controllerd.status.reads.topics import TopicReads
from controllerd.status.routing import Api, Route
from controllerd.status.schema.observations import ObservationsResponse
from controllerd.status.schema.status import StatusResponse
from controllerd.status.sources import StatusSources
from controllerd.status.view import view_status


class ReadApi:
    """The picture of this instance and of the cluster."""

    def __init__(self, sources: StatusSources) -> None:
        self.reading: Final = Reading(sources)
        self.settings: Final = Settings(sources)
        self.brokers: Final = BrokerReads(self.reading)
        self.partitions: Final = PartitionReads(self.reading, self.settings)
        self.queue: Final = QueueReads(self.reading)
        self.reassignments: Final = ReassignmentReads(self.reading)
        self.deletions: Final = DeletionReads(self.reading)
        self._nouns: list[Api] = [
            self.brokers,
            TopicReads(self.reading, self.settings),
            self.partitions,
            ReplicaReads(self.reading),
            self.queue,
            self.reassignments,
            self.deletions,
            HistoryReads(self.reading),
            ConfigReads(self.reading),
        ]

    def routes(self) -> list[Route]:
        """Everything."""
        return [
            reading("/v1/status", self.status, "This instance and the cluster as it sees it", StatusResponse),
            reading(
                "/v1/observations",
                self.observations,
                "What an instance that only watches has found",
                ObservationsResponse,
            ),
            *(route for noun in self._nouns for route in noun.routes()),
        ]

    async def status(self, _request: web.Request) -> web.Response:
        """This instance in numbers."""
        pace = await self.reading.pace()
        counts = await self.reading.counter.count(self.reading.sources.snapshot(), pace)
        return answer(view_status(self.reading.sources, counts))

    async def observations(self, _request: web.Request) -> web.Response:
        """Refused where this instance does not observe."""
        return answer(view_observations(self.reading.sources))
