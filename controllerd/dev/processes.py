"""Child processes that tests and demos can kill, stop and pause, and that never outlive the process that started them.

Most are Java virtual machines, so `find_java` is here as well. The child is polled instead of being awaited through the
event loop: a cluster shared by many tests lives longer than the loop of any one of them.
"""

import asyncio
import functools
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

POLL_S = 0.02
_TAIL_BYTES = 16_384

# The processes of a development cluster run for seconds or minutes: a cheap compiler and a cheap collector
# start in about half the time and leave the second core to other processes.
FAST_START_FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")


class DevError(Exception):
    """A requirement of a development cluster is missing, or a process did not start; the text says what to do."""


class ChildProcess:
    """One child process in a process group of its own, its output appended to `log_file`.

    It can be started again after it ended. As an async context manager it starts on entry and is killed on exit.

    Args:
        name: its name in messages, for example `broker 1`.
        command: the program and its arguments.
        log_file: the file that stdout and stderr are appended to.
        environment: variables on top of our own.
    """

    def __init__(
        self, name: str, command: Sequence[str], *, log_file: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log_file = log_file
        self._command = list(command)
        self._environment = dict(environment or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def running(self) -> bool:
        """Whether it has been started and has not ended; a paused process is running."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process id, also of a child that has ended.

        Raises:
            DevError: it was never started.
        """
        return self._started().pid

    @property
    def exit_status(self) -> int | None:
        """The exit status, negative for a signal; None while it runs or before the first start."""
        return None if self._process is None else self._process.poll()

    def start(self) -> None:
        """Start the child.

        Raises:
            DevError: it is already running, or there is no such program.
        """
        if self.running:
            raise DevError(f"{self.name} is already running")
        if shutil.which(self._command[0]) is None:
            raise DevError(f"{self.name} cannot be started: there is no program {self._command[0]}")
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        with self.log_file.open("ab") as log:
            self._log_start = log.tell()
            self._process = self._spawn(log.fileno())

    def _spawn(self, log: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*_die_with_parent(), *self._command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, **self._environment},
            process_group=0,
        )

    async def wait_until(self, condition: Callable[[], Awaitable[bool]], *, timeout_s: float, what: str) -> None:
        """Poll `condition` until it holds.

        Raises:
            DevError: the child ended first, or `timeout_s` passed; the message ends with its last log lines.
        """
        deadline = time.monotonic() + timeout_s
        while not await condition():
            if not self.running:
                raise DevError(self._with_log(f"{self.name} ended with status {self.exit_status} before it {what}"))
            if time.monotonic() >= deadline:
                raise DevError(self._with_log(f"{self.name} has not {what} within {timeout_s:g} s"))
            await asyncio.sleep(POLL_S)

    async def wait_ended(self, *, timeout_s: float) -> int:
        """Wait until the child has ended by itself; return its exit status.

        Raises:
            DevError: it still runs after `timeout_s`.
        """
        process = self._started()
        deadline = time.monotonic() + timeout_s
        while (status := process.poll()) is None:
            if time.monotonic() >= deadline:
                raise DevError(self._with_log(f"{self.name} still runs after {timeout_s:g} s"))
            await asyncio.sleep(POLL_S)
        return status

    async def kill(self) -> None:
        """End the child and its group with SIGKILL; do nothing if it has ended already."""
        self.kill_now()

    def kill_now(self) -> None:
        """Kill the child outside an event loop. This blocks for the milliseconds that the kernel needs."""
        if self._process is not None and self._process.poll() is None:
            self._signal(signal.SIGKILL)
            self._process.wait()

    async def terminate(self, *, timeout_s: float = 60.0) -> int:
        """Send SIGTERM to the child, wait for its end and return its exit status; kill it if it does not end.

        Raises:
            DevError: it did not end within `timeout_s`.
        """
        if self.running:
            self._signal(signal.SIGTERM)
        try:
            return await self.wait_ended(timeout_s=timeout_s)
        finally:
            self.kill_now()

    def pause(self) -> None:
        """Freeze the child (SIGSTOP): its sockets stay open and nothing answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused child continue (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def log_tail(self, lines: int = 15) -> str:
        """Return the last lines that the child wrote since its latest start."""
        with self.log_file.open("rb") as log:
            end = log.seek(0, os.SEEK_END)
            log.seek(max(self._log_start, end - _TAIL_BYTES))
            text = log.read().decode(errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def wrote(self, text: str) -> bool:
        """Whether the child has written this text since its latest start, however much output followed."""
        with self.log_file.open("rb") as log:
            log.seek(self._log_start)
            return text.encode() in log.read()

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.kill_now()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise DevError(f"{self.name} was never started")
        return self._process

    def _signal(self, number: signal.Signals) -> None:
        if not self.running:
            raise DevError(f"{self.name} is not running")
        os.killpg(self.pid, number)

    def _with_log(self, sentence: str) -> str:
        tail = self.log_tail()
        return f"{sentence}; the log {self.log_file} ends with:\n{tail}" if tail else f"{sentence}; its log is empty"


@functools.cache
def _die_with_parent() -> tuple[str, ...]:
    """Return the command prefix that makes the kernel kill the child when this process ends; empty without setpriv.

    A context manager covers every orderly end; the prefix covers a SIGKILL of this process. setpriv sets the flag and
    then becomes the child, so the pid is the same, and no Python code runs between fork and exec of a process with
    threads.
    """
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        return ()
    prefix = (setpriv, "--pdeathsig", "KILL", "--")
    probe = subprocess.run([*prefix, "true"], capture_output=True, check=False)
    return prefix if probe.returncode == 0 else ()


def find_java() -> str:
    """Return the path of the `java` to use: that of JAVA_HOME if it is set, else the first on PATH.

    Raises:
        DevError: there is none, or JAVA_HOME points to a folder without one.
    """
    home = os.environ.get("JAVA_HOME")
    if home:
        return _java_of(Path(home))
    found = shutil.which("java")
    if found is None:
        raise DevError("no Java found: install a Java 17 runtime and put java on PATH, or set JAVA_HOME")
    return found


def _java_of(home: Path) -> str:
    found = shutil.which("java", path=home / "bin")
    if found is None:
        raise DevError(f"JAVA_HOME is {home}, which holds no bin/java: point it to a Java 17 runtime or unset it")
    return found
