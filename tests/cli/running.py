"""controllerctl as a process of its own, as an operator runs it."""

import asyncio
import os
import subprocess
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

PROGRAM = "import sys; from cli.__main__ import main; sys.exit(main())"
_AND_MODULES = """
import contextlib, sys
from cli.__main__ import main
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(sys.stderr):
    main()
print(*sys.modules)
"""
ENDS_S = 60.0
"""The longest that a command may take on a machine that is busy with other things."""


class Outcome(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    def json(self) -> dict[str, object]:
        """Standard output as one JSON object."""
        return msgspec.json.decode(self.out, type=dict[str, object])


async def start(
    *arguments: str, stdin: int = DEVNULL, env: Mapping[str, str] | None = None, program: str = PROGRAM
) -> Process:
    """The command, begun; ``env`` is added to the environment."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CONTROLLERCTL_")}
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, *arguments, stdin=stdin, stdout=PIPE, stderr=PIPE, env=kept | dict(env or {})
    )


async def outcome_of(process: Process) -> Outcome:
    """Wait for the end."""
    out, err = await asyncio.wait_for(process.communicate(), ENDS_S)
    assert process.returncode is not None
    return Outcome(process.returncode, out.decode(), err.decode())


async def controllerctl(*arguments: str, **variables: str) -> Outcome:
    """The command from beginning to end, without a terminal."""
    return await outcome_of(await start(*arguments, env=variables))


async def answering(typed: bytes, *arguments: str) -> Outcome:
    """Run the command on a terminal that sends ``typed``."""
    ours, terminal = os.openpty()
    try:
        process = await start(*arguments, stdin=terminal)
        os.write(ours, typed)
        return await outcome_of(process)
    finally:
        os.close(ours)
        os.close(terminal)


def modules_after(*arguments: str, **variables: str) -> set[str]:
    """The names of the modules that a controllerctl process has imported when its command ends."""
    command = [sys.executable, "-c", _AND_MODULES, *arguments]
    ended = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=True)
    return set(ended.stdout.split())
