"""Ten random minutes on three real brokers under load, without a lost record.

``CONTROLLERD_CHAOS_SECONDS`` (default 600) and ``CONTROLLERD_CHAOS_SEED`` choose how long, and which steps; the seed is
printed, so that a failing run can be tried again.
"""

import os
import random
from pathlib import Path

import pytest

from tests.chaos.workload import open_run


@pytest.mark.chaos
@pytest.mark.kafka
@pytest.mark.usefixtures("kafka_jars")
@pytest.mark.timeout(0)
async def test_nothing_is_lost_whatever_happens(tmp_path: Path) -> None:
    seed = int(os.environ.get("CONTROLLERD_CHAOS_SEED", str(random.SystemRandom().randrange(10**6))))
    seconds = float(os.environ.get("CONTROLLERD_CHAOS_SECONDS", "600"))
    print(f"\nCONTROLLERD_CHAOS_SEED={seed} CONTROLLERD_CHAOS_SECONDS={seconds:.0f}")
    async with open_run(tmp_path) as run:
        await run.go(seed, seconds)
        await run.judge()
