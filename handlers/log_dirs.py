"""Log directories that failed (KIP-112)."""

import structlog

from controllerd.controller import Controller
from controllerd.core.deletion_waits import hidden_topics
from controllerd.core.model import BrokerId, ReplicaState, TopicPartition
from controllerd.machines.outbox import SLICE
from controllerd.pace import sliced
from controllerd.record.records import AlarmRecord
from events.replicas import LogDirEventNotification

log = structlog.get_logger(__name__)


async def on_log_dir_event(_event: LogDirEventNotification, c: Controller) -> None:
    """Brokers lost log directories: ask them which of their replicas are still well.

    The question is a LeaderAndIsr that says nothing new, and the answer names the replicas without a directory
    (``handlers.responses``). What we know to be on a failed directory is not asked for: only a restart brings it back.
    """
    if not c.is_active:
        return
    notes = await c.store.read_log_dir_notifications()
    for bad in notes.broken:
        c.audit.record(AlarmRecord("notification cannot be read", str(bad)))
    known = sorted(broker for broker in notes.brokers if broker in c.context.brokers)
    if known:
        log.warning("log directories failed", brokers=known)
    asked = {broker: await _in_question(broker, c) for broker in known}
    new = {broker: [tp for tp in those if _is_new(broker, tp, c)] for broker, those in asked.items()}
    await c.replicas.handle_on(asked, ReplicaState.ONLINE)
    await c.replicas.handle_on(new, ReplicaState.ONLINE)  # who was new is told nothing when it becomes online
    await c.store.delete_log_dir_notifications(notes.names)


async def _in_question(broker: BrokerId, c: Controller) -> list[TopicPartition]:
    """Its replicas that are taken to be well; those of topics being deleted are found out about by deleting them."""
    offline, hidden = c.context.offline_dirs.get(broker, frozenset()), hidden_topics(c.context)
    found: list[TopicPartition] = []
    for part in sliced(list(c.context.partitions_on(broker)), SLICE):
        found += [tp for tp in part if tp not in offline and tp.topic not in hidden]
        await c.outbox.pace.breathe()
    return found


def _is_new(broker: BrokerId, tp: TopicPartition, c: Controller) -> bool:
    return c.context.record(tp).replica_states[broker] is ReplicaState.NEW
