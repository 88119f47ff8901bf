"""How fast reassignments may copy, as brokers take it: which configurations of brokers and topics say so.

PURE. As ``kafka-reassign-partitions --throttle`` does it: a rate on every broker that sends or receives, and on each
topic the replicas that are bound by it. And what was there before, so that the end leaves nothing behind.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from controllerd.core.model import BrokerId, ReplicaAssignment, TopicPartition

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
ALL_REPLICAS: Final = "*"
_LONGEST_MARK: Final = 80
_BROKERS: Final = "brokers/"
_TOPICS: Final = "topics/"

Config = Mapping[str, str]
Configs = Mapping[str, Config]
"""By entity below ``/config``, such as ``brokers/1``."""


class Bound(NamedTuple):
    """One value that we set. ``mark``: the value, or its digest where it is long; ``before``: None where none was."""

    mark: str
    before: str | None


Bounds = Mapping[str, Mapping[str, Bound]]


class ThrottleView(NamedTuple):
    """The throttle that we set for reassignments. ``set_ms``: wall clock; ``rate``: bytes per second and broker."""

    rate: int
    by: str
    set_ms: int
    partitions: frozenset[TopicPartition]
    """The reassignments that it is for; when all of them are over, it is removed."""


class Throttle(NamedTuple):
    """The values to remember until the throttle is removed."""

    view: ThrottleView
    bounds: Bounds


class Planned(NamedTuple):
    """The configurations that a throttle would set, and the values to remember; or why it cannot, by entity."""

    configs: Configs
    bounds: Bounds
    refusals: Mapping[str, str]


def mark_of(value: str) -> str:
    """The mark of a value, to find out later whether it is still ours."""
    return value if len(value) <= _LONGEST_MARK else f"sha256:{hashlib.sha256(value.encode()).hexdigest()}"


def wanted_bounds(
    rate: int, moves: Iterable[tuple[TopicPartition, ReplicaAssignment, tuple[BrokerId, ...]]]
) -> dict[str, dict[str, str]]:
    """The values that bound these moves, each a partition with its assignment and its target.

    A broker that has the partition sends, and one that does not receives; a replica that is being added receives.
    """
    leaders, followers, brokers = dict[str, set[str]](), dict[str, set[str]](), set[BrokerId]()
    for (topic, partition), current, target in moves:
        sources = set(current.replicas) - set(current.adding)
        receivers = set(target) - sources
        if receivers:
            brokers |= sources | receivers
            leaders.setdefault(topic, set()).update(f"{partition}:{broker}" for broker in sources)
            followers.setdefault(topic, set()).update(f"{partition}:{broker}" for broker in receivers)
    rates = {LEADER_RATE: str(rate), FOLLOWER_RATE: str(rate)}
    wanted = {f"{_BROKERS}{broker}": dict(rates) for broker in sorted(brokers)}
    for topic in sorted(leaders):
        replicas = {LEADER_REPLICAS: _list(leaders[topic]), FOLLOWER_REPLICAS: _list(followers[topic])}
        wanted[f"{_TOPICS}{topic}"] = replicas
    return wanted


def _list(replicas: Iterable[str]) -> str:
    return ",".join(sorted(replicas))


def plan_bounds(wanted: Configs, found: Configs, ours: Bounds, *, override: bool) -> Planned:
    """Put the wanted values into the configurations that were found.

    A value that another client set stays where it says the same or more, and is a refusal otherwise, unless
    ``override``. Ours are replaced, lists of ours grow.
    """
    configs, bounds, refusals = dict[str, Config](), dict[str, dict[str, Bound]](), dict[str, str]()
    for entity, values in wanted.items():
        config, kept = dict(found[entity]), dict(ours.get(entity, {}))
        for name, value in values.items():
            there, bound = config.get(name), kept.get(name)
            is_ours = bound is not None and there is not None and mark_of(there) == bound.mark
            new = _grown(name, there, value) if is_ours and there is not None else value
            if not is_ours and there in {value, ALL_REPLICAS}:
                continue
            if not is_ours and there is not None and not override:
                refusals[entity] = f"{name} is {there} already, and it was not set by this controller"
                continue
            kept[name] = Bound(mark_of(new), bound.before if is_ours and bound is not None else there)
            config[name] = new
        configs[entity], bounds[entity] = config, kept
    return Planned(configs, {**ours, **bounds}, refusals)


def _grown(name: str, there: str, more: str) -> str:
    is_list = name in {LEADER_REPLICAS, FOLLOWER_REPLICAS}
    return _list({*there.split(","), *more.split(",")}) if is_list else more


def lifted(config: Config, bounds: Mapping[str, Bound]) -> Config:
    """The configuration without the values that are still ours; a value that was changed since is left alone."""
    left = dict(config)
    for name, bound in bounds.items():
        if name not in left or mark_of(left[name]) != bound.mark:
            continue
        if bound.before is None:
            del left[name]
        else:
            left[name] = bound.before
    return left


def entity_names(entities: Iterable[str]) -> tuple[tuple[BrokerId, ...], tuple[str, ...]]:
    """The brokers and the topics among these entities."""
    named = list(entities)
    brokers = sorted(BrokerId(int(each.removeprefix(_BROKERS))) for each in named if each.startswith(_BROKERS))
    topics = sorted(each.removeprefix(_TOPICS) for each in named if each.startswith(_TOPICS))
    return tuple(brokers), tuple(topics)
