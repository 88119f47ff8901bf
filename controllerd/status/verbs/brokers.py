"""``POST /v1/brokers/{id}/drain`` and ``/forget``: before a broker is stopped, and when it never returns."""

import time
from typing import Final

from aiohttp import web

from controllerd.core.counted import counted
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.errors import CallRefused
from controllerd.pace import Pace
from controllerd.planning.drains import DrainForecast
from controllerd.planning.plans import listed
from controllerd.status.routing import Parameter, Route
from controllerd.status.schema.admin import ForgetRequest, ForgetResponse
from controllerd.status.schema.tasks import TaskItem
from controllerd.status.schema.verbs import DrainRequest
from controllerd.status.tasks import Items, Operation, State
from controllerd.status.verbs.cluster import Cluster, item_of, leader_of
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
        """MoveLeadershipAway a broker of what it leads. :raises CallRefused: it is not registered."""
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
        self._followed: dict[str, TopicPartition] = {}
        """Return the partitions of the plan that the broker only follows, and whose ISR it leaves."""

    async def plan(self) -> list[TaskItem]:
        """Return the next leaders and ISRs. :raises CallRefused: the broker is not registered."""
        snapshot = self._cluster.snapshot
        if self._broker not in snapshot.brokers:
            raise CallRefused(f"broker {self._broker} is not registered: there is nothing to drain")
        self._followed = {}
        items, forecast = [], DrainForecast(snapshot, self._broker, self._asked.leaders_only)
        async for tp, view in self._cluster.partitions(snapshot.topics.values()):
            if snapshot.is_hidden(tp.topic):
                continue
            if view.leader == self._broker:
                items.append(item_of(tp, forecast.of_leader(view)))
            elif (outcome := forecast.of_follower(view)) is not None:
                self._followed[str(tp)] = tp
                items.append(item_of(tp, outcome))
        return items

    async def run(self, items: Items) -> str:
        """One event moves all of them, as the broker's own request to stop would."""
        asked = self._asked
        event = DrainBroker(self._broker, asked.leaders_only, asked.reason, self._by.principal)
        reply = await self._cluster.call(event)
        await self._cluster.shown()
        pace = Pace()
        for tp in reply.moved:
            items.mark(str(tp), "done", self._moved(tp))
            await pace.breathe()
        for tp, why in reply.remaining.items():
            items.mark(str(tp), "failed", why)
            await pace.breathe()
        for item in items.of("waiting"):
            items.mark(item.subject, *self._rest(item.subject))
            await pace.breathe()
        if len(items):
            return ""
        if asked.leaders_only:
            then = "the automatic rebalance moves no leadership to it for an hour"
        else:
            then = "it left every ISR that has another member"
        return f"broker {self._broker} led nothing, so nobody else had to; {then}"

    def _moved(self, tp: TopicPartition) -> str:
        view = self._cluster.snapshot.partition(tp)
        isr = () if view is None else view.isr
        return f"leader {self._broker} -> {leader_of(view)}, ISR {listed(isr)}"

    def _rest(self, subject: str) -> tuple[State, str]:
        """Return how a partition of the plan ended that the reply does not name."""
        tp = self._followed.get(subject)
        if tp is None:
            return "not-needed", f"broker {self._broker} did not lead it any more"
        view = self._cluster.snapshot.partition(tp)
        if view is None or view.leadership is None:
            return "not-needed", "it is gone"
        if self._broker in view.leadership.isr:
            return "failed", f"broker {self._broker} is still in the ISR {listed(view.leadership.isr)}"
        return "done", f"ISR {listed(view.leadership.isr)}"


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
