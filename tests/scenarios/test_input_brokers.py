"""Bad registrations (``scenarios.md`` section 7): one broker is left out, the others are served."""

import json
from typing import Final

import pytest

from tests.fakes.world import World, registration
from tests.scenarios.inputs import alarms, cluster, data, fed, goes_on, successor

GOOD: Final[dict[str, object]] = json.loads(registration(4, 9004))


def changed(**fields: object) -> bytes:
    """A registration with some changed fields."""
    return json.dumps(GOOD | fields).encode()


BAD: Final = {
    "no json": b"{",
    "empty": b"",
    "an endpoint that is none": changed(endpoints=["PLAINTEXT//127.0.0.1:9004"]),
    "no endpoints": changed(endpoints=[]),
    "a listener without protocol": changed(endpoints=["OTHER://127.0.0.1:9004"]),
    "an unknown protocol": changed(listener_security_protocol_map={"PLAINTEXT": "CARRIER_PIGEON"}),
    "a format of later": changed(version=6),
    "port zero": changed(endpoints=["PLAINTEXT://127.0.0.1:0"]),
    "a port too high": changed(endpoints=["PLAINTEXT://127.0.0.1:65536"]),
}


@pytest.mark.parametrize("flaw", BAD)
async def test_input_18_a_broker_that_cannot_be_used_is_left_out_with_an_alarm(flaw: str) -> None:
    world = await fed("/brokers/ids/4", BAD[flaw])
    assert sorted(world.context.brokers) == [1, 2, 3]
    assert "/brokers/ids/4" in world.snapshot.quarantine
    assert "broker registration cannot be used" in alarms(world)
    await goes_on(world)


@pytest.mark.parametrize("flaw", BAD)
async def test_input_18_a_broker_that_cannot_be_used_stops_no_new_controller(flaw: str) -> None:
    world = await successor(await fed("/brokers/ids/4", BAD[flaw]))
    assert sorted(world.context.brokers) == [1, 2, 3]
    await goes_on(world)


async def test_input_18_a_broker_that_was_mended_is_taken_in() -> None:
    world = await fed("/brokers/ids/4", b"{")
    world.tree.put("/brokers/ids/4", registration(4, 9004))
    await world.settle()
    assert sorted(world.context.brokers) == [1, 2, 3, 4]
    await goes_on(world)


async def test_input_18_a_broker_that_serves_goes_on_when_its_registration_turns_bad() -> None:
    world = await fed("/brokers/ids/2", b"{")
    assert sorted(world.context.brokers) == [1, 2, 3]
    assert world.state("t")[2] == [1, 2]
    assert "broker registration cannot be used" in alarms(world)
    await goes_on(world)


@pytest.mark.parametrize("name", ["two", "-1", "01", "4294967296", "1.5", "½", "4 "])
async def test_input_19_a_registration_under_something_that_is_no_id_is_ignored(name: str) -> None:
    world = await fed(f"/brokers/ids/{name}", registration(4, 9004))
    assert sorted(world.context.brokers) == [1, 2, 3]
    assert f"/brokers/ids/{name}" in alarms(world)
    await goes_on(world)


async def test_input_20_two_brokers_at_one_address_are_both_served_with_an_alarm() -> None:
    world = await cluster()
    world.register(4, port=9003)
    await world.settle()
    assert sorted(world.context.brokers) == [1, 2, 3, 4]
    assert "brokers 3 and 4 say that they listen at 127.0.0.1:9003" in alarms(world)
    assert {request.broker_epoch for request in world.channels.to(4)} == {
        world.context.epochs()[max(world.context.live)]
    }
    await goes_on(world)


async def test_input_20_one_address_alone_is_no_alarm() -> None:
    world = await cluster()
    world.bounce(3)
    await world.settle()
    assert alarms(world) == ""
    assert data(world, "/brokers/ids/3") == registration(3, 9003)
    await goes_on(world)


async def test_input_20_a_new_controller_says_it_too() -> None:
    world: World = await cluster()
    world.register(4, port=9003)
    other = await successor(world)
    assert "brokers 3 and 4 say that they listen at 127.0.0.1:9003" in alarms(other)
    await goes_on(other)
