"""Reloads of a changed configuration by a running daemon."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs

from controllerd.config.load import load_config
from controllerd.config.model import Config
from controllerd.daemon.reloading import Reloader
from controllerd.errors import ConfigError


class File:
    """A configuration file of a daemon."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.write()

    def write(self, more: str = "") -> None:
        """Replace the content of the file."""
        text = '[zookeeper]\nconnect = "zk:2181"\n[node]\nid = 2000000000\ndata_dir = "data"\n'
        self.path.write_text(f'{text}[kafka]\nlisteners = ["PLAINTEXT://ctl:9095"]\n{more}')

    def load(self) -> Config:
        """As the daemon reads it."""
        return load_config(self.path, {}, {})


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> File:
    monkeypatch.chdir(tmp_path)
    return File(tmp_path / "prod.toml")


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


async def test_another_level_is_used_at_once(file: File) -> None:
    reloader = Reloader(file.load(), file.load)
    file.write('[log]\nlevel = "debug"')

    assert await reloader.reload()

    assert reloader.config.log.level == "debug"
    assert reloader.config.origins["log.level"] == str(file.path)


async def test_keys_that_need_a_restart_are_named_and_not_used(file: File) -> None:
    reloader = Reloader(file.load(), file.load)
    file.write('[audit]\nlevel = "full"\n[http]\nlisten = "127.0.0.1:9999"')

    with capture_logs() as lines:
        assert not await reloader.reload()

    warned = [line["event"] for line in lines if line["log_level"] == "warning"]
    assert warned == ["restart needed: http.listen", "restart needed: audit.level"]
    assert reloader.config.audit.level == "normal"


async def test_a_changed_secret_is_noticed_though_it_is_not_shown(file: File) -> None:
    file.write('[http]\nadmin_token = "0123456789abcdef"')
    reloader = Reloader(file.load(), file.load)
    file.write('[http]\nadmin_token = "fedcba9876543210"')

    with capture_logs() as lines:
        await reloader.reload()

    assert lines[0]["event"] == "restart needed: http.admin_token"
    assert lines[0]["configured"] == "<hidden>"
    assert "the old one is used until then" in lines[0]["next"]
    assert "0123456789abcdef" not in repr(lines)
    assert "fedcba9876543210" not in repr(lines)


async def test_of_a_file_with_a_problem_nothing_is_used(file: File) -> None:
    reloader = Reloader(file.load(), file.load)
    file.write('[log]\nlevel = "debug"\nformat = "xml"')

    with capture_logs() as lines:
        assert not await reloader.reload()

    assert reloader.config.log.level == "info"
    assert [line["event"] for line in lines] == ["failed to reload configuration"]
    assert "expected one of auto, console, json, got 'xml'" in lines[0]["problem"]


async def test_a_remembered_decision_needs_no_restart(file: File, tmp_path: Path) -> None:
    reloader = Reloader(file.load(), file.load)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "when_broker_holds").write_text("takeover")

    with capture_logs() as lines:
        await reloader.reload()

    assert [line["event"] for line in lines] == ["reloaded configuration"]


async def test_secrets_are_renewed_though_their_names_stay(file: File) -> None:
    renewed: list[str] = []

    def refuse() -> None:
        raise ConfigError(["http.tls_certificate: not PEM"])

    reloader = Reloader(file.load(), file.load, [refuse, lambda: renewed.append("tokens")])
    with capture_logs() as lines:
        await reloader.reload()

    assert renewed == ["tokens"]
    assert lines[0]["event"] == "failed to reload secrets"
    assert lines[0]["problem"] == "http.tls_certificate: not PEM"
