"""A broker's ``server.properties`` as a source of the configuration: used, ignored with a log line, or refused."""

import json
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import javaproperties
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from controllerd.__main__ import app
from controllerd.config.kafka_names import KAFKA_NAMES
from controllerd.config.load import load_config
from controllerd.config.model import Config
from controllerd.config.server_properties import read_server_properties
from controllerd.daemon.run import EXIT_CONFIG, EXIT_UNREACHABLE
from controllerd.errors import ConfigError

OURS: dict[str, object] = {
    "node.id": 2_000_000_000,
    "node.data_dir": "data",
    "kafka.listeners": ["PLAINTEXT://ctl:9095", "INTERNAL://ctl:9096", "CONTROL://ctl:9097"],
}
COMPLETE = """
    # a broker of the cluster
    broker.id=1
    zookeeper.connect=zk1:2181,\\
                      zk2:2181/kafka
    zookeeper.session.timeout.ms: 9000
    zookeeper.connection.timeout.ms 12000
    auto.leader.rebalance.enable = FALSE
    leader.imbalance.per.broker.percentage = 5
    leader.imbalance.check.interval.seconds = 60
    delegation.token.expiry.check.interval.ms = 60000
    controller.quota.window.num = 21
    controller.quota.window.size.seconds = 2
    unclean.leader.election.enable=true
    delete.topic.enable=false
    num.partitions=12
    default.replication.factor=3
    remote.log.storage.system.enable=true
    inter.broker.protocol.version=3.7
    controller.socket.timeout.ms=20000
    request.timeout.ms=25000
    ! where the data is
    log.dirs=/var/lib/kafka
"""


def write(folder: Path, text: str) -> Path:
    file = folder / "server.properties"
    file.write_text(dedent(text), encoding="latin-1")
    return file


def load(folder: Path, text: str, **more: object) -> Config:
    flags = OURS | {key.replace("__", "."): value for key, value in more.items()}
    return load_config(None, {}, flags, server_properties=write(folder, text))


def problems(folder: Path, text: str, **more: object) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        load(folder, f"zookeeper.connect=zk\n{dedent(text)}", **more)
    return refused.value.problems


def test_the_settings_of_a_controller_are_taken_over(tmp_path: Path) -> None:
    config = load(tmp_path, COMPLETE)

    assert config.zookeeper.connect == "zk1:2181,zk2:2181/kafka"
    assert (config.zookeeper.session_timeout_ms, config.zookeeper.connection_timeout_ms) == (9_000, 12_000)
    kafka = config.kafka
    assert (kafka.auto_leader_rebalance_enable, kafka.delete_topic_enable) == (False, False)
    assert (kafka.leader_imbalance_per_broker_percentage, kafka.leader_imbalance_check_interval_seconds) == (5, 60)
    assert (kafka.num_partitions, kafka.default_replication_factor) == (12, 3)
    assert kafka.remote_log_storage_system_enable
    assert kafka.delegation_token_expiry_check_interval_ms == 60_000
    assert (kafka.controller_quota_window_num, kafka.controller_quota_window_size_seconds) == (21, 2)
    assert config.kafka.unclean_leader_election_enable
    assert config.kafka.inter_broker_protocol_version == "3.7"
    assert (config.kafka.controller_socket_timeout_ms, config.kafka.request_timeout_ms) == (20_000, 25_000)


def test_settings_of_the_file_have_it_as_their_origin(tmp_path: Path) -> None:
    config = load(tmp_path, COMPLETE)

    taken = {key for key, origin in config.origins.items() if origin == str(tmp_path / "server.properties")}
    assert taken == KAFKA_NAMES.keys() - {"kafka.inter_broker_listener_name", "kafka.control_plane_listener_name"}


def test_settings_without_a_meaning_for_a_controller_are_named_without_their_values(tmp_path: Path) -> None:
    config = load(tmp_path, COMPLETE + "    listener.name.external.ssl.keystore.password=geheim\n")

    assert config.ignored == ("broker.id", "listener.name.external.ssl.keystore.password", "log.dirs")
    assert "geheim" not in str(config)


def test_ignored_settings_are_one_line_of_the_log(tmp_path: Path) -> None:
    unreachable = (
        "zookeeper.connect=127.0.0.1:1\nzookeeper.connection.timeout.ms=50\nbroker.id=1\nlog.dirs=/var/lib/kafka\n"
    )
    flags = ["--node-id", "2000000000", "--listener", "PLAINTEXT://127.0.0.1:0", "--data-dir", str(tmp_path / "data")]
    command = [
        sys.executable,
        "-m",
        "controllerd",
        "run",
        "--from-server-properties",
        str(write(tmp_path, unreachable)),
    ]

    ended = subprocess.run([*command, *flags], capture_output=True, text=True, timeout=60, check=False)

    assert ended.returncode == EXIT_UNREACHABLE
    (line,) = [json.loads(line) for line in ended.stderr.splitlines() if "ignored" in line]
    assert (line["event"], line["count"]) == ("ignored keys of server.properties", 2)
    assert line["names"] == "broker.id, log.dirs"


def test_every_other_source_overrides_the_file(tmp_path: Path) -> None:
    toml = tmp_path / "controllerd.toml"
    toml.write_text("[kafka]\nnum_partitions = 7\ndefault_replication_factor = 2\nrequest_timeout_ms = 1000\n")
    env = {"CONTROLLERD__KAFKA__DEFAULT_REPLICATION_FACTOR": "4", "CONTROLLERD__KAFKA__REQUEST_TIMEOUT_MS": "2000"}
    flags = OURS | {"kafka.request_timeout_ms": "3000"}

    config = load_config(toml, env, flags, server_properties=write(tmp_path, COMPLETE))

    assert (config.kafka.num_partitions, config.origins["kafka.num_partitions"]) == (7, str(toml))
    assert config.kafka.default_replication_factor == 4
    assert config.kafka.request_timeout_ms == 3_000
    assert config.kafka.leader_imbalance_per_broker_percentage == 5


@pytest.mark.parametrize(
    ("written", "version"),
    [("3.9", "3.9"), ("3.9-IV0", "3.9-IV0"), ("3.9.1", "3.9"), ("2.8.1-IV1", "2.8"), (" 2.6 ", "2.6")],
)
def test_a_protocol_version_is_read_as_kafka_reads_it(tmp_path: Path, written: str, version: str) -> None:
    config = load(tmp_path, f"zookeeper.connect=zk\ninter.broker.protocol.version={written}")

    assert config.kafka.inter_broker_protocol_version == version


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("log.dirs=/data", "PLAINTEXT"),
        ("listeners=PLAINTEXT://:9092", "PLAINTEXT"),
        ("listeners=internal://:9092,EXTERNAL://:9093\ninter.broker.listener.name=internal", "INTERNAL"),
        ("inter.broker.listener.name=INTERNAL\ncontrol.plane.listener.name=CONTROL", "INTERNAL"),
        (
            "inter.broker.listener.name=INTERNAL\nlistener.security.protocol.map=INTERNAL:PLAINTEXT,EXTERNAL:SSL",
            "INTERNAL",
        ),
    ],
)
def test_the_listener_between_brokers_is_found(tmp_path: Path, text: str, name: str) -> None:
    assert load(tmp_path, f"zookeeper.connect=zk\n{text}").kafka.inter_broker_listener_name == name


@pytest.mark.parametrize(
    ("text", "name", "talks_over"),
    [
        ("control.plane.listener.name=control", "CONTROL", "CONTROL"),
        ("control.plane.listener.name=", None, "PLAINTEXT"),
        ("listeners=PLAINTEXT://:9092", None, "PLAINTEXT"),
    ],
)
def test_the_control_plane_listener_is_used_if_there_is_one(
    tmp_path: Path, text: str, name: str | None, talks_over: str
) -> None:
    kafka = load(tmp_path, f"zookeeper.connect=zk\n{text}").kafka

    assert (kafka.control_plane_listener_name, kafka.controller_listener_name) == (name, talks_over)


@pytest.mark.parametrize("mode", ["visible", "internal"])
def test_a_control_plane_needs_both_listeners(tmp_path: Path, mode: str) -> None:
    load(tmp_path, "zookeeper.connect=zk\ncontrol.plane.listener.name=CONTROL", kafka__mode=mode)


def test_in_hidden_mode_the_control_plane_listener_is_ignored(tmp_path: Path) -> None:
    text = "zookeeper.connect=zk\ncontrol.plane.listener.name=LOST\ninter.broker.protocol.version=2.6"

    load(tmp_path, text, kafka__mode="hidden")


def test_the_listeners_of_the_broker_are_not_ours(tmp_path: Path) -> None:
    theirs = "listeners=PLAINTEXT://:9092\nadvertised.listeners=PLAINTEXT://broker1:9092"
    config = load(tmp_path, f"zookeeper.connect=zk\n{theirs}")

    assert {endpoint.host for endpoint in config.kafka.listeners} == {"ctl"}
    assert config.kafka.advertised_listeners == ()
    assert config.ignored == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("zookeeper.set.acl=true", "zookeeper.set.acl ({file}): znodes with ACLs are not supported"),
        ("zookeeper.ssl.client.enable=true", "zookeeper.ssl.client.enable ({file}): TLS to ZooKeeper"),
        ("zookeeper.ssl.truststore.location=/t", "zookeeper.ssl.truststore.location ({file}): TLS to ZooKeeper"),
        ("security.inter.broker.protocol=SSL", "security.inter.broker.protocol ({file}): listener SSL uses SSL"),
        (
            "inter.broker.listener.name=INTERNAL\nlistener.security.protocol.map=INTERNAL:SASL_SSL",
            "inter.broker.listener.name ({file}): listener INTERNAL uses SASL_SSL",
        ),
        (
            "control.plane.listener.name=CONTROL\nlistener.security.protocol.map=CONTROL:SSL,PLAINTEXT:PLAINTEXT",
            "control.plane.listener.name ({file}): listener CONTROL uses SSL",
        ),
        ("authorizer.class.name=kafka.security.authorizer.AclAuthorizer", "authorizer.class.name ({file}): ACLs"),
        (
            "create.topic.policy.class.name=a.Policy",
            "create.topic.policy.class.name ({file}): the policy is a Java class",
        ),
        ("process.roles=broker", "process.roles ({file}): this is the file of a KRaft node"),
        ("zookeeper.metadata.migration.enable=true", "zookeeper.metadata.migration.enable ({file}): a cluster that"),
        ("listeners=A://:1\ninter.broker.listener.name=B", "listener B is not among the broker's listeners: A"),
        (
            "inter.broker.listener.name=PLAINTEXT\nsecurity.inter.broker.protocol=PLAINTEXT",
            "inter.broker.listener.name ({file}): a broker takes either this or security.inter.broker.protocol",
        ),
        ("num.partitions=many", "kafka.num_partitions ({file}, Kafka's num.partitions): expected int"),
        ("zookeeper.session.timeout.ms=10", "(Kafka's zookeeper.session.timeout.ms): 10 is too small"),
        ("inter.broker.protocol.version=4.0", "not a protocol version"),
        ("inter.broker.protocol.version=0.10.2", "not a protocol version"),
        ("inter.broker.listener.name=OTHER", "OTHER is not among kafka.listeners"),
        ("control.plane.listener.name=LOST", "Kafka's control.plane.listener.name): LOST is not among kafka.listeners"),
        ("control.plane.listener.name=PLAINTEXT", "PLAINTEXT is the listener between brokers already"),
        ("ssl.keystore.location=/k", "ssl.keystore.location ({file}): TLS is not supported yet"),
        ("sasl.enabled.mechanisms=PLAIN", "sasl.enabled.mechanisms ({file}): SASL is not supported yet"),
        (
            "listener.name.plaintext.ssl.client.auth=required",
            "listener.name.plaintext.ssl.client.auth ({file}): TLS is not supported yet",
        ),
        (
            "control.plane.listener.name=CONTROL\nlistener.name.control.sasl.enabled.mechanisms=PLAIN",
            "listener.name.control.sasl.enabled.mechanisms ({file}): SASL is not supported yet",
        ),
        (r"log.dirs=\u00g0", "{file} is not a properties file"),
    ],
)
def test_unsupported_settings_are_refused_input_35(tmp_path: Path, text: str, says: str) -> None:
    expected = says.replace("{file}", str(tmp_path / "server.properties"))

    assert any(expected in problem for problem in problems(tmp_path, text))


@pytest.mark.parametrize(
    "text", ["zookeeper.set.acl=false", "zookeeper.ssl.client.enable=false", "process.roles=", "ssl.key.password="]
)
def test_disabled_settings_are_not_refused(tmp_path: Path, text: str) -> None:
    load(tmp_path, f"zookeeper.connect=zk\n{text}")


def test_problems_of_the_file_come_with_other_problems_input_35(tmp_path: Path) -> None:
    text = """
        zookeeper.set.acl=true
        security.inter.broker.protocol=SASL_SSL
        num.partitions=0
    """

    found = problems(tmp_path, text, node__id=5, kafka__mode="public")

    assert sorted(problem.partition(" (")[0].partition(":")[0] for problem in found) == [
        "kafka.inter_broker_listener_name",
        "kafka.mode",
        "kafka.num_partitions",
        "node.id",
        "security.inter.broker.protocol",
        "zookeeper.set.acl",
    ]


def test_a_missing_file_is_one_problem_and_no_key_is_reported_as_missing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load_config(None, {}, {}, server_properties=tmp_path / "nowhere.properties")

    (problem,) = refused.value.problems
    assert problem == f"cannot read {tmp_path / 'nowhere.properties'}: No such file or directory"


def test_the_command_lists_the_problems_and_exits_with_78_input_35(tmp_path: Path) -> None:
    file = write(tmp_path, "zookeeper.set.acl=true\nzookeeper.ssl.client.enable=true\n")

    result = CliRunner().invoke(app, ["run", "--from-server-properties", str(file), "--node-id", "1"])

    assert result.exit_code == EXIT_CONFIG
    lines = result.stderr.splitlines()
    assert all(line.startswith("controllerd: ") for line in lines)
    for word in (
        "zookeeper.set.acl",
        "zookeeper.ssl.client.enable",
        "node.id: 1 is not",
        "zookeeper.connect: required",
    ):
        assert any(word in line for line in lines)


@pytest.mark.parametrize("name", ["num.partitions", "auto.leader.rebalance.enable", "zookeeper.session.timeout.ms"])
def test_a_kafka_name_in_the_toml_file_gets_a_suggestion(tmp_path: Path, name: str) -> None:
    toml = tmp_path / "controllerd.toml"
    toml.write_text(f"{name} = 1")
    key = next(key for key, kafka in KAFKA_NAMES.items() if kafka == name)

    with pytest.raises(ConfigError) as refused:
        load_config(toml, {}, {})

    assert f"{name} ({toml}): unknown key; did you mean {key}?" in refused.value.problems


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


@settings(deadline=None)
@given(st.dictionaries(NAMES, NAMES, max_size=8))
def test_properties_written_by_java_are_read(tmp_path_factory: pytest.TempPathFactory, given: dict[str, str]) -> None:
    names = {f"x.{name}": value for name, value in given.items()}
    file = tmp_path_factory.mktemp("java") / "server.properties"
    file.write_bytes(javaproperties.dumps(names, ensure_ascii=True).encode("latin-1"))

    read = read_server_properties(file)

    assert (list(read.problems), read.values, set(read.ignored)) == ([], {}, set(names))


@settings(deadline=None)
@given(st.binary(max_size=120))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    file = tmp_path_factory.mktemp("p") / "server.properties"
    file.write_bytes(content)

    read = read_server_properties(file)

    assert read.is_readable or read.problems
