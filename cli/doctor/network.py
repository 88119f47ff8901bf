"""What only the network tells: who answers where brokers say that they listen, and who is the controller to them."""

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from cli.doctor.facts import Knock, Sight
from cli.output import note
from controllerd.core.counted import counted

if TYPE_CHECKING:
    from controllerd.status.schema.status import BrokerStatus, ListenerStatus

KNOCK_S: Final = 2.0
_AT_ONCE: Final = 50
T = TypeVar("T")


def knock(brokers: "Sequence[BrokerStatus]") -> list[Knock]:
    """Connect to every listener of every broker, many at a time."""
    wanted = [(f"broker {one.id}", listener) for one in brokers for listener in one.listeners]
    if wanted:
        note(f"connecting to {counted(len(wanted), 'listener')}")
    return asyncio.run(_all(_knock(owner, listener) for owner, listener in wanted))


def look(brokers: "Sequence[BrokerStatus]") -> list[Sight]:
    """Ask every broker that has a listener without TLS and SASL who the controller is, many at a time."""
    wanted = [(one.id, plain) for one in brokers if (plain := _plain(one)) is not None]
    if wanted:
        note(f"asking {counted(len(wanted), 'broker')} who the controller is")
    return asyncio.run(_all(_look(broker, listener) for broker, listener in wanted))


def _plain(broker: "BrokerStatus") -> "ListenerStatus | None":
    return next((each for each in broker.listeners if each.security_protocol == "PLAINTEXT"), None)


async def _all(tasks: Iterable[Awaitable[T]]) -> list[T]:
    window = asyncio.Semaphore(_AT_ONCE)

    async def one(task: Awaitable[T]) -> T:
        async with window:
            return await task

    return await asyncio.gather(*map(one, tasks))


async def _knock(owner: str, listener: "ListenerStatus") -> Knock:
    return Knock(owner, listener.name, f"{listener.host}:{listener.port}", await _why_not(listener))


async def _why_not(listener: "ListenerStatus") -> str | None:
    """Why a connection fails; None when somebody answers."""
    try:
        async with asyncio.timeout(KNOCK_S):
            _, writer = await asyncio.open_connection(listener.host, listener.port)
    except TimeoutError:
        return f"no answer within {KNOCK_S:g} s"
    except OSError as error:
        return error.strerror or str(error)
    writer.close()
    return None


async def _look(broker: int, listener: "ListenerStatus") -> Sight:
    """A broker that cannot be asked says nothing: whether it can be reached is another check."""
    from wire.errors import WireError
    from wire.metadata import fetch_metadata

    try:
        found = await fetch_metadata(
            listener.host, listener.port, (), client_id="controllerctl-doctor", timeout_s=KNOCK_S
        )
    except (OSError, WireError):
        return Sight(broker, None)
    return Sight(broker, found.controller_id)
