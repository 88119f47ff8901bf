"""``POST /v1/elections``: elect preferred leaders, or any live replica for partitions without a leader."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final

from controllerd.core.election import Elected, elect_offline, elect_preferred
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.planning.plans import listed
from controllerd.slicer import sliced
from controllerd.status.http.problems import Refused
from controllerd.status.schema.tasks import TaskItem
from controllerd.status.schema.verbs import ElectionRequest
from controllerd.status.verbs.admission import Verb
from controllerd.status.verbs.cluster import BODY_LIMIT, leader_of, yielding_to_loop
from controllerd.status.verbs.tasks import Operation, TaskItems, VerbCall, item
from controllerd.views import PartitionView
from events.elections import ElectionTrigger, ElectionType, ReplicaLeaderElection

AT_A_TIME: Final = 5_000
"""The most partitions of one event: urgent events may come in between, and progress is visible."""
_NOT_AVAILABLE: Final = {
    ElectionType.PREFERRED: KafkaError.PREFERRED_LEADER_NOT_AVAILABLE,
    ElectionType.UNCLEAN: KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}


class ElectLeaders(Operation[ElectionRequest]):
    """Elects the leaders of partitions, preferred or unclean."""

    verb = "elections"
    summary = "Elect preferred leaders, or any live replica"

    def __init__(self, request: ElectionRequest, call: VerbCall) -> None:
        super().__init__(request, call)
        self.requires_reason = request.type == "unclean"
        self._kind = ElectionType.UNCLEAN if request.type == "unclean" else ElectionType.PREFERRED
        self._partitions: dict[str, TopicPartition] = {}
        """The existing partitions that may need an election, by name; the controller decides which of them do."""

    def check(self) -> None:
        """Check the selection. :raises Refused: it is empty, or the loss of records is not accepted."""
        request = self.request
        if self._kind is ElectionType.UNCLEAN and not request.accept_data_loss:
            detail = "an unclean election may lose records that exist only on replicas which are not live"
            hint = "set accept_data_loss = true to accept this; dryRun=true changes nothing"
            raise Refused(HTTPStatus.BAD_REQUEST, "data_loss_not_accepted", detail, hint)
        if not request.all and not request.partitions and not request.topics and request.broker is None:
            detail = "name partitions, topics or a broker, or set all = true"
            raise Refused(HTTPStatus.BAD_REQUEST, "nothing_named", detail)

    async def plan(self) -> list[TaskItem]:
        """Return the foreseen leader of each partition."""
        selected, items = await self._select()
        async for tp, view in yielding_to_loop(selected.items()):
            foreseen = self._foresee(tp, view)
            if foreseen.state != "not-needed":
                self._partitions[foreseen.subject] = tp
            items.append(foreseen)
        return items

    async def run(self, items: TaskItems) -> str:
        """Elect, with one event for every few thousand partitions."""
        for part in sliced(list(self._partitions.values()), AT_A_TIME):
            before = await self._begin(part, items)
            event = ReplicaLeaderElection(frozenset(part), self._kind, ElectionTrigger.ADMIN_CLIENT, self._by)
            await self._mark(items, await self._cluster.call(event), before)
        return ""

    async def _begin(self, part: Sequence[TopicPartition], items: TaskItems) -> dict[TopicPartition, int]:
        """Mark the partitions as running, and return their present leaders."""
        before = {}
        async for tp in yielding_to_loop(part):
            before[tp] = leader_of(self._cluster.snapshot.partition(tp))
            items.mark(tp, "running")
        return before

    async def _mark(
        self,
        items: TaskItems,
        reply: Mapping[TopicPartition, BrokerId | KafkaError],
        before: Mapping[TopicPartition, int],
    ) -> None:
        async for tp, was in yielding_to_loop(before.items()):
            outcome = reply.get(tp, KafkaError.UNKNOWN_SERVER_ERROR)
            if not isinstance(outcome, KafkaError):
                items.mark(tp, "done", f"leader {was} -> {outcome}")
            elif outcome is KafkaError.ELECTION_NOT_NEEDED:
                items.mark(tp, "not-needed", f"{was} leads")
            else:
                items.mark(tp, "failed", self._cause(tp, outcome), outcome)

    async def _select(self) -> tuple[dict[TopicPartition, PartitionView], list[TaskItem]]:
        """Return the selected partitions, and items for topics and partitions that do not exist."""
        request, topics = self.request, self._cluster.snapshot.topics
        unknown = [_unknown(name, "topic") for name in dict.fromkeys(request.topics) if name not in topics]
        wanted = [topics[name] for name in {*request.topics} if name in topics]
        found = {tp: view async for tp, view in self._cluster.partitions(None if request.all else wanted)}
        for name in request.partitions:
            tp = TopicPartition(name.topic, name.partition)
            view = self._cluster.snapshot.partition(tp)
            if view is None:
                unknown.append(_unknown(tp, "partition"))
            else:
                found[tp] = view
        if request.broker is not None and not request.all:
            every = self._cluster.partitions()
            found |= {tp: view async for tp, view in every if request.broker in view.assignment.replicas[:1]}
        return found, list({each.subject: each for each in unknown}.values())

    def _foresee(self, tp: TopicPartition, view: PartitionView) -> TaskItem:
        """Return the outcome of the election according to the snapshot."""
        leader, online = leader_of(view), view.online
        if self._cluster.snapshot.is_hidden(tp.topic):
            return self._failed(tp, KafkaError.INVALID_TOPIC_EXCEPTION)
        is_needed = leader not in view.assignment.replicas[:1] if self._is_preferred else leader not in online
        if not is_needed:
            return item(tp, "not-needed", f"{leader} leads")
        elected = self._elected(view)
        if elected is None:
            return self._failed(tp, _NOT_AVAILABLE[self._kind])
        loss = _loss(elected.leader, view) if elected.unclean else ""
        return item(tp, "planned", f"leader {leader} -> {elected.leader}{loss}")

    def _failed(self, tp: TopicPartition, error: KafkaError) -> TaskItem:
        return item(tp, "failed", self._cause(tp, error), error)

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
        """Return the reason why no replica can be elected, as a sentence."""
        view = self._cluster.snapshot.partition(tp)
        if view is None:
            return "the partition does not exist"
        if error is KafkaError.INVALID_TOPIC_EXCEPTION:
            return "the topic is being deleted"
        if view.leadership is None:
            return "it was never led: none of its replicas has been live yet"
        replicas = view.assignment.replicas
        if not self._is_preferred:
            return f"none of its replicas {listed(replicas)} is online"
        if replicas[0] not in view.online:
            return f"its preferred leader {replicas[0]} is not online"
        return f"its preferred leader {replicas[0]} is not in sync: the ISR is {listed(view.isr)}"


def _loss(leader: BrokerId, view: PartitionView) -> str:
    """Return a warning for an election outside the ISR. A replica that is being added may have nearly no records."""
    if leader in view.assignment.adding:
        return "; it is being added and may have next to nothing: cancel the reassignment first"
    return "; it is not in sync: records may be lost"


def _unknown(subject: object, kind: str) -> TaskItem:
    return item(subject, "failed", f"the {kind} does not exist", KafkaError.UNKNOWN_TOPIC_OR_PARTITION)


VERBS: Final = (Verb("/v1/elections", ElectionRequest, ElectLeaders, body_limit=BODY_LIMIT),)
