"""The ways in which leaders report ISR changes: the one expected of a release, and those in the audit log."""

from typing import Final

from controllerd.dev.releases import line_of
from controllerd.record.records import EventBegin, ZkWriteRecord
from tests.real.scene import Scene
from tests.releases.record_api_versions import read
from wire.versions import ApiKey

ZOOKEEPER, ALTER_ISR, ALTER_PARTITION = "ZooKeeper", "AlterIsr", "AlterPartition"
NOTIFICATIONS: Final = "/isr_change_notification/"
"""A leader creates a child of this znode, which the controller deletes."""


def expected(release: str, protocol: str) -> str:
    """Return the way of this release and protocol version: KIP-497 came with 2.7-IV2, KIP-704 renamed its API."""
    if line_of(protocol) < (2, 7):
        return ZOOKEEPER
    return ALTER_ISR if read()[release][str(int(ApiKey.ALTER_PARTITION))] == [0, 0] else ALTER_PARTITION


async def received(scene: Scene, since_s: float) -> set[str]:
    """Return the ways in which leaders reported changes since ``since_s`` on the monotonic clock."""
    begun = [record for _, record in await scene.logged(EventBegin, since_s=since_s)]
    versions = {record.detail["version"] for record in begun if record.name == "AlterPartitionReceived"}
    ways = {ALTER_ISR if version == 0 else ALTER_PARTITION for version in versions}
    written = [record for _, record in await scene.logged(ZkWriteRecord, since_s=since_s)]
    notified = any(path.startswith(NOTIFICATIONS) for record in written for path in record.paths)
    return ways | ({ZOOKEEPER} if notified else set())
