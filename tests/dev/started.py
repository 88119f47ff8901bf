"""``controllerd dev`` and ``demo`` as processes."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

PATIENCE_S = 60


@asynccontextmanager
async def command(folder: Path, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """``controllerd`` in a folder of its own, which also takes its temporary files."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "controllerd", *arguments),
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        process_group=0,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def output_until(process: asyncio.subprocess.Process, phrase: str) -> str:
    """The output of the command, up to the line with this phrase."""
    assert process.stdout is not None
    output = ""
    async with asyncio.timeout(PATIENCE_S):
        while phrase not in output:
            line = await process.stdout.readline()
            assert line, output
            output += line.decode()
    return output
