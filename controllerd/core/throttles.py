"""The throttle of reassignments: the configurations of brokers and topics by which brokers limit replication.

PURE. They are set as ``kafka-reassign-partitions --throttle`` does: a rate on every broker that sends or receives, and
on each topic the replicas that it limits. The replaced values are kept, so that the end restores them.
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
    """A value that the controller set: its ``mark`` (the value, or a digest of a long one), and the value before."""

    mark: str
    before: str | None


Bounds = Mapping[str, Mapping[str, Bound]]


class ThrottleView(NamedTuple):
    """The throttle of reassignments. ``set_ms``: wall clock; ``rate``: bytes per second and broker."""

    rate: int
    by: str
    set_ms: int
    partitions: frozenset[TopicPartition]
    """The partitions whose reassignment it limits; it is removed after the last one."""


class Throttle(NamedTuple):
    """The values to remember until the throttle is removed."""

    view: ThrottleView
    bounds: Bounds


class Planned(NamedTuple):
    """The configurations that a throttle sets and the values to remember, or the refusals by entity."""

    configs: Configs
    bounds: Bounds
    refusals: Mapping[str, str]


def mark_of(value: str) -> str:
    """Return the mark of a value, by which the controller finds out later whether the value is still its own."""
    return value if len(value) <= _LONGEST_MARK else f"sha256:{hashlib.sha256(value.encode()).hexdigest()}"


def wanted_bounds(
    rate: int, moves: Iterable[tuple[TopicPartition, ReplicaAssignment, tuple[BrokerId, ...]]]
) -> dict[str, dict[str, str]]:
    """Return the values that limit these moves, each a partition with its assignment and its target.

    A broker that has the partition sends data, and a broker of the target that does not have it receives data. A
    replica that is being added counts as receiving.
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

    A value of another client stays if it is the same or covers all replicas. Otherwise the entity is refused, or with
    ``override`` the value is replaced. The controller's own rates are replaced, and its own lists of replicas grow.
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
