"""The checks of the doctor: each finds its problem, and gives a hint."""

import asyncio
import io
import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import replace

import msgspec
import pytest

from cli.doctor.cluster import check_all
from cli.doctor.command import show
from cli.doctor.facts import CheckedCluster, Facts, ListenerProbe, SeenController, critical
from cli.doctor.gather import probe_listeners, see_controllers
from cli.doctor.znodes import check_znodes
from cli.settings import CliSettings
from controllerd.status.schema.common import Check, Finding, FindingList, Health
from controllerd.status.schema.status import (
    AuditStatus,
    BrokerStatus,
    DeletionStatus,
    HolderStatus,
    ListenerStatus,
    PartitionCounts,
    Quarantined,
    QueueStatus,
    SessionStatus,
    Status,
    Uncovered,
)
from controllerd.zk import paths
from controllerd.zk.access import Znode
from controllerd.zk.image import ClusterImage
from controllerd.zk.survey import StampedZnode, Survey
from tests.cli.documents import AT, AT_MS, META, PARTITION, STATUS, run
from tests.status.fake_controller import FakeController, serving
from tests.wire.test_connection import server
from tests.wire.test_metadata import answer as metadata_answer

HOLDER = HolderStatus(node_id=1, kind="controllerd", instance="us", since=AT, since_ms=AT_MS)
WELL = Status(
    role="active",
    reason="elected with epoch 12",
    node_id=1,
    instance="us",
    version="1",
    holder=HOLDER,
    zookeeper=SessionStatus(state="connected", session_id="0x1", generation=1),
    queue=QueueStatus(depth=0, oldest_age_s=0, current_event=None, current_number=None, current_running_s=0),
    counts=PartitionCounts(topics=1, partitions=1, offline=0, under_replicated=0, non_preferred=0, waiting=0),
    brokers=[STATUS],
    quarantined=[],
    audit=AuditStatus(records_written=5, records_lost=0, trouble=None),
)
VIEW = CheckedCluster(WELL, "cluster-1", [], 0, [], 0)


def node(content: object) -> Znode:
    """A znode with this JSON."""
    return Znode(json.dumps(content).encode(), 0, 1)


def topic(topic_id: str, **partitions: list[int]) -> Znode:
    """A topic's znode."""
    return node(
        {
            "version": 3,
            "topic_id": topic_id,
            "partitions": {name[1:]: replicas for name, replicas in partitions.items()},
            "adding_replicas": {},
            "removing_replicas": {},
        }
    )


def registration(port: int) -> bytes:
    """A broker's."""
    content = {"version": 4, "host": "h", "port": port, "jmx_port": -1, "timestamp": str(AT_MS)}
    content |= {"endpoints": [f"PLAINTEXT://h:{port}"], "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"}}
    return json.dumps(content).encode()


NODES = {
    "/brokers/topics/t": topic("mZ0sXkq3TLuXkKkZ1nQ3Yg", p0=[1, 2]),
    "/controller": node({"version": 1, "brokerid": 1, "timestamp": str(AT_MS), "instance": "us"}),
}
CHILDREN = {paths.BROKER_TOPICS: ("t",), paths.BROKER_IDS: ("3",)}
SOUND = Survey(
    ClusterImage(NODES, CHILDREN), {"/brokers/ids/3": StampedZnode(registration(9092), AT_MS, AT_MS)}, ["t"], [1.0] * 50
)
FACTS = Facts(
    now_ms=AT_MS,
    survey=SOUND,
    view=VIEW,
    is_daemon=True,
    health=Health(ok=True, degraded=False, checks=[]),
    probes=[ListenerProbe("broker 3", "PLAINTEXT", "kafka3:9092", None)],
)


def with_nodes(children: Mapping[str, tuple[str, ...]] | None = None, **nodes: Znode) -> Survey:
    """The sound survey with more znodes; a path's slashes are written as double underscores."""
    added = {"/" + name.replace("__", "/"): content for name, content in nodes.items()}
    return replace(SOUND, image=ClusterImage(NODES | added, {**CHILDREN, **(children or {})}))


def reassign(*moves: tuple[str, int, list[int]]) -> Znode:
    """``/admin/reassign_partitions``."""
    wanted = [{"topic": topic, "partition": partition, "replicas": replicas} for topic, partition, replicas in moves]
    return node({"version": 1, "partitions": wanted})


def of(findings: Iterator[Finding], check: str) -> Finding:
    """The finding of one check."""
    return next(finding for finding in findings if finding.check == check)


def test_in_a_sound_cluster_every_check_is_ok() -> None:
    findings = list(check_all(FACTS))

    assert {finding.severity for finding in findings} == {"ok"}
    assert len(findings) >= 14


TWINS = {paths.BROKER_TOPICS: ("t", "u")}
BROKERS = {path: StampedZnode(registration(9092), AT_MS, AT_MS) for path in ("/brokers/ids/3", "/brokers/ids/4")}
SICK_ZNODES = {
    "no partition": (
        with_nodes(admin__reassign_partitions=reassign(("t", 9, [1]))),
        "zombie-reassignments",
        "t-9",
    ),
    "missing topic": (with_nodes(admin__reassign_partitions=reassign(("x", 0, [1]))), "zombie-reassignments", "x-0"),
    "done": (with_nodes(admin__reassign_partitions=reassign(("t", 0, [1, 2]))), "zombie-reassignments", "done already"),
    "nonsense": (with_nodes(admin__reassign_partitions=node([])), "zombie-reassignments", "cannot be decoded"),
    "config": (replace(SOUND, configured_topics=["ghost", "t"]), "orphan-topics", "configs without a topic: ghost"),
    "marker": (with_nodes({paths.DELETE_TOPICS: ("gone",)}), "orphan-topics", "deletions of missing topics: gone"),
    "empty": (with_nodes(TWINS, brokers__topics__u=topic("nZ0sXkq3TLuXkKkZ1nQ3Yg")), "orphan-topics", "partitions: u"),
    "topic ids": (
        with_nodes(TWINS, brokers__topics__u=topic("mZ0sXkq3TLuXkKkZ1nQ3Yg", p0=[1])),
        "duplicate-ids",
        "topics t, u share the id",
    ),
    "addresses": (replace(SOUND, stamped=BROKERS), "duplicate-ids", "brokers 3, 4 share the address h:9092"),
    "skew": (
        replace(SOUND, stamped={"/brokers/ids/3": StampedZnode(registration(9092), AT_MS - 60_000, AT_MS)}),
        "clock-skew",
        "/brokers/ids/3 is 1m00s ahead of ZooKeeper",
    ),
    "tomorrow": (
        replace(SOUND, stamped={"/controller": StampedZnode(b"{}", AT_MS, AT_MS + 3_600_000)}),
        "clock-skew",
        "ZooKeeper's clock is 1h00m ahead",
    ),
    "slow": (replace(SOUND, read_ms=[1.0] * 49 + [900.0]), "zookeeper-latency", "p99 900.0 ms"),
}


@pytest.mark.parametrize("case", SICK_ZNODES)
def test_problems_in_zookeeper_are_found(case: str) -> None:
    survey, check, says = SICK_ZNODES[case]

    finding = of(check_znodes(survey, AT_MS), check)

    assert finding.severity in {"warning", "critical"}
    assert says in finding.detail
    assert finding.hint


def test_a_reassignment_that_is_under_way_is_no_zombie() -> None:
    survey = with_nodes(admin__reassign_partitions=reassign(("t", 0, [2, 3])))

    assert of(check_znodes(survey, AT_MS), "zombie-reassignments").severity == "ok"


def seen(**changes: object) -> Facts:
    """The sound facts with another status."""
    return replace(FACTS, view=replace(VIEW, status=msgspec.structs.replace(WELL, **changes)))


LOST = SessionStatus(state="lost", session_id="0x1", generation=1)
OTHER = msgspec.structs.replace(HOLDER, node_id=2, kind="broker", instance=None)
DEAD = msgspec.structs.replace(STATUS, error="refused")
NO_CONTROLLER = replace(SOUND, image=ClusterImage({}, CHILDREN))
HELD = DeletionStatus(topic="old", has_begun=True, held_up_by="offline replicas", deleting=[])
SICK = {
    "two": (seen(holder=OTHER), "two-controllers", "/controller names 1"),
    "believes": (replace(seen(holder=OTHER), survey=None), "two-controllers", "believes to be the controller"),
    "sees another": (
        replace(FACTS, seen_controllers=[SeenController(3, 1), SeenController(4, 2)]),
        "two-controllers",
        "broker 4 sees 2",
    ),
    "sees none": (replace(FACTS, seen_controllers=[SeenController(3, -1)]), "two-controllers", "broker 3 sees none"),
    "no controller": (replace(FACTS, survey=NO_CONTROLLER), "two-controllers", "there is no controller"),
    "offline": (
        replace(FACTS, view=replace(VIEW, offline=[PARTITION], offline_total=9)),
        "offline-partitions",
        "9 pa",
    ),
    "min isr": (
        replace(FACTS, view=replace(VIEW, under_min_isr=[PARTITION], under_min_isr_total=1)),
        "isr-below-min",
        "payments-7",
    ),
    "quarantine": (seen(quarantined=[Quarantined(path="/x", reason="not JSON")]), "quarantine", "/x (not JSON)"),
    "deletion": (seen(deletions=[HELD]), "deletions", "old (offline replicas)"),
    "uncovered": (seen(uncovered=[Uncovered(listener="EXT", reason="no")]), "listeners-of-controller", "EXT (no)"),
    "audit": (seen(audit=AuditStatus(records_written=1, records_lost=0, trouble="no space")), "audit", "no space"),
    "lost": (seen(audit=AuditStatus(records_written=1, records_lost=7, trouble=None)), "audit", "7 records"),
    "requests": (seen(brokers=[DEAD]), "control-requests", "broker 3 (refused)"),
    "listener": (
        replace(FACTS, probes=[ListenerProbe("broker 3", "L", "h:1", "refused")]),
        "listeners",
        "L h:1 (refused)",
    ),
    "unwell": (
        replace(FACTS, health=Health(ok=False, degraded=False, checks=[Check(name="queue", ok=False, detail="stuck")])),
        "daemon",
        "queue: stuck",
    ),
    "brokers": (
        replace(FACTS, view=replace(VIEW, gone=[2, 5])),
        "brokers",
        "brokers 2, 5 hold replicas and are not registered",
    ),
    "no session": (seen(role="standby", holder=None, zookeeper=LOST), "two-controllers", "there is no controller"),
    "gone": (replace(FACTS, is_daemon=False, no_daemon="no daemon answers"), "daemon", "no daemon answers"),
}


@pytest.mark.parametrize("case", SICK)
def test_problems_of_the_cluster_are_found(case: str) -> None:
    facts, check, says = SICK[case]

    finding = of(check_all(facts), check)

    assert finding.severity in {"warning", "critical"}
    assert says in finding.detail
    assert finding.hint


def test_a_check_without_data_is_skipped_and_is_no_problem() -> None:
    findings = list(check_all(replace(FACTS, survey=None, no_survey="its address is not known")))

    assert {one.severity for one in findings} == {"ok", "unknown"}
    assert all(one.hint == "name ZooKeeper, too: --zk HOSTS" for one in findings if one.severity == "unknown")


def test_with_zookeeper_alone_the_api_flag_is_suggested() -> None:
    facts = replace(FACTS, is_daemon=False, is_daemon_expected=False, health=None)

    finding = of(check_all(facts), "daemon")

    assert finding.severity == "unknown"
    assert "--zk alone reads ZooKeeper; --api http://127.0.0.1:9191 asks the one on this host, too" in finding.detail
    assert finding.hint == "controllerctl doctor --zk HOSTS --api http://127.0.0.1:9191"


def test_an_instance_without_partitions_does_not_report_them_as_ok() -> None:
    findings = {one.check: one for one in check_all(seen(role="standby", reason="broker 2 holds the role"))}

    for check in ("brokers", "offline-partitions", "isr-below-min", "quarantine", "deletions"):
        assert (findings[check].severity, findings[check].detail) == ("unknown", "a standby knows no partitions"), check
        assert findings[check].hint == "ask the active controller (--api URL), or ZooKeeper: --zk HOSTS"


def test_without_zookeeper_no_hint_says_to_restart_brokers() -> None:
    """Brokers that are running would fail to start without ZooKeeper."""
    facts = replace(
        seen(role="standby", holder=None, zookeeper=LOST),
        survey=None,
        health=Health(ok=False, degraded=False, checks=[Check(name="zookeeper session", ok=False, detail="lost")]),
    )

    findings = [one for one in check_all(facts) if one.severity == "critical"]

    assert [one.check for one in findings] == ["daemon", "two-controllers"]
    assert "the ZooKeeper session of this instance is lost" in findings[1].detail
    assert all("do not restart brokers" in (one.hint or "") for one in findings)


def test_suggested_commands_have_the_same_connection_flags() -> None:
    found = FindingList(meta=META, items=[critical("offline-partitions", "1 partition", "controllerctl why orders-0")])
    with redirect_stdout(io.StringIO()) as out:
        show(CliSettings(zk="zk1:2181/kafka", is_api_given=True), found)

    assert "  offline-partitions: controllerctl --zk zk1:2181/kafka why orders-0\n" in out.getvalue()


def test_a_listener_that_accepts_connections_has_no_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as alive:
        ports = (alive.getsockname()[1], 1)
        where = [ListenerStatus(name="L", host="127.0.0.1", port=port, security_protocol="PLAINTEXT") for port in ports]
        found = probe_listeners([msgspec.structs.replace(STATUS, listeners=where)])

    assert [bool(one.error) for one in found] == [False, True]


def test_only_brokers_that_name_the_controller_are_counted() -> None:
    facts = replace(FACTS, seen_controllers=[SeenController(3, 1), SeenController(4, 1), SeenController(5, None)])

    finding = of(check_all(facts), "two-controllers")

    assert (finding.severity, finding.detail.endswith(", and 2 brokers say so")) == ("ok", True)


async def test_each_broker_with_a_plain_listener_is_asked_who_the_controller_is() -> None:
    def listening(broker: int, port: int, protocol: str) -> BrokerStatus:
        listener = ListenerStatus(name="L", host="127.0.0.1", port=port, security_protocol=protocol)
        return msgspec.structs.replace(STATUS, id=broker, listeners=[listener])

    async with server(metadata_answer) as peer:
        brokers = [listening(3, peer.port, "PLAINTEXT"), listening(4, 1, "PLAINTEXT"), listening(5, peer.port, "SSL")]
        found = await asyncio.to_thread(see_controllers, brokers)

    assert found == [SeenController(3, 2_000_000_000), SeenController(4, None)]


async def test_a_daemon_alone_is_examined() -> None:
    controller = FakeController()
    controller.lead(12)
    async with serving(controller) as url:
        outcome = await asyncio.to_thread(run, "doctor", "--api", url, "-o", "json")

    found = msgspec.json.decode(outcome.out, type=FindingList)
    severities = {one.check: one.severity for one in found.items}
    assert outcome.code == 1
    assert severities["offline-partitions"] == severities["control-requests"] == "critical"
    assert severities["zombie-reassignments"] == "unknown"
    assert found.items[0].severity == "critical"


def test_neither_daemon_nor_zookeeper_is_unreachable() -> None:
    assert run("doctor", "--api", "http://127.0.0.1:1").code == 69


def test_the_timeout_for_zookeeper_is_printed_before_the_wait() -> None:
    outcome = run("doctor", "--zk", "127.0.0.1:1", "--timeout", "0.2")

    assert outcome.err.splitlines()[0] == "reading ZooKeeper at 127.0.0.1:1 (for 0.2 s if no server answers)"
    assert outcome.code == 69
