"""The failover: a new active controller loads everything, sends it to every broker, and brings partitions online.

The order is that of ``KafkaController.onControllerFailover``, and each step depends on the ones before.

1. **Watches before reads.** Each read arms its watch, and what changes after a read comes as an event behind this one
   in the queue. Notifications (of ISRs, of log directories) from before the load are deleted unread: the load reads
   the state that they announce.
2. **The settings of topics and of the protocol version before the state machines**, because both decide elections and
   the contents of requests.
3. **Pauses, the throttle and deletions before the first request**, so that brokers are not sent a topic that is to be
   deleted as one that is served, and no paused deletion begins.
4. **An UpdateMetadata with the live brokers before any LeaderAndIsr.** A follower that does not know the broker of its
   leader leaves the request undone and reports no error.
5. **Replicas before partitions**, as in Kafka: online replicas get the leadership that was loaded, and dead replicas
   leave their ISRs. Then the partition machine elects leaders where none is online.
6. **Reassignments, then deletions.** A deletion waits for a reassignment that can still end, and a request by znode may
   begin one.
7. **Pending replica deletions last**: only then is it known which replicas are assigned and in sync, and the requests
   queue behind everything that serves clients.

Every write of these steps is under the fence of the new term (``role.py``): a controller that is replaced while it
takes over stops at its next write. Nothing of an earlier term is in the context, because ``end_term`` emptied it.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import structlog

from controllerd.controller import Controller
from controllerd.core.model import LeaderAndIsr, TopicImage, TopicPartition
from controllerd.core.protocol_versions import FIRST_WITH_FEATURES, FIRST_WITH_FEATURES_2, FIRST_WITH_TOPIC_IDS
from controllerd.core.soundness import leadership_flaw
from controllerd.errors import BadZnode, ControllerMoved
from controllerd.record.records import AlarmRecord, SnapshotBegin, SnapshotEnd
from controllerd.services.delegation_tokens import schedule_token_check
from controllerd.services.deletions import initialise_deletions
from controllerd.services.our_replicas import replace_our_replicas
from controllerd.services.pauses import load_pauses
from controllerd.services.pending_deletions import send_pending_deletions
from controllerd.services.quarantine import quarantine
from controllerd.services.reassignments import initialise_reassignments
from controllerd.services.registration import keep_registered
from controllerd.services.settings_changes import expect_answers, record_settings_changes
from controllerd.services.throttles import load_throttle
from controllerd.services.topic_preparation import needs_correction, prepare_topics
from controllerd.services.topics import take_topic
from controllerd.services.usable_brokers import usable_brokers
from controllerd.slicer import SLICE
from handlers.config_changes import load_configs
from handlers.elections import initialise_elections

log = structlog.get_logger(__name__)


async def fail_over(c: Controller) -> None:
    """Become the active controller, in the order that the module explains."""
    await c.store.cluster.ensure_paths()
    await prepare_features(c)
    await load_configs(c)
    await _drop_notifications(c)
    await load_context(c)
    await load_pauses(c)
    await load_throttle(c)
    await initialise_deletions(c)
    await c.outbox.update_metadata(c.context.live_or_shutting_down)
    await c.replicas.startup()
    await c.partitions.startup()
    await replace_our_replicas(c)
    await initialise_reassignments(c)
    await c.deletions.resume()
    await initialise_elections(c)
    await schedule_token_check(c)
    await send_pending_deletions(sorted(c.context.brokers), c)
    await keep_registered(c)


async def prepare_features(c: Controller) -> None:
    """Write ``/feature`` as the protocol version demands; leave it as it is while the version is unknown.

    An existing ``/feature`` shows that an earlier controller had the version for it. A version that was kept may
    be older than that, and a version that brokers name may be wrong: neither must turn ``/feature`` off.
    """
    try:
        if c.settings.needs_evidence:
            found = await c.store.cluster.read_features()
            if found.enabled:
                _note_evidence(FIRST_WITH_FEATURES_2 if found.format_version > 1 else FIRST_WITH_FEATURES, c)
        if c.settings.is_protocol_known:
            features = c.context.features
            await c.store.cluster.ensure_feature_znode(
                enabled=features.feature_versioning, format_version=features.feature_format
            )
    except BadZnode as bad:
        quarantine(c, [bad])


def _note_evidence(version: str, c: Controller) -> None:
    before = c.settings.current
    c.settings.note_evidence(version)
    record_settings_changes(before, c.settings.current, c.audit)
    c.context.features = c.settings.features


async def _drop_notifications(c: Controller) -> None:
    """Delete the notifications from before the load, which reads the state that they announce."""
    log_dirs = await c.store.notifications.read_log_dir_notifications()
    await c.store.notifications.delete_log_dir_notifications(log_dirs.names)
    isrs = await c.store.notifications.read_isr_notifications()
    await c.store.notifications.delete_isr_notifications(isrs.names)


async def load_context(c: Controller) -> None:
    """Read brokers, topics and partition states into the context, between the marks of a snapshot in the audit log."""
    c.audit.record(SnapshotBegin(c.context.epoch))
    brokers = await usable_brokers(c)
    for broker in brokers.values():
        c.context.add_broker(broker)
    expect_answers(c.context.epochs(), c)
    await _load_topics(c)
    await c.outbox.write_down_slowly()
    partitions = sum(len(topic.partitions) for topic in c.context.topics.values())
    c.audit.record(SnapshotEnd(len(c.context.brokers), len(c.context.topics), partitions))
    for broker in brokers.values():
        c.channels.add_broker(broker)


async def _load_topics(c: Controller) -> None:
    names = await c.store.topics.read_topic_names()
    read = await c.store.topics.read_topics(names)
    quarantine(c, read.broken)
    if c.settings.needs_evidence and any(image.topic_id is not None for image in read.topics.values()):
        _note_evidence(FIRST_WITH_TOPIC_IDS, c)
    partitions: list[TopicPartition] = []
    are_ready = True
    for name, image in read.topics.items():
        partitions += TopicPartition.all_of(name, image.assignments)
        are_ready = are_ready and not needs_correction(c, image)
        await c.outbox.slicer.yield_to_loop()
    # While the states are read, the topics are put into the context, unless one of them is to be corrected first.
    async with beside(c.store.states.read_states(partitions)) as reading:
        if are_ready:
            await _take_topics(c, read.topics)
        states = await reading
    quarantine(c, states.broken.values())
    if not are_ready:  # a correction depends on which partitions are initialised
        initialised = states.states.keys() | states.broken.keys()
        await _take_topics(c, await prepare_topics(c, read.topics, initialised))
    await _load_states(c, states.states)


async def _take_topics(c: Controller, images: Mapping[str, TopicImage]) -> None:
    for image in images.values():
        take_topic(c, image)
        await c.outbox.slicer.yield_to_loop()
    await c.outbox.write_down_slowly()


async def _load_states(c: Controller, states: Mapping[TopicPartition, LeaderAndIsr]) -> None:
    find = c.context.find

    def take(part: Sequence[tuple[TopicPartition, LeaderAndIsr]]) -> None:
        loaded = [(record, state) for tp, state in part if (record := find(tp)) is not None]
        c.context.set_leaderships(loaded)
        for record, state in loaded:
            if state.controller_epoch > c.context.epoch:  # the store has checked that no later controller leads
                named = f"{record.tp}: controller epoch {state.controller_epoch}, ours is {c.context.epoch}"
                c.audit.record(AlarmRecord("partition state names a later controller", named))
            flaw = leadership_flaw(state, record.assignment.replicas)
            if flaw is not None:
                log.error("partition state is not sound", partition=str(record.tp), flaw=flaw.value)
                c.audit.record(AlarmRecord("partition state is not sound", f"{record.tp}: {flaw.value}"))

    await c.outbox.slicer.for_each_slice(list(states.items()), take, 3 * SLICE)


T = TypeVar("T")


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, T]) -> AsyncIterator["asyncio.Task[T]"]:
    """Run ``work`` beside the block, which ends when both have ended.

    When one of them fails, the other is cancelled, and the failure is raised as it is. Of several failures,
    ``ControllerMoved`` is the one that is raised.
    """
    try:
        async with asyncio.TaskGroup() as group:
            yield group.create_task(work)
    except BaseExceptionGroup as failed:
        raise min(failed.exceptions, key=lambda failure: not isinstance(failure, ControllerMoved)) from None
