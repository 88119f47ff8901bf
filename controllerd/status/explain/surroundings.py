"""What holds everything up: no ZooKeeper, an event that does not end, or that somebody else is the controller."""

from collections.abc import Iterator
from typing import Final

from controllerd.recent import Entry
from controllerd.record.records import SessionRecord
from controllerd.snapshot import Role
from controllerd.status.explain.foreign import for_whoever_leads
from controllerd.status.explain.scene import OK, WARNING, Scene, Verdict, cause
from controllerd.status.explain.words import count, span
from controllerd.status.schema.why import Cause

STUCK_S: Final = 10.0
"""An event that has shown no progress for so long is stuck: a whole failover shows some every few milliseconds."""
_NOT_LEADING: Final = frozenset({Role.STANDBY, Role.STARTING, Role.STOPPING})
_BEGINNINGS: Final = frozenset({"suspended", "lost", "closed"})


def judge_surroundings(scene: Scene, verdict: Verdict) -> None:
    """Put what holds everything up before the rest: nothing else can be helped before; and say whom to ask for that."""
    verdict.next[:] = for_whoever_leads(scene, verdict.next)
    held_up = list(_held_up(scene))
    if not held_up:
        return
    verdict.causes[:0] = held_up
    verdict.next[:0] = list(_cures(scene, held_up))
    if verdict.severity == OK:
        verdict.severity = WARNING


def _held_up(scene: Scene) -> Iterator[Cause]:
    state = scene.around.session.state
    if state != "connected":
        since = _session_since(scene)
        when = f" since {scene.clock(since.at_ms)}" if since is not None else ""
        told = "suspended" if state == "suspended" else "lost"
        text = f"the ZooKeeper session of this instance is {state}{when}: it decides nothing, and sees no change"
        yield cause(f"zookeeper-{told}", text, since=since)
    if scene.snapshot.role in _NOT_LEADING:
        if scene.snapshot.holder is not None or state == "connected":  # who leads cannot be seen without a session
            yield _not_leading(scene)
    elif scene.is_watching and scene.snapshot.holder is None:
        yield cause("no-controller", "nobody holds /controller: no leader is elected, and nothing is decided")
    yield from _stuck(scene)


def _not_leading(scene: Scene) -> Cause:
    snapshot = scene.snapshot
    if snapshot.role is Role.STARTING:
        return cause("controller-starting", "this instance is starting: it knows nothing of partitions yet")
    if snapshot.holder is None:
        return cause("no-controller", f"nobody holds /controller; this instance is {snapshot.role.value}")
    since = scene.clock(snapshot.holder.since_ms)
    text = f"this instance is {snapshot.role.value} and decides nothing: {snapshot.holder} leads since {since}"
    return cause("standby", text, broker=None if snapshot.holder.is_controllerd else snapshot.holder.node_id)


def _stuck(scene: Scene) -> Iterator[Cause]:
    worker, queue = scene.around.worker, scene.around.queue
    waiting = f"{count(queue.depth, 'event')} wait behind it"
    if worker.event is not None and worker.since_progress_s >= STUCK_S:
        text = f"event {worker.number} {worker.event} is in work for {span(worker.running_s)} without progress"
        yield cause("queue-stuck", f"{text}; {waiting}: what is shown here is from before it")
    elif queue.depth and queue.oldest_age_s >= STUCK_S:
        at_work = f", event {worker.number} {worker.event} is in work" if worker.event is not None else ""
        text = f"{count(queue.depth, 'event')} wait, the oldest for {span(queue.oldest_age_s)}{at_work}"
        yield cause("queue-behind", f"{text}: what happened of late does not show here yet")


def _session_since(scene: Scene) -> Entry | None:
    """When the session was interrupted."""
    begun = None
    for entry, record in scene.history.of(SessionRecord):
        if record.state not in _BEGINNINGS:
            break
        begun = entry
    return begun


def _cures(scene: Scene, held_up: list[Cause]) -> Iterator[str]:
    codes = {each.code for each in held_up}
    if codes & {"zookeeper-suspended", "zookeeper-lost"}:
        yield "see that this host reaches ZooKeeper:"
        yield "controllerctl doctor --zk HOSTS"
    if codes & {"queue-stuck", "queue-behind"}:
        yield "controllerctl get queue"
    if "queue-stuck" in codes:
        yield 'controllerctl resign --reason "the queue is stuck"'
    if "no-controller" in codes and scene.is_watching:
        yield "start a broker or a controllerd that can reach ZooKeeper"
    elif codes & {"standby", "no-controller"}:
        holder = scene.snapshot.holder
        yield f"ask {holder if holder is not None else 'again when somebody leads'}, or look at ZooKeeper itself:"
        yield "controllerctl --zk HOSTS status"
