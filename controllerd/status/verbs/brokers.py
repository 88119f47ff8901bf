"""``POST /v1/brokers/{id}/drain`` and ``/forget``: before a broker is stopped, and when it never returns."""

import time
from typing import Final

from aiohttp import web

from controllerd.core.counted import counted
from controllerd.core.election import elect_controlled_shutdown
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.errors import CallRefused
from controllerd.pace import Pace
from controllerd.snapshot import PartitionView
from controllerd.status.routing import Parameter, Route
from controllerd.status.schema.admin import ForgetRequest, ForgetResponse
from controllerd.status.schema.tasks import TaskItem
from controllerd.status.schema.verbs import DrainRequest
from controllerd.status.tasks import Items, Operation
from controllerd.status.verbs.cluster import Cluster, leader_of, listed, online_of
from controllerd.status.verbs.confirmed import check_confirmed
from controllerd.status.verbs.desk import Desk, verb
from events.admin import ForgetBroker, Requester
from events.operator import DrainBroker

_BROKER: Final = Parameter(name="id", kind=int, description="Id of the broker.", required=True)
_PATTERN: Final = {"id": r"\d{1,10}"}


class BrokersApi:
    """What an operator tells of brokers."""

    def __init__(self, desk: Desk, cluster: Cluster, timeout_s: float) -> None:
        """``timeout_s``: how long a caller waits for a broker to be forgotten."""
        self._desk = desk
        self._cluster = cluster
        self._timeout_s = timeout_s

    def routes(self) -> list[Route]:
        """Both."""
        return [
            verb(
                "/v1/brokers/{id}/drain",
                self.drain,
                "Others lead what this broker leads, before it is stopped",
                DrainRequest,
                _BROKER,
                patterns=_PATTERN,
            ),
            verb(
                "/v1/brokers/{id}/forget",
                self.forget,
                "A broker never returns: what it holds up goes on without it",
                ForgetRequest,
                _BROKER,
                patterns=_PATTERN,
                at_once=ForgetResponse,
            ),
        ]

    async def drain(self, request: web.Request) -> web.Response:
        """Relieve a broker of what it leads. :raises CallRefused: it is not registered."""
        asked, broker = await self._desk.body(request, DrainRequest), BrokerId(int(request.match_info["id"]))
        operation = Draining(broker, asked, self._desk.who(request), self._cluster)
        return await self._desk.answer(await self._desk.admit(request, operation, asked.reason))

    async def forget(self, request: web.Request) -> web.Response:
        """A broker never returns; the body repeats its id. :raises Refused: it does not, or says no reason."""
        asked, broker = await self._desk.body(request, ForgetRequest), BrokerId(int(request.match_info["id"]))
        check_confirmed(asked, broker)
        task = await self._desk.admit(request, Forgetting(broker, asked, self._cluster), asked.reason)
        return await self._desk.result(task, self._timeout_s)


class Draining(Operation):
    """The leaderships of one broker."""

    verb = "brokers:drain"

    def __init__(self, broker: BrokerId, asked: DrainRequest, by: Requester, cluster: Cluster) -> None:
        self._broker = broker
        self._asked = asked
        self._by = by
        self._cluster = cluster

    async def plan(self) -> list[TaskItem]:
        """Who would lead instead. :raises CallRefused: the broker is not registered."""
        snapshot = self._cluster.snapshot
        if self._broker not in snapshot.brokers:
            raise CallRefused(f"broker {self._broker} is not registered: there is nothing to drain")
        return [
            self._foresee(tp, view)
            async for tp, view in self._cluster.partitions(snapshot.topics.values())
            if leader_of(view) == self._broker and not self._cluster.is_hidden(tp.topic)
        ]

    async def run(self, items: Items) -> str:
        """One event moves all of them, as the broker's own request to stop would."""
        asked = self._asked
        event = DrainBroker(self._broker, asked.leaders_only, asked.reason, self._by.principal)
        reply = await self._cluster.call(event)
        await self._cluster.shown()
        pace = Pace()
        for tp in reply.moved:
            items.mark(str(tp), "done", f"leader {self._broker} -> {leader_of(self._cluster.snapshot.partition(tp))}")
            await pace.breathe()
        for tp, why in reply.remaining.items():
            items.mark(str(tp), "failed", why)
            await pace.breathe()
        for item in items.of("waiting"):
            items.mark(item.subject, "not-needed", f"broker {self._broker} did not lead it any more")
            await pace.breathe()
        if len(items):
            return ""
        then = "leads nothing for an hour" if asked.leaders_only else "left every ISR that has another member"
        return f"broker {self._broker} led nothing, so nobody else had to; it {then}"

    def _foresee(self, tp: TopicPartition, view: PartitionView) -> TaskItem:
        isr = view.leadership.isr if view.leadership is not None else ()
        leaving = self._cluster.snapshot.shutting_down | {self._broker}
        elected = elect_controlled_shutdown(view.assignment.replicas, isr, online_of(view), leaving)
        if elected is not None:
            return TaskItem(subject=str(tp), state="planned", detail=f"leader {self._broker} -> {elected.leader}")
        why = f"nobody else in its ISR {listed(isr)} can lead"
        error = KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE.name
        return TaskItem(subject=str(tp), state="failed", detail=why, kafka_error=error)


class Forgetting(Operation):
    """The end of waiting for one broker."""

    verb = "brokers:forget"

    def __init__(self, broker: BrokerId, asked: ForgetRequest, cluster: Cluster) -> None:
        self._broker = broker
        self._asked = asked
        self._cluster = cluster

    async def plan(self) -> list[TaskItem]:
        """Which deletions would go on. :raises CallRefused: the broker is registered."""
        snapshot, replicas = self._cluster.snapshot, 0
        if self._broker in snapshot.brokers:
            raise CallRefused(f"broker {self._broker} is registered: only a broker that is gone can be forgotten")
        items = []
        for name in sorted(snapshot.deletions):
            topic = snapshot.topics.get(name)
            there = [] if topic is None else [self._broker in view.assignment.replicas for view in topic.partitions]
            if any(there):
                replicas += sum(there)
                detail = f"{counted(sum(there), 'replica')} no longer waited for"
                items.append(TaskItem(subject=name, state="planned", detail=detail))
        self.result = self._answer([item.subject for item in items], replicas, 0.0)
        return items

    async def run(self, items: Items) -> str:
        """Say so."""
        started = time.monotonic()
        reply = await self._cluster.call(ForgetBroker(self._broker, self._asked.reason))
        for topic in reply.topics:
            items.mark(topic, "done", "its deletion goes on")
        for item in items.of("waiting"):
            items.mark(item.subject, "not-needed", "it did not wait for the broker")
        self.result = self._answer(list(reply.topics), reply.replicas, time.monotonic() - started)
        freed = f"{counted(len(reply.topics), 'deletion')} freed, it owes {counted(reply.replicas, 'replica')}"
        return f"broker {self._broker} forgotten: {freed}"

    def _answer(self, topics: list[str], replicas: int, took_s: float) -> ForgetResponse:
        return ForgetResponse(broker=self._broker, topics=topics, replicas=replicas, took_s=took_s)
