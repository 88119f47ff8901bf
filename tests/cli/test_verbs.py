"""``controllerctl elect``, ``topics``, ``drain``, ``pause``, ``resume`` and ``resync`` on a whole controller."""

import re

import pytest

from tests.cli.on_controller import begun, ctl
from tests.cli.running import answering, outcome_of
from tests.status.verbs.operating import Operator
from tests.status.verbs.test_topics import replicas_deleted


async def lead_elsewhere(operator: Operator) -> None:
    """Broker 1 leaves and returns: broker 2 leads t from then on, though 1 is the preferred leader."""
    operator.world.die(1)
    await operator.settle()
    operator.world.register(1)
    await operator.settle()
    for number in range(3):
        await operator.change_isr("t", 1, 2, partition=number)


# -- elect -------------------------------------------------------------------------------------------------------------


async def test_preferred_leaders_are_elected(operator: Operator) -> None:
    await lead_elsewhere(operator)

    planned = await ctl(operator, "elect", "preferred", "--topic", "t", "--partition", "0", "--dry-run")
    one = await ctl(operator, "elect", "preferred", "--topic", "t", "--partition", "0", "--yes")
    rest = await ctl(operator, "elect", "preferred", "--broker", "1", "--yes")
    again = await ctl(operator, "elect", "preferred", "--topic", "t", "--yes")

    assert "leader 2 -> 1" in planned.out
    assert (one.code, "t-0" in one.out, "t-1" in one.out) == (0, True, False)
    assert (rest.code, "leader 2 -> 1" in rest.out) == (0, True)
    assert (again.code, "not-needed" in again.out) == (0, True)
    assert "nothing to do, nothing was changed: " in again.out
    assert "dry run" not in again.out
    assert len(await operator.tasks()) == 2, "what is not needed is not begun"


async def test_partitions_without_an_electable_leader_are_a_partial_result(operator: Operator) -> None:
    await lead_elsewhere(operator)
    operator.world.die(3)
    await operator.settle()

    outcome = await ctl(operator, "elect", "preferred", "--all", "--yes")

    assert outcome.code == 5
    assert re.search(r"wide-0 +failed", outcome.out)
    assert "PREFERRED_LEADER_NOT_AVAILABLE" in outcome.out
    assert "nothing to do" not in outcome.out


async def test_a_topic_that_does_not_exist_is_not_found(operator: Operator) -> None:
    outcome = await ctl(operator, "elect", "preferred", "--topic", "nowhere", "--yes")

    assert (outcome.code, "nowhere" in outcome.out) == (3, True)


@pytest.mark.parametrize("words", [(), ("--partition", "0"), ("--topic", "t", "--topic", "wide", "--partition", "0")])
async def test_an_election_needs_partitions(operator: Operator, words: tuple[str, ...]) -> None:
    assert (await ctl(operator, "elect", "preferred", *words)).code == 2


async def test_an_unclean_election_needs_consent_a_reason_and_the_name(operator: Operator) -> None:
    world = operator.world
    await operator.change_isr("t", 1)
    world.die(1)
    await operator.settle()
    words = ("elect", "unclean", "--topic", "t", "--partition", "0")
    consent = ("--i-accept-data-loss", "--reason", "disk dead")

    planned = await ctl(operator, *words, "--dry-run")
    no_consent = await ctl(operator, *words, "--yes", "--reason", "x")
    no_reason = await ctl(operator, *words, "--yes", "--i-accept-data-loss")
    unconfirmed = await ctl(operator, *words, *consent)
    wrong = await answering(b"y\n", *words, *consent, "--api", operator.url)
    unconfirmed_tasks = await operator.tasks()
    typed = await answering(b"t\n", *words, *consent, "--api", operator.url)

    assert (planned.code, "records may be lost" in planned.out) == (0, True)
    assert [no_consent.code, no_reason.code, unconfirmed.code, wrong.code] == [2, 2, 7, 7]
    assert unconfirmed_tasks == []
    assert (typed.code, "leader -1 -> 2" in typed.out) == (0, True)
    assert "ARE LOST for ever" in typed.err
    assert "a reassignment of the partition may be completed" in typed.err


# -- topics ------------------------------------------------------------------------------------------------------------


async def test_a_topic_is_created_enlarged_and_deleted(operator: Operator) -> None:
    create = ("topics", "create", "new", "--partitions", "2", "--replication-factor", "3", "--yes")

    created = await ctl(operator, *create, "--config", "retention.ms=1000", "--wait")
    again = await ctl(operator, *create)
    tolerated = await ctl(operator, *create, "--if-not-exists")
    grown = await ctl(operator, "topics", "add-partitions", "new", "--partitions", "4", "--wait", "--yes")
    fewer = await ctl(operator, "topics", "add-partitions", "new", "--partitions", "1", "--yes")

    assert (created.code, created.out.splitlines()[-1]) == (0, "topics: done; 2 done")
    assert b'"retention.ms":"1000"' in (operator.world.tree.nodes["/config/topics/new"].data or b"").replace(b" ", b"")
    assert (again.code, "TOPIC_ALREADY_EXISTS" in again.out) == (4, True)
    assert (tolerated.code, "it exists already" in tolerated.out) == (0, True)
    assert (grown.code, len(operator.world.snapshot.topics["new"].partitions)) == (0, 4)
    assert (fewer.code, "INVALID_PARTITIONS" in fewer.out) == (4, True)


async def test_a_topic_gets_the_brokers_that_are_given(operator: Operator) -> None:
    outcome = await ctl(operator, "topics", "create", "new", "--replica-assignment", "1:2,3:1", "--wait", "--yes")

    views = operator.world.snapshot.topics["new"].partitions
    assert outcome.code == 0
    assert [view.assignment.replicas for view in views] == [(1, 2), (3, 1)]


@pytest.mark.parametrize(
    "words",
    [
        ("create", "new", "--replica-assignment", "1:x"),
        ("create", "new", "--replica-assignment", "1:2", "--partitions", "3"),
        ("create", "new", "--config", "retention.ms"),
        ("delete", "t"),
        ("add-partitions", "t"),
    ],
)
async def test_invalid_arguments_are_wrong_usage(operator: Operator, words: tuple[str, ...]) -> None:
    assert ((await ctl(operator, "topics", *words, "--yes")).code, await operator.tasks()) == (2, [])


async def test_a_deletion_waits_until_the_topic_is_gone(operator: Operator) -> None:
    process = await begun(operator, "topics", "delete", "lone", "--wait", "--yes", "--reason", "moved")
    while "lone" not in operator.world.snapshot.deletions:
        await operator.world.snapshot.next_version()
    await operator.settle()
    await replicas_deleted(operator)
    outcome = await outcome_of(process)

    assert (outcome.code, outcome.out.splitlines()[-1]) == (0, "topics:delete: done; 1 done")
    assert "/brokers/topics/lone" not in operator.world.tree.nodes


async def test_a_deletion_is_planned_refused_and_declined(operator: Operator) -> None:
    planned = await ctl(operator, "topics", "delete", "t", "--dry-run")
    missing = await ctl(operator, "topics", "delete", "x", "--yes", "--reason", "r")
    tolerated = await ctl(operator, "topics", "delete", "x", "--if-exists", "--yes", "--reason", "r")
    wrong = await answering(b"yes\n", "topics", "delete", "t", "--reason", "r", "--api", operator.url)

    assert (planned.code, "3 partitions with 6 replicas to be deleted permanently" in planned.out) == (0, True)
    assert (missing.code, tolerated.code, wrong.code) == (3, 0, 7)
    assert "type t to continue" in wrong.err
    assert await operator.tasks() == []


# -- drain, pause, resume, resync --------------------------------------------------------------------------------------


async def test_a_broker_is_drained_and_each_leadership_that_stays_has_a_reason(operator: Operator) -> None:
    planned = await ctl(operator, "drain", "broker", "1", "--dry-run")
    leaving = await ctl(operator, "drain", "broker", "1", "--leave-isrs", "--dry-run")
    drained = await ctl(operator, "drain", "broker", "1", "--yes", "--reason", "new disk")
    resumed = await ctl(operator, "resume", "drain-1", "--yes")

    assert (planned.code, drained.code) == (5, 5)
    assert re.search(r"t-0 +planned +leader 1 -> 2, ISR stays \[1, 2", planned.out)
    assert re.search(r"t-0 +planned +leader 1 -> 2, ISR \[1, 2.*\] -> \[2", leaving.out)
    assert re.search(r"lone-0 +failed", drained.out)
    assert "the automatic rebalance moves no leadership back to it for an hour" in drained.err
    assert (resumed.code, "drain-1" in resumed.out) == (0, True)


async def test_a_broker_that_leads_nothing_is_drained_all_the_same_with_an_explanation(
    operator: Operator,
) -> None:
    planned = await ctl(operator, "drain", "broker", "2", "--dry-run")
    drained = await ctl(operator, "drain", "broker", "2", "--leaders-only", "--yes")
    left = await ctl(operator, "drain", "broker", "2", "--leave-isrs", "--yes")

    assert [planned.code, drained.code, left.code] == [0, 0, 0]
    assert "nothing to do" not in planned.out + drained.out + drained.err
    assert "broker 2 leads no partition; then it stays in the ISRs" in planned.out
    assert "broker 2 leads no partition" in drained.err
    assert "led no partition; the automatic rebalance moves no leadership to it" in drained.out
    assert re.search(r"t-0 +done +ISR \[1", left.out)


async def test_an_unknown_broker_is_not_drained(operator: Operator) -> None:
    outcome = await ctl(operator, "drain", "broker", "9", "--yes")

    assert (outcome.code, "broker 9 is not registered" in outcome.err) == (4, True)


async def test_deletions_are_paused_for_a_while_and_resumed(operator: Operator) -> None:
    paused = await ctl(operator, "pause", "deletions", "--for", "90s", "--reason", "audit", "--yes")
    until = operator.world.snapshot.pauses["deletions"].until_ms
    resumed = await ctl(operator, "resume", "deletions", "--yes")
    again = await ctl(operator, "resume", "deletions", "--yes")

    assert (paused.code, until) == (0, operator.world.clock.now_ms() + 90_000)
    assert "pause deletions for 1m30s" in paused.err
    assert (resumed.code, again.code, "it is not paused" in again.out) == (0, 0, True)
    assert "deletions" not in operator.world.snapshot.pauses


@pytest.mark.parametrize(
    "words", [("pause", "everything"), ("pause", "deletions", "--for", "9000h"), ("resume", "drain-x")]
)
async def test_an_invalid_pause_is_wrong_usage(operator: Operator, words: tuple[str, ...]) -> None:
    assert ((await ctl(operator, *words, "--yes")).code, await operator.tasks()) == (2, [])


async def test_resume_lists_the_kinds_that_it_accepts(operator: Operator) -> None:
    outcome = await ctl(operator, "resume", "rebalance", "--yes")

    assert "'rebalance' cannot be paused: choose auto-rebalance, deletions or drain-ID" in outcome.err


@pytest.mark.parametrize(
    "words", [("why", ""), ("describe", "topic", ""), ("topics", "delete", "", "--reason", "x", "--yes")]
)
async def test_an_empty_name_is_wrong_usage(operator: Operator, words: tuple[str, ...]) -> None:
    outcome = await ctl(operator, *words)

    assert (outcome.code, "the name of the topic is empty" in outcome.err) == (2, True)


async def test_resync_reads_everything_again(operator: Operator) -> None:
    outcome = await ctl(operator, "resync", "--yes", "--reason", "znodes were edited")

    assert (outcome.code, operator.world.metrics.events.count("Resync")) == (0, 1)
