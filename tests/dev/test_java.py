"""Where the virtual machine is looked for, and what is said when there is none."""

from pathlib import Path

import pytest

from controllerd.dev.errors import DevError
from controllerd.dev.java import find_java


def executable(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_java_home_wins_over_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wanted = executable(tmp_path / "home" / "bin" / "java")
    monkeypatch.setenv("PATH", str(executable(tmp_path / "path" / "java").parent))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert find_java() == str(wanted)


def test_path_is_used_without_java_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wanted = executable(tmp_path / "java")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert find_java() == str(wanted)


def test_no_java_at_all_is_said_with_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(DevError, match="install a Java 17 runtime"):
        find_java()


def test_a_java_home_without_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(DevError, match=f"JAVA_HOME is {tmp_path}"):
        find_java()
