"""Elections over HTTP, on a whole controller."""

import json

import pytest

from tests.fakes.reassigning import reassign, successor
from tests.fakes.world import World, tp
from tests.status.verbs.operating import Operator, briefly, operating, standby_of


async def led_by_others(world: World) -> None:
    """Restart broker 1: broker 2 leads ``t-0`` since then, and broker 1 is in the ISR of ``alone`` only."""
    world.put_topic("t", {0: [1, 2], 1: [2, 1]})
    world.put_topic("alone", {0: [1]})
    await world.settle()
    world.die(1)
    await world.settle()
    world.register(1)
    await world.settle()


def caught_up(world: World, topic: str, partition: int, isr: tuple[int, ...]) -> None:
    """Write this ISR to the state znode; a controller that starts later reads it."""
    path = f"/brokers/topics/{topic}/partitions/{partition}/state"
    body = json.loads(world.tree.nodes[path].data or b"")
    world.tree.put(path, json.dumps(body | {"isr": list(isr)}).encode())


async def test_a_preferred_leader_that_is_in_sync_gets_its_partition_back(world: World) -> None:
    await led_by_others(world)
    caught_up(world, "t", 0, (2, 1))
    async with operating(await successor(world)) as operator:
        task = await operator.do("/v1/elections", {"type": "preferred", "topics": ["t"], "reason": "rack is back"})

    assert task.state == "done"
    assert briefly(task.items) == {"t-0": "done leader 2 -> 1", "t-1": "not-needed 2 leads"}
    assert operator.world.state("t", 0)[0] == 1


async def test_a_preferred_leader_that_is_not_in_sync_is_named_as_the_cause(world: World) -> None:
    await led_by_others(world)
    async with operating(world) as operator:
        task = await operator.do("/v1/elections", {"type": "preferred", "partitions": [{"topic": "t", "partition": 0}]})

    assert task.state == "failed"
    assert briefly(task.items) == {
        "t-0": "failed PREFERRED_LEADER_NOT_AVAILABLE its preferred leader 1 is not in sync: the ISR is [2]"
    }


async def test_unknown_topics_and_partitions_fail_and_the_other_partitions_are_elected(world: World) -> None:
    await led_by_others(world)
    caught_up(world, "t", 0, (2, 1))
    async with operating(await successor(world)) as operator:
        body = {
            "type": "preferred",
            "topics": ["t", "unknown"],
            "partitions": [{"topic": "t", "partition": 9}],
        }
        task = await operator.do("/v1/elections", body)

    assert task.state == "partial"
    assert briefly(task.items) == {
        "unknown": "failed UNKNOWN_TOPIC_OR_PARTITION the topic does not exist",
        "t-9": "failed UNKNOWN_TOPIC_OR_PARTITION the partition does not exist",
        "t-0": "done leader 2 -> 1",
        "t-1": "not-needed 2 leads",
    }


@pytest.mark.parametrize("named", [{"all": True}, {"broker": 1}])
async def test_a_dry_run_shows_every_outcome_and_changes_nothing(world: World, named: dict[str, object]) -> None:
    await led_by_others(world)
    caught_up(world, "t", 0, (2, 1))
    async with operating(await successor(world)) as operator:
        task = await operator.dry_run("/v1/elections", {"type": "preferred", **named})

    expected = {"t-0": "planned leader 2 -> 1", "alone-0": "not-needed 1 leads"}
    assert briefly(task.items) == expected | ({"t-1": "not-needed 2 leads"} if "all" in named else {})


async def test_an_unclean_election_requires_accept_data_loss_and_a_reason(world: World, operator: Operator) -> None:
    unclean = {"type": "unclean", "all": True}

    assert (await operator.refusal("/v1/elections", unclean)).code == "data_loss_not_accepted"
    accepted = unclean | {"accept_data_loss": True}
    assert (await operator.refusal("/v1/elections", accepted)).code == "reason_required"


async def test_a_dry_run_warns_of_a_replica_that_is_only_being_added(world: World, operator: Operator) -> None:
    world.put_topic("t", {0: [1, 2]})
    await operator.settle()
    await reassign(world, {tp("t"): (1, 3)})
    await operator.change_isr("t", 1)
    world.die(1)
    await operator.settle()
    body = {"type": "unclean", "topics": ["t"], "accept_data_loss": True, "reason": "1 burnt down"}

    planned = await operator.dry_run("/v1/elections", body)

    assert briefly(planned.items)["t-0"] == (
        "planned leader -1 -> 3; it is being added and may have next to nothing: cancel the reassignment first"
    )


async def test_an_unclean_election_elects_a_replica_outside_the_isr(world: World, operator: Operator) -> None:
    world.put_topic("t", {0: [1, 2]})
    await operator.settle()
    world.die(2)
    await operator.settle()
    world.die(1)
    await operator.settle()
    world.register(2)
    await operator.settle()
    body = {"type": "unclean", "topics": ["t"], "accept_data_loss": True, "reason": "1 burnt down"}

    planned = await operator.dry_run("/v1/elections", body)
    task = await operator.do("/v1/elections", body)

    assert briefly(planned.items) == {"t-0": "planned leader -1 -> 2; it is not in sync: records may be lost"}
    assert briefly(task.items) == {"t-0": "done leader -1 -> 2"}
    assert world.state("t")[:3] == (2, 3, [2])


async def test_an_election_without_a_selection_is_refused(operator: Operator) -> None:
    assert (await operator.refusal("/v1/elections", {"type": "preferred"})).code == "nothing_named"


async def test_the_audit_log_has_the_requester_the_reason_and_the_outcome(world: World) -> None:
    await led_by_others(world)
    async with operating(world) as operator:
        await operator.do("/v1/elections", {"type": "preferred", "topics": ["t"], "reason": "drill"})

    asked, ended = operator.recorded
    assert (asked.step, ended.step, asked.task) == ("asked", "partial", ended.task)
    assert (asked.verb, asked.principal, asked.peer, asked.reason) == (
        "elections",
        "User:anonymous",
        "127.0.0.1",
        "drill",
    )
    assert ended.subjects == ["t-0", "t-1"]
    assert ended.states == ["failed", "not-needed"]


async def test_a_standby_refuses_and_names_the_active_controller(world: World) -> None:
    standby = await standby_of(world)
    async with operating(standby) as operator:
        problem = await operator.refusal("/v1/elections", {"type": "preferred", "all": True})

    assert (problem.status, problem.code) == (409, "not_controller")
    assert "controllerd 2000000000 leads" in problem.detail
