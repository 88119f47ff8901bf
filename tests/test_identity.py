"""The identity of an instance: kept across restarts, one process at a time."""

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from controllerd.errors import ConfigError
from controllerd.identity import claim_data_dir


def test_the_first_claim_creates_the_directory_and_draws_a_uuid(tmp_path: Path) -> None:
    with claim_data_dir(tmp_path / "var" / "data") as identity:
        assert str(uuid.UUID(identity.instance)) == identity.instance


def test_the_uuid_survives_a_restart(tmp_path: Path) -> None:
    with claim_data_dir(tmp_path) as first:
        pass

    with claim_data_dir(tmp_path) as second:
        assert second.instance == first.instance


def test_a_second_claim_is_refused_and_names_the_owner(tmp_path: Path) -> None:
    with (
        claim_data_dir(tmp_path),
        pytest.raises(ConfigError, match=rf"in use by process {os.getpid()}; give each instance"),
    ):
        claim_data_dir(tmp_path)


def test_the_directory_is_free_again_after_the_process_was_killed(tmp_path: Path) -> None:
    script = (
        "import pathlib, sys; from controllerd.identity import claim_data_dir\n"
        "identity = claim_data_dir(pathlib.Path(sys.argv[1])); print(identity.instance, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        instance = other.stdout.readline().strip()
        with pytest.raises(ConfigError, match=f"in use by process {other.pid}"):
            claim_data_dir(tmp_path)
        other.kill()

    with claim_data_dir(tmp_path) as ours:
        assert ours.instance == instance


def test_a_broken_uuid_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "instance").write_text("not a uuid")

    with pytest.raises(ConfigError, match="delete it to start as a new instance"):
        claim_data_dir(tmp_path)

    assert (tmp_path / "instance").read_text() == "not a uuid"


def test_a_refused_claim_leaves_no_lock_behind(tmp_path: Path) -> None:
    (tmp_path / "instance").write_text("not a uuid")
    with pytest.raises(ConfigError):
        claim_data_dir(tmp_path)

    (tmp_path / "instance").unlink()
    claim_data_dir(tmp_path).release()


def test_a_path_that_is_a_file_is_refused_with_its_name(tmp_path: Path) -> None:
    file = tmp_path / "data"
    file.touch()

    with pytest.raises(ConfigError, match=r"node\.data_dir: .*data cannot be used: "):
        claim_data_dir(file)
