"""The reads of ``doctor``: an image, creation times of znodes, topics with a config, durations of small reads.

Nothing is written and nothing is watched.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kazoo.exceptions import NoNodeError
from kazoo.protocol.serialization import GetData

from controllerd.zk import paths
from controllerd.zk.client import ReadOnlyClient
from controllerd.zk.image import ClusterImage, read_image
from controllerd.zk.session import ZooKeeperSession

_TIMED_READS: Final = 50


class StampedZnode(NamedTuple):
    """A znode with the times of the server that wrote it, in milliseconds since 1970."""

    data: bytes | None
    created_ms: int
    modified_ms: int


@dataclass(frozen=True, slots=True)
class Survey:
    """Everything that the checks of ``doctor`` need."""

    image: ClusterImage
    stamped: Mapping[str, StampedZnode]
    """The controller's znode and the registrations of the brokers, by path."""
    configured_topics: Sequence[str]
    """Topics that have a config."""
    read_ms: Sequence[float]
    """The durations of some small reads, in milliseconds."""


async def take_survey(client: ReadOnlyClient) -> Survey:
    """Read everything that the checks need. :raises StoreUnavailable: the session is lost."""
    image = await read_image(client.zk)
    registered = [f"{paths.BROKER_IDS}/{name}" for name in image.names(paths.BROKER_IDS)]
    stamped = {path: await _stamped(client.session, path) for path in (paths.CONTROLLER, *registered)}
    return Survey(
        image=image,
        stamped={path: found for path, found in stamped.items() if found is not None},
        configured_topics=tuple(sorted(await client.zk.children(paths.CONFIG_TOPICS) or ())),
        read_ms=[await _timed(client) for _ in range(_TIMED_READS)],
    )


async def _stamped(session: ZooKeeperSession, path: str) -> StampedZnode | None:
    try:
        answer: tuple[bytes | None, Any] = await session.ask(GetData(session.chroot + path, None))
    except NoNodeError:
        return None
    data, stat = answer
    return StampedZnode(data, stat.ctime, stat.mtime)


async def _timed(client: ReadOnlyClient) -> float:
    began = time.perf_counter()
    await client.zk.read([paths.CONTROLLER_EPOCH])
    return (time.perf_counter() - began) * 1000
