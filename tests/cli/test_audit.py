"""``controllerctl audit``: output and exit code for whole and damaged logs."""

import asyncio
import json
from pathlib import Path
from random import Random

import msgspec
import pytest

from cli.exit_codes import ExitCode
from controllerd.audit.heads import ExportedHead, decode_head, encode_head, encode_heads
from controllerd.audit.schema import encoded_schema
from tests.audit.forgery import Log, lines_of, new_log, without, write
from tests.audit.samples import CLUSTER, NODE, alarms, make_writer, write_log
from tests.cli.running import controllerctl, outcome_of, start

KEY = b"0123456789abcdef0123456789abcdef"


@pytest.fixture
def log() -> Log:
    """A log of several boots."""
    return new_log(Random("a log"))


def exported(log: Log, index: int = -1) -> ExportedHead:
    """The head as of one of its lines."""
    return ExportedHead.of(lines_of(log)[index].head, cluster=CLUSTER, node=NODE, epoch=7, exported_ms=1)


def file_of(path: Path, content: bytes) -> str:
    """A file for an argument."""
    path.write_bytes(content)
    return str(path)


async def test_a_whole_log_ends_with_0_and_says_what_cannot_be_verified(log: Log, tmp_path: Path) -> None:
    outcome = await controllerctl("audit", "verify", str(write(log, tmp_path / "log")))

    assert (outcome.code, outcome.err) == (0, "")
    words = " ".join(outcome.out.split())
    assert f"verdict whole lines {len(lines_of(log))} head seq {lines_of(log)[-1].seq} " in words
    assert "without an exported head, a cut-off end or a rollback of the log cannot be detected" in outcome.out


async def test_unknown_kinds_are_counted_by_name(tmp_path: Path) -> None:
    directory = await write_log(tmp_path, *alarms(3))
    (segment,) = directory.glob("*.jsonl")
    segment.write_bytes(segment.read_bytes().replace(b'"kind":"alarm"', b'"kind":"omen"'))

    outcome = await controllerctl("audit", "verify", str(directory))

    assert "unknown kind  omen: 3 lines, of a newer version" in outcome.out


async def test_a_log_without_a_line_in_the_middle_ends_with_65_and_names_it(log: Log, tmp_path: Path) -> None:
    missing = lines_of(log)[1]
    directory = write(without(log, [missing]), tmp_path / "log")

    outcome = await controllerctl("audit", "verify", str(directory))

    assert outcome.code == ExitCode.DAMAGED
    assert f"seq {missing.first}..{missing.seq} of boot {missing.boot}" in outcome.out
    assert "docs/audit.md" in outcome.out


async def test_a_cut_end_is_found_with_a_head_from_standard_input(log: Log, tmp_path: Path) -> None:
    directory = write(without(log, lines_of(log)[-1:]), tmp_path / "log")
    process = await start("audit", "verify", str(directory), "--head", "-", "-o", "json", stdin=asyncio.subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(encode_head(exported(log)))
    process.stdin.close()

    outcome = await outcome_of(process)

    assert outcome.code == ExitCode.DAMAGED
    document = json.loads(outcome.out)
    assert document["intact"] is False
    assert [finding["harm"] for finding in document["findings"]] == ["truncated"]


async def test_signed_heads_are_checked(log: Log, tmp_path: Path) -> None:
    directory = str(write(log, tmp_path / "log"))
    key = file_of(tmp_path / "key", KEY)
    heads = file_of(tmp_path / "heads", encode_heads([exported(log, 0), exported(log)], KEY))

    outcome = await controllerctl("audit", "verify", directory, "--head", heads, "--key", key)

    assert outcome.code == 0
    assert "against 2 exported heads with good signatures" in outcome.out


async def test_a_head_with_a_wrong_signature_ends_with_65(log: Log, tmp_path: Path) -> None:
    directory = str(write(log, tmp_path / "log"))
    key = file_of(tmp_path / "key", KEY)
    heads = file_of(tmp_path / "heads", encode_head(exported(log), b"another key of somebody"))

    outcome = await controllerctl("audit", "verify", directory, "--head", heads, "--key", key)

    assert outcome.code == ExitCode.DAMAGED
    assert "the signature does not fit" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--head", "nowhere"], "cannot be read"),
        (["--key", "nowhere"], "cannot be read"),
        (["--key", "KEY"], "--key needs --head"),
        (["--head", "KEY"], "not an exported head"),
        (["--head", "KEY", "--key", "SHORT"], "needs 16"),
    ],
)
async def test_an_unusable_head_or_key_is_wrong_usage(
    log: Log, tmp_path: Path, arguments: list[str], says: str
) -> None:
    files = {"KEY": file_of(tmp_path / "key", KEY), "SHORT": file_of(tmp_path / "short", b"short")}
    directory = str(write(log, tmp_path / "log"))

    outcome = await controllerctl("audit", "verify", directory, *(files.get(each, each) for each in arguments))

    assert outcome.code == ExitCode.USAGE
    assert says in outcome.err


@pytest.mark.parametrize("command", ["verify", "head", "tail"])
async def test_a_folder_without_a_log_ends_with_66_and_names_one_with_a_log(
    log: Log, tmp_path: Path, command: str
) -> None:
    write(log, tmp_path / "audit" / "cluster" / "1")

    missing = await controllerctl("audit", command, str(tmp_path / "nowhere"))
    above = await controllerctl("audit", command, str(tmp_path / "audit"))

    assert (missing.code, above.code) == (ExitCode.NO_INPUT, ExitCode.NO_INPUT)
    assert "is not a directory" in missing.err
    assert f"there is one in {tmp_path / 'audit' / 'cluster' / '1'}" in above.err


async def test_the_newest_head_is_printed_and_signed(log: Log, tmp_path: Path) -> None:
    key = file_of(tmp_path / "key", KEY)

    outcome = await controllerctl("audit", "head", str(write(log, tmp_path / "log")), "--key", key)

    assert outcome.code == 0
    assert decode_head(outcome.out.encode(), KEY).head == lines_of(log)[-1].head


async def test_the_newest_records_are_shown_one_line_each(tmp_path: Path) -> None:
    directory = await write_log(tmp_path, *alarms(20), boot="boot", segment_bytes=1)

    outcome = await controllerctl("audit", "tail", str(directory), "-n", "3", "--kind", "alarm")

    assert outcome.code == 0
    assert [line.partition("seq ")[2] for line in outcome.out.splitlines()] == [
        f"{number} alarm: what=test detail={number}" for number in (18, 19, 20)
    ]


async def test_the_newest_records_are_lines_of_the_log_too(log: Log, tmp_path: Path) -> None:
    outcome = await controllerctl("audit", "tail", str(write(log, tmp_path / "log")), "-n", "4", "-o", "jsonl")

    assert outcome.out.encode().splitlines() == [line.data for line in lines_of(log)[-4:]]


async def test_no_record_is_no_error(log: Log, tmp_path: Path) -> None:
    outcome = await controllerctl("audit", "tail", str(write(log, tmp_path / "log")), "--topic", "payments")

    assert (outcome.code, outcome.out, outcome.err) == (0, "", "no such records\n")


async def test_an_unknown_kind_is_wrong_usage(log: Log, tmp_path: Path) -> None:
    outcome = await controllerctl("audit", "tail", str(write(log, tmp_path / "log")), "--kind", "alram")

    assert outcome.code == ExitCode.USAGE
    assert "alarm" in outcome.err


async def test_new_records_are_followed_over_segments(tmp_path: Path) -> None:
    writer = make_writer(tmp_path, boot="boot", segment_bytes=1)
    await writer.start(CLUSTER)
    writer.record(*alarms(2))
    await writer.accepted()
    process = await start("audit", "tail", str(writer.directory), "--follow", "-o", "jsonl")
    assert process.stdout is not None
    seen = [await process.stdout.readline() for _ in range(2)]
    writer.record(*alarms(1, 3))
    await writer.accepted()
    writer.record(*alarms(1, 4))
    seen += [await asyncio.wait_for(process.stdout.readline(), 30) for _ in range(2)]
    process.terminate()
    await process.communicate()
    await writer.close()

    assert [msgspec.json.decode(line)["seq"] for line in seen] == [1, 2, 3, 4]


async def test_the_schema_is_printed() -> None:
    outcome = await controllerctl("audit", "schema")

    assert (outcome.code, outcome.out.encode()) == (0, encoded_schema())


@pytest.mark.parametrize("command", ["verify", "head", "tail", "schema"])
async def test_every_command_has_two_examples_in_its_help(command: str) -> None:
    outcome = await controllerctl("audit", command, "--help")

    assert outcome.out.count(f"controllerctl audit {command}") >= 2


@pytest.mark.parametrize("edit", [(b'"ts_ms":1', b'"ts_ms":99999999999'), (b'"data":{', b'"data":5,"more":{')])
async def test_a_line_that_cannot_be_decoded_is_printed_unchanged(tmp_path: Path, edit: tuple[bytes, bytes]) -> None:
    directory = await write_log(tmp_path, *alarms(2))
    (segment,) = directory.glob("*.jsonl")
    segment.write_bytes(segment.read_bytes().replace(*edit))

    outcome = await controllerctl("audit", "tail", str(directory))

    assert (outcome.code, outcome.err, len(outcome.out.splitlines())) == (0, "", 2)


@pytest.mark.parametrize("command", ["head", "tail"])
async def test_a_newest_segment_that_cannot_be_opened_is_refused_by_name(tmp_path: Path, command: str) -> None:
    directory = await write_log(tmp_path, *alarms(2))
    (directory / "stray-00000009.jsonl").mkdir()

    outcome = await controllerctl("audit", command, str(directory))

    assert outcome.code == ExitCode.NO_INPUT
    assert f"{directory / 'stray-00000009.jsonl'} cannot be read: Is a directory" in outcome.err
