"""``controllerctl`` against a whole controller over a ZooKeeper in memory, whose changes can be inspected."""

import asyncio
from asyncio.subprocess import Process

from tests.cli.documents import run
from tests.cli.running import Outcome, start
from tests.status.verbs.operating import Operator


async def ctl(operator: Operator, *arguments: str) -> Outcome:
    """The command from beginning to end, beside the loop that handles events."""
    return await asyncio.to_thread(run, *arguments, "--api", operator.url)


async def begun(operator: Operator, *arguments: str) -> Process:
    """Start the command as a process that runs beside the test."""
    return await start(*arguments, "--api", operator.url)
