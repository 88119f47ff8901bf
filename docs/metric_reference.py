#!/usr/bin/env python3
"""Write the list of metrics in ``metrics.md`` from an answer of ``/metrics``, so that it stays true."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, get_args

from prometheus_client import Metric

from controllerd.clock import SystemClock
from controllerd.config.model import Dialect, MetricsConfig
from controllerd.core.model import BrokerId
from controllerd.recent import Recent
from controllerd.snapshot import ClusterSnapshot
from controllerd.status.metrics.api import MetricsApi
from controllerd.status.metrics.meters import Meters
from controllerd.status.metrics.peer import ClusterFigures
from controllerd.status.reads.context import ReadContext
from controllerd.status.sources import AuditView, StatusSources
from controllerd.views import ChannelView, SessionView, WorkerView
from events.queue import EventQueue
from markers import rewritten

PAGE: Final = Path(__file__).with_name("metrics.md")
BEGIN: Final = "<!-- generated:metrics -->"
LABELS: Final = {
    "controllerd_event_seconds": ("event",),
    "controllerd_event_failures": ("event",),
    "controllerd_observed_partitions": ("ruling",),
    "controllerd_zk_request_seconds": ("op",),
    "controllerd_request_bytes": ("api", "broker_id"),
    "controllerd_request_seconds": ("api",),
    "controllerd_http_requests": ("method", "route", "code"),
    "controllerd_failover_phase_seconds": ("phase",),
    "kafka_controller_controllerchannelmanager_requestrateandqueuetimems": ("broker_id", "quantile"),
    "kafka_controller_controllerchannelmanager_requestrateandqueuetimems_count": ("broker_id",),
}
"""The labels of metrics that have no series at the start."""
KINDS: Final = {"unknown": "count"}


def families() -> list[Metric]:
    """Every metric in every dialect, of an instance that has done nothing yet and knows one broker."""
    clock = SystemClock()
    sources = StatusSources(
        instance="",
        queue=EventQueue(time.monotonic),
        snapshot=lambda: ClusterSnapshot(0),
        worker=WorkerView,
        channels=lambda: {BrokerId(1): ChannelView()},
        session=lambda: SessionView("connecting"),
        audit=AuditView,
        now_ms=lambda: 0,
        recent=(recent := Recent(clock)),
        record=recent.record,
        meters=Meters(),
    )
    return list(MetricsApi(ReadContext(sources), MetricsConfig(dialects=get_args(Dialect))).families(ClusterFigures()))


def generated() -> str:
    """The text between the markers."""
    return "\n".join(["| Metric | Kind | Labels | Meaning |", "|---|---|---|---|", *rows(families())])


def rows(metrics: list[Metric]) -> Iterator[str]:
    """One row for each metric; the count of a timer has no row of its own."""
    known = {metric.name for metric in metrics}
    for metric in metrics:
        if metric.name.removesuffix("_count") in known - {metric.name} or metric.name.startswith("process_"):
            continue
        name = f"{metric.name}_total" if metric.type == "counter" else metric.name
        kind = "quantiles, `_count`" if f"{name}_count" in known else KINDS.get(metric.type, metric.type)
        yield f"| `{name}` | {kind} | {', '.join(f'`{label}`' for label in labels(metric))} | {metric.documentation} |"


def labels(metric: Metric) -> tuple[str, ...]:
    """The names of its labels, without the label ``le`` of histograms."""
    found = dict.fromkeys(label for sample in metric.samples for label in sample.labels if label != "le")
    return tuple(found) or LABELS.get(metric.name, ())


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text("utf-8"), BEGIN, generated()), "utf-8")
