"""An instance whose session expires while it stops must not contend again."""

from events.cluster import Expire, RegisterBrokerAndReelect, ShutdownEventThread
from tests.fakes.world import World


async def test_an_instance_that_stops_does_not_lead_again_because_its_session_expired_meanwhile(world: World) -> None:
    def next_session() -> None:
        world.zk.reconnect_as(77)
        world.queue.put(RegisterBrokerAndReelect())

    world.c.role.session_expired = next_session
    world.queue.clear_and_put(ShutdownEventThread())  # ``Instance._stop``, while an event is being handled
    world.zk.expire()
    world.queue.clear_and_put(Expire(1))  # ``ZooKeeperSession.declare_lost``

    await world.settle()

    assert not world.c.is_active
