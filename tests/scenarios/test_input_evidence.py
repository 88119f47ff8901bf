"""Every rejected znode is kept in the audit log (``scenarios.md`` section 7): path, version, digest, reason, bytes."""

import base64
import hashlib
from typing import Final

import pytest

from controllerd.record.records import RejectedRecord
from tests.fakes.world import World, tp
from tests.scenarios.inputs import STATE, TOPIC, cluster, data, fed, fed_before_the_term, goes_on

CONTENT: Final = b'\xff{"half'
REQUESTS: Final = ["/admin/reassign_partitions", "/admin/preferred_replica_election"]
NOTES: Final = [
    "/isr_change_notification/isr_change_0000000001",
    "/log_dir_event_notification/log_dir_event_0000000001",
    "/config/changes/config_change_0000000001",
]
AT_A_START: Final = [STATE, "/config/topics/t", "/feature"]


def kept(world: World, path: str) -> RejectedRecord:
    """The only record in the audit log about a rejected znode."""
    (record,) = [record for record in world.audit.of(RejectedRecord) if record.path == path]
    return record


def is_what_was_found(record: RejectedRecord, content: bytes = CONTENT) -> bool:
    """Whether digest, size, bytes and reason are recorded, and right."""
    digest = hashlib.sha256(content).hexdigest()
    found = (record.sha256, record.size, base64.b64decode(record.content))
    return found == (digest, len(content), content) and bool(record.reason)


@pytest.mark.parametrize("path", [TOPIC, "/brokers/topics/bad", "/brokers/ids/3", *REQUESTS, *NOTES])
async def test_input_27_an_unreadable_znode_is_kept_as_it_was_found(path: str) -> None:
    world = await fed(path, CONTENT)
    assert is_what_was_found(kept(world, path))
    await goes_on(world)


@pytest.mark.parametrize("path", AT_A_START)
async def test_input_27_a_znode_that_a_new_controller_cannot_read_is_kept_as_it_was_found(path: str) -> None:
    world = await fed_before_the_term(path, CONTENT)
    world.die(1)  # the settings of a topic are read when a leader must be elected
    world.die(2)
    await world.settle()
    assert is_what_was_found(kept(world, path))


@pytest.mark.parametrize("path", ["/controller", "/controller_epoch"])
async def test_input_27_an_unreadable_role_is_kept_as_it_was_found(path: str) -> None:
    world = World()
    world.tree.put("/controller_epoch", b"3")
    world.tree.put(path, CONTENT)
    await world.start()
    assert is_what_was_found(kept(world, path))


async def test_input_1_the_version_of_what_was_rejected_is_kept() -> None:
    world = await fed(TOPIC, CONTENT)
    assert kept(world, TOPIC).version == world.tree.nodes[TOPIC].version


async def test_input_11_a_state_that_is_looked_at_again_and_again_is_written_down_once_for_each_content() -> None:
    world = await fed_before_the_term(STATE, CONTENT)
    for _ in range(3):
        await fire(world)
    assert is_what_was_found(kept(world, STATE))
    world.tree.put(STATE, b"{")
    await fire(world)
    assert [record.size for record in world.audit.of(RejectedRecord)] == [len(CONTENT), 1]
    assert tp("t").state_path in world.snapshot.quarantine


async def fire(world: World) -> None:
    """Let the timers fire that are set."""
    for event in world.timers.fire():
        world.queue.put(event)
    await world.settle()


async def test_passwords_are_not_kept() -> None:
    world = await cluster()
    path = "/config/brokers/<default>"
    world.tree.put(path, b'{"version":1,"config":{"ssl.keystore.password":"secret"')
    world.tree.put("/config/changes/config_change_0000000001", b'{"version":2,"entity_path":"brokers/<default>"}')
    await world.settle()
    record = kept(world, path)
    assert (record.content, record.size) == ("", len(data(world, path) or b""))
    assert "secret" not in str(record)


async def test_of_a_very_large_znode_the_beginning_is_kept() -> None:
    content = b"x" * 500_000
    world = await fed(TOPIC, content)
    record = kept(world, TOPIC)
    assert (len(base64.b64decode(record.content)), record.size) == (16_384, 500_000)
    assert record.sha256 == hashlib.sha256(content).hexdigest()
