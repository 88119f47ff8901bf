"""The units as files: their settings, their exposure, and the files of ``make install``."""

import configparser
import shutil
import subprocess
from pathlib import Path

import pytest

from controllerd.config.load import load_config
from tests.systemd.machine import ROOT

UNITS = ROOT / "systemd"
SERVICES = ("controllerd@.service", "controllerd-replay@.service")


def settings(unit: str) -> configparser.ConfigParser:
    """The unit as sections; a repeated key keeps its last value."""
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # keys are case-sensitive
    parser.read(UNITS / unit)
    return parser


def test_the_unit_is_restarted_by_its_watchdog_but_not_for_a_wrong_configuration() -> None:
    service = settings("controllerd@.service")["Service"]

    assert (service["Type"], service["NotifyAccess"], service["Restart"]) == ("notify", "main", "on-failure")
    assert service["WatchdogSec"] == "15s"
    assert service["RestartPreventExitStatus"].split() == ["2", "64", "78"]


def test_a_jvm_may_run_where_the_report_is_made_and_not_beside_the_controller() -> None:
    assert settings("controllerd@.service")["Service"]["MemoryDenyWriteExecute"] == "yes"
    assert "MemoryDenyWriteExecute" not in settings("controllerd-replay@.service")["Service"]


@pytest.mark.parametrize("unit", SERVICES)
def test_a_unit_stays_hardened(unit: str, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("SYSTEMD-ANALYZE IS NOT INSTALLED: the exposure of the units is not measured")
    copy = shutil.copy(UNITS / unit, tmp_path / unit.replace("@", "@prod"))

    command = ["systemd-analyze", "security", "--offline=true", "--threshold=15", "--no-pager", str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout[-400:] + done.stderr


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root folder of ``make install-files``."""
    root = tmp_path_factory.mktemp("root")
    command = [
        "make",
        "--silent",
        "--assume-old=.venv/.ready",
        "install-files",
        f"DESTDIR={root}",
        "VENV=/srv/ctl/venv",
    ]
    subprocess.run([*command, "PREFIX=/usr"], cwd=ROOT, check=True, capture_output=True)
    return root / "usr"


def test_everything_is_installed(installed: Path) -> None:
    names = {path.name for path in (installed / "lib" / "systemd" / "system").iterdir()}

    assert names == {path.name for path in UNITS.glob("*@.*")}
    assert (installed / "lib" / "sysusers.d" / "controllerd.conf").exists()
    assert (installed / "lib" / "tmpfiles.d" / "controllerd.conf").exists()
    assert (installed / "share" / "man" / "man8" / "controllerd.8").exists()
    assert "controllerctl" in (installed / "share" / "bash-completion" / "completions" / "controllerctl").read_text()
    assert "controllerctl" in (installed / "share" / "zsh" / "site-functions" / "_controllerctl").read_text()


def test_the_example_can_be_checked_as_it_is_installed(installed: Path) -> None:
    config = load_config(installed / "share" / "doc" / "controllerd" / "example.toml", {}, {})

    assert config.node.data_dir == Path("/var/lib/controllerd/prod"), "where the unit of that name keeps its data"


def test_units_name_the_virtual_environment_that_was_asked_for(installed: Path) -> None:
    for unit in SERVICES:
        assert "ExecStart=/srv/ctl/venv/bin/" in (installed / "lib" / "systemd" / "system" / unit).read_text()
