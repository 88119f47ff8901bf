"""``controllerctl takeover`` and ``resign``: the plan, the question, and the exit codes."""

import asyncio
import signal

import pytest

from controllerd.errors import CallFailed, RefusedToLead, StoreUnavailable
from controllerd.views import Role
from tests.cli.running import answering, controllerctl, outcome_of, start
from tests.status.fake_controller import FakeController, serving


async def test_a_takeover_names_the_former_controller_and_the_epochs() -> None:
    controller = FakeController()

    async with serving(controller) as url:
        outcome = await controllerctl("--api", url, "takeover", "--yes", "--reason", "first trial")

    assert outcome.code == 0
    assert "takes the role from broker 2 (built-in)" in outcome.err
    assert outcome.out.startswith("role taken from broker 2 (built-in) in ")
    assert outcome.out.endswith("controller epoch 0 -> 1\n")
    assert controller.reasons == ["first trial"]


async def test_a_remembered_takeover_says_what_that_means() -> None:
    controller = FakeController()

    async with serving(controller) as url:
        outcome = await controllerctl("--api", url, "takeover", "--remember", "--yes")

    assert outcome.code == 0
    assert "it takes the role from brokers by itself" in outcome.err
    assert outcome.out.startswith("role taken from broker 2 (built-in) in ")
    assert controller.memory.remembered == 1


async def test_a_role_that_is_held_already_can_be_remembered() -> None:
    controller = FakeController()
    controller.lead(9)

    async with serving(controller) as url:
        outcome = await controllerctl("--api", url, "takeover", "--remember", "--yes")

    assert outcome.code == 0
    assert outcome.out.startswith("remembered; the role was held already, with controller epoch ")
    assert controller.memory.remembered == 1


async def test_a_takeover_that_cannot_be_remembered_is_refused_with_the_reason() -> None:
    controller = FakeController()
    controller.memory.why_not = "controller.when_broker_holds = standby is configured (flag)"

    async with serving(controller) as url:
        outcome = await controllerctl("--api", url, "takeover", "--remember", "--yes")

    assert (outcome.code, controller.reasons) == (4, [])
    assert controller.memory.why_not in outcome.err


async def test_a_resignation_gives_up_the_role() -> None:
    controller = FakeController()
    controller.lead(4)

    async with serving(controller) as url:
        outcome = await controllerctl("resign", "--api", url, "-y", "--reason=upgrade")

    assert (outcome.code, controller.reasons) == (0, ["upgrade"])
    assert controller.snapshot.role is Role.STANDBY


@pytest.mark.parametrize("verb", ["takeover", "resign"])
async def test_without_a_terminal_and_without_yes_nothing_is_changed(verb: str) -> None:
    controller = FakeController()
    if verb == "resign":
        controller.lead(1)

    async with serving(controller) as url:
        outcome = await controllerctl("--api", url, verb)

    assert (outcome.code, controller.reasons) == (7, [])
    assert "repeat with --yes" in outcome.err


@pytest.mark.parametrize(
    ("typed", "code", "asked_for"), [(b"y\n", 0, 1), (b"n\n", 7, 0), (b"\n", 7, 0), (b"\x04", 7, 0)]
)
async def test_on_a_terminal_the_typed_answer_decides(typed: bytes, code: int, asked_for: int) -> None:
    controller = FakeController()

    async with serving(controller) as url:
        outcome = await answering(typed, "--api", url, "takeover")

    assert (outcome.code, len(controller.reasons)) == (code, asked_for)
    assert "continue?" in outcome.err


@pytest.mark.parametrize(("verb", "says"), [("takeover", "holds the role already"), ("resign", "stands by")])
async def test_a_command_without_effect_is_no_error_and_asks_nothing(verb: str, says: str) -> None:
    controller = FakeController()
    if verb == "takeover":
        controller.lead(9)

    async with serving(controller) as url:
        outcome = await controllerctl("--api", url, verb)

    assert (outcome.code, controller.reasons) == (0, [])
    assert says in outcome.out


async def test_json_carries_the_epochs_and_nothing_else_on_standard_output() -> None:
    async with serving(FakeController()) as url:
        first = await controllerctl("--api", url, "takeover", "--yes", "-o", "json")
        second = await controllerctl("--api", url, "takeover", "--yes", "-o", "json")

    assert (first.json()["epoch_before"], first.json()["epoch_after"]) == (0, 1)
    assert (second.json()["epoch_before"], second.json()["epoch_after"]) == (1, 1)
    assert first.json().keys() == second.json().keys()


@pytest.mark.parametrize(
    ("refusal", "code"),
    [(RefusedToLead("secured znodes"), 4), (StoreUnavailable("session lost"), 69), (CallFailed("see the log"), 70)],
)
async def test_a_refusal_has_its_own_exit_code_and_says_why(
    refusal: RefusedToLead | StoreUnavailable | CallFailed, code: int
) -> None:
    controller = FakeController(refusal=refusal)

    async with serving(controller) as url:
        outcome = await controllerctl("--api", url, "takeover", "--yes")

    assert outcome.code == code
    assert str(refusal) in outcome.err.splitlines()[-1]


async def test_an_interrupted_takeover_continues_and_says_so() -> None:
    controller = FakeController(never_answers=True)

    async with serving(controller) as url:
        process = await start("--api", url, "takeover", "--yes")
        await asyncio.wait_for(controller.took.wait(), 30)
        process.send_signal(signal.SIGINT)
        outcome = await outcome_of(process)

    assert outcome.code == 130
    assert "the operation continues" in outcome.err


@pytest.mark.parametrize("own_timeout", ["200ms", "20s"])
async def test_a_takeover_that_takes_too_long_ends_with_the_code_of_a_timeout(own_timeout: str) -> None:
    controller = FakeController(is_stalled=True)

    async with serving(controller, admin_timeout_s=1.0) as url:
        outcome = await controllerctl("--api", url, "takeover", "--yes", "--timeout", own_timeout)

    assert outcome.code == 124
    assert "controllerctl status" in outcome.err
