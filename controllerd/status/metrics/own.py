"""The metrics with names of our own that are computed at a request, in base units."""

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
"""These labels exist from the beginning, so that the first count of each is an increase."""


def own_families(sources: StatusSources, meters: Meters) -> Iterator[Metric]:
    """Yield all metrics with names of our own, including those that are counted all the time."""
    snapshot = sources.snapshot()
    meaning, python = "Always 1; the labels name the versions.", platform.python_version()
    yield gauge("controllerd_build_info", meaning, 1, version=daemon_version(), python=python)
    roles = {role.value: int(role is snapshot.role) for role in Role}
    yield _labelled("controllerd_role", "1 for the role that this instance has.", "role", roles)
    for name, (meaning, value) in _of_snapshot(snapshot, sources.now_ms()).items():
        yield gauge(name, meaning, value)
    yield _observed(sources.observations())
    states = {state: int(state == sources.session().state) for state in get_args(SessionStateName)}
    meaning = "1 for the state of the ZooKeeper session."
    yield _labelled("controllerd_zk_session_state", meaning, "state", states)
    yield from _worker(sources)
    yield from _audit(sources.audit())
    yield from _channels(list(sources.channels().items()))
    seconds = meters.unavailable.seconds
    meaning = "Seconds that partitions had no leader, added up over all partitions, while this instance was active."
    yield CounterMetricFamily("controllerd_partition_unavailable_seconds", meaning, seconds)
    meaning = "Duration of each phase of the last election that this instance won."
    yield _labelled("controllerd_failover_phase_seconds", meaning, "phase", meters.failover_phases)
    yield from meters.collect()


def _of_snapshot(snapshot: ClusterView, now_ms: int) -> dict[str, tuple[str, float]]:
    holder = snapshot.holder
    is_foreign = holder is not None and not holder.is_controllerd and holder.is_known
    return {
        "controllerd_controller_epoch": (
            "The epoch of this instance's term; 0 outside one.",
            snapshot.controller_epoch if snapshot.is_active else 0,
        ),
        "controllerd_foreign_controller_seconds": (
            "How long the built-in controller of a broker has held the role; 0 if none does.",
            max(0, now_ms - holder.since_ms) / _MS if holder is not None and is_foreign else 0.0,
        ),
        "controllerd_quarantined_znodes": (
            "Znodes that are left alone until they are repaired.",
            len(snapshot.quarantine),
        ),
        "controllerd_pauses": ("Pauses that operators asked for.", len(snapshot.pauses)),
    }


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


def _worker(sources: StatusSources) -> Iterator[Metric]:
    worker = sources.worker()
    running, idle = worker.running_s, worker.since_progress_s
    yield gauge("controllerd_event_running_seconds", "How long the running event has been handled.", running)
    yield gauge("controllerd_since_progress_seconds", "Time since the event worker last made progress.", idle)
    age = sources.queue.oldest_age_s()
    yield gauge("controllerd_queue_oldest_seconds", "How long the oldest event has waited.", age)


def _audit(audit: AuditView) -> Iterator[Metric]:
    yield CounterMetricFamily("controllerd_audit_bytes", "Bytes of the audit log, uncompressed.", audit.bytes_written)
    yield CounterMetricFamily("controllerd_audit_records", "Records of the audit log.", audit.records_written)
    yield CounterMetricFamily("controllerd_audit_dropped", "Records that were lost.", audit.records_lost)
    meaning = "1 while the audit log cannot be written or its head not exported."
    yield gauge("controllerd_audit_trouble", meaning, int(audit.trouble is not None))
    name, syncs = "controllerd_audit_fsync_seconds", "Duration of fsync of the audit log."
    yield SummaryMetricFamily(name, syncs, count_value=audit.syncs, sum_value=audit.sync_s)


def _channels(channels: list[tuple[int, ChannelView]]) -> Iterator[Metric]:
    up = {str(broker): int(view.connected) for broker, view in channels}
    yield _labelled("controllerd_broker_up", "1 while a broker answers control requests.", "broker_id", up)
    oldest = {str(broker): view.oldest_age_s for broker, view in channels}
    meaning = "How long the control request at the head of a broker's queue has waited."
    yield _labelled("controllerd_broker_oldest_request_seconds", meaning, "broker_id", oldest)


def _labelled(name: str, meaning: str, label: str, values: Mapping[str, float]) -> Metric:
    """Return a gauge with one label."""
    metric = GaugeMetricFamily(name, meaning, labels=[label])
    for value, number in values.items():
        metric.add_metric([value], number)
    return metric
