"""``POST /v1/brokers/{id}/drain`` and ``/forget``: for a broker that will be stopped, or that never returns."""

import time
from http import HTTPStatus
from typing import Final

from controllerd.core.model import BrokerId, TopicPartition
from controllerd.core.text import counted
from controllerd.errors import CallRefused
from controllerd.planning.drains import DrainForecast
from controllerd.planning.plans import listed
from controllerd.status.http.problems import Refused
from controllerd.status.http.routing import BROKER
from controllerd.status.schema.tasks import ForgetResponse, TaskItem
from controllerd.status.schema.verbs import DrainRequest, ForgetRequest
from controllerd.status.verbs.admission import Verb
from controllerd.status.verbs.cluster import leader_of, yielding_to_loop
from controllerd.status.verbs.tasks import ItemState, Operation, TaskItems, VerbCall, item
from events.admin import ForgetBroker
from events.operator import DrainBroker


class Drain(Operation[DrainRequest]):
    """Moves the leaderships of one broker to other brokers."""

    verb = "brokers:drain"
    summary = "Move the leaderships of a broker to other brokers, before it is stopped"

    def __init__(self, request: DrainRequest, call: VerbCall) -> None:
        super().__init__(request, call)
        self._broker = BrokerId(int(call.target))
        self._followed: dict[str, TopicPartition] = {}
        """The partitions that the broker only follows, and whose ISR it will leave."""

    async def plan(self) -> list[TaskItem]:
        """Return the next leaders and ISRs. :raises CallRefused: the broker is not registered."""
        if self._broker not in self._cluster.snapshot.brokers:
            raise CallRefused(f"broker {self._broker} is not registered: there is nothing to drain")
        self._followed = {}
        items, forecast = [], DrainForecast(self._cluster.snapshot, self._broker, self.request.leaders_only)
        async for tp, view in self._cluster.partitions():
            if self._cluster.snapshot.is_hidden(tp.topic):
                continue
            if view.leader == self._broker:
                items.append(item(tp, *forecast.of_leader(view)))
            elif (outcome := forecast.of_follower(view)) is not None:
                self._followed[str(tp)] = tp
                items.append(item(tp, *outcome))
        return items

    async def run(self, items: TaskItems) -> str:
        """Move all of them in one event, as for a controlled shutdown."""
        leaders_only = self.request.leaders_only
        event = DrainBroker(self._broker, leaders_only, self.request.reason, self._by.principal)
        reply = await self._cluster.call(event)
        await self._cluster.published()
        async for tp in yielding_to_loop(reply.moved):
            items.mark(tp, "done", self._moved(tp))
        async for tp, why in yielding_to_loop(reply.remaining.items()):
            items.mark(tp, "failed", why)
        async for each in yielding_to_loop(items.of("waiting")):
            items.mark(each.subject, *self._outcome_of_unnamed(each.subject))
        if len(items):
            return ""
        if leaders_only:
            effect = "the automatic rebalance moves no leadership to it for an hour"
        else:
            effect = "it left every ISR that has another member"
        return f"broker {self._broker} led no partition; {effect}"

    def _moved(self, tp: TopicPartition) -> str:
        view = self._cluster.snapshot.partition(tp)
        return f"leader {self._broker} -> {leader_of(view)}, ISR {listed(() if view is None else view.isr)}"

    def _outcome_of_unnamed(self, subject: str) -> tuple[ItemState, str]:
        """Return the outcome of a planned partition that the reply does not name."""
        tp = self._followed.get(subject)
        if tp is None:
            return "not-needed", f"broker {self._broker} did not lead it any more"
        view = self._cluster.snapshot.partition(tp)
        if view is None or view.leadership is None:
            return "not-needed", "the partition is gone"
        if self._broker in view.leadership.isr:
            return "failed", f"broker {self._broker} is still in the ISR {listed(view.leadership.isr)}"
        return "done", f"ISR {listed(view.leadership.isr)}"


class Forget(Operation[ForgetRequest]):
    """Declares that one broker never returns, so that deletions continue without it."""

    verb = "brokers:forget"
    summary = "Declare that a broker never returns: deletions continue without it"

    def __init__(self, request: ForgetRequest, call: VerbCall) -> None:
        super().__init__(request, call)
        self._broker = BrokerId(int(call.target))

    def check(self) -> None:
        """Check the confirmation. :raises Refused: there is no reason, or the broker's id is not repeated."""
        if not self.request.reason or self.request.confirm != self._broker:
            detail = f"forgetting broker {self._broker} requires a reason, and its id again in the field confirm"
            hint = f'{{"reason": "why, for the audit log", "confirm": {self._broker}}}'
            raise Refused(HTTPStatus.BAD_REQUEST, "not_confirmed", detail, hint)

    async def plan(self) -> list[TaskItem]:
        """Return which deletions would continue. :raises CallRefused: the broker is registered."""
        snapshot, replicas = self._cluster.snapshot, 0
        if self._broker in snapshot.brokers:
            raise CallRefused(f"broker {self._broker} is registered: only a broker that is gone can be forgotten")
        items = []
        for name in sorted(snapshot.deletions):
            topic = snapshot.topics.get(name)
            number = sum(self._broker in view.assignment.replicas for view in topic.partitions) if topic else 0
            if number:
                replicas += number
                items.append(
                    item(name, "planned", f"the deletion would no longer wait for {counted(number, 'replica')}")
                )
        self.result = self._answer([each.subject for each in items], replicas, 0.0)
        return items

    async def run(self, items: TaskItems) -> str:
        """Forget the broker."""
        started = time.monotonic()
        reply = await self._cluster.call(ForgetBroker(self._broker, self.request.reason))
        for topic in reply.topics:
            items.mark(topic, "done", "its deletion continues")
        for each in items.of("waiting"):
            items.mark(each.subject, "not-needed", "it did not wait for the broker")
        self.result = self._answer(list(reply.topics), reply.replicas, time.monotonic() - started)
        freed = (
            f"{counted(len(reply.topics), 'deletion')} no longer blocked, {counted(reply.replicas, 'replica')} pending"
        )
        return f"broker {self._broker} forgotten: {freed}"

    def _answer(self, topics: list[str], replicas: int, took_s: float) -> ForgetResponse:
        return ForgetResponse(broker=self._broker, topics=topics, replicas=replicas, took_s=took_s)


VERBS: Final = (
    Verb("/v1/brokers/{id}/drain", DrainRequest, Drain, BROKER),
    Verb("/v1/brokers/{id}/forget", ForgetRequest, Forget, BROKER, answers=ForgetResponse),
)
