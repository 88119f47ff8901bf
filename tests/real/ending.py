"""The checks at the end of a test with real brokers: no record is lost, and the audit logs fold to ZooKeeper."""

import asyncio

from controllerd.dev.observe import audit_violations
from tests.real.trial import Trial


async def judge_ending(trial: Trial) -> None:
    """Check that no acknowledged record is lost, and that the audit logs fold to ZooKeeper and break no rule.

    Without an active instance, brokers may have changed ZooKeeper since the last record: then the rules alone count.
    """
    await asyncio.to_thread(trial.load.stop)
    await trial.judge_records("at the end of the cluster")
    logs = await trial.audit_logs()
    if await trial.cluster.active() is not None:
        await trial.waiting.until(trial.missing_audit, "the logs of all instances fold to ZooKeeper at the end")
    assert await asyncio.to_thread(audit_violations, *logs) == [], "at the end of the cluster"
    print(f"the end: the audit logs of {len(logs)} instances hold")
