"""The calls for topics of the simulated cluster, with the notes that the judge needs before and after each."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from controllerd.core.partition_growth import GrowthRequest
from controllerd.core.scram import ScramChange
from controllerd.core.topic_creation import DEFAULT_COUNT, TopicRequest
from controllerd.errors import ControllerdError
from events.admin import AlterScram, CreatePartitions, CreateTopics, DeleteTopics, MutationReply, Requester
from events.base import Call
from tests.sim.oracle_calls import CallRow, TopicOperation
from tests.sim.zk_tree import Txn

if TYPE_CHECKING:
    from tests.sim.world import SimWorld

TOPICS: Final = "/brokers/topics/"
USER: Final = "alice"
CLIENT: Final = "app"
_AGAIN_S: Final = 2.0
_VERSIONS: Final = (7, 7, 2)
"""Versions of calls: later ones are refused beyond a quota, earlier ones are slowed down."""

MakeRows = Callable[[], list[CallRow]]


class TopicClient:
    """The topic client of one world."""

    def __init__(self, world: "SimWorld") -> None:
        self.world = world
        self.judge = world.oracle.zookeeper.calls
        self._calls = 0
        world.server.observers.append(self._committed)

    def _committed(self, txn: Txn) -> None:
        """Let producers and tools know the topics that calls have created."""
        for change in txn.changes:
            name = change.path.removeprefix(TOPICS)
            if change.op in {"create", "setData"} and name != change.path and "/" not in name:
                now, known = self.world.assignments(name), self.world.topics.get(name, [])
                if len(now) > len(known):
                    self.world.topics[name] = [*known, *map(list, now[len(known) :])]

    # -- calls -------------------------------------------------------------------------------------------------------

    async def create(self, wanted: Sequence[TopicRequest], *, validates: bool = False, attempts: int = 1) -> bool:
        """Send CreateTopics, again while its outcome is unknown; return whether the last call created all."""
        call = CreateTopics(self._requester(), tuple(wanted), validates)
        return await self._call(call, lambda: [self._creation(each, validates) for each in wanted], attempts)

    async def grow(self, wanted: Sequence[GrowthRequest], *, validates: bool = False, attempts: int = 1) -> bool:
        """Send CreatePartitions."""
        call = CreatePartitions(self._requester(), tuple(wanted), validates)
        return await self._call(call, lambda: [self._growth(each, validates) for each in wanted], attempts)

    async def delete(self, topics: Collection[str], *, attempts: int = 1) -> bool:
        """Send DeleteTopics."""
        call = DeleteTopics(self._requester(), tuple(topics))
        return await self._call(call, lambda: [self._row(TopicOperation.DELETE, topic) for topic in topics], attempts)

    async def change_credentials(self, changes: Mapping[str, ScramChange]) -> None:
        """Send AlterUserScramCredentials."""
        await self.world.admin_client.call(AlterScram(self._requester(), changes), attempts=2)

    def _requester(self) -> Requester:
        self._calls += 1
        return Requester(f"User:{USER}", USER, CLIENT, _VERSIONS[self._calls % len(_VERSIONS)], "127.0.0.1")

    def _row(self, wanted: TopicOperation, topic: str) -> CallRow:
        return CallRow(wanted, topic, self.world.loop.time())

    def _creation(self, wanted: TopicRequest, validates: bool) -> CallRow:
        row = self._row(TopicOperation.CREATE, wanted.name)
        row.validates_only, row.assignments = validates, {n: tuple(r) for n, r in wanted.assignments.items()}
        row.configs = {name: value for name, value in wanted.configs.items() if value is not None}
        row.takes_default, row.partitions = wanted.partitions == DEFAULT_COUNT, max(wanted.partitions, 1)
        row.replication = 1 if wanted.replication_factor == DEFAULT_COUNT else wanted.replication_factor
        return row

    def _growth(self, wanted: GrowthRequest, validates: bool) -> CallRow:
        row = self._row(TopicOperation.GROW, wanted.topic)
        row.validates_only, row.partitions = validates, wanted.total
        given = wanted.assignments or ()
        row.assignments = {n: tuple(r) for n, r in enumerate(given, wanted.total - len(given))}
        return row

    async def _call(self, call: Call[MutationReply], make_rows: MakeRows, attempts: int) -> bool:
        """Send the call to the active instance, again and again if it does not answer."""
        for _ in range(attempts):
            target = self.world.admin_client.active()
            if target is not None:
                rows = make_rows()
                self.judge.ask(rows)
                try:
                    reply: MutationReply = await self.world._ask_instance(target, call)
                except (ControllerdError, OSError):
                    self.judge.lose(rows, self.world.loop.time())
                else:
                    return self._answered(rows, reply)
            await asyncio.sleep(_AGAIN_S)
        return False

    def _answered(self, rows: Sequence[CallRow], reply: MutationReply) -> bool:
        refusals = []
        for row in rows:
            outcome = reply.outcomes[row.topic]
            error = 0 if outcome.refusal is None else int(outcome.refusal.error)
            self.judge.answer(row, self.world.loop.time(), error, outcome.topic_id)
            refusals.append(error)
        return not any(refusals)
