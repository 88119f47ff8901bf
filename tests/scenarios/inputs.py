"""A controller with one bad input, and the check that the rest of the cluster is still served."""

import json
from typing import Final

from controllerd.core.model import Features
from controllerd.record.records import AlarmRecord, EventEnd, RefusedRecord
from tests.fakes.world import World

TOPIC: Final = "/brokers/topics/t"
STATE: Final = "/brokers/topics/t/partitions/0/state"
SOUND: Final = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2]}'


async def cluster(*, features: Features | None = None) -> World:
    """Three brokers, topics ``t`` and ``other`` with a partition each, and an active controller."""
    world = World(features=features)
    for broker in (1, 2, 3):
        world.register(broker)
    await world.start()
    for name in ("t", "other"):
        world.put_topic(name, {0: [1, 2]})
    await world.settle()
    world.forget()
    return world


async def fed(path: str, data: bytes | None) -> World:
    """Make the cluster, and write this znode."""
    world = await cluster()
    world.tree.put(path, data)
    return await world.settle()


async def fed_before_the_term(path: str, data: bytes | None) -> World:
    """Make the cluster, write this znode, and let a controller lead that finds it at its election."""
    world = await fed_in_silence(path, data)
    return await successor(world)


async def fed_in_silence(path: str, data: bytes | None) -> World:
    """Make the cluster, and write this znode without a notification."""
    world = await cluster()
    world.zk.on_watch = lambda _path, _fired: None
    world.tree.put(path, data)
    return world


async def successor(world: World) -> World:
    """Stop the controller without a resignation, and let another one lead."""
    world.zk.expire()
    other = World(tree=world.tree, session_id=2, node_id=world.c.node_id + 1)
    await other.start()
    return other


async def goes_on(world: World) -> None:
    """Check that the rest of the cluster is served: a topic is created, a leader dies, and there is no alarm."""
    assert world.c.is_active
    epoch = world.context.epoch
    if "/brokers/ids/1" not in world.tree.nodes:
        world.register(1)
        await world.settle()
    follower = max(world.context.live)
    world.put_topic("late", {0: [1, follower]})
    await world.settle()
    assert world.state("late")[0] == 1
    world.die(1)
    await world.settle()
    assert world.state("late")[0] == follower
    assert world.state("other")[0] == 2
    assert (world.c.is_active, world.context.epoch) == (True, epoch)
    assert {end.outcome for end in world.audit.of(EventEnd)} == {"done"}


def alarms(world: World) -> str:
    """The alarms of the controller, as one text."""
    return "\n".join(f"{alarm.what}: {alarm.detail}" for alarm in world.audit.of(AlarmRecord))


def reasons(world: World) -> str:
    """The reasons for which requests were not carried out, as one text."""
    return "\n".join(reason for record in world.audit.of(RefusedRecord) for reason in record.reasons)


def data(world: World, path: str) -> bytes | None:
    """The content of a znode."""
    return world.tree.nodes[path].data


def fields(world: World, path: str) -> dict[str, object]:
    """The content of a znode, as fields."""
    found: dict[str, object] = json.loads(data(world, path) or b"")
    return found
