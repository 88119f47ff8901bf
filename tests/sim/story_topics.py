"""Calls for topics: created, extended and deleted, valid and invalid, alone and in a race."""

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Final

from controllerd.core.model import BrokerId
from controllerd.core.partition_growth import GrowthRequest
from controllerd.core.scram import ScramChange, ScramCredential
from controllerd.core.topic_creation import DEFAULT_COUNT, TopicRequest
from tests.sim.admin_client import TOPICS
from tests.sim.oracle_calls import UNDERSTOOD_SINCE
from tests.sim.plan import STORY_S
from tests.sim.story_admin import Act, break_something, existing, later
from tests.sim.topic_client import CLIENT, USER
from tests.sim.world import SimWorld

NAMES: Final = ("c0", "c1", "c2", "c3", "c.4", "c_4")
"""Few names, so that they are used again; the last two collide."""
_UNKNOWN: Final = 99
_RATE: Final = "controller_mutation_rate"
_RATES: Final = ("0.05", "1", "20", None, "much")
_UNCLEAN: Final = "unclean.leader.election.enable"
_MECHANISM: Final = 1
_SOON: Final = (0.0, 0.0, 0.001, 0.003, 0.01)
_LOOKS_EVERY_S: Final = 2.0

Replicas = tuple[BrokerId, ...]


# -- arguments of calls ------------------------------------------------------------------------------------------------


def _brokers(world: SimWorld, rng: Random, count: int) -> Replicas:
    return tuple(map(BrokerId, rng.sample(sorted(world.cluster.brokers), count)))


def _factor(world: SimWorld, rng: Random) -> int:
    return rng.randrange(1, min(len(world.cluster.brokers), 3) + 1)


def _bad_replicas(world: SimWorld, rng: Random) -> Replicas:
    first = min(world.cluster.brokers)
    bad = ((), (first, first), (-1,), (first, 2_000_000_000))
    return tuple(map(BrokerId, rng.choice(bad)))


def _topic(world: SimWorld, rng: Random, name: str) -> TopicRequest:
    """Draw a topic, mostly a valid one."""
    dice, configs = rng.random(), _configs(rng)
    if dice < 0.65:
        return TopicRequest(name, rng.choice((DEFAULT_COUNT, 1, 2, 3)), _factor(world, rng), configs=configs)
    if dice < 0.75:
        counts = ((0, 1), (1, 0), (1, len(world.cluster.brokers) + 1), (DEFAULT_COUNT, DEFAULT_COUNT))
        return TopicRequest(name, *rng.choice(counts), configs=configs)
    factor = _factor(world, rng)
    given = {number: _brokers(world, rng, factor) for number in range(rng.choice((1, 2)))}
    if dice > 0.93:
        given[rng.choice((0, 1, 5))] = _bad_replicas(world, rng)
    return TopicRequest(name, assignments=given, configs=configs)


def _configs(rng: Random) -> Mapping[str, str]:
    dice = rng.random()
    if dice < 0.6:
        return {}
    if dice < 0.7:
        return dict([sorted(UNDERSTOOD_SINCE)[int((dice - 0.6) * 10 * len(UNDERSTOOD_SINCE))]])
    return {_UNCLEAN: rng.choice(("true", "false"))} if dice < 0.93 else {"retention.ms": "soon"}


def _growth(world: SimWorld, rng: Random, topic: str) -> GrowthRequest:
    known = world.topics.get(topic, [[1]])
    total = max(0, len(known) + rng.choice((-1, 0, 1, 1, 1, 2, 2)))
    if rng.random() < 0.6:
        return GrowthRequest(topic, total)
    rows = max(1, total - len(known)) + (1 if rng.random() < 0.1 else 0)
    factor = min(len(known[0]), len(world.cluster.brokers))
    given = [_brokers(world, rng, factor) for _ in range(rows)]
    if rng.random() < 0.2:
        given[0] = _bad_replicas(world, rng)
    return GrowthRequest(topic, total, tuple(given))


def _named(world: SimWorld, rng: Random) -> str:
    """Draw a topic, mostly an existing one."""
    topics = existing(world)
    return rng.choice(topics) if topics and rng.random() < 0.9 else rng.choice(NAMES)


# -- calls -------------------------------------------------------------------------------------------------------------


def create_by_call(world: SimWorld, rng: Random) -> None:
    """Send CreateTopics for a few topics, new ones and others, valid and invalid."""
    names = rng.sample(NAMES, rng.choice((1, 1, 2, 3)))
    if rng.random() < 0.15:
        names.append(rng.choice(sorted(world.topics)))
    wanted = [_topic(world, rng, name) for name in dict.fromkeys(names)]
    validates = rng.random() < 0.12
    world.do(world.topic_client.create(wanted, validates=validates, attempts=rng.choice((1, 4))))


def create_twice(world: SimWorld, rng: Random) -> None:
    """Let two clients create different topics of one name at the same time."""
    name = rng.choice(NAMES)
    for _ in range(2):
        world.do(world.topic_client.create([_topic(world, rng, name)]))


def create_against_outsider(world: SimWorld, rng: Random) -> None:
    """Let a broker create the same topic, or a tool write a configuration for it, at about the same time."""
    name = rng.choice(NAMES)
    world.do(world.topic_client.create([_topic(world, rng, name)], attempts=2))
    later(world, rng.choice(_SOON), rng.choice((_create_now, _configure_now)), world, rng, name)


def _create_now(world: SimWorld, rng: Random, name: str) -> None:
    if world.server.is_up and TOPICS + name not in world.server.nodes:
        world.write_topic(name, [_brokers(world, rng, _factor(world, rng))])


def _configure_now(world: SimWorld, rng: Random, name: str) -> None:
    if world.server.is_up:
        world.admin_client.allow_unclean(f"topics/{name}", allowed=False)


def grow_by_call(world: SimWorld, rng: Random) -> None:
    """Send CreatePartitions for a topic or two."""
    names = {_named(world, rng) for _ in range(rng.choice((1, 1, 2)))}
    wanted = [_growth(world, rng, name) for name in sorted(names)]
    validates = rng.random() < 0.12
    world.do(world.topic_client.grow(wanted, validates=validates, attempts=rng.choice((1, 4))))


def grow_against_outsider(world: SimWorld, rng: Random) -> None:
    """Let a broker extend the same topic at about the same time."""
    name = _named(world, rng)
    world.do(world.topic_client.grow([_growth(world, rng, name)]))
    later(world, rng.choice(_SOON), _grow_now, world, rng, name)


def _grow_now(world: SimWorld, rng: Random, name: str) -> None:
    if world.server.is_up and world.oracle.zookeeper.history.documents.get(name):
        now = world.assignments(name)
        world.write_topic(name, [*now, _brokers(world, rng, min(len(now[0]), len(world.cluster.brokers)))])


def delete_by_call(world: SimWorld, rng: Random) -> None:
    """Send DeleteTopics, of topics that exist or not, and perhaps once more."""
    names = sorted({_named(world, rng) for _ in range(rng.choice((1, 1, 2)))})
    world.do(world.topic_client.delete(names, attempts=rng.choice((1, 4))))
    if rng.random() < 0.2:
        world.do(world.topic_client.delete(names))


def recreate_by_call(world: SimWorld, rng: Random) -> None:
    """Delete a topic, and try to create one of its name until that succeeds."""
    world.do(_recreated(world, rng, _named(world, rng)))


async def _recreated(world: SimWorld, rng: Random, name: str) -> None:
    await world.topic_client.delete([name], attempts=3)
    wanted = TopicRequest(name, rng.choice((1, 2)), _factor(world, rng))
    while world.loop.time() < STORY_S and not await world.topic_client.create([wanted]):  # noqa: ASYNC110  # virtual time
        await asyncio.sleep(_LOOKS_EVERY_S)


def mutation_quota(world: SimWorld, rng: Random) -> None:
    """Set, remove or garble a quota of partition creations and deletions."""
    entity = rng.choice((f"users/{USER}", f"users/{USER}/clients/{CLIENT}", f"clients/{CLIENT}", "users/<default>"))
    rate = rng.choice(_RATES)
    world.topic_client.judge.has_quota = True
    world.admin_client.configure(entity, {} if rate is None else {_RATE: rate})


def credentials(world: SimWorld, rng: Random) -> None:
    """Send AlterUserScramCredentials of a user who may have a quota."""
    new = ScramCredential(_MECHANISM, rng.choice((4096, 4096, 1)), b"salt", rng.randbytes(8))
    change = ScramChange((_MECHANISM,)) if rng.random() < 0.3 else ScramChange(upsertions=(new,))
    world.do(world.topic_client.change_credentials({USER: change}))


# -- faults during calls -----------------------------------------------------------------------------------------------


def trouble_while_creating(world: SimWorld, rng: Random) -> None:
    """Cause a fault while topics are created: between the write and their start, for example."""
    wanted = [_topic(world, rng, name) for name in rng.sample(NAMES, rng.choice((1, 3)))]
    world.do(world.topic_client.create(wanted, attempts=rng.choice((1, 3))))
    later(world, rng.uniform(0.0, 0.04), break_something, world, rng)


def trouble_while_growing(world: SimWorld, rng: Random) -> None:
    """Cause a fault while partitions are added."""
    name = _named(world, rng)
    total = len(world.topics.get(name, ())) + rng.choice((1, 2))
    world.do(world.topic_client.grow([GrowthRequest(name, total)], attempts=rng.choice((1, 3))))
    later(world, rng.uniform(0.0, 0.04), break_something, world, rng)


TOPIC_ACTS: Final[Mapping[str, Act]] = {
    act.__name__: act
    for act in (
        create_by_call,
        create_twice,
        create_against_outsider,
        grow_by_call,
        grow_against_outsider,
        delete_by_call,
        recreate_by_call,
        mutation_quota,
        credentials,
        trouble_while_creating,
        trouble_while_growing,
    )
}
"""The functions by the kind of the action."""
