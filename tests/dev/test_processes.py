"""Child processes start, end, pause and are never left behind; Java is found, or its absence is explained."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from controllerd.dev.processes import ChildProcess, DevError, find_java

FOREVER = "import time\nprint('ready', flush=True)\ntime.sleep(600)"
DEAF = f"import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n{FOREVER}"


def child(directory: Path, code: str) -> ChildProcess:
    return ChildProcess("the child", [sys.executable, "-c", code], log_file=directory / "child.log")


async def ready(process: ChildProcess) -> None:
    async def said() -> bool:
        return "ready" in process.log_tail()

    await process.wait_until(said, timeout_s=20, what="said that it is ready")


async def never() -> bool:
    return False


def state_of(pid: int) -> str:
    """The state letter of a Linux process: T is stopped."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0]


def wait_own_program(pid: int) -> None:
    """The tool that ties a child to its parent becomes the child's program; before that there is no tie.

    The child's own command line is waited for, not the end of the tool's: the kernel shows none at all for the moment
    in which one program becomes the other.
    """
    deadline = time.monotonic() + 20
    while not Path(f"/proc/{pid}/cmdline").read_bytes().startswith(os.fsencode(sys.executable)):
        assert time.monotonic() < deadline, f"process {pid} never became its own program"


def wait_gone(pid: int) -> None:
    deadline = time.monotonic() + 20
    while Path(f"/proc/{pid}").exists() and state_of(pid) != "Z":
        assert time.monotonic() < deadline, f"process {pid} outlived its parent"
        time.sleep(0.02)


async def test_a_child_runs_inside_the_context_and_is_gone_after_it(tmp_path: Path) -> None:
    async with child(tmp_path, FOREVER) as process:
        await ready(process)
        assert process.running
    assert process.exit_status == -signal.SIGKILL


async def test_cancellation_kills_the_child(tmp_path: Path) -> None:
    process = child(tmp_path, FOREVER)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1), process:
            await process.wait_until(never, timeout_s=60, what="done the impossible")
    assert not process.running


async def test_a_child_that_ends_early_is_reported_with_its_last_output(tmp_path: Path) -> None:
    async with child(tmp_path, "raise SystemExit('no such port')") as process:
        with pytest.raises(DevError, match=r"ended with status 1 before it came up[^$]*no such port"):
            await process.wait_until(never, timeout_s=20, what="came up")


async def test_a_child_that_is_too_slow_is_reported(tmp_path: Path) -> None:
    async with child(tmp_path, FOREVER) as process:
        with pytest.raises(DevError, match=r"the child has not come up within 0\.1 s"):
            await process.wait_until(never, timeout_s=0.1, what="come up")


async def test_terminate_waits_for_the_end(tmp_path: Path) -> None:
    async with child(tmp_path, FOREVER) as process:
        await ready(process)
        assert await process.terminate() == -signal.SIGTERM


async def test_a_child_deaf_to_sigterm_is_killed_and_reported(tmp_path: Path) -> None:
    async with child(tmp_path, DEAF) as process:
        await ready(process)
        with pytest.raises(DevError, match="still runs"):
            await process.terminate(timeout_s=0.1)
        assert process.exit_status == -signal.SIGKILL


@pytest.mark.skipif(sys.platform != "linux", reason="reads the process state from the Linux kernel")
async def test_pause_freezes_the_child_and_resume_lets_it_go_on(tmp_path: Path) -> None:
    async def frozen() -> bool:
        return state_of(process.pid) == "T"

    async def thawed() -> bool:
        return state_of(process.pid) != "T"

    async with child(tmp_path, FOREVER) as process:
        await ready(process)
        process.pause()
        await process.wait_until(frozen, timeout_s=20, what="frozen")
        process.resume()
        await process.wait_until(thawed, timeout_s=20, what="gone on")


async def test_a_paused_child_is_killed_all_the_same(tmp_path: Path) -> None:
    async with child(tmp_path, FOREVER) as process:
        await ready(process)
        process.pause()
        await process.kill()
        assert not process.running


async def test_a_restarted_child_has_its_own_last_output(tmp_path: Path) -> None:
    async with child(tmp_path, FOREVER) as process:
        await ready(process)
        await process.kill()
        process.start()
        await ready(process)
        assert process.log_tail() == "ready"


async def test_early_output_of_a_child_is_found_behind_much_later_output(tmp_path: Path) -> None:
    async with child(tmp_path, "print('refused')\nprint('shut down\\n' * 10_000)") as process:
        assert await process.wait_ended(timeout_s=20) == 0
        assert "refused" not in process.log_tail(100_000)
        assert process.wrote("refused")
        process.log_file.write_bytes(process.log_file.read_bytes() + b"later")
        process.start()
        assert await process.wait_ended(timeout_s=20) == 0
    assert not process.wrote("later"), "it was written before the latest start"


async def test_a_running_child_is_not_started_twice(tmp_path: Path) -> None:
    async with child(tmp_path, FOREVER) as process:
        with pytest.raises(DevError, match="already running"):
            process.start()


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    process = ChildProcess("the child", [str(tmp_path / "no-such-program")], log_file=tmp_path / "child.log")
    with pytest.raises(DevError, match="there is no program"):
        process.start()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent died")
def test_a_child_dies_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    parent = (
        "import sys, time\nfrom pathlib import Path\nfrom controllerd.dev.processes import ChildProcess\n"
        "p = ChildProcess('c', [sys.executable, '-c', 'import time; time.sleep(600)'], log_file=Path(sys.argv[1]))\n"
        "p.start()\nprint(p.pid, flush=True)\ntime.sleep(600)\n"
    )
    command = [sys.executable, "-c", parent, str(tmp_path / "grandchild.log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as middle:
        assert middle.stdout is not None
        pid = int(middle.stdout.readline())
        wait_own_program(pid)
        os.kill(middle.pid, signal.SIGKILL)
    wait_gone(pid)


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


def test_without_java_the_error_has_advice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(DevError, match="install a Java 17 runtime"):
        find_java()


def test_a_java_home_without_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(DevError, match=f"JAVA_HOME is {tmp_path}"):
        find_java()
