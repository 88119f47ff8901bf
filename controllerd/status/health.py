"""Whether this process lives, and whether it does its job: two questions that supervisors must not mix up.

Neither asks ZooKeeper: an ensemble that is down must not make a supervisor kill every controller.
"""

from controllerd.core.counted import counted
from controllerd.status.schema.common import Check, Health
from controllerd.status.sources import StatusSources
from controllerd.views import Role


def liveness(sources: StatusSources, stuck_after_s: float) -> Health:
    """Alive: the event worker has progressed within ``stuck_after_s`` seconds, or had nothing to do.

    That the event loop turns is shown by the answer itself.
    """
    return _health([check_worker(sources, stuck_after_s)])


def readiness(sources: StatusSources, stuck_after_s: float) -> Health:
    """Ready: active, standing by or observing, with a ZooKeeper session and a worker that keeps up.

    Quarantined znodes and a troubled audit log are shown as degraded; they do not make the instance unready.
    """
    return _health(
        [
            check_role(sources),
            check_session(sources),
            check_worker(sources, stuck_after_s),
            check_quarantine(sources),
            check_audit(sources),
        ]
    )


def _health(checks: list[Check]) -> Health:
    return Health(
        ok=all(check.ok for check in checks if check.required),
        degraded=not all(check.ok for check in checks),
        checks=checks,
    )


def check_worker(sources: StatusSources, stuck_after_s: float) -> Check:
    """The worker handles an event or waits for one, and is not stuck."""
    worker, oldest_s = sources.worker(), sources.queue.oldest_age_s()
    if worker.event is not None:
        ok = worker.since_progress_s <= stuck_after_s
        detail = f"handles {worker.event} for {worker.running_s:.1f} s, {counted(len(sources.queue), 'event')} waiting"
    else:
        # Between two events an idle hour says nothing: only an event that nobody takes does.
        ok = min(worker.since_progress_s, oldest_s) <= stuck_after_s
        detail = f"{counted(len(sources.queue), 'event')} waiting, the oldest for {oldest_s:.1f} s"
    return Check(name="event worker", ok=ok, detail=detail)


def check_role(sources: StatusSources) -> Check:
    """The instance is active, standing by or observing."""
    snapshot = sources.snapshot()
    ok = snapshot.role in {Role.ACTIVE, Role.STANDBY, Role.OBSERVER}
    return Check(name="role", ok=ok, detail=f"{snapshot.role.value}: {snapshot.reason}")


def check_session(sources: StatusSources) -> Check:
    """There is a connected ZooKeeper session."""
    state = sources.session().state
    return Check(name="zookeeper session", ok=state == "connected", detail=state)


def check_quarantine(sources: StatusSources) -> Check:
    """Every znode could be understood."""
    quarantine = sources.snapshot().quarantine
    shown = ", ".join(sorted(quarantine)[:5]) + (", ..." if len(quarantine) > 5 else "")
    return Check(
        name="quarantine",
        ok=not quarantine,
        detail=f"{counted(len(quarantine), 'znode')} left alone: {shown}" if quarantine else "empty",
        required=False,
    )


def check_audit(sources: StatusSources) -> Check:
    """The audit log is written and has lost nothing."""
    audit = sources.audit()
    detail = audit.trouble or (f"{counted(audit.records_lost, 'record')} lost" if audit.records_lost else "written")
    return Check(name="audit log", ok=audit.trouble is None and not audit.records_lost, detail=detail, required=False)
