"""Contexts: the address and token of a cluster, and that no other cluster is changed by mistake."""

from pathlib import Path

import pytest

from cli.contexts import choose_context, default_file, read_contexts
from cli.exit_codes import CliError, ExitCode
from tests.cli.documents import Daemon, answering, run
from tests.cli.running import controllerctl
from tests.status.fake_controller import FakeController, serving


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without contexts, and an environment without variables of controllerctl."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


def write(home: Path, text: str) -> Path:
    """The file of the contexts where it is looked for."""
    file = home / "controllerctl" / "config.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return file


def test_without_a_file_there_are_no_contexts() -> None:
    name, context = choose_context(None, None)

    assert (name, context.api, context.read_token()) == (None, None, None)


def test_the_current_context_is_used_unless_another_is_named(home: Path) -> None:
    write(home, 'current = "a"\n[contexts.a]\napi = "http://a:1"\n[contexts.b]\napi = "http://b:1"\n')

    assert choose_context(None, None)[1].api == "http://a:1"
    assert choose_context("b", None)[1].api == "http://b:1"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("contexts = 3", "contexts are tables"),
        ("[contexts.a]\napi = 3", "contexts.a.api must be a text"),
        ("[contexts.a]\naip = 'x'", "unknown key contexts.a.aip; did you mean api?"),
        ("[contexts.a]\ntoken = 'x'\ntoken_env = 'Y'", "token and token_env: keep one"),
        ("colour = 1", "unknown key colour; there are current, contexts"),
        ("[contexts", "is not TOML"),
    ],
)
def test_a_malformed_file_is_bad_configuration(home: Path, text: str, says: str) -> None:
    with pytest.raises(CliError, match=says) as refused:
        read_contexts(write(home, text))

    assert refused.value.code is ExitCode.BAD_CONFIG


def test_an_unknown_context_is_reported_with_the_known_ones(home: Path) -> None:
    write(home, '[contexts.prod]\napi = "http://a:1"\n')

    outcome = run("-c", "prd", "status")

    assert outcome.code == 78
    assert "no context 'prd'; there are prod" in outcome.err


def test_a_file_that_was_named_must_exist(tmp_path: Path) -> None:
    assert run("--config", str(tmp_path / "none.toml"), "version").code == 78


def test_a_folder_is_no_file_of_contexts(tmp_path: Path) -> None:
    outcome = run("--config", str(tmp_path), "version")

    assert (outcome.code, f"{tmp_path} is not a file" in outcome.err) == (78, True)


def test_the_token_may_be_in_a_file_or_in_the_environment(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", "from the environment")
    (home / "token").write_text("from a file\n")
    write(
        home,
        f'[contexts.a]\ntoken_env = "A_TOKEN"\n[contexts.b]\ntoken_file = "{home}/token"\n[contexts.c]\ntoken = "x"',
    )

    tokens = [context.read_token() for context in read_contexts(default_file())[0].values()]

    assert tokens == ["from the environment", "from a file", "x"]


def test_the_token_is_sent(home: Path) -> None:
    daemon = Daemon()
    with answering(daemon) as url:
        write(home, f'[contexts.a]\napi = "{url}"\ntoken = "secret"\n')
        run("-c", "a", "get", "topics")

    assert daemon.tokens[0] == "Bearer secret"


def test_a_named_context_overrides_the_environment(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon = Daemon()
    monkeypatch.setenv("CONTROLLERCTL_API", "http://127.0.0.1:1")
    monkeypatch.setenv("CONTROLLERCTL_TOKEN", "of another cluster")
    with answering(daemon) as url:
        write(home, f'[contexts.a]\napi = "{url}"\n')
        by_flag = run("get", "topics", "--context", "a")
        by_default = run("get", "topics")

    assert (by_flag.code, by_default.code) == (0, 69)
    assert daemon.tokens[0] is None


@pytest.mark.parametrize("command", ["takeover", "resign", "brokers forget 7"])
async def test_nothing_is_changed_in_a_cluster_other_than_that_of_the_context(home: Path, command: str) -> None:
    controller = FakeController()
    async with serving(controller) as url:
        write(home, f'current = "prod"\n[contexts.prod]\napi = "{url}"\nexpected_cluster_id = "cluster-9"\n')
        outcome = await controllerctl(*command.split(), "--yes", "--reason", "x", XDG_CONFIG_HOME=str(home))

    assert (outcome.code, controller.reasons) == (8, [])
    assert "belongs to cluster cluster-1, but the context prod expects cluster-9; nothing was changed" in outcome.err


async def test_the_right_cluster_is_changed(home: Path) -> None:
    controller = FakeController()
    async with serving(controller) as url:
        write(home, f'[contexts.prod]\napi = "{url}"\nexpected_cluster_id = "cluster-1"\n')
        outcome = await controllerctl("takeover", "--yes", "-c", "prod", XDG_CONFIG_HOME=str(home))

    assert outcome.code == 0, outcome.err


@pytest.mark.parametrize("command", ["takeover", "resign", "brokers forget 7"])
def test_nothing_is_changed_through_zookeeper(command: str) -> None:
    outcome = run(*command.split(), "--yes", "--reason", "x", "--zk", "127.0.0.1:1")

    assert outcome.code == 2
    assert "--zk only reads" in outcome.err


@pytest.mark.parametrize("verb", ["takeover", "resign"])
async def test_a_dry_run_says_what_would_happen_and_does_nothing(verb: str) -> None:
    controller = FakeController()
    if verb == "resign":
        controller.lead(3)
    async with serving(controller) as url:
        outcome = await controllerctl(verb, "--api", url, "--dry-run")

    assert (outcome.code, controller.reasons) == (0, [])
    assert "dry run: nothing was changed" in outcome.err


def test_an_unreachable_daemon_is_reported_with_the_zk_flag(home: Path) -> None:
    write(home, 'current = "a"\n[contexts.a]\napi = "http://127.0.0.1:1"\nzk = "zk1:2181/kafka"\n')

    outcome = run("status")

    assert outcome.code == 69
    assert "status, get, describe, why and doctor read ZooKeeper: --zk zk1:2181/kafka" in outcome.err
