"""The zip of the job: every module that driver and executors need, and nothing of one machine alone."""

import subprocess
import sys
import zipfile
from pathlib import Path

from replay.job.package import write_package


def test_the_same_sources_give_the_same_bytes(tmp_path: Path) -> None:
    first, second = (write_package(tmp_path / name) for name in ("first", "second"))
    assert first.zip.read_bytes() == second.zip.read_bytes()


def test_the_job_runs_from_the_zip_alone(tmp_path: Path) -> None:
    package = write_package(tmp_path)
    isolated = f"import sys; sys.path.insert(0, {str(package.zip)!r}); import replay.job.main; print(replay.__file__)"
    command = [sys.executable, "-P", "-c", isolated]
    found = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert found.stdout.startswith(str(package.zip))


def test_executors_get_neither_the_daemon_nor_the_commands(tmp_path: Path) -> None:
    with zipfile.ZipFile(write_package(tmp_path).zip) as archive:
        names = archive.namelist()
    assert not [name for name in names if name.startswith(("controllerd/daemon", "cli/"))]
    assert "replay/job/log4j2.properties" in names
