"""Actions that were added last.

A broker that wins the role, a freeze behind a server that lags, a topic that returns while a broker is silent, and a
broker that returns in the moment in which another bounces.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from controllerd.zk.access import Create, Delete, Operation, SetData
from events.cluster import SelfAudit, Takeover
from tests.fakes.world import topic_id_of
from tests.sim.admin_client import MARKERS, TOPICS
from tests.sim.broker import SimBroker
from tests.sim.instance import FIRST_NODE_ID, SESSION_S, SimInstance
from tests.sim.world import SAFE_SHARE, SimWorld

_CONTROLLER: Final = "/controller"
_EPOCH: Final = "/controller_epoch"
_LAG_S: Final = (1.0, 2.0)
_BEFORE_WAKING_S: Final = 0.2
_LOOKS_EVERY_S: Final = 0.3
_IS_KNOWN_AFTER_S: Final = 1.0
_IS_BEHIND_AFTER_S: Final = 1.2
"""Longer than ``ChannelSettings.coalesce_age_s``: from then on requests are merged."""
_IS_SILENT_S: Final = 6.0
_REGISTERS_AFTER_S: Final = 0.05
_IS_AWAY_S: Final = 3.0
_IS_OUT_OF_REACH_S: Final = 1.0
"""Connection attempts in this time hang until their time-out (``controller.socket.timeout.ms``)."""
_FREEZES_S: Final = 2.4
"""Begins after the connection: a ping was just sent, so that the session lives on for the longest time."""


def outsider_wins(world: SimWorld, rng: Random) -> None:
    """Expire the session of the holder, and let a broker's own controller win the election.

    Where instances stand by, it resigns after a while; where they take the role, it would stay for ever.
    """
    if not world.server.is_up or _EPOCH not in world.server.nodes:
        return
    session = world.server.new_session(SESSION_S)
    epoch = world.server.nodes[_EPOCH]
    holder = {"version": 2, "brokerid": rng.choice(list(world.cluster.brokers)), "timestamp": "0"}
    free: list[Operation] = [Delete(_CONTROLLER)] if _CONTROLLER in world.server.nodes else []
    session.commit(
        *free,
        Create(_CONTROLLER, json.dumps(holder).encode(), ephemeral=True),
        SetData(_EPOCH, str(int(epoch.data or b"0") + 1).encode(), epoch.version),
    )
    if not world.options.takes:
        world.outsiders.append(session)
        _later(world, rng.choice((0.2, 3.0, 10.0)), session.fall_silent)


def outsider_starts_on_us(world: SimWorld, rng: Random) -> None:
    """Let a broker's own controller win the role while it counts an instance as a broker, and start a topic on it.

    The instance is the only replica, the leader and the ISR in ZooKeeper.
    """
    outsider_wins(world, rng)
    if not world.server.is_up or _EPOCH not in world.server.nodes:
        return
    name, us = f"t{len(world.topics)}", FIRST_NODE_ID + rng.randrange(world.options.instances)
    epoch = int(world.server.nodes[_EPOCH].data or b"0")
    state = {"controller_epoch": epoch, "leader": us, "version": 1, "leader_epoch": 0, "isr": [us]}
    fields: dict[str, object] = {"topic_id": topic_id_of(name)} if rng.random() < 0.6 else {}
    numbers = range(rng.choice((1, 2)))
    world.write_topic(name, [[us] for _ in numbers], **fields)
    partitions = f"{TOPICS}{name}/partitions"
    session = world.server.new_session(SESSION_S)
    session.commit(
        Create(partitions, b""),
        *(Create(f"{partitions}/{number}", b"") for number in numbers),
        *(Create(f"{partitions}/{number}/state", json.dumps(state).encode()) for number in numbers),
    )


def freeze_behind(world: SimWorld, rng: Random) -> None:
    """Freeze the active instance behind a server that lags, with a request unanswered; the role moves meanwhile."""
    active = [each for each in world.instances.values() if each.is_active and each.is_running and each.kazoo.clients]
    if not active:
        return
    frozen = active[0]
    client = frozen.kazoo.client
    client.replica = world.server.follower(_LAG_S)
    client.cut()
    broker = rng.choice(list(world.cluster.brokers))
    _freeze_unanswered(world, frozen, broker, rng.uniform(SAFE_SHARE + 0.02, SAFE_SHARE + 0.08) * SESSION_S)


def freeze_past_granted(world: SimWorld, rng: Random) -> None:
    """Freeze the active instance for longer than its session, but not as long as the session that it requested.

    A request is unanswered, and the role moves meanwhile.
    """
    active = [each for each in world.instances.values() if each.is_active and each.is_running]
    if active:
        broker = rng.choice(list(world.cluster.brokers))
        _freeze_unanswered(world, active[0], broker, rng.uniform(SAFE_SHARE + 0.05, 1.05) * world.session_s)


def _freeze_unanswered(world: SimWorld, frozen: SimInstance, broker: int, sleep_s: float) -> None:
    _later(world, 0.4, world.network.block, frozen.owner, broker)
    _later(world, 0.5, _new_topic, world, broker)
    _later(world, _FREEZES_S, world.freeze, frozen.number, sleep_s)
    _later(world, _FREEZES_S + sleep_s - _BEFORE_WAKING_S, _others_take_over, world, frozen)
    _later(world, _FREEZES_S + sleep_s, world.network.unblock, frozen.owner, broker)


def _new_topic(world: SimWorld, broker: int, name: str | None = None, **fields: object) -> None:
    world.write_topic(name or f"t{len(world.topics)}", [[broker]], **fields)


def _others_take_over(world: SimWorld, frozen: SimInstance) -> None:
    others = [each.number for each in world.instances.values() if each is not frozen and each.is_running]
    for number in others[:1]:
        world.operate(number, Takeover("a test"))


def self_audit(world: SimWorld, _rng: Random) -> None:
    """Let the active instance compare its context with ZooKeeper now; its own round comes later than any story ends."""
    for each in world.instances.values():
        if each.is_active and each.is_running and each.instance is not None:
            each.instance.queue.put(SelfAudit())


def topic_returns(world: SimWorld, rng: Random) -> None:
    """Delete a topic and create it anew while a broker without replicas of it, a group coordinator, does not answer."""
    _begin_return(world, rng, is_new_session=False)


def topic_returns_in_new_session(world: SimWorld, rng: Random) -> None:
    """Do the same, and end the session of the silent broker meanwhile: it registers anew with all of its memory."""
    _begin_return(world, rng, is_new_session=True)


def _begin_return(world: SimWorld, rng: Random, *, is_new_session: bool) -> None:
    serving = [each for each in world.cluster.brokers.values() if each.is_serving]
    if len(serving) > 1 and world.server.is_up:
        coordinator, host = rng.sample(serving, 2)
        name = f"t{len(world.topics)}"
        _new_topic(world, host.id, name)
        world.do(_delete_and_return(world, name, coordinator, host, is_new_session=is_new_session))


async def _delete_and_return(
    world: SimWorld, name: str, coordinator: SimBroker, host: SimBroker, *, is_new_session: bool
) -> None:
    await asyncio.sleep(_IS_KNOWN_AFTER_S)
    coordinator.is_silent = True
    _later(world, _IS_SILENT_S, setattr, coordinator, "is_silent", False)
    # The request that the coordinator does not answer; later ones wait.
    _new_topic(world, host.id)
    await asyncio.sleep(_LOOKS_EVERY_S)
    if _may_write(world) and TOPICS + name in world.server.nodes:
        world.admin_client.delete_topic(name)
    while {TOPICS + name, MARKERS + name} & world.server.nodes.keys():
        if world.is_quiet:
            return
        await asyncio.sleep(_LOOKS_EVERY_S)
    if is_new_session and coordinator.is_running and not coordinator.is_paused:
        coordinator.lose_session(_REGISTERS_AFTER_S)
    await asyncio.sleep(_IS_BEHIND_AFTER_S)
    # A broker that still has a replica of the old topic would refuse the new one for its id (KIP-516).
    if _may_write(world) and TOPICS + name not in world.server.nodes and (name, 0) not in host.disk:
        _new_topic(world, host.id, name, topic_id=topic_id_of(f"{name} at {world.server.zxid}"))


def returns_beside_a_bounce(world: SimWorld, rng: Random) -> None:
    """Start a broker in the moment in which another one bounces: the controller finds both changes at once.

    The other one starts anew where no instance can reach it, or only its session ends and its connections stay.
    """
    serving = [each for each in world.cluster.brokers.values() if each.is_serving]
    if len(serving) > 1:
        away, bounced = rng.sample(serving, 2)
        away.crash(expires_after_s=_REGISTERS_AFTER_S)
        bounces = _lose_session if rng.random() < 0.5 else _bounce_out_of_reach
        _later(world, _IS_AWAY_S, _return_beside, world, away, bounced, bounces)


def _return_beside(
    world: SimWorld, away: SimBroker, bounced: SimBroker, bounces: Callable[[SimWorld, SimBroker], None]
) -> None:
    if not away.is_running and not away.is_starting and bounced.is_serving:
        away.restart()
        bounces(world, bounced)


def _lose_session(_world: SimWorld, broker: SimBroker) -> None:
    broker.lose_session()


def _bounce_out_of_reach(world: SimWorld, broker: SimBroker) -> None:
    for each in world.instances.values():
        world.network.block(each.owner, broker.id)
        _later(world, _IS_OUT_OF_REACH_S, world.network.unblock, each.owner, broker.id)
    broker.bounce()


def _may_write(world: SimWorld) -> bool:
    return world.server.is_up and not world.is_quiet


def _later(world: SimWorld, delay_s: float, act: Callable[..., object], *arguments: object) -> None:
    world.loop.call_later(delay_s, _unless_quiet, world, act, *arguments, context=world.loop.context_of(""))


def _unless_quiet(world: SimWorld, act: Callable[..., object], *arguments: object) -> None:
    """Call ``act``, unless all faults have ended meanwhile."""
    if not world.is_quiet:
        act(*arguments)


LATE_ACTS: Final[Mapping[str, Callable[[SimWorld, Random], None]]] = {
    "outsider_wins": outsider_wins,
    "outsider_starts_on_us": outsider_starts_on_us,
    "freeze_behind": freeze_behind,
    "freeze_past_granted": freeze_past_granted,
    "self_audit": self_audit,
    "topic_returns": topic_returns,
    "topic_returns_in_new_session": topic_returns_in_new_session,
    "returns_beside_a_bounce": returns_beside_a_bounce,
}
"""The functions by the kind of the action."""
