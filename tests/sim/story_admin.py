"""Actions that are requests of operators and tools, valid and invalid ones."""

import asyncio
from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from events.admin import FeatureUpdate, UpdateFeatures
from events.elections import ElectionType
from events.reassignments import ListPartitionReassignments
from tests.fakes.requester import ALICE
from tests.fakes.world import topic_id_of
from tests.sim.admin_client import MARKERS, PREFERRED, REASSIGNMENTS, TOPICS
from tests.sim.broker import SimBroker
from tests.sim.instance import SimInstance
from tests.sim.oracle_seen import Key
from tests.sim.plan import STORY_S
from tests.sim.world import SimWorld
from tests.sim.zk_wire import MULTI

_UNKNOWN: Final = 99
_RUBBISH: Final = (b"", b"{", b"\xff\xfe", b"[]", b'{"version":1,"partitions":7}', b'{"version":9,"partitions":[]}')
_LOOKS_EVERY_S: Final = 0.5

Act = Callable[[SimWorld, Random], None]


def later(world: SimWorld, delay_s: float, act: Callable[..., object], *arguments: object) -> None:
    """Call ``act`` after so many seconds, outside of all processes."""
    world.loop.call_later(delay_s, act, *arguments, context=world.loop.context_of(""))


# -- choices -----------------------------------------------------------------------------------------------------------


def existing(world: SimWorld) -> list[str]:
    """The existing topics."""
    return [topic for topic in world.topics if TOPICS + topic in world.server.nodes]


def _keys(world: SimWorld) -> list[Key]:
    return [(topic, number) for topic in existing(world) for number in range(len(world.topics[topic]))]


def _some(world: SimWorld, rng: Random, most: int = 4) -> list[Key]:
    """A few partitions, of one topic or of several."""
    keys = _keys(world)
    if keys and rng.random() < 0.5:
        topic = rng.choice(keys)[0]
        keys = [key for key in keys if key[0] == topic]
    return rng.sample(keys, min(len(keys), rng.randrange(1, most + 1)))


def _replicas(world: SimWorld, key: Key) -> list[int]:
    """The present replicas in the topic znode."""
    now = world.assignments(key[0])
    return list(now[key[1]]) if key[1] < len(now) else []


def _target(world: SimWorld, rng: Random, key: Key) -> list[int]:
    """Draw a target of a partition: mostly other brokers, live or not; sometimes the same ones, or nonsense."""
    brokers = sorted(world.cluster.brokers)
    dice = rng.random()
    if dice < 0.7:
        return rng.sample(brokers, rng.randrange(1, min(len(brokers), 4) + 1))
    now = _replicas(world, key)
    if dice < 0.78:
        return rng.sample(now, len(now))
    if dice < 0.85:
        return now
    return rng.choice(([], [brokers[0], brokers[0]], [-1], [brokers[0], _UNKNOWN], [2_000_000_000]))


def _moving(world: SimWorld) -> list[Key]:
    """The partitions that are being reassigned, by the topic znodes."""
    partitions = world.oracle.zookeeper.history.partitions
    return [key for key, each in sorted(partitions.items()) if each.is_being_reassigned]


def _broker(world: SimWorld, rng: Random) -> SimBroker:
    return rng.choice(list(world.cluster.brokers.values()))


# -- reassignments -----------------------------------------------------------------------------------------------------


def reassign_by_znode(world: SimWorld, rng: Random) -> None:
    """Write the reassignment znode as a tool does; if it exists, another tool waits, or changes it all the same."""
    exists = REASSIGNMENTS in world.server.nodes
    if exists and rng.random() < 0.7:
        return
    if rng.random() < 0.1:
        world.server.put(REASSIGNMENTS, rng.choice(_RUBBISH))
        later(world, rng.choice((1.0, 10.0)), _withdraw, world)
        return
    targets: dict[Key, list[int]] = {key: _target(world, rng, key) for key in _some(world, rng)}
    if rng.random() < 0.15:
        targets[rng.choice([("nowhere", 0), *((topic, _UNKNOWN) for topic in existing(world))])] = [1]
    # Existing entries stay in the file: a tool that changes it has read it.
    before = {key: list(target) for key, target in world.admin_client.asked.entries.items()}
    world.admin_client.write_reassignments({**before, **targets})


def _withdraw(world: SimWorld) -> None:
    """Remove an unreadable reassignment znode, as its writer does later."""
    if world.server.is_up and REASSIGNMENTS in world.server.nodes and world.admin_client.asked.is_unreadable_request:
        world.server.remove(REASSIGNMENTS)


def reassign_by_call(world: SimWorld, rng: Random) -> None:
    """Send AlterPartitionReassignments, and perhaps soon another one for the same partitions."""
    keys = _some(world, rng)
    if not keys:
        return
    world.admin_client.reassign({key: _target(world, rng, key) for key in keys})
    dice = rng.random()
    if dice < 0.25:
        later(world, rng.choice((0.01, 0.3, 2.0)), world.admin_client.reassign, dict.fromkeys(keys))
    elif dice < 0.5:
        later(world, rng.choice((0.01, 0.3, 2.0)), _again, world, rng, keys)


def _again(world: SimWorld, rng: Random, keys: list[Key]) -> None:
    there = [key for key in keys if TOPICS + key[0] in world.server.nodes]
    if there:
        world.admin_client.reassign({key: _target(world, rng, key) for key in there})


def cancel(world: SimWorld, rng: Random) -> None:
    """Cancel reassignments that are under way, or none."""
    keys = _moving(world) or _some(world, rng)
    if keys:
        world.admin_client.reassign(dict.fromkeys(rng.sample(keys, rng.randrange(1, len(keys) + 1))))


def override(world: SimWorld, rng: Random) -> None:
    """Replace the target of a reassignment that is under way."""
    keys = _moving(world)
    if keys:
        _again(world, rng, rng.sample(keys, rng.randrange(1, len(keys) + 1)))


def list_reassignments(world: SimWorld, rng: Random) -> None:
    """Send ListPartitionReassignments."""
    world.do(world.admin_client.call(ListPartitionReassignments(None), attempts=1))


# -- deletions ---------------------------------------------------------------------------------------------------------


def delete(world: SimWorld, rng: Random) -> None:
    """Mark a topic for deletion, existing or not; perhaps create one of its name afterwards."""
    topics = existing(world)
    if not topics or rng.random() < 0.1:
        world.admin_client.delete_topic("nothing")
        return
    topic = rng.choice(topics)
    world.admin_client.delete_topic(topic)
    if rng.random() < 0.5:
        world.do(_create_again(world, rng, topic))


async def _create_again(world: SimWorld, rng: Random, topic: str) -> None:
    """Create the topic as soon as the old one is gone: brokers refuse it before."""
    nodes = world.server.nodes
    while {TOPICS + topic, MARKERS + topic} & nodes.keys() or not world.server.is_up:
        if world.loop.time() > STORY_S:
            return
        await asyncio.sleep(_LOOKS_EVERY_S)
    await asyncio.sleep(rng.choice((0.0, 0.0, 3.0)))
    # A broker that still has a replica of the old topic would refuse the new one for its id (KIP-516).
    free = [each.id for each in world.cluster.brokers.values() if not any(key[0] == topic for key in each.disk)]
    if free and _may_create(world, topic):
        size = min(len(free), world.options.replication)
        fields = {"topic_id": topic_id_of(f"{topic} at {world.server.zxid}")} if rng.random() < 0.7 else {}
        world.write_topic(topic, [rng.sample(free, size) for _ in range(rng.choice((1, 3)))], **fields)


def _may_create(world: SimWorld, topic: str) -> bool:
    return world.server.is_up and TOPICS + topic not in world.server.nodes and world.loop.time() < STORY_S


def delete_while_moving(world: SimWorld, rng: Random) -> None:
    """Delete a topic right before, with, or after a reassignment of some of its partitions."""
    keys = _some(world, rng)
    if keys:
        world.admin_client.reassign({key: _target(world, rng, key) for key in keys})
        later(world, rng.choice((0.0, 0.05, 0.5)), delete_now, world, keys[0][0])


def delete_now(world: SimWorld, topic: str) -> None:
    """Mark a topic for deletion, if it exists and ZooKeeper can be written to."""
    if world.server.is_up and TOPICS + topic in world.server.nodes:
        world.admin_client.delete_topic(topic)


def delete_while_growing(world: SimWorld, rng: Random) -> None:
    """Add partitions to a topic that is being deleted, or right before."""
    topics = existing(world)
    if topics:
        topic = rng.choice(topics)
        first, second = (_grow, delete_now) if rng.random() < 0.3 else (delete_now, _grow)
        first(world, topic)
        later(world, rng.choice((0.001, 0.02, 0.2)), second, world, topic)


def _grow(world: SimWorld, topic: str) -> None:
    is_readable = bool(world.oracle.zookeeper.history.documents.get(topic))
    if world.server.is_up and is_readable:
        now = world.assignments(topic)
        brokers = sorted(world.cluster.brokers)
        world.write_topic(topic, [*now, brokers[: world.options.replication]])


# -- elections ---------------------------------------------------------------------------------------------------------


def prefer_by_znode(world: SimWorld, rng: Random) -> None:
    """Write the preferred election znode as a tool does, with unknown partitions, or unreadable."""
    if PREFERRED in world.server.nodes:
        return
    if rng.random() < 0.15:
        world.server.put(PREFERRED, rng.choice(_RUBBISH[:-1]))  # a newer format is left alone
    else:
        world.admin_client.write_preferred([*_some(world, rng), *([("nowhere", 0)] if rng.random() < 0.2 else [])])


def prefer_by_call(world: SimWorld, rng: Random) -> None:
    """Send ElectLeaders for preferred replicas."""
    world.admin_client.elect(ElectionType.PREFERRED, _some(world, rng))


def unclean_by_call(world: SimWorld, rng: Random) -> None:
    """Send ElectLeaders for unclean elections, at the risk of losing records."""
    world.admin_client.elect(ElectionType.UNCLEAN, _some(world, rng))


def unclean_topic(world: SimWorld, rng: Random) -> None:
    """Let a topic allow unclean elections, forbid them, or follow the default again."""
    topics = existing(world)
    if topics:
        world.admin_client.allow_unclean(f"topics/{rng.choice(topics)}", allowed=rng.choice((True, True, False, None)))


def unclean_default(world: SimWorld, rng: Random) -> None:
    """Let all brokers allow unclean elections, or no longer."""
    world.admin_client.allow_unclean("brokers/<default>", allowed=rng.choice((True, False, None)))


# -- brokers -----------------------------------------------------------------------------------------------------------


def log_dir(world: SimWorld, rng: Random) -> None:
    """Fail a log directory."""
    broker = _broker(world, rng)
    if broker.is_running and not broker.is_paused:
        broker.dirs.fail(rng.randrange(broker.dirs.count))


def storage_error(world: SimWorld, rng: Random) -> None:
    """Let the next deletions of replicas fail."""
    _broker(world, rng).dirs.refusals += rng.choice((1, 3))


def give_up_broker(world: SimWorld, rng: Random) -> None:
    """Kill a broker, and let an operator give it up; in some stories it returns all the same (KAFKA-10548)."""
    serving = [each for each in world.cluster.brokers.values() if each.is_serving]
    if len(serving) < 2:
        return
    broker = rng.choice(serving)
    broker.crash()
    if rng.random() < 0.5:
        world.admin_client.dead_for_good.add(broker.id)
    later(world, rng.choice((1.0, 10.0)), _forget, world, broker.id)


def _forget(world: SimWorld, broker: int) -> None:
    if not world.cluster.brokers[broker].is_running:
        world.do(world.admin_client.forget(broker))


def update_features(world: SimWorld, rng: Random) -> None:
    """Send UpdateFeatures for a feature that no broker has."""
    world.do(world.admin_client.call(UpdateFeatures(ALICE, {"nothing": FeatureUpdate(1, False)}), attempts=1))


def rubbish_notified(world: SimWorld, rng: Random) -> None:
    """Write a notification that is empty, or names an unknown broker."""
    folder = rng.choice(("log_dir_event_notification/log_dir_event_", "isr_change_notification/isr_change_"))
    body = rng.choice(
        (b"{", b'{"version":1}', b'{"version":1,"broker":99,"event":1}', b'{"version":1,"partitions":[]}')
    )
    world.server.put_sequential(f"/{folder}", body)
    world.server.put_sequential("/config/changes/config_change_", rng.choice((b"", b"{", b'{"version":2}')))


# -- faults during requests --------------------------------------------------------------------------------------------


def trouble_while_moving(world: SimWorld, rng: Random) -> None:
    """Cause a fault during a reassignment, which takes some tens of milliseconds from the first write on."""
    keys = _some(world, rng)
    if keys:
        world.admin_client.reassign({key: _target(world, rng, key) for key in keys})
        later(world, rng.uniform(0.0, 0.15), break_something, world, rng)


def trouble_while_deleting(world: SimWorld, rng: Random) -> None:
    """Cause a fault while a topic is deleted."""
    topics = existing(world)
    if topics:
        world.admin_client.delete_topic(rng.choice(topics))
        later(world, rng.uniform(0.0, 0.05), break_something, world, rng)


def break_something(world: SimWorld, rng: Random) -> None:
    """Kill, expire or cut off the active instance, or a broker."""
    rng.choice((_active_dies, _active_dies, _active_expires, _active_loses, _broker_goes, _broker_goes))(world, rng)


def _active(world: SimWorld) -> list[SimInstance]:
    return [each for each in world.instances.values() if each.is_active and each.is_running and each.kazoo.clients]


def _active_dies(world: SimWorld, rng: Random) -> None:
    for instance in _active(world):
        instance.kill()
        later(world, rng.choice((0.1, 1.0, 8.0)), world.start_instance, instance.number)


def _active_expires(world: SimWorld, rng: Random) -> None:
    for instance in _active(world):
        world.server.expire(instance.kazoo.client.session_id or 0)


def _active_loses(world: SimWorld, rng: Random) -> None:
    for instance in _active(world):
        lose = rng.choice((instance.kazoo.client.lose_reply, instance.kazoo.client.lose_request))
        lose(MULTI, rng.randrange(3), for_s=rng.choice((0.0, 0.0, 0.5)))


def _broker_goes(world: SimWorld, rng: Random) -> None:
    broker = _broker(world, rng)
    if broker.is_running and not broker.is_paused:
        if rng.random() < 0.5:
            broker.bounce(rng.choice((0.0, 0.0, 2.0)))
            return
        broker.crash(expires_after_s=rng.choice((0.05, None)))
        later(world, rng.choice((1.0, 8.0, 20.0)), restart, broker)


def restart(broker: SimBroker) -> None:
    """Start a broker, unless it was started already."""
    if not broker.is_running and not broker.is_starting:
        broker.restart()


ADMIN_ACTS: Final[Mapping[str, Act]] = {
    act.__name__: act
    for act in (
        reassign_by_znode,
        reassign_by_call,
        cancel,
        override,
        delete,
        delete_while_moving,
        delete_while_growing,
        prefer_by_znode,
        prefer_by_call,
        unclean_by_call,
        unclean_topic,
        unclean_default,
        log_dir,
        storage_error,
        give_up_broker,
        list_reassignments,
        update_features,
        rubbish_notified,
        trouble_while_moving,
        trouble_while_deleting,
    )
}
"""The functions by the kind of the action."""
