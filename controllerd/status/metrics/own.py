"""Our own metrics that are looked up when somebody asks, in base units."""

import platform
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, get_args

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily

from controllerd.status.metrics.meters import Meters
from controllerd.status.metrics.peer import gauge
from controllerd.status.sources import AuditView, ObservationsView, StatusSources
from controllerd.status.view import daemon_version
from controllerd.views import ChannelView, ClusterView, Role, SessionStateName

_MS: Final = 1000
_RULINGS: Final = ("equal", "different", "unclear", "deliberate", "not judged")
"""There from the beginning, so that the first of each is an increase."""


def own_families(sources: StatusSources, meters: Meters) -> Iterator[Metric]:
    """All of them, those that are counted all the time included."""
    yield _one_of(
        "controllerd_build_info",
        "Always 1; the labels say what runs.",
        {"version": daemon_version(), "python": platform.python_version()},
    )
    yield from _role(sources.snapshot(), sources.now_ms())
    yield _observed(sources.observations())
    yield _states(sources)
    yield from _worker(sources)
    yield from _audit(sources.audit())
    yield from _channels(list(sources.channels().items()))
    seconds = meters.unavailable.seconds
    meaning = "Seconds that partitions had no leader, added up over all partitions, while this instance led."
    yield CounterMetricFamily("controllerd_partition_unavailable_seconds", meaning, seconds)
    yield _phases(meters.failover_phases)
    yield from meters.collect()


def _role(snapshot: ClusterView, now_ms: int) -> Iterator[Metric]:
    roles = GaugeMetricFamily("controllerd_role", "1 for the role that this instance has.", labels=["role"])
    for role in Role:
        roles.add_metric([role.value], int(role is snapshot.role))
    yield roles
    yield gauge("controllerd_controller_epoch", "The epoch of this instance's term; 0 outside one.", _epoch(snapshot))
    holder = snapshot.holder
    is_foreign = holder is not None and not holder.is_controllerd and holder.is_known
    seconds = max(0, now_ms - holder.since_ms) / _MS if holder is not None and is_foreign else 0.0
    meaning = "For how long a broker's own controller has held the role; 0 when none does."
    yield gauge("controllerd_foreign_controller_seconds", meaning, seconds)
    quarantined = len(snapshot.quarantine)
    yield gauge("controllerd_quarantined_znodes", "Znodes that are left alone until they are repaired.", quarantined)
    paused = len(snapshot.pauses)
    yield gauge("controllerd_pauses", "What operators told us to leave alone for a while.", paused)


def _observed(found: ObservationsView | None) -> Metric:
    meaning = "Partitions that an observer compared with what this controller would have done."
    metric = CounterMetricFamily("controllerd_observed_partitions", meaning, labels=["ruling"])
    if found is not None:
        totals = Counter(dict.fromkeys(_RULINGS, 0))
        for (_, ruling), partitions in found.totals.items():
            totals[ruling] += partitions
        for ruling, partitions in totals.items():
            metric.add_metric([ruling], partitions)
    return metric


def _epoch(snapshot: ClusterView) -> int:
    return snapshot.controller_epoch if snapshot.is_active else 0


def _states(sources: StatusSources) -> Metric:
    now = sources.session().state
    metric = GaugeMetricFamily(
        "controllerd_zk_session_state", "1 for the state of the ZooKeeper session.", labels=["state"]
    )
    for state in get_args(SessionStateName):
        metric.add_metric([state], int(state == now))
    return metric


def _worker(sources: StatusSources) -> Iterator[Metric]:
    worker = sources.worker()
    running, idle = worker.running_s, worker.since_progress_s
    yield gauge("controllerd_event_running_seconds", "For how long the event in work has been handled.", running)
    yield gauge("controllerd_since_progress_seconds", "Since the event worker last showed progress.", idle)
    age = sources.queue.oldest_age_s()
    yield gauge("controllerd_queue_oldest_seconds", "For how long the oldest event has waited.", age)


def _audit(audit: AuditView) -> Iterator[Metric]:
    yield CounterMetricFamily("controllerd_audit_bytes", "Bytes of the audit log, uncompressed.", audit.bytes_written)
    yield CounterMetricFamily("controllerd_audit_records", "Records of the audit log.", audit.records_written)
    yield CounterMetricFamily("controllerd_audit_dropped", "Records that were lost.", audit.records_lost)
    meaning = "1 while the audit log cannot be written or its head not exported."
    yield gauge("controllerd_audit_trouble", meaning, int(audit.trouble is not None))
    name, syncs = "controllerd_audit_fsync_seconds", "How long forcing the audit log to the disk took."
    yield SummaryMetricFamily(name, syncs, count_value=audit.syncs, sum_value=audit.sync_s)


def _channels(channels: list[tuple[int, ChannelView]]) -> Iterator[Metric]:
    up = GaugeMetricFamily("controllerd_broker_up", "1 while a broker answers control requests.", labels=["broker_id"])
    oldest = GaugeMetricFamily(
        "controllerd_broker_oldest_request_seconds",
        "For how long the control request at the head of a broker's queue has waited.",
        labels=["broker_id"],
    )
    for broker, view in channels:
        up.add_metric([str(broker)], int(view.connected))
        oldest.add_metric([str(broker)], view.oldest_age_s)
    yield up
    yield oldest


def _phases(seconds: Mapping[str, float]) -> Metric:
    metric = GaugeMetricFamily(
        "controllerd_failover_phase_seconds",
        "How long each phase of the newest election took that this instance won.",
        labels=["phase"],
    )
    for phase, took in seconds.items():
        metric.add_metric([phase], took)
    return metric


def _one_of(name: str, meaning: str, labels: Mapping[str, str]) -> Metric:
    metric = Metric(name, meaning, "gauge")
    metric.add_sample(name, dict(labels), 1)
    return metric
