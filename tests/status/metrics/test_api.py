"""``/metrics`` as Prometheus reads it."""

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType

import aiohttp
import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as plain

from controllerd.config.model import DEFAULT_METRICS, Dialect, HttpConfig, MetricsConfig, Secret
from controllerd.core.model import BrokerId, ReplicaState
from controllerd.observer.report import NOT_JUDGED
from controllerd.observer.verdicts import Ruling
from controllerd.status.server import StatusServer
from controllerd.status.sources import AuditView
from controllerd.views import ChannelView, DeletionView, SessionView, WorkerView
from events.base import ControllerState
from events.cluster import Resign
from tests.status.fake_controller import LOOPBACK, NOW_MS, SINCE_MS, FakeController, compared, partition

NAMES = Path(__file__).with_name("queried_names.txt")
CONTROLLER = "kafka_controller_kafkacontroller_"
PARTLY = {"Accept": "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.4"}
TOKEN = "a-token-of-sixteen"


@asynccontextmanager
async def asking(
    controller: FakeController, metrics: MetricsConfig = DEFAULT_METRICS, http: HttpConfig = LOOPBACK
) -> AsyncIterator[aiohttp.ClientSession]:
    """Start the real server, and connect to it."""
    server = StatusServer(controller.sources(), http, metrics=metrics)
    port = await server.start()
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
            yield session
    finally:
        await server.close()


async def read(session: aiohttp.ClientSession, headers: Mapping[str, str] = MappingProxyType({})) -> list[Metric]:
    """Return the metrics, parsed by the format of the answer."""
    async with session.get("/metrics", headers=headers) as answer:
        assert answer.status == 200
        parse = open_metrics if answer.content_type == "application/openmetrics-text" else plain
        return list(parse(await answer.text()))


async def values(controller: FakeController, *dialects: Dialect) -> dict[str, float]:
    """Every series with its value, named as in Prometheus."""
    config = MetricsConfig(dialects=dialects) if dialects else DEFAULT_METRICS
    async with asking(controller, config) as session:
        return series(await read(session))


def series(metrics: list[Metric]) -> dict[str, float]:
    found = {}
    for sample in (sample for metric in metrics for sample in metric.samples):
        labels = ",".join(f"{name}={value}" for name, value in sample.labels.items())
        found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


@pytest.fixture
def active() -> FakeController:
    controller = FakeController()
    controller.lead(11)
    return controller


def queried() -> list[str]:
    """The names that dashboards and alerts query."""
    lines = NAMES.read_text("utf-8").splitlines()
    return [line.split()[0] for line in lines if not line.startswith("#")]


@pytest.mark.parametrize("name", queried())
async def test_each_name_that_dashboards_query_exists(active: FakeController, name: str) -> None:
    dialects: tuple[Dialect, ...] = ("strimzi_reporter",) if name.endswith("persec_total") else ()

    assert name in {key.partition("{")[0] for key in await values(active, *dialects)}


async def test_both_formats_are_valid_and_have_the_same_content(active: FakeController) -> None:
    every: tuple[Dialect, ...] = ("jmx_exporter", "confluent", "strimzi_reporter")
    async with asking(active, MetricsConfig(dialects=every)) as session:
        text, opened = await read(session), await read(session, PARTLY)

    def stable(metrics: list[Metric]) -> set[str]:
        return {key for key in series(metrics) if not key.startswith(("controllerd_http", "process_"))}

    assert stable(text) == stable(opened)
    doubled = [name for name, times in Counter(metric.name for metric in opened).items() if times > 1]
    assert not doubled


async def test_the_active_controller_shows_the_cluster(active: FakeController) -> None:
    found = await values(active)

    assert {name: found[CONTROLLER + name] for name in ("activecontrollercount", "globaltopiccount")} == {
        "activecontrollercount": 1,
        "globaltopiccount": 2,
    }
    assert found[f"{CONTROLLER}globalpartitioncount"] == 4
    assert found[f"{CONTROLLER}offlinepartitionscount"] == 1
    assert found[f"{CONTROLLER}preferredreplicaimbalancecount"] == 2
    assert found[f"{CONTROLLER}activebrokercount"] == 2
    assert found[f"{CONTROLLER}zkmigrationstate"] == 4


async def test_a_standby_has_no_figures_of_the_cluster() -> None:
    found = await values(FakeController())

    shown = {name: value for name, value in found.items() if name.startswith(CONTROLLER) and value}
    assert shown == {f"{CONTROLLER}zkmigrationstate": 4}
    assert found["controllerd_role{role=standby}"] == 1
    assert found["controllerd_foreign_controller_seconds"] == (NOW_MS - SINCE_MS) / 1000


async def test_an_observer_counts_comparisons_by_ruling() -> None:
    controller = FakeController()
    controller.observe(compared("equal"), compared("equal"), compared("different: leader 3", cause="broker came"))

    found = await values(controller)

    name = "controllerd_observed_partitions_total"
    assert {key.removeprefix(name): value for key, value in found.items() if key.startswith(name)} == {
        **{f"{{ruling={ruling.value}}}": 0 for ruling in Ruling},
        f"{{ruling={NOT_JUDGED}}}": 0,
        "{ruling=equal}": 2,
        "{ruling=different}": 1,
    }
    assert found["controllerd_role{role=observer}"] == 1
    assert found[f"{CONTROLLER}activecontrollercount"] == 0


async def test_topics_to_be_deleted_are_not_imbalanced_and_count_with_their_replicas(active: FakeController) -> None:
    states = {
        (BrokerId(1), ReplicaState.DELETION_SUCCESSFUL): 3,
        (BrokerId(2), ReplicaState.DELETION_STARTED): 3,
        (BrokerId(3), ReplicaState.DELETION_INELIGIBLE): 3,
    }
    active.snapshot.deletions["orders"] = DeletionView(True, "broker 3 is dead", (), replicas=states)
    active.snapshot.deletions["audit"] = DeletionView(False, "paused", (), is_queued=False)
    active.put_topic("late", partition(0, 2, (1, 2, 3)))

    found = await values(active)

    assert found[f"{CONTROLLER}topicstodeletecount"] == 1
    assert found[f"{CONTROLLER}replicastodeletecount"] == 6
    assert found[f"{CONTROLLER}topicsineligibletodeletecount"] == 1
    assert found[f"{CONTROLLER}replicasineligibletodeletecount"] == 3
    assert found[f"{CONTROLLER}preferredreplicaimbalancecount"] == 1


async def test_the_state_is_that_of_the_running_event(active: FakeController) -> None:
    active.worker = WorkerView("BrokerChange", 5, 1.5, 0.5, ControllerState.BROKER_CHANGE)
    active.queue.put(Resign("for a test"))

    found = await values(active)

    assert found[f"{CONTROLLER}controllerstate"] == 2
    assert found["controllerd_event_running_seconds"] == 1.5
    assert found["kafka_controller_controllereventmanager_eventqueuesize"] == 1


async def test_timers_are_quantiles_and_a_count(active: FakeController) -> None:
    sources = active.sources()
    sources.meters.events.observe(ControllerState.BROKER_CHANGE, "BrokerChange", 0.004, 0.25)
    server = StatusServer(sources, LOOPBACK)
    port = await server.start()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        found = series(await read(session))
    await server.close()

    timer = "kafka_controller_controllerstats_leaderelectionrateandtimems"
    quantiles = {name for name in found if name.startswith(f"{timer}{{")}
    assert quantiles == {f"{timer}{{quantile={q}}}" for q in ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")}
    assert found[f"{timer}{{quantile=0.999}}"] == 250
    assert found[f"{timer}_count"] == 1
    assert found["kafka_controller_controllereventmanager_eventqueuetimems{quantile=0.50}"] == 4


async def test_queues_to_brokers_do_not_count_requests_in_flight(active: FakeController) -> None:
    active.channels[BrokerId(2)] = ChannelView(3, 1.5, connected=False, in_flight="LeaderAndIsr")

    found = await values(active)

    assert found["kafka_controller_controllerchannelmanager_queuesize{broker_id=2}"] == 2
    assert found["kafka_controller_controllerchannelmanager_totalqueuesize"] == 2
    assert found["controllerd_broker_up{broker_id=2}"] == 0


async def test_dialects_decide_the_names_of_meters(active: FakeController) -> None:
    meter = "kafka_controller_controllerstats_uncleanleaderelections"

    def names(found: Mapping[str, float]) -> set[str]:
        return {name for name in found if name.startswith(meter)}

    assert names(await values(active)) == {f"{meter}_total", f"{meter}persec"}
    assert names(await values(active, "strimzi_reporter")) == {f"{meter}persec_total"}


async def test_session_and_audit_log_are_shown(active: FakeController) -> None:
    active.session = SessionView("suspended", 1, 1)
    active.audit = AuditView(88, 3, "disk full", 4096, 2, 0.5)

    found = await values(active)

    assert (found["controllerd_zk_session_state{state=suspended}"], found["controllerd_audit_dropped_total"]) == (1, 3)
    assert (found["controllerd_audit_fsync_seconds_sum"], found["controllerd_audit_bytes_total"]) == (0.5, 4096)
    assert found["controllerd_audit_trouble"] == 1


async def test_requests_are_counted_by_route_and_never_by_path(active: FakeController) -> None:
    async with asking(active) as session:
        for path in ("/v1/topics/orders", "/v1/topics/audit", "/v1/topics/unknown", "/nothing/here"):
            async with session.get(path):
                pass
        found = series(await read(session))

    topic = "controllerd_http_requests_total{code=%d,method=GET,route=/v1/topics/{topic}}"
    assert (found[topic % 200], found[topic % 404]) == (2, 1)
    assert found["controllerd_http_requests_total{code=404,method=any,route=none}"] == 1
    assert not [name for name in found if "orders" in name]


@pytest.mark.parametrize(("is_open", "without"), [(False, 401), (True, 200)])
async def test_a_configured_token_is_needed_unless_metrics_are_open(
    active: FakeController, is_open: bool, without: int
) -> None:
    http = HttpConfig(listen=LOOPBACK.listen, read_token=Secret(TOKEN))
    async with asking(active, MetricsConfig(open=is_open), http) as session:
        async with session.get("/metrics") as answer:
            assert answer.status == without
        async with session.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"}) as answer:
            assert answer.status == 200
        async with session.get("/v1/status") as answer:
            assert answer.status == 401


async def test_no_series_is_about_a_single_partition(active: FakeController) -> None:
    before = await values(active)
    for number in range(50):
        active.put_topic(f"topic-{number}", *(partition(at, 1, (1, 2, 3)) for at in range(20)))

    after = await values(active)

    assert before.keys() == after.keys()
    assert after[f"{CONTROLLER}globalpartitioncount"] == 1004
