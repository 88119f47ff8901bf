"""Actions that were added later: rare situations, and the last event after the cluster was healthy again."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from random import Random
from typing import Final

from controllerd.core.model import BrokerId, TopicPartition
from controllerd.errors import ControllerdError
from events.replicas import AlterPartitionReceived, ProposedIsr
from tests.sim.broker import SimBroker
from tests.sim.oracle_seen import state_path
from tests.sim.world import SimWorld
from tests.sim.zk_wire import MULTI

_BY_NAME: Final = 1
_EXPIRES_SOON_S: Final = 0.1


def election_race(world: SimWorld, rng: Random) -> None:
    """Free the role, and break the connections of some candidates during the election."""
    active = [each for each in world.instances.values() if each.is_active]
    for each in world.instances.values():
        if each not in active and each.kazoo.clients and rng.random() < 0.7:
            lose = rng.choice((each.kazoo.client.lose_request, each.kazoo.client.lose_reply))
            lose(MULTI, 0, for_s=rng.choice((0.0, 0.0, 0.5)))
    for each in active:
        if each.kazoo.clients and each.kazoo.client.session_id:
            world.server.expire(each.kazoo.client.session_id)


def usurp(world: SimWorld, rng: Random) -> None:
    """Let a follower propose an ISR with itself at the head, with all current epochs."""
    topic = rng.choice(list(world.topics))
    number = rng.randrange(len(world.topics[topic]))
    node = world.server.nodes.get(state_path((topic, number)))
    with suppress(ValueError, KeyError):
        state = json.loads((node.data if node is not None else b"") or b"")
        brokers = world.cluster.brokers
        others = [each for each in world.topics[topic][number] if each != state["leader"] and each in brokers]
        broker = brokers[rng.choice(others)] if others else None
        if broker is not None and broker.is_serving and node is not None:
            isr = (broker.id, *(member for member in state["isr"] if member != broker.id))
            ask = ProposedIsr(state["leader_epoch"], node.version, tuple(map(BrokerId, isr)))
            world.do(_asked(world, _of(broker, TopicPartition(topic, number), ask)))


def _of(broker: SimBroker, tp: TopicPartition, ask: ProposedIsr) -> AlterPartitionReceived:
    return AlterPartitionReceived(BrokerId(broker.id), broker.epoch, _BY_NAME, {tp: ask}, {})


async def _asked(world: SimWorld, call: AlterPartitionReceived) -> None:
    with suppress(OSError, ControllerdError):
        await world.ask(call)


RARE_ACTS: Final[Mapping[str, Callable[[SimWorld, Random], None]]] = {"election_race": election_race, "usurp": usurp}
"""The functions by the kind of the action."""


def draw_curtain(world: SimWorld, how: str, rng: Random) -> bool:
    """Let a process die for good; return whether one could."""
    instances = [each for each in world.instances.values() if each.is_running]
    active = [each for each in instances if each.is_active]
    brokers = [each for each in world.cluster.brokers.values() if each.is_serving]
    if how in {"kill", "terminate", "kill both"} and (len(instances) < 2 or not active):
        return False
    if how in {"kill both", "bury"} and len(brokers) < 2:
        return False
    if how == "terminate":
        active[0].terminate()
    elif how.startswith("kill"):
        active[0].kill()
    if how in {"kill both", "bury"}:
        rng.choice(brokers).crash(expires_after_s=rng.choice((_EXPIRES_SOON_S, None)))
    return how != ""
