"""The parts of stories in which brokers are configured anew: each change takes a restart of the broker."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from tests.sim.broker import PROTOCOL, SimBroker
from tests.sim.world import SimWorld

_DIFFERENT: Final = (
    ("num.partitions", "7"),
    ("request.timeout.ms", "20000"),
    ("controller.quota.window.num", "5"),
    ("leader.imbalance.check.interval.seconds", "600"),
)


def protocol_raised(world: SimWorld, _rng: Random) -> None:
    """The next step of a rolling upgrade: one more broker comes back with the protocol version of its release."""
    brokers = world.cluster.brokers.values()
    behind = [broker for broker in brokers if broker.configured[PROTOCOL] != broker.newest_protocol]
    if behind:
        behind[0].configured[PROTOCOL] = behind[0].newest_protocol
        _restart(behind[0])


def protocol_lowered(world: SimWorld, rng: Random) -> None:
    """An operator starts a broker with an outdated file."""
    broker = rng.choice(list(world.cluster.brokers.values()))
    broker.configured[PROTOCOL] = rng.choice(("2.7-IV2", "2.8-IV1"))
    _restart(broker)


def setting_differs(world: SimWorld, rng: Random) -> None:
    """A broker comes back with another value than the others."""
    broker, (name, value) = rng.choice(list(world.cluster.brokers.values())), rng.choice(_DIFFERENT)
    if broker.configured.pop(name, None) is None:
        broker.configured[name] = value
    _restart(broker)


def _restart(broker: SimBroker) -> None:
    """Restart the broker at once, if it runs; the next start reads the file in any case."""
    if broker.is_running and not broker.is_paused:
        broker.bounce()


SETTINGS_ACTS: Final[Mapping[str, Callable[[SimWorld, Random], None]]] = {
    "protocol_raised": protocol_raised,
    "protocol_lowered": protocol_lowered,
    "setting_differs": setting_differs,
}
