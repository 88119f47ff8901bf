"""Actions in which a reassignment waits while leaders die, of its topic or of a topic to be deleted."""

from collections.abc import Mapping
from functools import partial
from random import Random
from typing import Final

from tests.sim.broker import SimBroker
from tests.sim.oracle_history import PartitionHistory
from tests.sim.oracle_seen import Key
from tests.sim.story_admin import Act, delete_now, existing, later, restart
from tests.sim.world import SimWorld

_DELETES_AFTER_S: Final = 0.3
_DIES_AFTER_S: Final = 1.5
_RETURNS_AFTER_S: Final = 10.0
_CATCHES_UP_AFTER_S: Final = 20.0
_TRIES_AGAIN_AFTER_S: Final = 1.0


def leader_dies_while_waiting(world: SimWorld, rng: Random) -> None:
    """Let a new replica lag, mark the topic for deletion, and kill the leader of another partition."""
    moves = [(key, broker) for key in _keys(world, least=2) for broker in _free(world, key)]
    if not moves:
        return
    key, late = rng.choice(moves)
    late.is_stuck = True
    later(world, _CATCHES_UP_AFTER_S, setattr, late, "is_stuck", False)
    world.admin_client.reassign({key: [*(_partition(world, key).replicas or ()), late.id]})
    later(world, _DELETES_AFTER_S, delete_now, world, key[0])
    later(world, _DIES_AFTER_S, _leader_dies, world, rng, key)


def target_leads_uncleanly(world: SimWorld, rng: Random) -> None:
    """Let the only target of a reassignment lag, and kill all other replicas: it leads uncleanly.

    The killed brokers come back much later. Until then no broker starts that would trigger an election. When they
    come back, the topic allows unclean elections no longer than the default does.
    """
    moves = [(key, broker) for key in _keys(world) for broker in _free(world, key)]
    if not moves:
        return
    key, late = rng.choice(moves)
    late.is_stuck = True
    later(world, _CATCHES_UP_AFTER_S, setattr, late, "is_stuck", False)
    world.admin_client.allow_unclean(f"topics/{key[0]}", allowed=True)
    world.admin_client.reassign({key: [late.id]})
    later(world, _DIES_AFTER_S, partial(others_die, world, key, late, return_after_s=_RETURNS_AFTER_S))
    later(world, _DIES_AFTER_S + _RETURNS_AFTER_S, _follow_the_default, world, key[0])


def _follow_the_default(world: SimWorld, topic: str) -> None:
    """Remove the topic's own value as soon as ZooKeeper can be written to."""
    if not world.server.is_up:
        later(world, _TRIES_AGAIN_AFTER_S, _follow_the_default, world, topic)
    elif topic in existing(world):
        world.admin_client.allow_unclean(f"topics/{topic}", allowed=None)


def others_die(world: SimWorld, key: Key, but: SimBroker, *, return_after_s: float) -> None:
    """Kill all brokers with a replica of the partition but this one, and start them again later."""
    for number in _partition(world, key).replicas or ():
        broker = world.cluster.brokers.get(number)
        if broker is not None and broker is not but and broker.is_running and not broker.is_paused:
            broker.crash(expires_after_s=0.05)
            later(world, return_after_s, restart, broker)


def _keys(world: SimWorld, *, least: int = 1) -> list[Key]:
    """The partitions of topics that have at least so many."""
    topics = [topic for topic in existing(world) if len(world.topics[topic]) >= least]
    return [(topic, number) for topic in topics for number in range(len(world.topics[topic]))]


def _partition(world: SimWorld, key: Key) -> PartitionHistory:
    return world.oracle.zookeeper.history.partition(*key)


def _free(world: SimWorld, key: Key) -> list[SimBroker]:
    """The running brokers without a replica of the partition."""
    replicas = _partition(world, key).replicas
    brokers = world.cluster.brokers.values()
    return [each for each in brokers if replicas and each.is_running and each.id not in replicas]


def _leader_dies(world: SimWorld, rng: Random, moving: Key) -> None:
    leaders = {_leader(world, key) for key in _keys(world, least=2) if key[0] == moving[0]} - {_leader(world, moving)}
    dying = [world.cluster.brokers[leader] for leader in sorted(leaders) if leader in world.cluster.brokers]
    running = [each for each in dying if each.is_running and not each.is_paused and not each.is_stuck]
    if running:
        broker = rng.choice(running)
        broker.crash(expires_after_s=0.05)
        later(world, _RETURNS_AFTER_S, restart, broker)


def _leader(world: SimWorld, key: Key) -> int:
    state = _partition(world, key).state
    return state.leader if state is not None else -1


WAITING_ACTS: Final[Mapping[str, Act]] = {
    act.__name__: act for act in (leader_dies_while_waiting, target_leads_uncleanly)
}
"""The functions by the kind of the action."""
