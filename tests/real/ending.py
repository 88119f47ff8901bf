"""What must hold when a cluster of real brokers is given back: its records are there, and its logs tell the truth."""

import asyncio

from controllerd.dev.observe import audit_violations
from tests.real.trial import Trial


async def judge_ending(trial: Trial) -> None:
    """Every record that was ever acknowledged is there; the logs of all instances fold to ZooKeeper and break no rule.

    Where nobody of ours leads any more, others may have changed what no log of ours tells; the rules hold all the same.
    """
    await asyncio.to_thread(trial.load.stop)
    await trial.judge_records("at the end of the cluster")
    logs = await trial.audit_logs()
    if await trial.cluster.active() is not None:
        await trial.waiting.until(trial.missing_audit, "the logs of all instances fold to ZooKeeper at the end")
    assert await asyncio.to_thread(audit_violations, *logs) == [], "at the end of the cluster"
    print(f"the end: the audit logs of {len(logs)} instances hold")
