"""Random stories of simulated brokers under a correct controller, and under wrong ones.

The tests judge the model itself: no false alarms, every planted bug found, and the same story from the same seed.
"""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest

from controllerd.core.model import TopicPartition
from tests.sim.broker import SimBroker
from tests.sim.broker_socket import Fault
from tests.sim.loop import VirtualLoop, run
from tests.sim.network import Range
from tests.sim.scripted_controller import OWNER, ScriptedController

SEEDS = range(20)
BROKERS = (1, 2, 3, 4)


class BrokerStory:
    """A minute of faults, then quiet."""

    def __init__(self, loop: VirtualLoop, bug: str = "") -> None:
        self.loop = loop
        self.controller = ScriptedController(loop, brokers=BROKERS)
        self.rng: Random = loop.rng("story")
        self.bug = bug
        self.known: dict[int, int] = {}

    async def run(self) -> "BrokerStory":
        """Play the whole story."""
        controller = await self.controller.started()
        for index in range(4):
            controller.create(f"t{index}", self.rng.sample(BROKERS, 3))
        await controller.send_to_all()
        self.known = controller.epochs()
        while self.loop.time() < 60:
            self.random_fault()
            for _ in range(self.rng.randrange(5)):
                controller.cluster.produce(*self.rng.choice(list(controller.states)))
                await asyncio.sleep(self.rng.random())
            await self.reconcile()
        await self.end_faults()
        return self

    def random_fault(self) -> None:
        """Let one fault happen to a broker."""
        broker = self.controller.cluster.brokers[self.rng.choice(BROKERS)]
        if broker.is_paused:
            broker.resume()
        elif broker.is_running:
            self.rng.choice(self.faults)(broker)
        elif not broker.is_starting:
            broker.restart()

    @property
    def faults(self) -> list[Callable[[SimBroker], object]]:
        """The faults that a running broker may have."""
        rng, controller = self.rng, self.controller
        return [
            lambda broker: broker.crash(unplugged=rng.random() < 0.3),
            lambda broker: broker.bounce(rng.choice((0.0, 0.0, 3.0))),
            lambda broker: broker.pause(),
            lambda broker: broker.lose_session(rng.choice((0.0, 2.0))),
            lambda broker: setattr(broker, "is_stuck", not broker.is_stuck),
            lambda broker: broker.inject(rng.choice(list(Fault)), times=2),
            lambda broker: controller.network.cut(OWNER, broker.id),
            lambda broker: setattr(broker, "fetch_s", rng.choice((Range(0.01, 0.05), Range(2.0, 6.0)))),
            lambda broker: controller.cluster.separate(broker.id, rng.choice(BROKERS)),
            lambda _: controller.cluster.reunite(),
            lambda _: setattr(controller, "loses_answers", controller.loses_answers + 1),
            lambda _: setattr(controller, "refuses", controller.refuses + 2),
        ]

    async def reconcile(self) -> None:
        """Decide as a controller does when brokers came, went or bounced."""
        controller, now = self.controller, self.controller.epochs()
        changed = {broker for broker in {*now, *self.known} if now.get(broker) != self.known.get(broker)}
        if not changed and self.rng.random() < 0.7:
            return
        self.known = now
        elected = []
        for tp, state in list(controller.states.items()):
            gone = state.leader not in now or state.leader in changed
            if gone or self.rng.random() < 0.1:
                self.elect(tp)
            if gone or changed & set(controller.assignments[tp]):
                elected.append(tp)
        await controller.send_to_all(*elected)

    def elect(self, tp: TopicPartition) -> None:
        """Elect a new leader, by the rules or against them."""
        controller, before = self.controller, self.controller.states[tp]
        outside = [
            each for each in controller.assignments[tp] if each not in before.isr and each in controller.epochs()
        ]
        if self.bug == "outside of the ISR" and outside:
            controller.elect(tp, leader=outside[0])
            return
        after = controller.elect(tp, without=before.leader if len(before.isr) > 1 else -1)
        if self.bug == "same leader epoch":
            controller.states[tp] = after._replace(leader_epoch=before.leader_epoch)

    async def end_faults(self) -> None:
        """End the faults and bring all brokers back."""
        controller = self.controller
        controller.refuses = controller.loses_answers = 0
        controller.cluster.reunite()
        for broker in controller.cluster.brokers.values():
            broker.heal()
            if broker.is_paused:
                broker.resume()
        await asyncio.sleep(12)
        for broker in controller.cluster.brokers.values():
            if not broker.is_running and not broker.is_starting:
                broker.restart()
        await asyncio.sleep(10)
        self.known = controller.epochs()
        for tp in controller.states:
            controller.elect(tp)
        await controller.send_to_all()
        await asyncio.sleep(20)

    @property
    def findings(self) -> list[str]:
        """Everything that is wrong with the data."""
        return [*self.controller.cluster.lost_records(), *self.controller.cluster.diverged()]


def play_story(seed: int, bug: str = "") -> BrokerStory:
    """Play a story from its start to its end."""

    def main(loop: VirtualLoop) -> Coroutine[Any, Any, BrokerStory]:
        return BrokerStory(loop, bug).run()

    return run(main, seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_under_a_controller_that_is_right_nothing_is_lost_and_all_is_well_in_the_end(seed: int) -> None:
    story = play_story(seed)
    controller = story.controller
    assert story.findings == []
    assert controller.cluster.malformed == []
    assert {tp: sorted(state.isr) for tp, state in controller.states.items()} == {
        tp: sorted(replicas) for tp, replicas in controller.assignments.items()
    }
    logs = {
        tp: {tuple(controller.broker(b).disk[tp].records) for b in controller.assignments[tp]}
        for tp in controller.states
    }
    assert {len(different) for different in logs.values()} == {1}
    assert controller.cluster.acknowledged > 0


@pytest.mark.parametrize("bug", ["outside of the ISR", "same leader epoch"])
def test_a_controller_that_is_wrong_is_found_out(bug: str) -> None:
    assert any(play_story(seed, bug).findings for seed in SEEDS)


def test_one_seed_is_one_story() -> None:
    assert play_story(3).loop.trace_hash() == play_story(3).loop.trace_hash()
    assert play_story(3).loop.trace_hash() != play_story(4).loop.trace_hash()
