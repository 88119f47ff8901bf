"""Where people of the simulated cluster call for topics, and what the judge is told of it before and after."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from controllerd.core.partition_growth import GrowthRequest
from controllerd.core.scram import ScramChange
from controllerd.core.topic_creation import DEFAULT_COUNT, TopicRequest
from controllerd.errors import ControllerdError
from events.admin import AlterScram, CreatePartitions, CreateTopics, DeleteTopics, MutationReply, Requester
from events.base import Call
from tests.sim.oracle_calls import RequestedReplicas, Wanted
from tests.sim.zk_tree import Txn

if TYPE_CHECKING:
    from tests.sim.world import SimWorld

TOPICS: Final = "/brokers/topics/"
USER: Final = "alice"
CLIENT: Final = "app"
_AGAIN_S: Final = 2.0
_VERSIONS: Final = (7, 7, 2)
"""Of calls: later ones are refused beyond a quota, earlier ones are slowed down."""

Wishes = Callable[[], list[RequestedReplicas]]


class TopicDesk:
    """Of one world."""

    def __init__(self, world: "SimWorld") -> None:
        self.world = world
        self.judge = world.oracle.zookeeper.calls
        self._calls = 0
        world.server.observers.append(self._committed)

    def _committed(self, txn: Txn) -> None:
        """Producers and tools hear of what calls have made."""
        for change in txn.changes:
            name = change.path.removeprefix(TOPICS)
            if change.op in {"create", "setData"} and name != change.path and "/" not in name:
                now, known = self.world.assignments(name), self.world.topics.get(name, [])
                if len(now) > len(known):
                    self.world.topics[name] = [*known, *map(list, now[len(known) :])]

    # -- calls -------------------------------------------------------------------------------------------------------

    async def create(self, wanted: Sequence[TopicRequest], *, validates: bool = False, attempts: int = 1) -> bool:
        """CreateTopics, again while nobody knows what became of it; whether the last one created all."""
        call = CreateTopics(self._requester(), tuple(wanted), validates)
        return await self._call(call, lambda: [self._creation(each, validates) for each in wanted], attempts)

    async def grow(self, wanted: Sequence[GrowthRequest], *, validates: bool = False, attempts: int = 1) -> bool:
        """CreatePartitions."""
        call = CreatePartitions(self._requester(), tuple(wanted), validates)
        return await self._call(call, lambda: [self._growth(each, validates) for each in wanted], attempts)

    async def delete(self, topics: Collection[str], *, attempts: int = 1) -> bool:
        """DeleteTopics."""
        call = DeleteTopics(self._requester(), tuple(topics))
        return await self._call(call, lambda: [self._wish(Wanted.DELETE, topic) for topic in topics], attempts)

    async def change_credentials(self, changes: Mapping[str, ScramChange]) -> None:
        """AlterUserScramCredentials."""
        await self.world.desk.call(AlterScram(self._requester(), changes), attempts=2)

    def _requester(self) -> Requester:
        self._calls += 1
        return Requester(f"User:{USER}", USER, CLIENT, _VERSIONS[self._calls % len(_VERSIONS)], "127.0.0.1")

    def _wish(self, wanted: Wanted, topic: str) -> RequestedReplicas:
        return RequestedReplicas(wanted, topic, self.world.loop.time())

    def _creation(self, wanted: TopicRequest, validates: bool) -> RequestedReplicas:
        wish = self._wish(Wanted.CREATE, wanted.name)
        wish.validates_only, wish.assignments = validates, {n: tuple(r) for n, r in wanted.assignments.items()}
        wish.configs = {name: value for name, value in wanted.configs.items() if value is not None}
        wish.takes_default, wish.partitions = wanted.partitions == DEFAULT_COUNT, max(wanted.partitions, 1)
        wish.replication = 1 if wanted.replication_factor == DEFAULT_COUNT else wanted.replication_factor
        return wish

    def _growth(self, wanted: GrowthRequest, validates: bool) -> RequestedReplicas:
        wish = self._wish(Wanted.GROW, wanted.topic)
        wish.validates_only, wish.partitions = validates, wanted.total
        given = wanted.assignments or ()
        wish.assignments = {n: tuple(r) for n, r in enumerate(given, wanted.total - len(given))}
        return wish

    async def _call(self, call: Call[MutationReply], wishes_of: Wishes, attempts: int) -> bool:
        """Ask the active instance; again and again if it does not answer."""
        for _ in range(attempts):
            target = self.world.desk.active()
            if target is not None:
                wishes = wishes_of()
                self.judge.ask(wishes)
                try:
                    reply: MutationReply = await self.world._ask_instance(target, call)
                except (ControllerdError, OSError):
                    self.judge.lose(wishes, self.world.loop.time())
                else:
                    return self._answered(wishes, reply)
            await asyncio.sleep(_AGAIN_S)
        return False

    def _answered(self, wishes: Sequence[RequestedReplicas], reply: MutationReply) -> bool:
        refusals = []
        for wish in wishes:
            outcome = reply.outcomes[wish.topic]
            error = 0 if outcome.refusal is None else int(outcome.refusal.error)
            self.judge.answer(wish, self.world.loop.time(), error, outcome.topic_id)
            refusals.append(error)
        return not any(refusals)
