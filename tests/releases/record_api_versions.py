"""Record the ApiVersions of a broker of each release: ``python -m tests.releases.record_api_versions``.

The record has the versions that a broker in ZooKeeper mode serves on a PLAINTEXT listener, at the
release's own inter.broker.protocol.version: ``{release: {api key: [lowest, highest version]}}``.
"""

import asyncio
import json
import struct
import sys
import tempfile
from pathlib import Path
from typing import Final

from controllerd.dev.kafka import KafkaBroker
from controllerd.dev.ports import LOOPBACK
from controllerd.dev.releases import LAST_RELEASES
from controllerd.dev.zookeeper import EmbeddedZooKeeper
from wire.connection import KafkaConnection

Ranges = dict[str, list[int]]
FILE: Final = Path(__file__).with_name("api_versions.json")
API_VERSIONS: Final = 18
_ENTRY: Final = struct.Struct(">hhh")
_PATIENCE_S: Final = 30.0


async def ask_api_versions(port: int) -> Ranges:
    """Return the lowest and the highest version of each API that a local node serves, by API key.

    :raises OSError, WireError: the node does not answer.
    """
    connection = await KafkaConnection.connect(LOOPBACK, port, "recorder", request_timeout_s=_PATIENCE_S)
    try:
        return _decoded(bytes(await connection.request(API_VERSIONS, 0, b"")))
    finally:
        await connection.close()


def _decoded(body: bytes) -> Ranges:
    """Decode ApiVersionsResponse version 0: an error code, and an array of key, lowest and highest version."""
    error, count = struct.unpack_from(">hi", body)
    assert error == 0, error
    assert len(body) == 6 + count * _ENTRY.size, body
    return {str(key): [lowest, highest] for key, lowest, highest in _ENTRY.iter_unpack(body[6:])}


async def record(release: str, directory: Path) -> Ranges:
    """Return the versions that a broker of the release serves, with a ZooKeeper of its own."""
    async with (
        EmbeddedZooKeeper(directory / "zookeeper") as zookeeper,
        KafkaBroker(1, zookeeper.connect, directory / "broker", heap_mib=256, version=release) as broker,
    ):
        return await ask_api_versions(broker.port)


def read() -> dict[str, Ranges]:
    """Return the recorded versions by release."""
    return {release: dict(ranges) for release, ranges in json.loads(FILE.read_text(encoding="utf-8")).items()}


def written(recorded: dict[str, Ranges]) -> str:
    """Return the text of the file: one line for each API."""
    releases = []
    for release, ranges in recorded.items():
        rows = (f"    {json.dumps(key)}: {json.dumps(ranges[key])}" for key in sorted(ranges, key=int))
        releases.append(f"  {json.dumps(release)}: {{\n" + ",\n".join(rows) + "\n  }")
    return "{\n" + ",\n".join(releases) + "\n}\n"


async def _record_all() -> dict[str, Ranges]:
    recorded = {}
    for release in LAST_RELEASES:
        with tempfile.TemporaryDirectory(prefix="controllerd-") as directory:
            recorded[release] = await record(release, Path(directory))
        sys.stdout.write(f"{release}: {len(recorded[release])} APIs\n")
        sys.stdout.flush()
    return recorded


if __name__ == "__main__":
    FILE.write_text(written(asyncio.run(_record_all())), encoding="utf-8")
