"""``controllerctl brokers forget``: shows the plan, needs a reason, and the id typed once more."""

import pytest

from controllerd.errors import CallRefused, NotController
from tests.cli.running import answering, controllerctl
from tests.status.fake_controller import FakeController, serving


@pytest.fixture
def controller() -> FakeController:
    """A leader over brokers 1 and 2; a deletion waits for broker 7."""
    controller = FakeController()
    controller.lead(12)
    controller.delete("orders", held_up_by="replicas on broker 7 cannot be deleted: not online")
    return controller


async def test_a_broker_is_forgotten_with_a_reason(controller: FakeController) -> None:
    async with serving(controller) as url:
        outcome = await controllerctl("--api", url, "brokers", "forget", "7", "--reason", "burnt down", "--yes")

    assert (outcome.code, controller.reasons) == (0, ["burnt down"])
    assert "blocked deletions: orders" in outcome.err
    assert "the deletion of 1 topic continues without it, 3 replicas to be deleted" in outcome.out


async def test_a_reason_is_needed(controller: FakeController) -> None:
    async with serving(controller) as url:
        outcome = await controllerctl("--api", url, "brokers", "forget", "7", "--yes")

    assert (outcome.code, controller.reasons) == (2, [])
    assert "--reason" in outcome.err


async def test_a_broker_that_is_registered_is_not_forgotten(controller: FakeController) -> None:
    async with serving(controller) as url:
        outcome = await controllerctl("--api", url, "brokers", "forget", "2", "--reason", "x", "--yes")

    assert (outcome.code, controller.reasons) == (4, [])
    assert "broker 2 is registered" in outcome.err


@pytest.mark.parametrize(
    ("typed", "code", "asked_for"),
    [(b"7\n", 0, 1), (b"8\n", 7, 0), (b"y\n", 7, 0), (b"\n", 7, 0), (b"\x04", 7, 0)],
)
async def test_on_a_terminal_the_id_must_be_typed(
    controller: FakeController, typed: bytes, code: int, asked_for: int
) -> None:
    async with serving(controller) as url:
        outcome = await answering(typed, "--api", url, "brokers", "forget", "7", "--reason", "burnt down")

    assert (outcome.code, len(controller.reasons)) == (code, asked_for)
    assert "type 7 to continue" in outcome.err


async def test_without_a_terminal_nothing_is_forgotten(controller: FakeController) -> None:
    async with serving(controller) as url:
        outcome = await controllerctl("--api", url, "brokers", "forget", "7", "--reason", "burnt down")

    assert (outcome.code, controller.reasons) == (7, [])


@pytest.mark.parametrize(
    ("refusal", "code"), [(CallRefused("broker 7 is registered"), 4), (NotController("a standby"), 4)]
)
async def test_a_refusal_of_the_daemon_is_printed(
    controller: FakeController, refusal: CallRefused | NotController, code: int
) -> None:
    controller.refusal = refusal

    async with serving(controller) as url:
        outcome = await controllerctl("--api", url, "brokers", "forget", "7", "--reason", "x", "--yes")

    assert outcome.code == code
    assert str(refusal) in outcome.err.splitlines()[-1]


async def test_json_is_the_answer_of_the_daemon(controller: FakeController) -> None:
    async with serving(controller) as url:
        outcome = await controllerctl("--api", url, "brokers", "forget", "7", "--reason", "x", "--yes", "-o", "json")

    assert (outcome.json()["kind"], outcome.json()["topics"]) == ("BrokerForgotten", ["orders"])
