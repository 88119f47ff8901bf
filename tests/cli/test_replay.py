"""``controllerctl replay``: answers from files alone."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.running import controllerctl
from tests.replay.command.lives import Life, outage, written

AT = "2026-01-31T03:14:00Z"


@pytest.fixture
def log(tmp_path: Path) -> str:
    return str(written(outage().log, tmp_path / "prod" / "2000000000"))


def damage(log: Path) -> None:
    """Write rubbish over the last line."""
    (segment,) = log.iterdir()
    lines = segment.read_bytes().splitlines(keepends=True)
    segment.write_bytes(b"".join([*lines[:-1], b"rubbish\n"]))


async def test_why_prints_the_causes_and_how_to_look_closer(log: str) -> None:
    outcome = await controllerctl("replay", "why", "payments-7", "--at", AT, log)

    assert outcome.code == 0
    assert "Broker 5, its leader, left the cluster at 2026-01-31T03:13:30.000Z (event 3 BrokerChange)." in outcome.out
    *_, hint, command = outcome.out.splitlines()
    assert hint == "next: the cluster at that time:"
    shown = await controllerctl(*command.split()[1:])
    assert shown.code == 0
    assert "payments-7  Offline  5" in shown.out


async def test_why_as_json_has_the_causes_and_their_places(log: str) -> None:
    outcome = await controllerctl("replay", "why", "payments-7", "--at", AT, log, "-o", "json")
    answer = outcome.json()

    assert (answer["topic"], answer["partition"], answer["leader"], answer["exists"]) == ("payments", 7, None, True)
    assert isinstance(answer["sentences"], list)
    assert isinstance(answer["window"], list)


async def test_why_of_an_unknown_partition_is_not_found(log: str) -> None:
    outcome = await controllerctl("replay", "why", "orders-0", "--at", AT, log)

    assert outcome.code == 3
    assert outcome.out.startswith("There was no partition orders-0")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["payments", "--at", AT], "write TOPIC-PARTITION"),
        (["payments-7", "--at", "noon"], "is no moment"),
    ],
)
async def test_an_invalid_question_is_refused(log: str, arguments: list[str], complaint: str) -> None:
    outcome = await controllerctl("replay", "why", *arguments, log)

    assert outcome.code == 2
    assert complaint in outcome.err


async def test_no_log_is_no_input(tmp_path: Path) -> None:
    outcome = await controllerctl("replay", "why", "payments-7", "--at", AT, str(tmp_path))

    assert outcome.code == 66
    assert "has no audit log" in outcome.err


async def test_at_shows_the_cluster_of_that_moment(log: str) -> None:
    outcome = await controllerctl("replay", "at", "--time", AT, log)

    assert outcome.code == 0
    assert "cluster         prod, controller epoch 12" in outcome.out
    assert "brokers         3, 6" in outcome.out
    assert "without leader  payments-7" in outcome.out
    assert "payments-7  Offline  none    41     5    3, 5, 6   -       -" in outcome.out


async def test_at_without_a_moment_shows_the_end(log: str) -> None:
    outcome = await controllerctl("replay", "at", log, "-o", "json")

    assert outcome.json()["seq"] == len(outage().log)


async def test_at_a_moment_before_the_log_is_not_found(log: str) -> None:
    outcome = await controllerctl("replay", "at", "--time", "2020-01-01", log)

    assert outcome.code == 3
    assert "the log begins later" in outcome.err


@pytest.mark.parametrize(
    "command", ["at LOG", "diff LOG --at 2026-01-31T03:10:00Z --at 2026-02-01T00:00:00Z", "why payments-7 --at NOW LOG"]
)
async def test_damage_is_reported_beside_the_answer_and_by_the_exit_code(log: str, command: str) -> None:
    damage(Path(log))
    places = {"LOG": log, "NOW": "2026-02-01T00:00:00Z"}
    outcome = await controllerctl("replay", *(places.get(word, word) for word in command.split()))

    assert outcome.code == 65
    assert outcome.out
    assert "warning: damaged lines left out: 1;" in outcome.err


async def test_damage_after_the_moment_does_not_change_the_answer(log: str) -> None:
    damage(Path(log))
    outcome = await controllerctl("replay", "at", "--time", "2026-01-31T03:10:00Z", log)

    assert (outcome.code, outcome.err) == (0, "")


async def test_a_log_elsewhere_has_to_be_copied_first() -> None:
    outcome = await controllerctl("replay", "at", "s3a://bucket/audit")

    assert outcome.code == 66
    assert "is not on this host: copy it here" in outcome.err


async def test_diff_lists_what_changed_and_ends_with_1(log: str) -> None:
    outcome = await controllerctl("replay", "diff", "--at", "2026-01-31T03:10:00Z", "--at", AT, log)

    assert outcome.code == 1
    assert "payments-7  leader        5                -1" in outcome.out


async def test_diff_of_equal_moments_ends_with_0(log: str) -> None:
    outcome = await controllerctl("replay", "diff", "--at", AT, "--at", "2026-01-31T03:14:01Z", log)

    assert (outcome.code, outcome.out) == (0, "no differences\n")


async def test_diff_needs_two_moments(log: str) -> None:
    outcome = await controllerctl("replay", "diff", "--at", AT, log)

    assert outcome.code == 2
    assert "diff compares two times, and 1 given" in outcome.err


async def test_a_moment_after_the_log_is_not_reported_as_known(log: str) -> None:
    outcome = await controllerctl("replay", "at", "--time", "2026-02-01T00:00:00Z", log)

    assert outcome.code == 0
    assert "warning: the log ends at 2026-01-31T03:17:20.000Z, before that time" in outcome.err


async def test_logs_of_two_clusters_are_refused(log: str, tmp_path: Path) -> None:
    written([(replace(at, cluster="test"), one) for at, one in outage().log], tmp_path / "test")
    outcome = await controllerctl("replay", "why", "payments-7", "--at", AT, log, str(tmp_path / "test"))

    assert outcome.code == 66
    assert "logs of 2 clusters" in outcome.err


async def test_logs_of_two_nodes_are_read_together(tmp_path: Path) -> None:
    first = Life(boot="one")
    first.second = -600
    first.begin()
    first.end()
    second = Life(node=2_000_000_001, boot="two")
    second.second = -10
    second.begin(13, live=(3, 6))
    written(first.log, tmp_path / "prod" / "2000000000")
    written(second.log, tmp_path / "prod" / "2000000001")
    outcome = await controllerctl("replay", "why", "payments-7", "--at", AT, str(tmp_path))

    assert "Broker 5, its leader, was not there when this term began" in outcome.out
