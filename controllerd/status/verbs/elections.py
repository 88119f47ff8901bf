"""``POST /v1/elections``: preferred leaders back, or any live replica where nobody leads."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final

from aiohttp import web

from controllerd.core.election import Elected, elect_offline, elect_preferred
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.pace import Pace, sliced
from controllerd.planning.plans import listed
from controllerd.status.problems import Refused
from controllerd.status.routing import Route
from controllerd.status.schema.tasks import TaskItem
from controllerd.status.schema.verbs import ElectionRequest
from controllerd.status.tasks import Items, Operation
from controllerd.status.verbs.cluster import BODY_LIMIT, Cluster, leader_of
from controllerd.status.verbs.desk import Desk, verb
from controllerd.views import PartitionView, TopicView
from events.admin import Requester
from events.elections import ElectionTrigger, ElectionType, ReplicaLeaderElection

AT_A_TIME: Final = 5_000
"""Partitions of one event: what is more urgent may come in between, and progress shows."""
_NOBODY: Final = {
    ElectionType.PREFERRED: KafkaError.PREFERRED_LEADER_NOT_AVAILABLE,
    ElectionType.UNCLEAN: KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}


class ElectionsApi:
    """Elections that an operator wants."""

    def __init__(self, desk: Desk, cluster: Cluster) -> None:
        self._desk = desk
        self._cluster = cluster

    def routes(self) -> list[Route]:
        """The only one."""
        summary = "Elect preferred leaders, or any live replica"
        return [verb("/v1/elections", self.elect, summary, ElectionRequest, body_limit=BODY_LIMIT)]

    async def elect(self, request: web.Request) -> web.Response:
        """Elect leaders. :raises Refused: it is not said of what, or losing records is not accepted."""
        asked = await self._desk.body(request, ElectionRequest)
        is_unclean = asked.type == "unclean"
        if is_unclean and not asked.accept_data_loss:
            detail = "an unclean election may lose records that only replicas which are not live have"
            hint = "say that this is accepted: accept_data_loss = true; with dryRun=true nothing is changed"
            raise Refused(HTTPStatus.BAD_REQUEST, "data_loss_not_accepted", detail, hint)
        if not asked.all and not asked.partitions and not asked.topics and asked.broker is None:
            detail = "name partitions, topics or a broker, or say all = true"
            raise Refused(HTTPStatus.BAD_REQUEST, "nothing_named", detail)
        operation = Elections(asked, self._desk.who(request), self._cluster)
        task = await self._desk.admit(request, operation, asked.reason, demands_reason=is_unclean)
        return await self._desk.answer(task)


class Elections(Operation):
    """Elections of one kind."""

    verb = "elections"

    def __init__(self, asked: ElectionRequest, by: Requester, cluster: Cluster) -> None:
        self._asked = asked
        self._by = by
        self._cluster = cluster
        self._kind = ElectionType.UNCLEAN if asked.type == "unclean" else ElectionType.PREFERRED
        self._partitions: dict[str, TopicPartition] = {}
        """Whatever exists and may need it, by name: the controller decides, and not the picture here."""

    async def plan(self) -> list[TaskItem]:
        """Who would lead each partition."""
        selected, items = await self._select()
        pace = Pace()
        for tp, view in selected.items():
            item = self._foresee(tp, view)
            if item.state != "not-needed":
                self._partitions[item.subject] = tp
            items.append(item)
            await pace.breathe()
        return items

    async def run(self, items: Items) -> str:
        """One event for every few thousand partitions."""
        for part in sliced(list(self._partitions.values()), AT_A_TIME):
            before = await self._begin(part, items)
            event = ReplicaLeaderElection(frozenset(part), self._kind, ElectionTrigger.ADMIN_CLIENT, self._by)
            await self._mark(items, await self._cluster.call(event), before)
        return ""

    async def _begin(self, part: Sequence[TopicPartition], items: Items) -> dict[TopicPartition, int]:
        """Who leads now."""
        before, pace = {}, Pace()
        for tp in part:
            before[tp] = leader_of(self._cluster.snapshot.partition(tp))
            items.mark(str(tp), "running")
            await pace.breathe()
        return before

    async def _mark(
        self, items: Items, reply: Mapping[TopicPartition, BrokerId | KafkaError], before: Mapping[TopicPartition, int]
    ) -> None:
        pace = Pace()
        for tp, was in before.items():
            outcome = reply.get(tp, KafkaError.UNKNOWN_SERVER_ERROR)
            if not isinstance(outcome, KafkaError):
                items.mark(str(tp), "done", f"leader {was} -> {outcome}")
            elif outcome is KafkaError.ELECTION_NOT_NEEDED:
                items.mark(str(tp), "not-needed", f"{was} leads")
            else:
                items.mark(str(tp), "failed", self._cause(tp, outcome), outcome.name)
            await pace.breathe()

    async def _select(self) -> tuple[dict[TopicPartition, PartitionView], list[TaskItem]]:
        """What is asked for, and what of it does not exist."""
        asked, topics = self._asked, self._cluster.snapshot.topics
        unknown = [_unknown(name, "topic") for name in dict.fromkeys(asked.topics) if name not in topics]
        wanted: list[TopicView] = [topics[name] for name in {*asked.topics} if name in topics]
        of_topics = self._cluster.partitions(topics.values() if asked.all else wanted)
        found = {tp: view async for tp, view in of_topics}
        for name in asked.partitions:
            tp = TopicPartition(name.topic, name.partition)
            view = self._cluster.snapshot.partition(tp)
            if view is None:
                unknown.append(_unknown(str(tp), "partition"))
            else:
                found[tp] = view
        if asked.broker is not None and not asked.all:
            every = self._cluster.partitions(topics.values())
            found |= {tp: view async for tp, view in every if asked.broker in view.assignment.replicas[:1]}
        return found, list({item.subject: item for item in unknown}.values())

    def _foresee(self, tp: TopicPartition, view: PartitionView) -> TaskItem:
        """What the election would end with, as far as the picture tells."""
        leader, online = view.leader, view.online
        if self._cluster.snapshot.is_hidden(tp.topic):
            return self._failed(tp, KafkaError.INVALID_TOPIC_EXCEPTION)
        is_needed = leader not in view.assignment.replicas[:1] if self._is_preferred else leader not in online
        if not is_needed:
            return TaskItem(subject=str(tp), state="not-needed", detail=f"{leader} leads")
        elected = self._elected(view)
        if elected is None:
            return self._failed(tp, _NOBODY[self._kind])
        loss = _loss(elected.leader, view) if elected.unclean else ""
        return TaskItem(subject=str(tp), state="planned", detail=f"leader {leader} -> {elected.leader}{loss}")

    def _failed(self, tp: TopicPartition, error: KafkaError) -> TaskItem:
        return TaskItem(subject=str(tp), state="failed", detail=self._cause(tp, error), kafka_error=error.name)

    @property
    def _is_preferred(self) -> bool:
        return self._kind is ElectionType.PREFERRED

    def _elected(self, view: PartitionView) -> Elected | None:
        if view.leadership is None:
            return None
        replicas, isr, online = view.assignment.replicas, view.leadership.isr, view.online
        if self._is_preferred:
            return elect_preferred(replicas, isr, online)
        return elect_offline(replicas, isr, online, unclean_allowed=True, leader_recovery=True)

    def _cause(self, tp: TopicPartition, error: KafkaError) -> str:
        """Why nobody can be elected, as a sentence."""
        view = self._cluster.snapshot.partition(tp)
        if view is None:
            return "the partition does not exist"
        if error is KafkaError.INVALID_TOPIC_EXCEPTION:
            return "the topic is being deleted"
        if view.leadership is None:
            return "it was never led: none of its replicas has been live yet"
        replicas, isr = view.assignment.replicas, view.leadership.isr
        if not self._is_preferred:
            return f"none of its replicas {listed(replicas)} is online"
        preferred = replicas[0]
        if preferred not in view.online:
            return f"its preferred leader {preferred} is not online"
        return f"its preferred leader {preferred} is not in sync: the ISR is {listed(isr)}"


def _loss(leader: BrokerId, view: PartitionView) -> str:
    """What an election outside the ISR may cost: nearly everything where the replica has only begun to copy."""
    if leader in view.assignment.adding:
        return "; it is being added and may have next to nothing: cancel the reassignment first"
    return "; it is not in sync: records may be lost"


def _unknown(subject: str, kind: str) -> TaskItem:
    error = KafkaError.UNKNOWN_TOPIC_OR_PARTITION.name
    return TaskItem(subject=subject, state="failed", detail=f"the {kind} does not exist", kafka_error=error)
