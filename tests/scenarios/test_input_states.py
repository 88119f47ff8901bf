"""Bad partition states (``scenarios.md`` section 7): one partition is left alone, the others are served."""

from typing import Final

import pytest

from controllerd.core.model import PartitionState
from controllerd.record.records import AlarmRecord, EventEnd
from controllerd.zk.codecs import encode_isr_change
from events.replicas import IsrChangeNotification
from tests.fakes.world import tp
from tests.scenarios.inputs import (
    SOUND,
    STATE,
    alarms,
    data,
    fed,
    fed_before_the_term,
    fed_in_silence,
    goes_on,
    reasons,
    successor,
)

UNREADABLE: Final = [
    b"",
    b"{",
    b"not json",
    b"{}",
    b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0}',
    b'{"controller_epoch":1,"version":1,"leader_epoch":0,"isr":[1,2]}',
    b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":"1,2"}',
    b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2],"leader_recovery_state":25}',
    b'{"controller_epoch":1,"leader":1,"version":7,"leader_epoch":0,"isr":[1,2]}',
]


@pytest.mark.parametrize("content", UNREADABLE)
async def test_input_11_a_state_that_cannot_be_understood_stops_no_failover_history_59(content: bytes) -> None:
    world = await fed_before_the_term(STATE, content)
    assert data(world, STATE) == content
    assert STATE in world.snapshot.quarantine
    assert world.context.partition_state(tp("t")) is PartitionState.NON_EXISTENT
    await goes_on(world)


@pytest.mark.parametrize("content", UNREADABLE)
async def test_input_11_a_state_that_turns_bad_is_left_alone_when_its_leader_dies_history_59(content: bytes) -> None:
    world = await fed(STATE, content)
    world.die(1)
    await world.settle()
    assert data(world, STATE) == content
    assert STATE in world.snapshot.quarantine
    await goes_on(world)


async def test_input_11_a_state_that_is_mended_is_served_again() -> None:
    world = await fed_before_the_term(STATE, b"{")
    world.tree.put(STATE, SOUND)
    for event in world.timers.fire():
        world.queue.put(event)
    await world.settle()
    assert world.snapshot.quarantine == {}
    assert world.context.partition_state(tp("t")) is PartitionState.ONLINE
    await goes_on(world)


UNSOUND: Final = {
    "the leader is not in the ISR": b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":4,"isr":[2]}',
    "no ISR member is among the replicas": b'{"controller_epoch":1,"leader":9,"version":1,"leader_epoch":4,"isr":[9]}',
    "the ISR is empty": b'{"controller_epoch":1,"leader":-1,"version":1,"leader_epoch":4,"isr":[]}',
}


@pytest.mark.parametrize("flaw", UNSOUND)
async def test_input_12_a_state_that_is_not_sound_is_offline_with_an_alarm(flaw: str) -> None:
    world = await fed_before_the_term(STATE, UNSOUND[flaw])
    assert flaw in alarms(world)
    led_by_the_rule = flaw == "the leader is not in the ISR"
    assert (world.state("t")[0] == 2) is led_by_the_rule
    assert (data(world, STATE) == UNSOUND[flaw]) is not led_by_the_rule
    await goes_on(world)


async def test_input_12_only_an_election_changes_a_leader_outside_its_isr() -> None:
    """Both ISR members are dead: the ISR must not shrink behind a leader that was never in it."""
    content = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":4,"isr":[2,3]}'
    world = await fed_in_silence(STATE, content)
    for broker in (2, 3):
        world.tree.remove(f"/brokers/ids/{broker}")
    other = await successor(world)
    assert data(other, STATE) == content
    assert "is not in the ISR" in reasons(other)
    assert other.c.is_active
    assert "invariant" not in alarms(other)


async def test_input_13_a_state_of_a_later_controller_ends_the_term_before_anything_is_written() -> None:
    """Another controller leads, and we have not noticed: no request of ours would be fenced before the first write."""
    world = await fed_in_silence(STATE, SOUND.replace(b'controller_epoch":1', b'controller_epoch":2'))
    world.tree.put("/controller_epoch", b"2")
    world.tree.put("/isr_change_notification/isr_change_1", encode_isr_change([tp("t")]))
    world.queue.put(IsrChangeNotification())
    await world.loop.handle(await world.queue.take())
    assert world.audit.of(EventEnd)[-1].outcome == "moved"
    assert not world.c.is_active
    assert (world.zk.transactions, world.channels.sent) == ([], [])


async def test_input_13_a_state_that_names_a_later_controller_ends_no_term_that_is_ours() -> None:
    content = SOUND.replace(b'epoch":1', b'epoch":77')
    world = await fed_before_the_term(STATE, content)
    assert "names a later controller" in alarms(world)
    await goes_on(world)
    assert data(world, STATE) == content
    assert "controller epoch 77" in reasons(world)


async def test_input_14_a_leader_epoch_at_its_maximum_never_wraps() -> None:
    last = SOUND.replace(b'leader_epoch":0', b'leader_epoch":2147483647')
    world = await fed_before_the_term(STATE, last)
    world.die(1)
    await world.settle()
    assert data(world, STATE) == last
    assert "the leader epoch is exhausted" in reasons(world)
    world.register(1)
    await world.settle()
    await goes_on(world)


async def test_input_14_a_leader_epoch_beyond_its_maximum_is_not_understood() -> None:
    world = await fed_before_the_term(STATE, SOUND.replace(b'leader_epoch":0', b'leader_epoch":2147483648'))
    assert STATE in world.snapshot.quarantine
    assert world.audit.of(AlarmRecord)
    await goes_on(world)
