"""Builds the answer of ``GET /v1/status`` from the sources."""

from collections import Counter
from functools import cache
from importlib.metadata import version
from itertools import islice
from typing import Final

from controllerd.clock import iso
from controllerd.core.model import Broker, BrokerId
from controllerd.record.records import EventEnd
from controllerd.status.reads.counts import Counts
from controllerd.status.schema.common import Meta
from controllerd.status.schema.status import (
    AuditStatus,
    BrokerStatus,
    DeletionStatus,
    EndedEvent,
    HolderStatus,
    ListenerStatus,
    PartitionCounts,
    PauseStatus,
    PendingDeletionStatus,
    Quarantined,
    QueueStatus,
    SessionStatus,
    SettingProblem,
    Status,
    StatusResponse,
    Uncovered,
)
from controllerd.status.sources import StatusSources
from controllerd.views import ChannelView, ClusterView, DeletionView, Holder

_NO_CHANNEL = ChannelView(connected=False)
_LATEST_EVENTS: Final = 5
"""The ended events that the status shows."""


@cache
def daemon_version() -> str:
    """Return the version of the installed package."""
    return version("controllerd")


def view_status(sources: StatusSources, counts: Counts) -> StatusResponse:
    """Return the status of this instance; ``counts`` are the counts over all partitions."""
    snapshot = sources.snapshot()
    status = Status(
        role=snapshot.role.value,
        reason=snapshot.reason,
        node_id=snapshot.node_id,
        instance=sources.instance,
        version=daemon_version(),
        holder=view_holder(snapshot),
        zookeeper=view_session(sources),
        queue=view_queue(sources),
        counts=view_counts(snapshot, counts),
        brokers=view_brokers(snapshot, sources),
        quarantined=[Quarantined(path=path, reason=reason) for path, reason in sorted(snapshot.quarantine.items())],
        uncovered=[Uncovered(listener=name, reason=reason) for name, reason in snapshot.uncovered.items()],
        deletions=[view_deletion(name, deletion) for name, deletion in sorted(snapshot.deletions.items())],
        pauses=view_pauses(snapshot),
        latest_events=view_latest_events(sources),
        pending_deletions=[
            PendingDeletionStatus(broker=broker, replicas=number)
            for broker, number in sorted(snapshot.pending_deletions.items())
        ],
        settings=view_setting_problems(sources),
        audit=view_audit(sources),
        observed=view_observed(sources),
        registered=snapshot.registered,
    )
    return StatusResponse(meta=view_meta(sources), status=status)


def view_setting_problems(sources: StatusSources) -> list[SettingProblem]:
    """Return the settings of the cluster that have a problem, by name."""
    known = sources.cluster_settings()
    problems = {} if known is None else known.problems
    return [SettingProblem(setting=name, problem=problem) for name, problem in sorted(problems.items())]


def view_meta(sources: StatusSources) -> Meta:
    """Return the head of an answer: the cluster, the controller epoch, the version of the snapshot."""
    snapshot = sources.snapshot()
    return Meta(
        cluster_id=snapshot.cluster_id,
        controller_epoch=snapshot.controller_epoch,
        seq=snapshot.version,
        generated_at=iso(sources.now_ms()),
    )


def view_observed(sources: StatusSources) -> dict[str, int] | None:
    """Return the number of partitions by ruling, for all causes together; None unless this instance observes."""
    found = sources.observations()
    if found is None:
        return None
    totals: Counter[str] = Counter()
    for (_, ruling), partitions in found.totals.items():
        totals[ruling] += partitions
    return dict(sorted(totals.items()))


def view_host(holder: Holder, snapshot: ClusterView) -> str | None:
    """Return the host of the holder from its registration among the brokers; None without one."""
    own_entry = snapshot.our_entry if holder.node_id == snapshot.node_id else None
    entry = own_entry or snapshot.brokers.get(BrokerId(holder.node_id))
    return entry.endpoints[0].host if entry is not None and entry.endpoints else None


def view_holder(snapshot: ClusterView) -> HolderStatus | None:
    """Return the holder of ``/controller``; None while the znode does not exist."""
    holder = snapshot.holder
    if holder is None:
        return None
    known_kind = "controllerd" if holder.is_controllerd else "broker"
    return HolderStatus(
        node_id=holder.node_id,
        kind=known_kind if holder.is_known else "unknown",
        instance=holder.instance,
        host=view_host(holder, snapshot),
        since=iso(holder.since_ms),
        since_ms=holder.since_ms,
    )


def view_session(sources: StatusSources) -> SessionStatus:
    """Return the state of the ZooKeeper session."""
    session = sources.session()
    shown = None if session.session_id is None else f"0x{session.session_id & (2**64 - 1):x}"
    return SessionStatus(state=session.state, session_id=shown, generation=session.generation)


def view_queue(sources: StatusSources) -> QueueStatus:
    """Return the event queue and the event that is being handled."""
    worker = sources.worker()
    return QueueStatus(
        depth=len(sources.queue),
        oldest_age_s=sources.queue.oldest_age_s(),
        current_event=worker.event,
        current_number=worker.number,
        current_running_s=worker.running_s,
    )


def view_counts(snapshot: ClusterView, counts: Counts) -> PartitionCounts:
    """Return the counts of topics and partitions."""
    return PartitionCounts(
        topics=len(snapshot.topics),
        partitions=counts.partitions,
        offline=snapshot.offline_partitions,
        under_replicated=counts.under_replicated,
        non_preferred=counts.non_preferred,
        waiting=counts.waiting,
        reassigning=counts.reassigning,
        deleting=len(snapshot.deletions),
    )


def view_pauses(snapshot: ClusterView) -> list[PauseStatus]:
    """Return the pauses by name."""
    return [
        PauseStatus(
            what=what, until=iso(pause.until_ms), until_ms=pause.until_ms, reason=pause.reason, asked_by=pause.by
        )
        for what, pause in sorted(snapshot.pauses.items())
    ]


def view_latest_events(sources: StatusSources) -> list[EndedEvent]:
    """Return the last few ended events, newest first."""
    ended = ((entry, entry.record) for entry in sources.recent.newest_first())
    return [
        EndedEvent(
            event_id=record.number,
            event=record.name,
            at=iso(entry.at_ms),
            at_ms=entry.at_ms,
            took_ms=record.took_ms,
            outcome=record.outcome,
            error=record.error,
        )
        for entry, record in islice(((e, r) for e, r in ended if isinstance(r, EventEnd)), _LATEST_EVENTS)
    ]


def view_deletion(name: str, deletion: DeletionView) -> DeletionStatus:
    """Return the progress of the deletion of one topic."""
    return DeletionStatus(
        topic=name,
        has_begun=deletion.has_begun,
        held_up_by=deletion.held_up_by,
        deleting=list(deletion.deleting),
    )


def view_brokers(snapshot: ClusterView, sources: StatusSources) -> list[BrokerStatus]:
    """Return the live brokers in order of their ids."""
    channels = sources.channels()
    return [
        view_broker(broker, channels.get(broker_id, _NO_CHANNEL), shutting_down=broker_id in snapshot.shutting_down)
        for broker_id, broker in sorted(snapshot.brokers.items())
    ]


def view_broker(broker: Broker, channel: ChannelView, *, shutting_down: bool) -> BrokerStatus:
    """Return one live broker and the queue of requests to it."""
    return BrokerStatus(
        id=broker.id,
        broker_epoch=broker.epoch,
        rack=broker.rack,
        listeners=[
            ListenerStatus(
                name=endpoint.listener,
                host=endpoint.host,
                port=endpoint.port,
                security_protocol=endpoint.security_protocol.name,
            )
            for endpoint in broker.endpoints
        ],
        shutting_down=shutting_down,
        connected=channel.connected,
        queue_depth=channel.depth,
        queue_oldest_age_s=channel.oldest_age_s,
        error=channel.error,
    )


def view_audit(sources: StatusSources) -> AuditStatus:
    """Return the counters of the writer of the audit log."""
    audit = sources.audit()
    return AuditStatus(records_written=audit.records_written, records_lost=audit.records_lost, trouble=audit.trouble)
