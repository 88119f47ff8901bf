"""Random stories of simulated brokers under a controller that is right, and under some that are not.

The model itself is on trial: it must not cry wolf, it must see what is planted, and one seed is one story.
"""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest

from controllerd.core.model import TopicPartition
from tests.sim.broker import SimBroker
from tests.sim.broker_scribe import OWNER, Scribe
from tests.sim.broker_socket import Fault
from tests.sim.loop import VirtualLoop, run
from tests.sim.network import Range

SEEDS = range(20)
BROKERS = (1, 2, 3, 4)


class Story:
    """A minute of trouble, then quiet."""

    def __init__(self, loop: VirtualLoop, bug: str = "") -> None:
        self.loop = loop
        self.scribe = Scribe(loop, brokers=BROKERS)
        self.rng: Random = loop.rng("story")
        self.bug = bug
        self.known: dict[int, int] = {}

    async def run(self) -> "Story":
        """Everything."""
        scribe = await self.scribe.started()
        for index in range(4):
            scribe.create(f"t{index}", self.rng.sample(BROKERS, 3))
        await scribe.tell_all()
        self.known = scribe.epochs()
        while self.loop.time() < 60:
            self.trouble()
            for _ in range(self.rng.randrange(5)):
                scribe.cluster.produce(*self.rng.choice(list(scribe.states)))
                await asyncio.sleep(self.rng.random())
            await self.reconcile()
        await self.calm_down()
        return self

    def trouble(self) -> None:
        """One thing that happens to a broker."""
        broker = self.scribe.cluster.brokers[self.rng.choice(BROKERS)]
        if broker.is_paused:
            broker.resume()
        elif broker.is_running:
            self.rng.choice(self.troubles)(broker)
        elif not broker.is_starting:
            broker.restart()

    @property
    def troubles(self) -> list[Callable[[SimBroker], object]]:
        """What may happen to a broker that runs."""
        rng, scribe = self.rng, self.scribe
        return [
            lambda broker: broker.crash(unplugged=rng.random() < 0.3),
            lambda broker: broker.bounce(rng.choice((0.0, 0.0, 3.0))),
            lambda broker: broker.pause(),
            lambda broker: broker.lose_session(rng.choice((0.0, 2.0))),
            lambda broker: setattr(broker, "is_stuck", not broker.is_stuck),
            lambda broker: broker.inject(rng.choice(list(Fault)), times=2),
            lambda broker: scribe.network.cut(OWNER, broker.id),
            lambda broker: setattr(broker, "fetch_s", rng.choice((Range(0.01, 0.05), Range(2.0, 6.0)))),
            lambda broker: scribe.cluster.separate(broker.id, rng.choice(BROKERS)),
            lambda _: scribe.cluster.reunite(),
            lambda _: setattr(scribe, "loses_answers", scribe.loses_answers + 1),
            lambda _: setattr(scribe, "refuses", scribe.refuses + 2),
        ]

    async def reconcile(self) -> None:
        """What a controller does when brokers came, went or bounced."""
        scribe, now = self.scribe, self.scribe.epochs()
        changed = {broker for broker in {*now, *self.known} if now.get(broker) != self.known.get(broker)}
        if not changed and self.rng.random() < 0.7:
            return
        self.known = now
        told = []
        for tp, state in list(scribe.states.items()):
            gone = state.leader not in now or state.leader in changed
            if gone or self.rng.random() < 0.1:
                self.elect(tp)
            if gone or changed & set(scribe.assignments[tp]):
                told.append(tp)
        await scribe.tell_all(*told)

    def elect(self, tp: TopicPartition) -> None:
        """A new leader, by the rules or against them."""
        scribe, before = self.scribe, self.scribe.states[tp]
        outside = [each for each in scribe.assignments[tp] if each not in before.isr and each in scribe.epochs()]
        if self.bug == "outside of the ISR" and outside:
            scribe.elect(tp, leader=outside[0])
            return
        after = scribe.elect(tp, without=before.leader if len(before.isr) > 1 else -1)
        if self.bug == "same leader epoch":
            scribe.states[tp] = after._replace(leader_epoch=before.leader_epoch)

    async def calm_down(self) -> None:
        """Faults end, everybody comes back."""
        scribe = self.scribe
        scribe.refuses = scribe.loses_answers = 0
        scribe.cluster.reunite()
        for broker in scribe.cluster.brokers.values():
            broker.heal()
            if broker.is_paused:
                broker.resume()
        await asyncio.sleep(12)
        for broker in scribe.cluster.brokers.values():
            if not broker.is_running and not broker.is_starting:
                broker.restart()
        await asyncio.sleep(10)
        self.known = scribe.epochs()
        for tp in scribe.states:
            scribe.elect(tp)
        await scribe.tell_all()
        await asyncio.sleep(20)

    @property
    def findings(self) -> list[str]:
        """Everything that is wrong with the data."""
        return [*self.scribe.cluster.lost_records(), *self.scribe.cluster.diverged()]


def told(seed: int, bug: str = "") -> Story:
    """A story from its beginning to its end."""

    def main(loop: VirtualLoop) -> Coroutine[Any, Any, Story]:
        return Story(loop, bug).run()

    return run(main, seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_under_a_controller_that_is_right_nothing_is_lost_and_all_is_well_in_the_end(seed: int) -> None:
    story = told(seed)
    scribe = story.scribe
    assert story.findings == []
    assert scribe.cluster.malformed == []
    assert {tp: sorted(state.isr) for tp, state in scribe.states.items()} == {
        tp: sorted(replicas) for tp, replicas in scribe.assignments.items()
    }
    logs = {tp: {tuple(scribe.broker(b).disk[tp].records) for b in scribe.assignments[tp]} for tp in scribe.states}
    assert {len(different) for different in logs.values()} == {1}
    assert scribe.cluster.acknowledged > 0


@pytest.mark.parametrize("bug", ["outside of the ISR", "same leader epoch"])
def test_a_controller_that_is_wrong_is_found_out(bug: str) -> None:
    assert any(told(seed, bug).findings for seed in SEEDS)


def test_one_seed_is_one_story() -> None:
    assert told(3).loop.trace_hash() == told(3).loop.trace_hash()
    assert told(3).loop.trace_hash() != told(4).loop.trace_hash()
