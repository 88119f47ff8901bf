"""Unclean elections that brokers enable wait for an answer of every registered broker in its present epoch.

Broker 2 leads ``orders-0`` and is the only member of its ISR when it fails. Broker 1 has the other replica,
which lacks records. While broker 1 may have unclean elections disabled, it must not lead.
"""

import json
from collections.abc import Mapping

import pytest

from controllerd.core.broker_answers import SettingsAnswer
from controllerd.core.cluster_settings import NAMES, UNCLEAN, understood
from controllerd.core.model import BrokerId
from controllerd.core.resolved_settings import Source
from controllerd.core.settings_book import Configured, Remembered, SettingsBook
from controllerd.record.families.operators import SettingsRecord
from tests.fakes.world import World
from tests.handlers.test_cluster_settings import NEWEST, discovering, hear, news

ON = {UNCLEAN: "true"}
OFF = {UNCLEAN: "false"}
STATE = "/brokers/topics/orders/partitions/0/state"


async def led_by_two_alone(world: World) -> World:
    """Both brokers have answered with unclean elections enabled; broker 1 has left the ISR and is down."""
    await hear(world, b1=ON, b2=ON)
    await world.start()
    world.die(1)
    await world.settle()
    await hear(world, b2=ON)
    assert world.state("orders")[:3] == (2, 1, [2])
    return world


def kept(epochs: Mapping[int, int]) -> SettingsBook:
    """The settings of a process that finds on disk the answers of these brokers, which enabled unclean elections."""
    values = understood(dict.fromkeys(NAMES) | NEWEST | ON)
    book = SettingsBook()
    book.recall(
        Remembered({BrokerId(each): SettingsAnswer(epoch, values) for each, epoch in epochs.items()}, "3.9-IV0")
    )
    return book


def without_two(world: World) -> World:
    """Broker 2, the leader and the only member of the ISR, died while no controller led."""
    leadership = {"controller_epoch": 7, "leader": 2, "version": 1, "leader_epoch": 3, "isr": [2]}
    for path, data in (("", b""), ("/0", b""), ("/0/state", json.dumps(leadership).encode())):
        world.tree.put(f"/brokers/topics/orders/partitions{path}", data)
    world.tree.put("/controller_epoch", b"7")
    world.die(2)
    return world


async def led_by_two_restarted(world: World) -> World:
    """As above, with broker 2 restarted since its answer, so its file may disable them. Broker 1 has returned."""
    await led_by_two_alone(world)
    world.die(2)
    await world.settle()
    world.register(2)
    await world.settle()
    world.register(1)
    await hear(world, b1=ON)
    assert world.state("orders")[::2] == (2, [2])
    return world


async def test_a_new_broker_is_elected_uncleanly_only_after_its_answer_allows_it() -> None:
    world = await led_by_two_alone(discovering())
    world.die(2)
    await world.settle()
    world.register(1)
    await world.settle()
    assert world.state("orders")[0] == -1
    assert world.c.settings.current.settings[UNCLEAN].source is Source.WAITING

    await hear(world, b1=ON)

    assert world.state("orders")[0] == 1


async def test_a_broker_that_was_restarted_with_unclean_elections_disabled_is_never_elected_uncleanly() -> None:
    world = await led_by_two_alone(discovering())
    world.die(2)
    await world.settle()
    world.register(1)
    await world.settle()

    await hear(world, b1=OFF)

    assert world.state("orders")[:3] == (-1, 2, [2])


async def test_an_answer_from_before_a_bounce_allows_no_unclean_election() -> None:
    world = await led_by_two_alone(discovering())
    world.register(1)
    await hear(world, b1=ON)
    world.die(2)
    world.bounce(1)
    await world.settle()
    assert world.state("orders")[0] == -1

    await hear(world, b1=OFF)

    assert world.state("orders")[0] == -1


async def test_answers_on_disk_of_earlier_broker_epochs_allow_no_unclean_election_at_a_takeover() -> None:
    """Operators turned unclean elections off, and restarted the brokers, while no instance ran."""
    world = without_two(discovering(settings=kept({1: -1, 2: -1})))
    await world.start()
    assert world.state("orders")[0] == -1

    await hear(world, b1=OFF)

    assert world.state("orders")[:3] == (-1, 4, [2])


async def test_a_broker_without_an_answer_on_disk_is_not_elected_uncleanly_at_a_takeover() -> None:
    world = without_two(discovering(settings=kept({2: -1})))

    await world.start()

    assert world.state("orders")[0] == -1


async def test_answers_on_disk_of_present_broker_epochs_allow_no_unclean_election_before_a_new_answer() -> None:
    """The dynamic configuration of a broker changes without a restart."""
    world = without_two(discovering(settings=(book := kept({}))))
    epoch = world.tree.nodes["/brokers/ids/1"].czxid
    book.recall(kept({1: epoch}).remembered())
    await world.start()
    assert world.state("orders")[0] == -1

    await hear(world, b1=ON)

    assert world.state("orders")[0] == 1


async def test_answers_of_a_standby_allow_an_unclean_election_within_the_takeover() -> None:
    world = without_two(discovering())
    await hear(world, b1=ON)

    await world.start()

    assert world.state("orders")[0] == 1


async def test_a_new_broker_is_recorded_as_the_reason_why_unclean_elections_are_disabled() -> None:
    world = await led_by_two_alone(discovering())
    world.forget()

    world.register(1)
    await world.settle()

    (record,) = [each for each in world.audit.records if isinstance(each, SettingsRecord)]
    assert (record.settings, record.befores, record.values, record.sources) == (
        [UNCLEAN], ["true"], ["false"], ["waiting"],
    )  # fmt: skip


@pytest.mark.parametrize("configured", ["true", "false"])
async def test_the_configuration_of_controllerd_waits_for_no_broker(configured: str) -> None:
    world = without_two(discovering({UNCLEAN: Configured(configured, "prod.toml")}))

    await world.start()

    assert (world.state("orders")[0] == 1) is (configured == "true")


async def test_a_broker_that_fails_before_its_answer_still_forbids_unclean_elections() -> None:
    """Broker 2 may have been restarted in order to disable them."""
    world = await led_by_two_restarted(discovering())
    world.die(2)
    await world.settle()

    await hear(world, b1=ON)

    assert world.state("orders")[::2] == (-1, [2])
    assert world.c.settings.current.unclean.awaited == (2,)
    assert world.c.settings.current.settings[UNCLEAN].source is Source.WAITING


async def test_unclean_elections_wait_for_a_broker_that_failed_before_its_answer_until_it_returns_and_answers() -> None:
    world = await led_by_two_restarted(discovering())
    world.die(1)
    world.die(2)
    await world.settle()
    world.register(1)
    await hear(world, b1=ON)
    world.register(3)
    await hear(world, b3=ON)
    assert not world.c.configs.topics.unclean_by_default()

    world.register(2)
    await hear(world, b2=ON)

    assert world.c.configs.topics.unclean_by_default()


@pytest.mark.parametrize(("answered", "leader"), [(OFF, -1), (ON, 1)], ids=["off", "on"])
async def test_an_answer_that_is_handled_after_the_failure_of_its_broker_counts(
    answered: Mapping[str, str], leader: int
) -> None:
    world = await led_by_two_restarted(discovering())
    late = news(world, {2: answered})
    world.die(2)
    await world.settle()
    assert world.state("orders")[0] == -1

    world.queue.put(late)
    await world.settle()
    await hear(world)

    assert world.state("orders")[0] == leader


async def test_the_answer_of_an_earlier_epoch_of_a_dead_broker_is_ignored() -> None:
    world = await led_by_two_alone(discovering())
    early = news(world, {2: ON})
    world.bounce(2)
    world.register(1)
    await hear(world, b1=ON)
    world.die(2)
    await world.settle()

    world.queue.put(early)
    await world.settle()

    assert world.state("orders")[::2] == (-1, [2])


async def test_an_unanswered_failed_broker_forbids_unclean_elections_when_a_standby_takes_over() -> None:
    world = discovering()
    await hear(world, b1=ON, b2=ON)
    world.die(2)
    world.register(2)
    await hear(world, b1=ON)

    without_two(world)
    await hear(world, b1=ON)
    await world.start()

    assert world.state("orders")[::2] == (-1, [2])
    assert world.c.settings.current.unclean_awaits == (2,)


async def test_an_answer_to_a_standby_that_is_handled_after_the_takeover_counts() -> None:
    """Broker 2 answered in an epoch that no other event reported, and failed."""
    world = without_two(discovering())
    world.register(2)
    await hear(world, b1=ON)
    world.bounce(2)
    late = news(world, {2: OFF})
    world.die(2)
    world.die(1)
    await world.start()

    world.queue.put(late)
    await world.settle()
    world.register(1)
    await hear(world, b1=ON)

    assert world.state("orders")[::2] == (-1, [2])
