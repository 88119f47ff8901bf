"""``controllerctl observations``, and the other commands against an instance that only observes."""

import msgspec
import pytest

from controllerd.status.schema.history import ObservationsResponse
from tests.cli.running import controllerctl
from tests.status.fake_controller import FakeController, compared, serving


@pytest.fixture
def observer() -> FakeController:
    controller = FakeController()
    controller.observe(
        compared("equal"),
        compared("different: leader", topic="audit", number=3),
        compared("not judged", cause="the ISR changed", topic="payments"),
    )
    return controller


def line_with(text: str, printed: str) -> list[str]:
    """The words of the one line that begins with a text."""
    (line,) = [line for line in printed.splitlines() if line.startswith(text)]
    return line.split()


async def test_totals_are_printed_by_cause(observer: FakeController) -> None:
    async with serving(observer) as url:
        outcome = await controllerctl("observations", "--api", url)

    assert outcome.code == 0
    titles = line_with("CAUSE            EQUAL", outcome.out)
    assert titles == ["CAUSE", "EQUAL", "DIFFERENT", "UNCLEAR", "DELIBERATE", "NOT", "JUDGED"]
    assert line_with("broker died      1", outcome.out) == ["broker", "died", "1", "1", "-", "-", "-"]
    assert line_with("the ISR changed  -", outcome.out) == ["the", "ISR", "changed", "-", "-", "-", "-", "1"]


async def test_each_of_the_newest_partitions_has_a_line(observer: FakeController) -> None:
    async with serving(observer) as url:
        outcome = await controllerctl("observations", "--api", url)

    judged = line_with("broker died      audit-3", outcome.out)[3:]
    not_judged = line_with("the ISR changed  payments-0", outcome.out)[4:]
    assert " ".join(judged) == "1/4 [1, 2] 2/5 [2] 2/5 [2] different: leader"
    assert " ".join(not_judged) == "1/4 [1, 2] - 2/5 [2] not judged"


async def test_undetermined_comparisons_are_listed(observer: FakeController) -> None:
    async with serving(observer) as url:
        outcome = await controllerctl("observations", "--api", url)

    assert "cluster         cluster-1, controller epoch 7" in outcome.out
    assert "looks           40, 1 left out because the cluster changed while it was read" in outcome.out
    assert "waited for      2 causes that have not settled" in outcome.out
    assert "would lead      yes" in outcome.out
    assert "not judged      the ISR changed\n                another leader\n" in outcome.out
    assert "cannot be seen  quotas" in outcome.out


async def test_a_refusal_to_become_active_is_reported() -> None:
    controller = FakeController()
    controller.observe(refusal="the cluster is being migrated")

    async with serving(controller) as url:
        outcome = await controllerctl("observations", "--api", url)

    assert "would lead      no: the cluster is being migrated" in outcome.out


@pytest.mark.parametrize(("asked", "listed"), [("0", []), ("1", ["payments-0"]), ("2", ["audit-3", "payments-0"])])
async def test_as_many_partitions_are_listed_as_asked_for(
    observer: FakeController, asked: str, listed: list[str]
) -> None:
    async with serving(observer) as url:
        outcome = await controllerctl("observations", "--api", url, "--last", asked)

    assert [name for name in ("orders-0", "audit-3", "payments-0") if name in outcome.out] == listed


@pytest.mark.parametrize(("verdict", "code"), [("equal", 0), ("different: isr", 1), ("unclear: ISR moved again", 0)])
async def test_the_check_fails_where_a_decision_differs(verdict: str, code: int) -> None:
    controller = FakeController()
    controller.observe(compared(verdict))

    async with serving(controller) as url:
        outcome = await controllerctl("observations", "--api", url, "--check")

    assert outcome.code == code


async def test_json_is_the_schema_of_the_daemon(observer: FakeController) -> None:
    async with serving(observer) as url:
        outcome = await controllerctl("observations", "-o", "json", "--api", url)

    assert len(msgspec.json.decode(outcome.out, type=ObservationsResponse).observations.latest) == 3


async def test_an_instance_that_may_become_active_has_no_observations() -> None:
    async with serving(FakeController()) as url:
        outcome = await controllerctl("observations", "--api", url)

    assert outcome.code == 4
    assert "not_observing" in outcome.err


@pytest.mark.parametrize("command", [["takeover"], ["resign"], ["brokers", "forget", "3", "--reason", "burnt"]])
async def test_nothing_is_changed_through_an_observer(observer: FakeController, command: list[str]) -> None:
    async with serving(observer) as url:
        outcome = await controllerctl("--api", url, "--yes", *command)

    assert (outcome.code, observer.reasons) == (4, [])
    assert "this instance observes and changes nothing" in outcome.err


async def test_status_shows_the_cluster_and_how_it_compared(observer: FakeController) -> None:
    async with serving(observer) as url:
        outcome = await controllerctl("--api", url, "status")

    assert "this instance  observer: watches broker 2 (built-in)" in outcome.out
    assert "observed       1 different, 1 equal, 1 not judged; see controllerctl observations" in outcome.out
    assert "partitions     4 of 2 topics" in outcome.out
    assert "registered" in outcome.out
    assert "connect" not in outcome.out.partition("BROKER")[2]
