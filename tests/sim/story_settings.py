"""Actions that configure brokers anew: each change takes a restart of the broker."""

from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Final

from controllerd.core.cluster_settings import UNCLEAN
from tests.sim.broker import PROTOCOL, SimBroker
from tests.sim.oracle_seen import Key
from tests.sim.story_admin import delete_now, existing, later, restart
from tests.sim.story_waiting import others_die
from tests.sim.world import SimWorld

_MOVES_AFTER_S: Final = 0.5
_ALONE_AFTER_S: Final = 6.0
_COMES_AFTER_S: Final = 0.3
_RETURNS_AFTER_S: Final = 15.0
_COMES_SILENT_AFTER_S: Final = 7.5
_OTHERS_RETURN_AFTER_S: Final = 3.0
_DIES_UNANSWERED_AFTER_S: Final = 11.0
_DIFFERENT: Final = (
    ("num.partitions", "7"),
    ("request.timeout.ms", "20000"),
    ("controller.quota.window.num", "5"),
    ("leader.imbalance.check.interval.seconds", "600"),
)
FORBIDDEN: Final = (
    ("authorizer.class.name", "kafka.security.authorizer.AclAuthorizer"),
    ("create.topic.policy.class.name", "org.example.Policy"),
    ("zookeeper.metadata.migration.enable", "true"),
)
"""Settings with which no instance must lead."""
_FORBIDS_S: Final = (4.0, 8.0)
_EXPIRES_SOON_S: Final = 0.05
_ALLOWS_AFTER_S: Final = 20.0


def protocol_raised(world: SimWorld, _rng: Random) -> None:
    """Take the next step of a rolling upgrade: one more broker comes back with the protocol version of its release."""
    brokers = world.cluster.brokers.values()
    behind = [broker for broker in brokers if broker.configured[PROTOCOL] != broker.newest_protocol]
    if behind:
        behind[0].configured[PROTOCOL] = behind[0].newest_protocol
        _restart(behind[0])


def protocol_lowered(world: SimWorld, rng: Random) -> None:
    """Start a broker with an outdated file."""
    broker = rng.choice(list(world.cluster.brokers.values()))
    broker.configured[PROTOCOL] = rng.choice(("2.7-IV2", "2.8-IV1"))
    _restart(broker)


def setting_differs(world: SimWorld, rng: Random) -> None:
    """Let a broker come back with another value than the others."""
    broker, (name, value) = rng.choice(list(world.cluster.brokers.values())), rng.choice(_DIFFERENT)
    if broker.configured.pop(name, None) is None:
        broker.configured[name] = value
    _restart(broker)


def switch_moves(world: SimWorld, rng: Random) -> None:
    """Turn unclean elections off in the file of another broker, which last answered that it allows them.

    Then it is the only live replica of a partition, and not in the ISR. Either it was down, or it has fetched nothing
    and bounces; in some stories an instance starts meanwhile, with the earlier answers of brokers on its disk.
    """
    clean = world.cluster.brokers[world.options.only_clean]
    followers = _followers(world, clean)
    if not followers:
        return
    key, next_one = rng.choice(followers)
    world.admin_client.files_allow(allowed=True)
    clean.configured[UNCLEAN] = "true"
    next_one.is_stuck = bounces = rng.random() < 0.5
    next_one.crash(expires_after_s=0.05)
    later(world, _MOVES_AFTER_S, _restart, clean)
    if bounces:
        later(world, _MOVES_AFTER_S, restart, next_one)
    later(world, _ALONE_AFTER_S, _leave_alone, world, rng, key, next_one)


def _followers(world: SimWorld, but: SimBroker) -> list[tuple[Key, SimBroker]]:
    """The live replicas that do not lead, without the ones on this broker, each with its partition."""
    partitions = world.oracle.zookeeper.history.partitions
    found = [
        (key, world.cluster.brokers.get(number))
        for key, partition in sorted(partitions.items())
        if key[0] in existing(world) and partition.state is not None
        for number in partition.replicas or ()
        if number not in {but.id, partition.state.leader}
    ]
    return [(key, each) for key, each in found if each is not None and each.is_running and not each.is_paused]


def _leave_alone(world: SimWorld, rng: Random, key: Key, last: SimBroker) -> None:
    """Kill all other replicas, and start this broker with unclean elections turned off."""
    last.configured[UNCLEAN] = "false"
    others_die(world, key, last, return_after_s=_RETURNS_AFTER_S)
    if rng.random() < 0.4:
        _start_anew(world, rng)
    later(world, _COMES_AFTER_S, _comes, last)
    later(world, _RETURNS_AFTER_S, setattr, last, "is_stuck", False)


def _start_anew(world: SimWorld, rng: Random) -> None:
    for number, instance in list(world.instances.items()):
        if instance.is_active and instance.is_running:
            instance.kill()
            later(world, rng.choice((0.1, 0.6, 2.0)), world.start_instance, number)


def _comes(broker: SimBroker) -> None:
    if broker.is_running:
        _restart(broker)
    else:
        restart(broker)


def switch_dies_before_its_answer(world: SimWorld, rng: Random) -> None:
    """Let the only member of an ISR come back with unclean elections turned off, and die before any instance knows it.

    Every other broker allows them, and has answered so. This broker answers no instance until it has returned again.
    """
    clean = world.cluster.brokers[world.options.only_clean]
    followers = _followers(world, clean)
    if not followers:
        return
    key, last = rng.choice(followers)
    world.admin_client.files_allow(allowed=True)
    clean.configured[UNCLEAN] = "true"
    later(world, _MOVES_AFTER_S, _restart, clean)
    later(world, _ALONE_AFTER_S, partial(others_die, world, key, last, return_after_s=_OTHERS_RETURN_AFTER_S))
    later(world, _COMES_SILENT_AFTER_S, _comes_silent, last)
    later(world, _DIES_UNANSWERED_AFTER_S, _dies_forbidding, last)
    later(world, _RETURNS_AFTER_S, _speaks_again, last)


def _comes_silent(broker: SimBroker) -> None:
    broker.configured[UNCLEAN] = "false"
    broker.is_silent = True
    _restart(broker)


def _speaks_again(broker: SimBroker) -> None:
    broker.is_silent = False
    restart(broker)


def forbidden_setting(world: SimWorld, rng: Random) -> None:
    """Let a broker come back with a setting with which no instance must lead, and die: the setting still counts.

    The broker returns without the setting after a while, and at the latest when faults end.
    """
    serving = [each for each in world.cluster.brokers.values() if each.is_serving]
    if serving:
        broker = rng.choice(serving)
        broker.configured.update(dict([rng.choice(FORBIDDEN)]))
        world.admin_client.forbade.add(broker.id)
        _restart(broker)
        later(world, rng.choice(_FORBIDS_S), _dies_forbidding, broker)
        later(world, _ALLOWS_AFTER_S, allow_again, world, broker)


def _dies_forbidding(broker: SimBroker) -> None:
    if broker.is_running and not broker.is_paused:
        broker.crash(expires_after_s=_EXPIRES_SOON_S)


def allow_again(world: SimWorld, broker: SimBroker) -> None:
    """Remove the settings with which no instance must lead, and start the broker if it has or had them.

    A broker that an operator gave up returns, too: otherwise no instance could ever lead again. So does a broker that
    was back without the settings and died, because an instance may not have its answer from in between.
    """
    running = broker.life.configured if broker.life is not None else {}
    is_dead = broker.id in world.admin_client.forbade and not broker.is_running
    if not is_dead and not any(name in broker.configured or name in running for name, _ in FORBIDDEN):
        return
    for name, _ in FORBIDDEN:
        broker.configured.pop(name, None)
    world.admin_client.dead_for_good.discard(broker.id)
    if broker.is_running:
        _restart(broker)
    else:
        restart(broker)


def delete_while_unknown(world: SimWorld, rng: Random) -> None:
    """Mark a topic for deletion while no broker has answered whether topics may be deleted."""
    if topics := existing(world):
        delete_now(world, rng.choice(topics))


def _restart(broker: SimBroker) -> None:
    """Restart the broker at once, if it runs; the next start reads the file in any case."""
    if broker.is_running and not broker.is_paused:
        broker.bounce()


SETTINGS_ACTS: Final[Mapping[str, Callable[[SimWorld, Random], None]]] = {
    "protocol_raised": protocol_raised,
    "protocol_lowered": protocol_lowered,
    "setting_differs": setting_differs,
    "switch_moves": switch_moves,
    "switch_dies_unheard": switch_dies_before_its_answer,  # the kind is in the plans of seeds, so it keeps its name
    "forbidden_setting": forbidden_setting,
    "delete_while_unknown": delete_while_unknown,
}
