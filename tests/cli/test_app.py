"""The command line as a whole: global flags, usage errors, and how quickly it starts."""

import asyncio
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from cli.app import application
from cli.arguments import parse_duration
from cli.exit_codes import MEANINGS, ExitCode
from cli.flags import global_flags_first
from tests.audit.samples import alarms, write_log
from tests.cli.documents import Daemon, answering, run
from tests.cli.running import PROGRAM, controllerctl, modules_after


def leaves(command: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command below this one, by the words that call it."""
    below = getattr(command, "commands", None)
    if below is None:
        yield path
        return
    for name, inner in below.items():
        yield from leaves(inner, (*path, name))


def test_global_flags_may_stand_after_the_command() -> None:
    given = ["takeover", "--yes", "--reason", "because", "-o=json", "--api", "http://h:1"]

    assert global_flags_first(given) == ["--yes", "--reason", "because", "-o=json", "--api", "http://h:1", "takeover"]


def test_the_flags_of_a_command_stay_with_it() -> None:
    assert global_flags_first(["status", "-w", "2", "--no-color"]) == ["--no-color", "status", "-w", "2"]


def test_nothing_moves_behind_a_double_dash() -> None:
    assert global_flags_first(["status", "--", "--yes"]) == ["status", "--", "--yes"]


def test_a_flag_without_its_value_is_left_for_the_parser_to_refuse() -> None:
    assert global_flags_first(["status", "--api"]) == ["--api", "status"]


@pytest.mark.parametrize(("text", "seconds"), [("30", 30.0), ("1.5s", 1.5), ("500ms", 0.5), ("2m", 120.0)])
def test_durations_have_units(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "0", "-1", "soon", "1d", "1 s", "999999999h"])
def test_an_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_duration(text)


def test_every_exit_code_has_a_meaning() -> None:
    assert set(MEANINGS) == set(ExitCode)


async def test_the_exit_codes_can_be_listed() -> None:
    outcome = await controllerctl("exit-codes")

    assert outcome.code == 0
    assert [line.split()[0] for line in outcome.out.splitlines()[1:]] == [str(int(code)) for code in ExitCode]


async def test_the_exit_codes_are_data_too() -> None:
    outcome = await controllerctl("exit-codes", "-o", "json")

    assert set(outcome.json()) == {str(int(code)) for code in ExitCode}


async def test_the_version_needs_no_daemon() -> None:
    assert (await controllerctl("version")).out.startswith("controllerctl ")


@pytest.mark.parametrize(
    "arguments", [["stauts"], ["status", "--bogus"], ["--timeout", "soon", "status"], ["-o", "xml"]]
)
async def test_wrong_usage_ends_with_2(arguments: list[str]) -> None:
    assert (await controllerctl(*arguments)).code == ExitCode.USAGE


def test_nothing_slow_is_imported_before_it_is_needed() -> None:
    slow = {"aiohttp", "asyncio", "http.client", "kazoo", "msgspec", "pyspark", "rich", "structlog"}

    assert slow & modules_after("--help") == set()


def test_a_command_that_asks_the_daemon_needs_little_more() -> None:
    slow = {"aiohttp", "asyncio", "kazoo", "pydantic", "rich", "structlog"}

    assert slow & modules_after("status", "--api", "http://127.0.0.1:1") == set()


async def test_a_reason_that_is_called_like_a_command_is_a_reason() -> None:
    assert (await controllerctl("--reason", "drain", "version")).code == 0


@pytest.mark.parametrize(
    ("given", "moved"),
    [
        ([], []),
        (["status", "-w"], ["status", "-w", "2s"]),
        (["status", "-w", "5"], ["status", "-w", "5"]),
        (["get", "queue", "-w", "-o", "wide"], ["-o", "wide", "get", "queue", "-w", "2s"]),
        (["status", "-ojson", "-vv"], ["-ojson", "-vv", "status"]),
        (["topics", "create", "--config", "a=b"], ["topics", "create", "--config", "a=b"]),
    ],
)
def test_a_watch_needs_no_number_and_short_flags_may_hold_their_value(given: list[str], moved: list[str]) -> None:
    assert global_flags_first(given) == moved


async def test_without_arguments_the_commands_are_listed() -> None:
    outcome = await controllerctl()

    assert "describe" in outcome.out + outcome.err


def test_the_version_is_a_flag_too() -> None:
    assert run("--version").out == run("version").out


COMMANDS = [" ".join(path) for path in leaves(typer.main.get_command(application()))]


def test_the_commands_were_found() -> None:
    assert {"status", "get partitions", "describe topic", "audit verify", "replay run", "doctor"} <= set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_every_command_has_two_examples(command: str) -> None:
    outcome = run(*command.split(), "--help")

    assert outcome.code == 0
    help_text = " ".join(outcome.out.partition("Example")[2].split())
    assert help_text.count(f"controllerctl {command}") >= 2, outcome.out


def test_verbose_shows_each_request() -> None:
    daemon = Daemon()
    with answering(daemon) as url:
        outcome = run("get", "topics", "-vv", "--api", url)

    assert "GET /v1/topics?limit=1000: 200 after " in outcome.err
    assert "Content-Length" in outcome.err


@pytest.mark.parametrize(("redirection", "reason"), [(">/dev/full", "No space left on device"), (">&-", "closed")])
def test_an_answer_that_cannot_be_written_ends_with_74_and_says_why(redirection: str, reason: str) -> None:
    shell = f'exec "$0" -c "{PROGRAM}" exit-codes {redirection}'

    ended = subprocess.run(["sh", "-c", shell, sys.executable], capture_output=True, text=True, check=False)

    assert ended.returncode == ExitCode.UNWRITTEN
    assert reason in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "Exception ignored" not in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("why t-0 --api http://127.0.0.1:1", ExitCode.UNREACHABLE),
        ("stauts", ExitCode.UNWRITTEN),
        ("", ExitCode.UNWRITTEN),
    ],
)
def test_where_standard_error_is_closed_the_exit_code_is_kept(arguments: str, code: int) -> None:
    shell = f'exec "$0" -c "{PROGRAM}" {arguments} 2>/dev/full'

    assert subprocess.run(["sh", "-c", shell, sys.executable], check=False).returncode == code


@pytest.mark.parametrize("redirection", ["2>/dev/full", "2>&-"])
@pytest.mark.parametrize("command", ["verify", "tail --kind term"])
async def test_a_failed_note_on_standard_error_does_not_fail_the_answer(
    command: str, redirection: str, tmp_path: Path
) -> None:
    verb, *options = command.split()
    log = await write_log(tmp_path, *alarms(1))
    shell = f'exec "$0" -c "{PROGRAM}" audit {verb} "$1" {shlex.join(options)} {redirection}'

    ended = await asyncio.create_subprocess_exec("sh", "-c", shell, sys.executable, log)

    assert await ended.wait() == ExitCode.DONE


def test_an_argument_that_is_not_utf8_is_wrong_usage() -> None:
    arguments = [b"--api", b"http://127.0.0.1:1", b"why", b"\xfc-1"]

    ended = subprocess.run([sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=False)

    assert ended.returncode == ExitCode.USAGE
    assert ended.stderr.splitlines() == ["controllerctl: an argument is not valid UTF-8: '\\udcfc'"]
