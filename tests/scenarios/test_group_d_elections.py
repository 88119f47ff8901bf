"""Group D: leader election and unclean election."""

import itertools
import json
from collections.abc import Sequence

import pytest

from controllerd.core.election import elect_controlled_shutdown, elect_offline, elect_preferred, elect_reassign
from controllerd.core.model import BrokerId, Features, ReplicaState
from controllerd.core.requests import LeaderAndIsrRequest
from events.elections import TopicUncleanLeaderElectionEnable, UncleanLeaderElectionEnable
from tests.fakes.world import World, ids, tp
from tests.scenarios.acts import (
    UNCLEAN,
    alarms,
    alter_isr,
    bring_back,
    cluster,
    configure,
    kill,
    leader,
    request_election,
    take_over,
    with_topic,
    write_config,
)

ON, OFF = {UNCLEAN: "true"}, {UNCLEAN: "false"}


async def only_in_sync(world: World, topic: str = "t") -> None:
    """Make a partition on 1 and 2 that 1 leads, with 2 out of sync."""
    await with_topic(world, topic, 1, 2)
    await alter_isr(world, topic, 1)


def recovery_state(world: World, topic: str = "t") -> int:
    data = world.tree.nodes[f"/brokers/topics/{topic}/partitions/0/state"].data
    return int(json.loads(data or b"{}").get("leader_recovery_state", 0))


# -- clean elections ---------------------------------------------------------------------------------------------------


async def test_d1_a_leader_killed_under_a_live_controller_costs_one_leader_epoch() -> None:
    world = await with_topic(await cluster(1, 2, 3), "t", 1, 2, 3)

    await kill(world, 1)

    assert world.state("t")[:3] == (2, 1, [2, 3])


async def test_d1_a_leader_killed_together_with_the_controller_costs_two_leader_epochs_kafka_3143() -> None:
    world = await with_topic(await cluster(1, 2, 3), "t", 1, 2, 3)
    world.zk.expire()
    world.die(1)

    successor = World(tree=world.tree, session_id=2, node_id=world.c.node_id + 1)
    await successor.start()

    assert successor.state("t")[:3] == (2, 2, [2, 3])
    assert successor.context.record(tp("t")).replica_states[BrokerId(1)] is ReplicaState.OFFLINE


async def test_d1_kill_return_and_preferred_election_cost_two_leader_epochs() -> None:
    world = await with_topic(await cluster(1, 2), "t", 1, 2)
    await kill(world, 1)
    await bring_back(world, 1)
    await alter_isr(world, "t", 2, 1)

    await request_election(world, tp("t"))

    assert leader(world, "t") == (1, 2)


async def test_d2_the_last_in_sync_replica_dies_and_no_other_may_lead_kafka_708() -> None:
    world = await cluster(1, 2)
    await only_in_sync(world)

    await kill(world, 1)

    assert world.state("t")[:3] == (-1, 1, [1])
    assert world.metrics.unclean == 0


async def test_d10_the_last_in_sync_replica_returns_and_leads_as_it_was() -> None:
    world = await cluster(1, 2)
    await only_in_sync(world)
    await kill(world, 1)

    await bring_back(world, 1)

    assert world.state("t")[:3] == (1, 2, [1])
    assert world.metrics.unclean == 0
    assert recovery_state(world) == 0


# -- unclean elections -------------------------------------------------------------------------------------------------


async def test_d3_an_unclean_election_takes_a_live_replica_in_the_order_of_the_assignment() -> None:
    world = await cluster(1, 2, 3)
    await with_topic(world, "t", 1, 3, 2)
    await alter_isr(world, "t", 1)
    await configure(world, "topics/t", ON)

    await kill(world, 1)

    assert world.state("t")[:3] == (3, 1, [3])
    assert recovery_state(world) == 1
    assert world.metrics.unclean == 1


async def test_d3_below_3_2_no_leader_is_asked_to_recover() -> None:
    world = await cluster(1, 2, features=Features(leader_recovery=False))
    await only_in_sync(world)
    await configure(world, "topics/t", ON)

    await kill(world, 1)

    assert world.state("t")[:3] == (2, 1, [2])
    assert recovery_state(world) == 0


async def test_d3_the_leader_of_an_unclean_election_recovers_until_it_says_so_itself() -> None:
    """A clean election in between does not end it (KIP-704)."""
    world = await cluster(1, 2)
    await only_in_sync(world)
    await configure(world, "topics/t", ON)
    await kill(world, 1)
    world.forget()

    await kill(world, 2)
    await bring_back(world, 2)
    assert (leader(world, "t")[0], recovery_state(world)) == (2, 1)
    sent = [request for request in world.channels.to(2) if isinstance(request, LeaderAndIsrRequest)]
    assert sent[-1].partitions[tp("t")].state.recovery_state == 1

    await alter_isr(world, "t", 2)

    assert recovery_state(world) == 0


async def test_d4_without_a_live_replica_the_isr_is_kept() -> None:
    world = await cluster(1, 2, 3)
    await only_in_sync(world)
    await configure(world, "topics/t", ON)
    await kill(world, 2)

    await kill(world, 1)

    assert (world.state("t")[0], world.state("t")[2]) == (-1, [1])
    assert world.metrics.unclean == 0


async def test_d5_the_only_replica_dies() -> None:
    world = await with_topic(await cluster(1, 2), "t", 1)
    await configure(world, "topics/t", ON)

    await kill(world, 1)

    assert world.state("t")[:3] == (-1, 1, [1])


@pytest.mark.parametrize(
    ("default", "override", "expected"), [("false", ON, (2, [2])), ("true", OFF, (-1, [1]))], ids=["on", "off"]
)
async def test_d6_the_configuration_of_a_topic_beats_the_default(
    default: str, override: dict[str, str], expected: tuple[int, list[int]]
) -> None:
    world = await cluster(1, 2)
    await only_in_sync(world)
    await configure(world, "brokers/<default>", {UNCLEAN: default})
    await configure(world, "topics/t", override)

    await kill(world, 1)

    assert (world.state("t")[0], world.state("t")[2]) == expected


@pytest.mark.parametrize(
    "data", [b'{"version":1,"config":{"%s":"perhaps"}}' % UNCLEAN.encode(), b"{", b"[]"], ids=["value", "cut", "list"]
)
async def test_d7_an_invalid_configuration_of_a_topic_allows_no_unclean_election_and_harms_no_other(
    data: bytes,
) -> None:
    world = await cluster(1, 2)
    for topic in ("t", "u"):
        await only_in_sync(world, topic)
    await configure(world, "brokers/<default>", ON)
    await write_config(world, "topics/t", data)

    await kill(world, 1)

    assert world.state("t")[::2] == (-1, [1])
    assert world.state("u")[::2] == (2, [2])
    assert alarms(world)
    assert world.context.epoch == 1


@pytest.mark.parametrize("data", [b'{"version":1,"config":{"%s":"perhaps"}}' % UNCLEAN.encode(), b"{"])
async def test_d7_an_invalid_default_changes_nothing(data: bytes) -> None:
    world = await cluster(1, 2)
    await only_in_sync(world)
    await write_config(world, "brokers/<default>", data)

    await kill(world, 1)
    successor = await take_over(world)

    assert successor.state("t")[::2] == (-1, [1])
    assert alarms(world)
    assert alarms(successor)


# -- switched on at run time -------------------------------------------------------------------------------------------


async def test_d8_a_topic_is_allowed_unclean_elections_and_elects_only_when_its_leader_is_gone_kafka_6835() -> None:
    world = await cluster(1, 2)
    for topic in ("t", "u"):
        await only_in_sync(world, topic)
    await configure(world, "topics/t", ON)
    assert leader(world, "t") == (1, 0)

    await kill(world, 1)

    assert leader(world, "t") == (2, 1)
    assert leader(world, "u") == (-1, 1)


async def test_d8_a_topic_without_leader_gets_one_when_it_is_allowed_unclean_elections_kafka_6835() -> None:
    world = await cluster(1, 2)
    for topic in ("t", "u"):
        await only_in_sync(world, topic)
    await kill(world, 1)

    await configure(world, "topics/t", ON)

    assert leader(world, "t") == (2, 2)
    assert leader(world, "u") == (-1, 1)
    assert world.context.epoch == 1


async def test_d9_every_topic_without_leader_gets_one_when_the_default_is_switched_on_kafka_6526() -> None:
    world = await cluster(1, 2)
    for topic in ("t", "u", "v"):
        await only_in_sync(world, topic)
    await configure(world, "topics/v", OFF)
    await kill(world, 1)

    await configure(world, "brokers/<default>", ON)

    assert [leader(world, topic) for topic in ("t", "u", "v")] == [(2, 2), (2, 2), (-1, 1)]


async def test_d9_the_default_is_switched_on_while_all_leaders_live_kafka_6526() -> None:
    world = await cluster(1, 2)
    await only_in_sync(world)
    await configure(world, "brokers/<default>", ON)
    assert leader(world, "t") == (1, 0)

    await kill(world, 1)

    assert leader(world, "t") == (2, 1)


async def test_d9_the_default_that_was_switched_on_holds_after_a_fail_over() -> None:
    world = await cluster(1, 2)
    await only_in_sync(world)
    await configure(world, "brokers/<default>", ON)
    successor = await take_over(world)

    await kill(successor, 1)

    assert leader(successor, "t")[0] == 2


async def test_d9_switched_off_again_the_default_allows_nothing() -> None:
    world = await cluster(1, 2)
    await only_in_sync(world)
    await configure(world, "brokers/<default>", ON)
    await configure(world, "brokers/<default>", {})

    await kill(world, 1)

    assert leader(world, "t") == (-1, 1)


async def test_d9_it_takes_the_one_change_to_be_noticed_not_every_later_one() -> None:
    world = await cluster(1, 2)
    await only_in_sync(world)
    await configure(world, "brokers/<default>", ON)
    world.forget()

    await configure(world, "topics/t", {"retention.ms": "1"})

    assert UncleanLeaderElectionEnable.__name__ not in world.metrics.events
    assert TopicUncleanLeaderElectionEnable.__name__ not in world.metrics.events


# -- the algorithms ----------------------------------------------------------------------------------------------------

REPLICAS = (2, 4)
SUBSETS = [(), (2,), (4,), (2, 4), (4, 2)]


@pytest.mark.parametrize(("isr", "online"), list(itertools.product(SUBSETS, repeat=2)))
def test_d11_each_strategy_elects_the_first_that_it_may(isr: Sequence[int], online: Sequence[int]) -> None:
    replicas, in_sync, live = ids(*REPLICAS), ids(*isr), set(ids(*online))
    able = [replica for replica in replicas if replica in in_sync and replica in live]
    alive = [replica for replica in replicas if replica in live]

    clean = elect_offline(replicas, in_sync, live, unclean_allowed=False, leader_recovery=True)
    unclean = elect_offline(replicas, in_sync, live, unclean_allowed=True, leader_recovery=True)
    assert _leader(clean) == next(iter(able), None)
    assert _leader(unclean) == next(iter(able or alive), None)
    assert _leader(elect_reassign(replicas, in_sync, live)) == next(iter(able), None)
    assert _leader(elect_preferred(replicas, in_sync, live)) == (replicas[0] if replicas[0] in able else None)
    assert _leader(elect_controlled_shutdown(replicas, in_sync, live, set())) == next(iter(able), None)


def test_d11_no_broker_that_is_shutting_down_is_elected() -> None:
    replicas, live = ids(2, 4), set(ids(2, 4))

    assert _leader(elect_controlled_shutdown(replicas, replicas, live, set(ids(2)))) == BrokerId(4)
    assert elect_controlled_shutdown(replicas, replicas, live, live) is None


def _leader(elected: object) -> object:
    return getattr(elected, "leader", None)


async def test_d12_every_change_of_leader_has_an_epoch_of_its_own() -> None:
    """By the epochs replicas can find after alternate crashes which of their records were never committed (KIP-101)."""
    world = await with_topic(await cluster(1, 2), "t", 1, 2)
    seen = [leader(world, "t")]
    for crashing, other in ((1, 2), (2, 1)) * 3:
        await kill(world, crashing)
        seen.append(leader(world, "t"))
        await bring_back(world, crashing)
        await alter_isr(world, "t", other, crashing)

    assert seen == [(1, 0), (2, 1), (1, 2), (2, 3), (1, 4), (2, 5), (1, 6)]
