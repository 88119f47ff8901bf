"""``kill -9`` of the daemon at random moments: its audit log reads back whole and folds to what ZooKeeper holds."""

from pathlib import Path

import pytest

from tests.daemon.killing import kill_again_and_again
from tests.zk.world import Peer

pytestmark = pytest.mark.zookeeper


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kills", [20, pytest.param(200, marks=pytest.mark.chaos)])
async def test_a_daemon_killed_at_random_moments_leaves_a_log_that_folds_to_zookeeper(
    connect: str, peer: Peer, tmp_path: Path, kills: int
) -> None:
    await kill_again_and_again(connect, peer, tmp_path, kills=kills)
