"""The metrics of Kafka's own controller, under the names that existing dashboards and alerts use.

Exporters derive these names from MBeans. A gauge keeps its name. A histogram or timer becomes a gauge per quantile, and
a count. The names of meters depend on the exporter, which is called a dialect here.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple

from prometheus_client import Metric

from controllerd.core.model import BrokerId, ReplicaState
from controllerd.slicer import Slicer
from controllerd.status.metrics.meters import Meters, Timer
from controllerd.status.reads.counts import Counts, TopicFigures
from controllerd.status.sources import StatusSources
from controllerd.views import ChannelView, ClusterView, DeletionView
from events.base import ControllerState

QUANTILES: Final = {"0.50": 0.5, "0.75": 0.75, "0.95": 0.95, "0.98": 0.98, "0.99": 0.99, "0.999": 0.999}
JMX_EXPORTER: Final = "jmx_exporter"
CONFLUENT: Final = "confluent"
STRIMZI_REPORTER: Final = "strimzi_reporter"

_CONTROLLER: Final = "kafka_controller_kafkacontroller_"
_EVENTS: Final = "kafka_controller_controllereventmanager_"
_CHANNELS: Final = "kafka_controller_controllerchannelmanager_"
_STATS: Final = "kafka_controller_controllerstats_"
_ZK: Final = 4
"""``ZkMigrationState.ZK``: no migration to KRaft."""
_TIMED: Final[Mapping[ControllerState, str]] = {
    ControllerState.CONTROLLER_CHANGE: "controllerchange",
    ControllerState.BROKER_CHANGE: "leaderelection",
    ControllerState.TOPIC_CHANGE: "topicchange",
    ControllerState.TOPIC_DELETION: "topicdeletion",
    ControllerState.ALTER_PARTITION_REASSIGNMENT: "partitionreassignment",
    ControllerState.AUTO_LEADER_BALANCE: "autoleaderbalance",
    ControllerState.MANUAL_LEADER_BALANCE: "manualleaderbalance",
    ControllerState.CONTROLLED_SHUTDOWN: "controlledshutdown",
    ControllerState.ISR_CHANGE: "isrchange",
    ControllerState.LEADER_AND_ISR_RESPONSE_RECEIVED: "leaderandisrresponsereceived",
    ControllerState.LOG_DIR_CHANGE: "logdirchange",
    ControllerState.CONTROLLER_SHUTDOWN: "controllershutdown",
    ControllerState.UNCLEAN_LEADER_ELECTION_ENABLE: "uncleanleaderelectionenable",
    ControllerState.TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE: "topicuncleanleaderelectionenable",
    ControllerState.LIST_PARTITION_REASSIGNMENT: "listpartitionreassignment",
    ControllerState.UPDATE_FEATURES: "updatefeatures",
}
"""The names of Kafka's timers, in which a change of brokers is a leader election. Two states have no timer."""


class ClusterFigures(NamedTuple):
    """The gauges of Kafka's controller; all 0 if this instance is not the active controller."""

    topics: int = 0
    partitions: int = 0
    """The partitions that have, or had, a leader."""
    offline: int = 0
    imbalanced: int = 0
    """Partitions that their preferred replica does not lead, without topics to be deleted."""
    topics_to_delete: int = 0
    replicas_to_delete: int = 0
    topics_ineligible: int = 0
    replicas_ineligible: int = 0
    brokers: int = 0


async def figures_of(snapshot: ClusterView, counts: TopicFigures[Counts], slicer: Slicer) -> ClusterFigures:
    """Return the figures of the snapshot; only topics that changed are measured again."""
    if not snapshot.is_active:
        return ClusterFigures()
    by_topic = await counts.all(snapshot, slicer)
    queued = {name: view for name, view in snapshot.deletions.items() if view.is_queued}
    hidden = {name for name, view in queued.items() if view.is_hidden}
    deletions = queued.values()
    stuck = ReplicaState.DELETION_INELIGIBLE
    left = {state for state in ReplicaState if state is not ReplicaState.DELETION_SUCCESSFUL}
    return ClusterFigures(
        topics=len(by_topic),
        partitions=sum(counts.led for counts in by_topic.values()),
        offline=snapshot.offline_partitions,
        imbalanced=sum(counts.non_preferred for name, counts in by_topic.items() if name not in hidden),
        topics_to_delete=len(queued),
        replicas_to_delete=sum(_replicas_in(left, view) for view in deletions),
        topics_ineligible=sum(view.held_up_by is not None for view in deletions),
        replicas_ineligible=sum(_replicas_in({stuck}, view) for view in deletions),
        brokers=len(snapshot.brokers),
    )


def _replicas_in(states: Collection[ReplicaState], view: DeletionView) -> int:
    return sum(number for (_, state), number in view.replicas.items() if state in states)


def peer_families(
    sources: StatusSources, meters: Meters, figures: ClusterFigures, dialects: Collection[str]
) -> Iterator[Metric]:
    """Yield all metrics of Kafka's controller."""
    yield from _controller(sources, figures)
    yield from _event_manager(sources, meters)
    yield from _stats(meters, dialects)
    yield from _channel_manager(sources.channels(), meters)
    if CONFLUENT in dialects:
        yield from _kraft(sources, meters)


def gauge(name: str, meaning: str, value: float, **labels: str) -> Metric:
    """Return a gauge with one sample."""
    return _with_sample(Metric(name, meaning, "gauge"), name, value, **labels)


def _with_sample(metric: Metric, name: str, value: float, **labels: str) -> Metric:
    metric.add_sample(name, labels, value)
    return metric


def _controller(sources: StatusSources, figures: ClusterFigures) -> Iterator[Metric]:
    is_active = sources.snapshot().is_active
    values = {
        "activecontrollercount": ("1 on the active controller, 0 elsewhere.", int(is_active)),
        "offlinepartitionscount": ("Partitions without a leader.", figures.offline),
        "preferredreplicaimbalancecount": (
            "Partitions that their preferred replica does not lead, without topics to be deleted.",
            figures.imbalanced,
        ),
        "controllerstate": ("The state of the running event, in Kafka's codes; 0 when idle.", sources.worker().state),
        "globaltopiccount": ("Topics.", figures.topics),
        "globalpartitioncount": ("Partitions that have or had a leader.", figures.partitions),
        "topicstodeletecount": ("Topics whose deletion was requested.", figures.topics_to_delete),
        "replicastodeletecount": ("Replicas of these topics that are not deleted yet.", figures.replicas_to_delete),
        "topicsineligibletodeletecount": ("Topics whose deletion is held up.", figures.topics_ineligible),
        "replicasineligibletodeletecount": (
            "Replicas of topics to be deleted that cannot be deleted now.",
            figures.replicas_ineligible,
        ),
        "activebrokercount": ("Registered brokers.", figures.brokers),
        "fencedbrokercount": ("Always 0: without KRaft no broker is fenced.", 0),
        "zkmigrationstate": ("Always 4: the metadata is in ZooKeeper, and no migration is under way.", _ZK),
    }
    for name, (meaning, value) in values.items():
        yield gauge(_CONTROLLER + name, meaning, value)


def _event_manager(sources: StatusSources, meters: Meters) -> Iterator[Metric]:
    yield gauge(f"{_EVENTS}eventqueuesize", "Events that wait.", len(sources.queue))
    yield from _timer(
        f"{_EVENTS}eventqueuetimems",
        "Milliseconds that events waited; empty after five minutes without events.",
        meters.events.waited,
    )


def _stats(meters: Meters, dialects: Collection[str]) -> Iterator[Metric]:
    for state, name in _TIMED.items():
        meaning = f"Milliseconds that handling events took in state {state.name}."
        yield from _timer(f"{_STATS}{name}rateandtimems", meaning, meters.events.timer(state))
    elections, meaning = meters.events.unclean_elections, "Leaders elected outside their ISR."
    if JMX_EXPORTER in dialects:
        counter = Metric(f"{_STATS}uncleanleaderelections", meaning, "counter")
        yield _with_sample(counter, f"{counter.name}_total", elections)
    if STRIMZI_REPORTER in dialects:
        yield _untyped(f"{_STATS}uncleanleaderelectionspersec_total", meaning, elections)
    if CONFLUENT in dialects:
        yield _untyped(f"{_STATS}uncleanleaderelectionspersec", meaning, elections)


def _channel_manager(channels: Mapping[BrokerId, ChannelView], meters: Meters) -> Iterator[Metric]:
    waiting = {broker: view.depth - (view.in_flight is not None) for broker, view in sorted(channels.items())}
    yield gauge(f"{_CHANNELS}totalqueuesize", "Control requests that wait for brokers.", sum(waiting.values()))
    sizes = Metric(f"{_CHANNELS}queuesize", "Control requests that wait for a broker.", "gauge")
    for broker, size in waiting.items():
        sizes.add_sample(sizes.name, {"broker_id": str(broker)}, size)
    yield sizes
    known = ((broker, meters.channels.queued.get(broker)) for broker in waiting)
    queued = [({"broker_id": str(broker)}, timer) for broker, timer in known if timer is not None]
    name, meaning = f"{_CHANNELS}requestrateandqueuetimems", "Milliseconds that control requests waited for a broker."
    yield from _timers(name, meaning, queued)


def _kraft(sources: StatusSources, meters: Meters) -> Iterator[Metric]:
    """Yield the metrics that dashboards for KRaft use, as far as this controller has similar values."""
    yield from _timer(
        f"{_EVENTS}eventqueueprocessingtimems", "Milliseconds that handling events took.", meters.events.all
    )
    quarantined = len(sources.snapshot().quarantine)
    yield gauge(f"{_CONTROLLER}metadataerrorcount", "Znodes that cannot be understood and are left alone.", quarantined)
    lag = sources.queue.oldest_age_s() * 1000
    yield gauge(f"{_CONTROLLER}lastappliedrecordlagms", "Milliseconds that the oldest event has waited.", lag)


def _untyped(name: str, meaning: str, value: float) -> Metric:
    return _with_sample(Metric(name, meaning, "unknown"), name, value)


def _timer(name: str, meaning: str, timer: Timer) -> Iterator[Metric]:
    return _timers(name, meaning, [({}, timer)])


def _timers(name: str, meaning: str, timers: Collection[tuple[dict[str, str], Timer]]) -> Iterator[Metric]:
    metric = Metric(name, meaning, "gauge")
    counts = Metric(f"{name}_count", f"How many there are of: {meaning}", "unknown")
    for labels, timer in timers:
        values = timer.sample.quantiles(QUANTILES.values())
        for quantile, value in zip(QUANTILES, values, strict=True):
            metric.add_sample(name, {**labels, "quantile": quantile}, value)
        counts.add_sample(counts.name, labels, timer.count)
    yield metric
    yield counts
