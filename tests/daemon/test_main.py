"""The command line of ``controllerd``: where a flag ends up, and what a wrong configuration is answered with."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from controllerd.__main__ import app
from tests.daemon.daemons import controllerd

CONFIG = 78
INTERRUPTED = 130
WHILE_IT_IS_LOADED = """
import signal, sys

class CtrlC:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            signal.raise_signal(signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, CtrlC())
from controllerd.__main__ import app
app(sys.argv[2:])
"""


def problems_of(*arguments: str) -> list[str]:
    """The messages of ``controllerd run`` about flags that it refuses."""
    result = CliRunner().invoke(app, ["run", *arguments])
    assert result.exit_code == CONFIG
    return result.stderr.splitlines()


@pytest.mark.parametrize(
    ("flag", "value", "key"),
    [
        ("--zookeeper", "no port at all", "zookeeper.connect"),
        ("--listener", "nonsense", "kafka.listeners"),
        ("--http", "nonsense", "http.listen"),
        ("--when-broker-holds", "sometimes", "controller.when_broker_holds"),
    ],
)
def test_a_flag_is_refused_under_the_name_of_its_key(flag: str, value: str, key: str) -> None:
    (named,) = [line for line in problems_of(flag, value) if line.startswith(f"controllerd: {key} (flag): ")]

    assert value in named


def test_a_node_id_of_a_broker_is_refused() -> None:
    assert any(line.startswith("controllerd: node.id: 1 is not between ") for line in problems_of("--node-id", "1"))


def test_a_missing_key_is_named_with_the_variable_that_sets_it() -> None:
    missing = [line.split(": ")[1] for line in problems_of() if "required" in line]

    assert missing == ["zookeeper.connect", "node.id", "node.data_dir", "kafka.listeners"]
    assert any("CONTROLLERD__NODE__DATA_DIR" in line for line in problems_of())


def test_listeners_may_be_given_several_times() -> None:
    lines = problems_of("--listener", "A://127.0.0.1:1", "--listener", "A://127.0.0.1:2")

    assert "controllerd: kafka.listeners: the listener name A is there 2 times" in lines


def test_without_a_command_the_commands_are_listed() -> None:
    result = CliRunner().invoke(app, [])

    assert all(command in result.output for command in ("run", "dev", "demo"))


@pytest.mark.parametrize(
    ("command", "module"),
    [("run", "controllerd.daemon.run"), ("dev", "controllerd.dev.commands"), ("demo", "controllerd.dev.commands")],
)
def test_ctrl_c_while_a_command_is_still_loaded_ends_it_without_a_traceback(command: str, module: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", WHILE_IT_IS_LOADED, module, command], capture_output=True, text=True, check=False
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (INTERRUPTED, "", "")


async def test_every_problem_of_every_source_is_reported_at_once_with_a_suggestion(tmp_path: Path) -> None:
    file = tmp_path / "controllerd.toml"
    file.write_text('[zookeeper]\nconect = "127.0.0.1:2181"\n[log]\nlevel = "loud"\n')
    variables = {"CONTROLLERD__HTTP__LISTN": "127.0.0.1:0", "CONTROLLERD__AUDIT__FSYNC": "never"}

    outcome = await controllerd("run", "--config", str(file), "--node-id", "5", env=variables)

    assert (outcome.code, outcome.out) == (CONFIG, "")
    said = outcome.err.splitlines()
    assert f"controllerd: zookeeper.conect ({file}): unknown key; did you mean zookeeper.connect?" in said
    assert any(line.endswith("unknown key; did you mean CONTROLLERD__HTTP__LISTEN?") for line in said)
    assert any("log.level" in line and "loud" in line for line in said)
    assert any("CONTROLLERD__AUDIT__FSYNC" in line and "never" in line for line in said)
    assert any("node.id: 5 is not between" in line for line in said)
    assert any("node.data_dir: required" in line for line in said)


async def test_an_unknown_flag_is_answered_with_the_nearest_one() -> None:
    outcome = await controllerd("run", "--zokeeper", "127.0.0.1:2181")

    assert outcome.code == 2
    assert "--zookeeper" in outcome.err
