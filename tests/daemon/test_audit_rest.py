"""The records of an idle daemon: snapshots within a term, and digests."""

from pathlib import Path

import pytest

from controllerd.audit.reader import AuditReader
from controllerd.record.digest import digest_of
from controllerd.record.envelope import Envelope
from controllerd.record.fold import apply, diff_with_zookeeper
from controllerd.record.invariants import check
from controllerd.record.records import DigestRecord, Record, SnapshotBegin
from controllerd.record.state import ClusterState
from tests.channel_manager.stub_broker import stub_broker
from tests.daemon.daemons import register, until
from tests.daemon.killing import observed
from tests.daemon.test_audit_disk import create_topics, leading, log_of
from tests.zk.world import Peer

pytestmark = pytest.mark.zookeeper

OFTEN = {"SNAPSHOT_INTERVAL_S": "1", "DIGEST_INTERVAL_S": "1"}
Log = list[tuple[Envelope, Record]]


def last_periodic(log: Log) -> int:
    """Where the newest snapshot within a term begins, -1 if there is none."""
    found = [at for at, (_, record) in enumerate(log) if isinstance(record, SnapshotBegin) and record.periodic]
    return found[-1] if found else -1


def folded(log: Log) -> ClusterState:
    """The state after these records; each digest in them has to be that of the state so far."""
    state = ClusterState()
    for envelope, record in log:
        apply(state, envelope, record)
        if isinstance(record, DigestRecord):
            assert record.digest == digest_of(state)
    return state


async def test_a_replay_that_begins_within_a_term_reaches_the_state_of_zookeeper(
    connect: str, peer: Peer, tmp_path: Path
) -> None:
    async with stub_broker(1) as stub, leading(connect, tmp_path, OFTEN) as instance:
        await register(peer, stub)
        await create_topics(peer, "a", "b")
        directory = await log_of(instance, peer)
        before = len(list(AuditReader(directory)))

        async def is_written() -> bool:
            log = list(AuditReader(directory))
            at = last_periodic(log)
            return at > before and any(isinstance(record, DigestRecord) for _, record in log[at:])

        await until(is_written)
        await create_topics(peer, "c")
        assert await instance.process.terminate() == 0

    log = list(AuditReader(directory))
    assert list(check(log)) == []
    assert diff_with_zookeeper(folded(log), await observed(peer)) == []
    assert diff_with_zookeeper(folded(log[last_periodic(log) :]), await observed(peer)) == []
