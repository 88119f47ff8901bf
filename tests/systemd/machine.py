"""A real systemd, booted in namespaces of its own over a throw-away copy of this machine's root."""

import asyncio
import os
import shutil
import site
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from tests.cli.running import Outcome

ROOT: Final = Path(__file__).resolve().parents[2]
SYSTEMD: Final = Path("/usr/lib/systemd/systemd")
BOOTS_S: Final = 60.0
"""The longest that a boot may take on a machine that is busy with other things."""


def why_not() -> str | None:
    """Why no systemd can be booted here; None if it can."""
    missing = [name for name in ("unshare", "nsenter", "make", "bash") if shutil.which(name) is None]
    if not SYSTEMD.exists() or missing:
        return f"not installed: {', '.join(missing) or 'systemd'}"
    if os.geteuid() != 0:
        return "only root may mount a root of its own"
    if "overlay" not in Path("/proc/filesystems").read_text():
        return "the kernel has no overlay file system"
    if _cgroups() is None:
        return "no cgroup hierarchy of version 2 is mounted"
    if subprocess.run(["unshare", "--mount", "--pid", "--fork", "--cgroup", "true"], check=False).returncode:
        return "namespaces cannot be made"
    return None


def _cgroups() -> Path | None:
    """Where the hierarchy of version 2 is mounted."""
    mounts = [line.split()[1:3] for line in Path("/proc/self/mounts").read_text().splitlines()]
    return next((Path(where) for where, kind in mounts if kind == "cgroup2"), None)


class Machine:
    """One booted systemd. ``close`` ends every process in it; nothing of it stays."""

    def __init__(self, log: Path) -> None:
        cgroups = _cgroups()
        assert cgroups is not None
        self._cgroup = cgroups / f"controllerd-test-{os.getpid()}"
        self._log = log
        self._outer: subprocess.Popen[bytes] | None = None
        self._init = 0

    def boot(self) -> None:
        """Start it, until it takes commands."""
        python = Path(sys.base_prefix)
        script = ROOT / "tests" / "systemd" / "boot.sh"
        command = [str(part) for part in (script, self._cgroup, ROOT, python, site.getsitepackages()[0])]
        with self._log.open("wb") as out:
            self._outer = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        deadline = time.monotonic() + BOOTS_S
        while not self._is_up():
            assert self._outer.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, self._log.read_text()
            time.sleep(0.05)  # the processes of another namespace cannot set an event here

    def _is_up(self) -> bool:
        assert self._outer is not None
        children = Path(f"/proc/{self._outer.pid}/task/{self._outer.pid}/children").read_text().split()
        if not children:
            return False  # it has not become the first process yet
        self._init = int(children[0])
        state = subprocess.run(self._command("systemctl", "is-system-running"), capture_output=True, check=False)
        return state.stdout.strip() in {b"running", b"degraded"}

    def _command(self, *command: str) -> list[str]:
        inside = ["nsenter", "--target", str(self._init), "--mount", "--pid", "--uts", "--ipc", "--cgroup"]
        return [
            *inside,
            "--root",
            "--",
            "env",
            "--chdir=/",
            "-i",
            "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
            "LC_ALL=C.UTF-8",
            *command,
        ]

    async def run(self, *command: str, timeout_s: float = 60.0) -> Outcome:
        """A command inside, from beginning to end."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*self._command(*command), stdout=pipe, stderr=pipe)
        out, err = await asyncio.wait_for(process.communicate(), timeout_s)
        assert process.returncode is not None
        return Outcome(process.returncode, out.decode(), err.decode())

    async def must(self, *command: str, timeout_s: float = 60.0) -> str:
        """The output of a command that must succeed."""
        outcome = await self.run(*command, timeout_s=timeout_s)
        assert outcome.code == 0, f"{' '.join(command)}: {outcome.out}{outcome.err}"
        return outcome.out

    async def property_of(self, unit: str, name: str) -> str:
        """One property of a unit, as ``systemctl show`` has it."""
        return (await self.must("systemctl", "show", "--value", "--property", name, unit)).strip()

    async def journal(self, *matches: str) -> str:
        """The text of every entry that matches."""
        await self.must("journalctl", "--sync")
        return await self.must("journalctl", "--output=cat", "--no-pager", *matches)

    async def write(self, file: str, text: str) -> None:
        """Write a file inside, with the folders above it."""
        await self.must("bash", "-c", 'mkdir -p "$(dirname "$1")" && printf %s "$2" >"$1"', "write", file, text)

    async def until(self, unit: str, name: str, value: str, *, within_s: float = 60.0) -> None:
        """Wait until a property of a unit has a value."""
        async with asyncio.timeout(within_s):
            while await self.property_of(unit, name) != value:  # noqa: ASYNC110  # another process is looked at
                await asyncio.sleep(0.05)

    def close(self) -> None:
        """End it. The first process of a process namespace takes all others with it."""
        if self._outer is None:
            return
        self._outer.kill()
        self._outer.wait(timeout=BOOTS_S)
        deadline = time.monotonic() + BOOTS_S
        while "populated 1" in (self._cgroup / "cgroup.events").read_text():
            assert time.monotonic() < deadline, "processes of the machine are left"
            time.sleep(0.01)
        for folder in sorted((path for path in self._cgroup.rglob("*") if path.is_dir()), reverse=True):
            folder.rmdir()
        self._cgroup.rmdir()
