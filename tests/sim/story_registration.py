"""Actions about the registration of an instance under ``/brokers/ids``."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from controllerd.core.model import Broker, BrokerId, Endpoint
from controllerd.zk.access import Create, Delete
from controllerd.zk.codecs import encode_controller_registration
from tests.sim.instance import FIRST_NODE_ID, SESSION_S
from tests.sim.world import SimWorld
from tests.sim.zk_wire import MULTI

_CONTROLLER: Final = "/controller"
_IDS: Final = "/brokers/ids"


def controller_deleted(world: SimWorld, rng: Random) -> None:
    """Delete /controller as an operator: the session of its holder lives on, and its registration for a moment.

    Sometimes the answers to the holder's next writes are lost, too.
    """
    if not world.server.is_up or _CONTROLLER not in world.server.nodes:
        return
    if rng.random() < 0.3:
        for each in world.instances.values():
            if each.is_active and each.kazoo.clients:
                each.kazoo.client.lose_reply(MULTI, rng.randrange(2), for_s=rng.choice((0.0, 0.5)))
    world.server.outsider(Delete(_CONTROLLER))


def registration_deleted(world: SimWorld, _rng: Random) -> None:
    """Delete a registration that is not a broker's, as an operator who cleans up."""
    if not world.server.is_up:
        return
    for name in world.server.children(_IDS) or []:
        if int(name) >= FIRST_NODE_ID:
            world.server.outsider(Delete(f"{_IDS}/{name}"))


def registration_left(world: SimWorld, rng: Random) -> None:
    """Create the registration of another session, as after an election that missed it; it never goes by itself."""
    number = rng.randrange(3)
    path = f"{_IDS}/{FIRST_NODE_ID + number}"
    if not world.server.is_up or path in world.server.nodes:
        return
    session = world.server.new_session(SESSION_S)
    entry = Broker(BrokerId(FIRST_NODE_ID + number), -1, (Endpoint("PLAINTEXT", "127.0.0.1", 19_000 + number),))
    session.commit(Create(path, encode_controller_registration(entry, "of old", timestamp_ms=0), ephemeral=True))


REGISTRATION_ACTS: Final[Mapping[str, Callable[[SimWorld, Random], None]]] = {
    "controller_deleted": controller_deleted,
    "registration_deleted": registration_deleted,
    "registration_left": registration_left,
}
"""The functions by the kind of the action."""
