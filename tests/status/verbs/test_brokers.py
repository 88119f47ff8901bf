"""The verbs drain, forget, pause, resume, resync, takeover and resign, on a whole controller."""

import msgspec
import pytest

from controllerd.status.schema.tasks import ForgetResponse, ResignResponse, TakeoverResponse
from tests.fakes.world import World
from tests.status.verbs.operating import Operator, briefly, content, operating, standby_of


@pytest.fixture
async def world(world: World) -> World:
    world.put_topic("t", {0: [1, 2], 1: [2, 1]})
    world.put_topic("alone", {0: [1]})
    await world.settle()
    return world


@pytest.mark.parametrize("leaders_only", [True, False])
async def test_other_brokers_lead_the_partitions_of_a_drained_broker(operator: Operator, leaders_only: bool) -> None:
    body = {"leaders_only": leaders_only, "reason": "new disk"}

    planned = await operator.dry_run("/v1/brokers/1/drain", body)
    task = await operator.do("/v1/brokers/1/drain", body)

    isr = "ISR stays [1, 2]" if leaders_only else "ISR [1, 2] -> [2]"
    follows = {} if leaders_only else {"t-1": "planned ISR [2, 1] -> [2]"}
    assert briefly(planned.items) == {
        "alone-0": "failed ELIGIBLE_LEADERS_NOT_AVAILABLE no other member of its ISR [1] can lead",
        "t-0": f"planned leader 1 -> 2, {isr}",
        **follows,
    }
    assert task.state == "partial"
    assert briefly(task.items)["t-0"] == f"done leader 1 -> 2, ISR {'[1, 2]' if leaders_only else '[2]'}"
    assert briefly(task.items).get("t-1") == (None if leaders_only else "done ISR [2]")
    assert operator.world.state("t", 0)[0] == 2
    assert operator.world.state("t", 0)[2] == ([1, 2] if leaders_only else [2])


async def test_a_drained_broker_stays_in_the_isrs_unless_the_request_says_otherwise(operator: Operator) -> None:
    """Leaders would add a running broker back to their ISRs again and again, and be refused."""
    await operator.do("/v1/brokers/1/drain", {"reason": "new disk"})

    assert operator.world.state("t", 0)[2] == [1, 2]
    assert operator.world.state("t", 1)[2] == [2, 1]


async def test_the_end_of_a_whole_drain_is_the_restart_of_the_broker(operator: Operator) -> None:
    await operator.do("/v1/brokers/1/drain", {"leaders_only": False, "reason": "new disk"})

    planned = await operator.ask("/v1/resume?dryRun=true", {"what": "drain-1"})
    resumed = await operator.do("/v1/resume", {"what": "drain-1"})

    for task in (planned, resumed):
        assert briefly(task.items)["drain-1"].endswith(
            "new disk; broker 1 is in controlled shutdown, and leads again once it was restarted"
        )


async def test_a_broker_that_is_not_registered_cannot_be_drained(operator: Operator) -> None:
    problem = await operator.refusal("/v1/brokers/9/drain", {})

    assert (problem.status, problem.code) == (409, "refused")
    assert "broker 9 is not registered" in problem.detail


async def test_a_pause_begins_and_ends(operator: Operator) -> None:
    body = {"what": "deletions", "for_s": 600, "reason": "audit"}

    planned = await operator.dry_run("/v1/pause", body)
    paused = await operator.do("/v1/pause", body)
    assert "deletions" in operator.world.snapshot.pauses
    resumed = await operator.do("/v1/resume", {"what": "deletions"})
    again = await operator.do("/v1/resume", {"what": "deletions"})

    assert briefly(planned.items)["deletions"].startswith("planned until 1970-01-01T00:26:40")
    assert "paused by User:anonymous until" in briefly(paused.items)["deletions"]
    assert briefly(resumed.items)["deletions"].startswith("done resumed")
    assert briefly(again.items) == {"deletions": "not-needed it was not paused"}
    assert "deletions" not in operator.world.snapshot.pauses


async def test_a_pause_of_weeks_is_refused(operator: Operator) -> None:
    problem = await operator.refusal("/v1/pause", {"what": "deletions", "for_s": 10**7})

    assert (problem.code, "for_s must be 1 to" in problem.detail) == ("bad_request", True)


async def test_a_resync_reads_all_znodes_again(operator: Operator) -> None:
    planned = await operator.dry_run("/v1/resync", {})
    task = await operator.do("/v1/resync", {"reason": "znodes were edited"})

    assert briefly(planned.items) == {"picture": "planned 3 brokers and 2 topics to be read again"}
    assert (task.state, operator.world.metrics.events.count("Resync")) == ("done", 1)


async def test_a_broker_that_is_gone_is_forgotten(world: World) -> None:
    world.die(2)
    await world.settle()
    world.tree.put("/admin/delete_topics/t")
    await world.settle()
    body = {"reason": "burnt down", "confirm": 2}
    async with operating(world) as operator:
        status, planned, _ = await operator.send("/v1/brokers/2/forget?dryRun=true", body)
        assert (status, await operator.tasks()) == (200, [])
        _, done, _ = await operator.send("/v1/brokers/2/forget", body)
        (task,) = await operator.tasks()

    assert msgspec.json.decode(planned, type=ForgetResponse).topics == ["t"]
    assert msgspec.json.decode(done, type=ForgetResponse).replicas == 2
    assert briefly(task.items) == {"t": "done its deletion continues"}


async def test_a_live_broker_is_not_forgotten_nor_one_without_confirmation(operator: Operator) -> None:
    alive = await operator.refusal("/v1/brokers/2/forget", {"reason": "x", "confirm": 2})
    slip = await operator.refusal("/v1/brokers/2/forget", {"reason": "x", "confirm": 1})

    assert (alive.status, alive.code) == (409, "refused")
    assert (slip.status, slip.code) == (400, "not_confirmed")


async def test_a_dry_run_of_a_takeover_names_the_holder_and_changes_nothing(world: World) -> None:
    standby = await standby_of(world)
    async with operating(standby) as operator:
        before = content(standby)
        status, answer, _ = await operator.send("/v1/takeover?dryRun=true", {})
        assert content(standby) == before
        wrong = await operator.refusal("/v1/takeover", {"from": "broker"})
        _, taken, _ = await operator.send("/v1/takeover", {"from": "instance", "reason": "drill"})
        (task,) = await operator.tasks()

    assert (status, msgspec.json.decode(answer, type=TakeoverResponse).held_by) == (200, "controllerd 2000000000")
    assert "is to be taken from a broker's built-in controller, but controllerd 2000000000 holds it" in wrong.detail
    assert msgspec.json.decode(taken, type=TakeoverResponse).epoch_after == 2
    assert briefly(task.items) == {"role": "done controller epoch 1 -> 2"}


async def test_a_resignation_is_planned_then_done(operator: Operator) -> None:
    before = content(operator.world)
    _, planned, _ = await operator.send("/v1/resign?dryRun=true", {})
    assert content(operator.world) == before
    status, answer, _ = await operator.send("/v1/resign", {"reason": "kernel"})

    assert msgspec.json.decode(planned, type=ResignResponse).took_s == 0.0
    assert (status, msgspec.json.decode(answer, type=ResignResponse).kind) == (200, "Resignation")
    assert "/controller" not in operator.world.tree.nodes
    assert (await operator.refusal("/v1/resign", {})).code == "not_controller"
