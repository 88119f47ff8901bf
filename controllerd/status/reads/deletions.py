"""``/v1/deletions``: the topics that are to be deleted, and who holds each up."""

from collections import Counter
from collections.abc import Iterator, Sequence

from aiohttp import web

from controllerd.core.model import BrokerId, ReplicaState
from controllerd.record.envelope import RecentRecord
from controllerd.record.records import DeletionRecord
from controllerd.status.answers import answer
from controllerd.status.reads.context import Reading, reading
from controllerd.status.routing import Route
from controllerd.status.schema.work import DeletionBlocker, DeletionItem, DeletionList
from controllerd.status.view import view_deletion
from controllerd.views import ClusterView, DeletionView


class DeletionReads:
    """The list of deletions."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def routes(self) -> list[Route]:
        """``/v1/deletions``."""
        return [
            reading("/v1/deletions", self.all, "Topics that are to be deleted, and what holds them up", DeletionList)
        ]

    async def all(self, _request: web.Request) -> web.Response:
        """By name."""
        return answer(DeletionList(meta=self._reading.meta(), items=self.items()))

    def items(self) -> list[DeletionItem]:
        """All of them."""
        sources = self._reading.sources
        snapshot, queued = sources.snapshot(), _queued_at(tuple(sources.recent.newest_first()))
        return [
            view_deletion_item(name, deletion, snapshot, _age_s(queued.get(name), sources.now_ms()))
            for name, deletion in sorted(snapshot.deletions.items())
        ]


def _queued_at(entries: Sequence[RecentRecord]) -> dict[str, int]:
    """When the deletion of each topic was asked for last, as far as that is remembered."""
    queued: dict[str, int] = {}
    for entry in entries:
        record = entry.record
        if isinstance(record, DeletionRecord):
            for topic, change in zip(record.topics, record.changes, strict=True):
                if change == "queued":
                    queued.setdefault(topic, entry.at_ms)
    return queued


def _age_s(since_ms: int | None, now_ms: int) -> float | None:
    return None if since_ms is None else (now_ms - since_ms) / 1000


def view_deletion_item(name: str, deletion: DeletionView, snapshot: ClusterView, age_s: float | None) -> DeletionItem:
    """One deletion as it is published."""
    by_state: Counter[str] = Counter()
    for (_, state), number in deletion.replicas.items():
        by_state[state.value] += number
    return DeletionItem(
        deletion=view_deletion(name, deletion),
        replicas_by_state=dict(sorted(by_state.items())),
        blockers=list(_blockers(deletion, snapshot)),
        age_s=age_s,
    )


def _blockers(deletion: DeletionView, snapshot: ClusterView) -> Iterator[DeletionBlocker]:
    for (broker, state), number in sorted(deletion.replicas.items(), key=lambda item: (item[0][0], item[0][1].value)):
        if state is not ReplicaState.DELETION_SUCCESSFUL:
            why = _why(broker, state, deletion, snapshot)
            yield DeletionBlocker(broker=broker, replicas=number, state=state.value, why=why)


def _why(broker: BrokerId, state: ReplicaState, deletion: DeletionView, snapshot: ClusterView) -> str:
    if broker not in snapshot.brokers:
        return f"broker {broker} is not alive; start it, or forget it if it never returns"
    if state is ReplicaState.DELETION_STARTED or broker in deletion.deleting:
        return f"broker {broker} was told to delete them and has not answered"
    if state is ReplicaState.DELETION_INELIGIBLE:
        return f"broker {broker} could not delete them, it is asked again later"
    return deletion.held_up_by or f"broker {broker} was not told yet"
