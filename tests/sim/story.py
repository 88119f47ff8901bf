"""Plays a plan: start, faults, quiet phase, judgement."""

import asyncio
import json
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random
from typing import Any, Final, NamedTuple

from controllerd.core.kafka_error import KafkaError
from controllerd.zk.access import SetData
from events.cluster import Resign, Takeover
from tests.fakes.world import topic_id_of
from tests.sim.broker import SimBroker
from tests.sim.broker_socket import Fault
from tests.sim.instance import FIRST_NODE_ID, SESSION_S, SimInstance
from tests.sim.loop import VirtualLoop
from tests.sim.network import Range
from tests.sim.oracle import Violation
from tests.sim.plan import STORY_S, Action, Plan
from tests.sim.story_admin import ADMIN_ACTS
from tests.sim.story_late import LATE_ACTS
from tests.sim.story_rare import RARE_ACTS, draw_curtain
from tests.sim.story_registration import REGISTRATION_ACTS
from tests.sim.story_settings import SETTINGS_ACTS, allow_again
from tests.sim.story_tokens import TOKEN_ACTS
from tests.sim.story_topics import TOPIC_ACTS
from tests.sim.story_waiting import WAITING_ACTS
from tests.sim.world import SimWorld
from tests.sim.zk_server import ServerDown
from tests.sim.zk_tree import Txn
from tests.sim.zk_wire import MULTI

BEFORE_REVIVAL_S: Final = 2.0
QUIET_S: Final = 20 * SESSION_S
"""The time within which the cluster must be healthy again."""
_LOOK_S: Final = 3.0
_SLOW: Final = Range(0.2, 3.0)
_ACTS: Final = {
    **RARE_ACTS, **LATE_ACTS, **ADMIN_ACTS, **TOPIC_ACTS, **WAITING_ACTS, **REGISTRATION_ACTS, **SETTINGS_ACTS,
    **TOKEN_ACTS,
}  # fmt: skip


class StoryResult(NamedTuple):
    """The result of a seed."""

    violations: list[Violation]
    trace_hash: str
    traced: list[str]
    acknowledged: int
    elections: int
    transactions: int
    moves: int = 0
    """How often replicas of a partition changed."""
    deletions: int = 0
    """Topics that were deleted."""
    made_by_call: int = 0
    """Topics that were created or extended by a call."""


class Story:
    """The run of one seed."""

    def __init__(self, loop: VirtualLoop, plan: Plan, *, judges_logs: bool = True) -> None:
        self.loop = loop
        self.plan = plan
        self.world = SimWorld(loop, plan.options)
        self._judges_logs = judges_logs
        self._hidden: dict[str, bytes | None] = {}
        self.world.server.observers.append(self._committed)

    async def run(self) -> StoryResult:
        """Play from the start to the judgement; end at the first violation."""
        self.world.open()
        for number in range(self.plan.options.topics):
            self._create(Random(f"{self.plan.seed}/topic {number}"))
        for action in self.plan.actions:
            await self._until(action.at)
            if not self.world.oracle.is_unbroken:
                return self._ending([])
            self._act(action)
        await self._until(STORY_S)
        return self._ending(await self._quiet())

    async def _until(self, at: float) -> None:
        while self.loop.time() < at and self.world.oracle.is_unbroken:  # noqa: ASYNC110  # virtual time
            await asyncio.sleep(min(_LOOK_S, at - self.loop.time()))

    async def _quiet(self) -> list[Violation]:
        """End all faults; the cluster must be healthy again within a bounded time, and stay so."""
        world = self.world
        self.loop.trace("quiet")
        world.heal()
        self._mend()
        await asyncio.sleep(BEFORE_REVIVAL_S)
        world.revive()
        left = await self._rest()
        if not left and draw_curtain(world, self.plan.options.curtain, Random(f"{self.plan.seed}/curtain")):
            self.loop.trace(f"curtain: {self.plan.options.curtain}")
            left = await self._rest()
        if self._judges_logs and not left and world.oracle.is_unbroken:
            left = world.judge_logs()
        return left

    async def _rest(self) -> list[Violation]:
        """The violations that are left when the time to recover is over."""
        until = self.loop.time() + QUIET_S
        await asyncio.sleep(2 * SESSION_S)
        while (left := self.world.judge()) and self.loop.time() < until and self.world.oracle.is_unbroken:  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_S)
        return left

    def _ending(self, left: list[Violation]) -> StoryResult:
        world, history = self.world, self.world.oracle.zookeeper.history
        return StoryResult(
            violations=[*world.oracle.violations, *left],
            trace_hash=self.loop.trace_hash(),
            traced=self.loop.traced(),
            acknowledged=world.cluster.acknowledged,
            elections=len(world.oracle.zookeeper.terms),
            transactions=world.server.zxid,
            moves=sum(len(each.targets) - 1 for each in history.partitions.values() if each.targets),
            deletions=len(history.gone_at),
            made_by_call=world.topic_client.judge.created + world.topic_client.judge.grown,
        )

    # -- actions -----------------------------------------------------------------------------------------------------

    def _act(self, action: Action) -> None:
        self.loop.trace(f"action {action.kind} #{action.number}")
        rng = Random(f"{self.plan.seed}/{action.number}/{action.kind}")
        # Other programs cannot write while ZooKeeper is down.
        with suppress(ServerDown):
            if action.kind in _ACTS:
                _ACTS[action.kind](self.world, rng)
            else:
                act: Callable[[Random], None] = getattr(self, f"_{action.kind}")
                act(rng)

    def _instance(self, rng: Random) -> SimInstance:
        """Choose an instance, mostly the active one."""
        active = [each for each in self.world.instances.values() if each.is_active]
        return rng.choice(active if active and rng.random() < 0.7 else list(self.world.instances.values()))

    def _broker(self, rng: Random) -> SimBroker:
        return rng.choice(list(self.world.cluster.brokers.values()))

    def _later(self, delay_s: float, act: Callable[..., object], *arguments: object) -> None:
        self.loop.call_later(delay_s, act, *arguments, context=self.loop.context_of(""))

    # -- work of clients ---------------------------------------------------------------------------------------------

    def _replicas(self, rng: Random) -> list[int]:
        options = self.plan.options
        return rng.sample(range(1, options.brokers + 1), options.replication)

    def _create(self, rng: Random) -> None:
        name = f"t{len(self.world.topics)}"
        fields: dict[str, object] = {}
        if rng.random() < 0.6:
            fields["topic_id"] = topic_id_of(name)
        self.world.write_topic(name, [self._replicas(rng) for _ in range(rng.choice((1, 1, 2, 4)))], **fields)

    def _expand(self, rng: Random) -> None:
        znodes = self.world.server.nodes.keys() - self._hidden.keys()
        topics = [topic for topic in self.world.topics if f"/brokers/topics/{topic}" in znodes]
        if topics:
            topic = rng.choice(topics)
            now = self.world.assignments(topic)
            self.world.write_topic(topic, [*now, *(self._replicas(rng) for _ in range(rng.choice((1, 2))))])

    def _ids_among_replicas(self, rng: Random) -> None:
        """Place a topic as a broker does that counts the active instance among the brokers."""
        replicas = self._replicas(rng)
        replicas[rng.randrange(len(replicas))] = FIRST_NODE_ID + rng.randrange(self.plan.options.instances)
        self.world.write_topic(f"t{len(self.world.topics)}", [replicas])

    def _produce(self, rng: Random) -> None:
        self.world.do(self._produce_some(rng))

    async def _produce_some(self, rng: Random) -> None:
        for _ in range(rng.choice((3, 10))):
            topic = rng.choice(list(self.world.topics))
            self.world.cluster.produce(topic, rng.randrange(len(self.world.topics[topic])))
            await asyncio.sleep(rng.random())

    # -- faults of instances -----------------------------------------------------------------------------------------

    def _kill(self, rng: Random) -> None:
        target = self._instance(rng)
        if target.is_alive:
            target.kill()
            self._later(rng.choice((0.1, 1.0, 8.0)), self.world.start_instance, target.number)

    def _terminate(self, rng: Random) -> None:
        target = self._instance(rng)
        if target.is_running:
            target.terminate()
            self._later(rng.choice((0.5, 3.0, 8.0)), self.world.start_instance, target.number)

    def _freeze(self, rng: Random) -> None:
        self.world.freeze(self._instance(rng).number, rng.uniform(0.05, 0.6 * SESSION_S))

    def _freeze_long(self, rng: Random) -> None:
        self.world.freeze(self._instance(rng).number, rng.uniform(0.7 * SESSION_S, 2.5 * SESSION_S))

    def _takeover(self, rng: Random) -> None:
        self.world.operate(rng.randrange(self.plan.options.instances), Takeover("a test"))

    def _resign(self, rng: Random) -> None:
        self.world.operate(self._instance(rng).number, Resign("a test"))

    # -- faults between instances and ZooKeeper ----------------------------------------------------------------------

    def _client(self, rng: Random) -> Any:
        target = self._instance(rng)
        return target.kazoo.client if target.kazoo.clients else None

    def _zk_cut(self, rng: Random) -> None:
        if client := self._client(rng):
            client.cut(rng.choice((0.0, 0.5, 0.5 * SESSION_S, 1.5 * SESSION_S)))

    def _zk_cut_silently(self, rng: Random) -> None:
        if client := self._client(rng):
            client.cut(rng.choice((0.0, 2.0, SESSION_S)), silent=True)

    def _zk_lose_reply(self, rng: Random) -> None:
        if client := self._client(rng):
            for_s = rng.choice((0.0, 0.0, 1.0, 1.5 * SESSION_S))
            client.lose_reply(rng.choice((MULTI, MULTI, None)), rng.randrange(4), for_s=for_s)

    def _zk_lose_request(self, rng: Random) -> None:
        if client := self._client(rng):
            client.lose_request(rng.choice((MULTI, MULTI, None)), rng.randrange(4), for_s=rng.choice((0.0, 1.0)))

    def _zk_expire(self, rng: Random) -> None:
        client = self._client(rng)
        if client and client.session_id:
            self.world.server.expire(client.session_id)

    def _zk_expire_twice(self, rng: Random) -> None:
        self._zk_expire(rng)
        self._later(rng.uniform(0.05, 2.0), self._zk_expire, rng)

    def _zk_down(self, rng: Random) -> None:
        if self.world.server.is_up:
            self.world.server.down_for(rng.choice((0.2, 2.0, 1.5 * SESSION_S)))

    def _zk_slow(self, rng: Random) -> None:
        if client := self._client(rng):
            client.delay_s = rng.choice(((0.0, 0.1), (0.05, 0.8), (0.0002, 0.003)))

    def _zk_watch_lag(self, rng: Random) -> None:
        if client := self._client(rng):
            client.watch_lag_s = rng.choice((0.0, 0.05, 0.5, 2.0))

    def _zk_follower(self, rng: Random) -> None:
        """Connect an instance to another server, which lags behind."""
        if client := self._client(rng):
            followers = self.world.server.followers
            if len(followers) < 2:
                self.world.server.follower((0.0, rng.choice((0.05, 0.5, 2.0))))
            client.replica = rng.choice([self.world.server.leader, *followers])
            client.cut()

    # -- faults of brokers -------------------------------------------------------------------------------------------

    def _broker_crash(self, rng: Random) -> None:
        broker = self._broker(rng)
        if broker.is_running:
            broker.crash(unplugged=rng.random() < 0.3)
            self._later(rng.choice((0.5, 4.0, 15.0)), self._restart, broker)

    def _restart(self, broker: SimBroker) -> None:
        if not broker.is_running and not broker.is_starting:
            broker.restart()

    def _broker_bounce(self, rng: Random) -> None:
        broker = self._broker(rng)
        if broker.is_running:
            broker.bounce(rng.choice((0.0, 0.0, 0.01, 2.0)))

    def _broker_pause(self, rng: Random) -> None:
        broker = self._broker(rng)
        if broker.is_running and not broker.is_paused:
            broker.pause()
            self._later(rng.choice((0.5, 5.0, 15.0)), self._resume, broker)

    def _resume(self, broker: SimBroker) -> None:
        if broker.is_paused:
            broker.resume()

    def _broker_session(self, rng: Random) -> None:
        broker = self._broker(rng)
        if broker.is_running and not broker.is_paused:
            broker.lose_session(rng.choice((0.0, 0.05, 2.0)))

    def _broker_stuck(self, rng: Random) -> None:
        broker = self._broker(rng)
        broker.is_stuck = True
        self._later(rng.choice((1.0, 8.0)), setattr, broker, "is_stuck", False)

    def _broker_fault(self, rng: Random) -> None:
        self._broker(rng).inject(rng.choice(list(Fault)), times=rng.choice((1, 3)))

    def _broker_error(self, rng: Random) -> None:
        self._broker(rng).inject_error(KafkaError.CLUSTER_AUTHORIZATION_FAILED, times=rng.choice((1, 2)))

    def _broker_slow(self, rng: Random) -> None:
        broker = self._broker(rng)
        broker.work_s = rng.choice((None, _SLOW))
        broker.fetch_s = rng.choice((broker.settings.fetch_s, Range(2.0, 6.0)))

    def _broker_silent(self, rng: Random) -> None:
        broker = self._broker(rng)
        broker.is_silent = True
        self._later(rng.choice((1.0, 8.0)), setattr, broker, "is_silent", False)

    def _broker_refuses(self, rng: Random) -> None:
        broker = self._broker(rng)
        broker.is_refusing = True
        self._later(rng.choice((1.0, 8.0)), setattr, broker, "is_refusing", False)

    def _broker_stops(self, rng: Random) -> None:
        """Stop a broker by controlled shutdown, and start it again after a while."""
        broker = self._broker(rng)
        if broker.is_running and not broker.is_paused:
            self.world.do(self._stop_and_return(broker, rng.choice((1.0, 6.0))))

    async def _stop_and_return(self, broker: SimBroker, after_s: float) -> None:
        await broker.stop()
        await asyncio.sleep(after_s)
        self._restart(broker)

    def _brokers_apart(self, rng: Random) -> None:
        one, other = self._broker(rng), self._broker(rng)
        if one is not other:
            self.world.cluster.separate(one.id, other.id)
            self._later(rng.choice((2.0, 10.0)), self.world.cluster.reunite)

    def _link_cut(self, rng: Random) -> None:
        self.world.network.cut(self._instance(rng).owner, self._broker(rng).id)

    def _link_blocked(self, rng: Random) -> None:
        owner, broker = self._instance(rng).owner, self._broker(rng).id
        self.world.network.block(owner, broker)
        self._later(rng.choice((1.0, 10.0)), self.world.network.unblock, owner, broker)

    # -- writes of other programs to ZooKeeper -----------------------------------------------------------------------

    def _overwrite(self, path: str, data: bytes) -> None:
        """Make a znode unreadable; it gets its content back later."""
        if path in self._hidden:
            return
        before = self.world.server.nodes[path].data
        self.world.server.outsider(SetData(path, data, -1))
        self._hidden[path] = before

    def _committed(self, txn: Txn) -> None:
        for change in txn.changes:
            if change.op == "delete":  # with its topic: its content is worth nothing any more
                self._hidden.pop(change.path, None)

    def _give_back(self, path: str) -> None:
        if path in self._hidden and self.world.server.is_up:
            self.world.server.outsider(SetData(path, self._hidden.pop(path) or b"", -1))

    def _mend(self) -> None:
        for path in list(self._hidden):
            self._give_back(path)
        for broker in self.world.cluster.brokers.values():
            allow_again(self.world, broker)

    def _broken_topic(self, rng: Random) -> None:
        path = f"/brokers/topics/{rng.choice(list(self.world.topics))}"
        if path in self.world.server.nodes:
            self._overwrite(path, rng.choice((b"", b"{", b"{}", b"\xff")))
            self._later(rng.choice((0.0, 1.0, 12.0)), self._give_back, path)

    def _states(self) -> Iterator[str]:
        return (path for path in self.world.server.nodes if path.endswith("/state"))

    def _broken_state(self, rng: Random) -> None:
        if states := sorted(self._states()):
            path = rng.choice(states)
            self._overwrite(path, rng.choice((b"", b"{", b'{"leader":1}')))
            self._later(rng.choice((0.0, 1.0, 12.0)), self._give_back, path)

    def _foreign_state(self, rng: Random) -> None:
        """Write the same content again as another program: only the version changes."""
        if states := sorted(set(self._states()) - self._hidden.keys()):
            path = rng.choice(states)
            self.world.server.outsider(SetData(path, self.world.server.nodes[path].data or b"", -1))

    def _address_changes(self, rng: Random) -> None:
        """Change listeners dynamically: the broker's own session rewrites the registration."""
        broker = self._broker(rng)
        if broker.path in self.world.server.nodes and self.world.server.is_up:
            document = json.loads(self.world.server.nodes[broker.path].data or b"{}")
            document["rack"] = rng.choice(("one", "two"))
            self.world.server.outsider(SetData(broker.path, json.dumps(document).encode(), -1))


def play(plan: Plan, *, judges_logs: bool = True) -> StoryResult:
    """Play a plan to its end. Nothing is raised.

    A deadlock or an unhandled exception is a violation, and an exception of the model or
    of the judge is one too: raised, it would end the run and every other seed with it.
    """
    loop = VirtualLoop(plan.seed)
    try:
        story = Story(loop, plan.with_actions(plan.actions), judges_logs=judges_logs)
        return loop.run(story.run())
    except Exception as error:  # noqa: BLE001  # a seed that fails, as above
        return _crashed(loop, error)


def _crashed(loop: VirtualLoop, error: Exception) -> StoryResult:
    """The result of a story that an exception ended; the whole traceback follows the trace."""
    if not loop.is_closed():
        loop.close()
    cause = f" from {error.__cause__!r}" if error.__cause__ is not None else ""
    violation = Violation("S-04", loop.time(), f"{type(error).__name__}: {error}{cause}")
    lines = [line.rstrip("\n") for line in traceback.format_exception(error)]
    return StoryResult([violation], loop.trace_hash(), [*loop.traced(), *lines], 0, 0, 0)
