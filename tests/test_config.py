"""The configuration: precedence, origins, suggestions, and every problem at once."""

from pathlib import Path
from textwrap import dedent

import pytest

from controllerd.config.load import load_config
from controllerd.config.model import Address, Config
from controllerd.core.model import Endpoint, Features
from controllerd.core.protocol_versions import features_of
from controllerd.errors import ConfigError

COMPLETE = """
    [zookeeper]
    connect = "zk1:2181,zk2:2181/kafka"
    [node]
    id = 2000000001
    data_dir = "data"
    [kafka]
    listeners = ["PLAINTEXT://controller.example:9096"]
"""


def write(folder: Path, text: str = COMPLETE) -> Path:
    file = folder / "controllerd.toml"
    file.write_text(dedent(text))
    return file


def problems(folder: Path, text: str, env: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        load_config(write(folder, text), env or {}, {})
    return refused.value.problems


def load(folder: Path, extra: str = "", env: dict[str, str] | None = None, **flags: object) -> Config:
    return load_config(
        write(folder, dedent(COMPLETE) + dedent(extra)), env or {}, {k.replace("__", "."): v for k, v in flags.items()}
    )


def test_a_short_file_is_enough_and_the_rest_has_kafkas_defaults(tmp_path: Path) -> None:
    config = load(tmp_path)

    assert config.zookeeper.connect == "zk1:2181,zk2:2181/kafka"
    assert config.zookeeper.session_timeout_ms == 18_000
    assert config.kafka.listeners == (Endpoint("PLAINTEXT", "controller.example", 9096),)
    assert config.kafka.request_timeout_ms == 30_000
    assert config.http.listen == Address("127.0.0.1", 9191)
    assert config.controller.when_broker_holds == "standby"
    assert config.audit.dir == Path("data/audit")


def test_a_variable_overrides_the_file_and_a_flag_overrides_both(tmp_path: Path) -> None:
    env = {"CONTROLLERD__ZOOKEEPER__CONNECT": "env:2181", "CONTROLLERD__NODE__ID": "2000000002"}

    config = load(tmp_path, env=env, zookeeper__connect="flag:2181")

    assert config.zookeeper.connect == "flag:2181"
    assert config.node.id == 2_000_000_002


def test_every_value_knows_where_it_came_from(tmp_path: Path) -> None:
    config = load(tmp_path, env={"CONTROLLERD__LOG__LEVEL": "debug"}, http__listen="127.0.0.1:0")

    assert config.origins["node.id"] == str(tmp_path / "controllerd.toml")
    assert config.origins["log.level"] == "CONTROLLERD__LOG__LEVEL"
    assert config.origins["http.listen"] == "flag"
    assert config.origins["audit.fsync"] == "default"


def test_the_effective_configuration_is_plain_data(tmp_path: Path) -> None:
    effective = load(tmp_path).effective()

    assert effective["http.listen"] == {"value": "127.0.0.1:9191", "origin": "default"}
    assert effective["kafka.listeners"] == {
        "value": ["PLAINTEXT://controller.example:9096"],
        "origin": str(tmp_path / "controllerd.toml"),
    }


def test_flags_that_were_not_given_change_nothing(tmp_path: Path) -> None:
    config = load(tmp_path, zookeeper__connect=None, kafka__listeners=[])

    assert config.zookeeper.connect == "zk1:2181,zk2:2181/kafka"
    assert len(config.kafka.listeners) == 1


def test_flags_alone_are_enough() -> None:
    flags = {
        "zookeeper.connect": "localhost",
        "node.id": 2_000_000_000,
        "node.data_dir": Path("data"),
        "kafka.listeners": ["plaintext://[::1]:0"],
    }

    config = load_config(None, {}, flags)

    assert config.kafka.listeners == (Endpoint("PLAINTEXT", "::1", 0),)


def test_the_bound_address_is_advertised_unless_another_is_configured(tmp_path: Path) -> None:
    listeners = ["PLAINTEXT://0.0.0.0:9095", "CLIENTS://10.0.0.1:9096", "EDGE://[::]:0"]
    advertised = ["plaintext://ctl.example:19095", "EDGE://edge.example:0"]

    kafka = load(tmp_path, kafka__listeners=listeners, kafka__advertised_listeners=advertised).kafka

    assert [kafka.advertised(bound) for bound in kafka.listeners] == [
        Endpoint("PLAINTEXT", "ctl.example", 19095),
        Endpoint("CLIENTS", "10.0.0.1", 9096),
        Endpoint("EDGE", "edge.example", 0),
    ]


def test_variables_carry_lists_numbers_and_booleans(tmp_path: Path) -> None:
    env = {
        "CONTROLLERD__KAFKA__LISTENERS": "PLAINTEXT://a:1, CONTROL://a:2",
        "CONTROLLERD__KAFKA__UNCLEAN_LEADER_ELECTION_ENABLE": "true",
        "CONTROLLERD__AUDIT__SEGMENT_BYTES": "1048576",
    }

    config = load(tmp_path, env=env)

    assert [endpoint.listener for endpoint in config.kafka.listeners] == ["PLAINTEXT", "CONTROL"]
    assert config.kafka.unclean_leader_election_enable
    assert config.audit.segment_bytes == 1_048_576


def test_the_connection_timeout_follows_the_session_timeout(tmp_path: Path) -> None:
    env = {"CONTROLLERD__ZOOKEEPER__SESSION_TIMEOUT_MS": "6000"}

    assert load(tmp_path, env=env).zookeeper.connection_timeout_ms == 6_000


def test_systemds_state_directory_is_the_data_directory_when_none_is_named(tmp_path: Path) -> None:
    text = COMPLETE.replace('data_dir = "data"', "")

    config = load_config(write(tmp_path, text), {"STATE_DIRECTORY": "state"}, {})

    assert config.node.data_dir == Path("state")
    assert config.origins["node.data_dir"] == "STATE_DIRECTORY"


def test_all_problems_come_at_once(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        """
        [zookeeper]
        connect = "zk:99999"
        session_timeout_ms = 10
        [node]
        id = 1
        [kafka]
        listeners = ["PLAINTEXT://a:9096", "PLAINTEXT://b:9097"]
        mode = "public"
        [log]
        levle = "info"
        """,
    )

    keys = sorted(problem.split(":")[0].split(" ")[0] for problem in found)
    assert keys == [
        "kafka.listeners",
        "kafka.mode",
        "log.levle",
        "node.data_dir",
        "node.id",
        "zookeeper.connect",
        "zookeeper.session_timeout_ms",
    ]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("[zookeeper]\nconect = 'zk'", "did you mean zookeeper.connect?"),
        ("[zookeeper]\nsession.timeout.ms = 9000", "did you mean zookeeper.session_timeout_ms?"),
        ("[kafka]\nwhen_broker_holds = 'takeover'", "did you mean controller.when_broker_holds?"),
        ("[zokeeper]\nconnect = 'zk'", "did you mean zookeeper.connect?"),
        ("[node]\nflavour = 'x'", "[node] has id, data_dir"),
    ],
)
def test_an_unknown_key_in_the_file_gets_a_suggestion(tmp_path: Path, written: str, meant: str) -> None:
    assert any("unknown key" in problem and meant in problem for problem in problems(tmp_path, written))


def test_an_unknown_variable_gets_the_name_of_the_right_one(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, COMPLETE, {"CONTROLLERD__ZOOKEEPER__CONNECTS": "zk"})

    assert "did you mean CONTROLLERD__ZOOKEEPER__CONNECT?" in problem


@pytest.mark.parametrize("key", ["zookeeper.connects", "nonsense"])
def test_an_unknown_flag_key_is_refused(tmp_path: Path, key: str) -> None:
    with pytest.raises(ConfigError, match="unknown key"):
        load_config(write(tmp_path), {}, {key: "x"})


def test_other_variables_are_ignored(tmp_path: Path) -> None:
    load(tmp_path, env={"PATH": "x", "CONTROLLERD_REQUIRE_KAFKA": "1"})


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ("[kafka]\nrequest_timeout_ms = '3'", "expected int"),
        ("[kafka]\nrequest_timeout_ms = 0", ">= 1"),
        ("[kafka]\nrequest_timeout_ms = true", "expected int"),
        ("[kafka]\nlisteners = 7", "list of NAME://host:port"),
        ("[kafka]\nlisteners = []", "required"),
        ("[kafka]\nlisteners = ['PLAINTEXT://a']", "not host:port"),
        ("[kafka]\nlisteners = ['PLAINTEXT://a:70000']", "not between 0 and 65535"),
        ("[kafka]\nlisteners = ['a:1']", "not NAME://host:port"),
        (
            "[kafka]\nlisteners = ['PLAINTEXT://b\u00fccher.example:1']",
            "brokers cannot read the host 'b\u00fccher.example'",
        ),
        ("[kafka]\nadvertised_listeners = ['PLAINTEXT://ho$t:1']", "brokers cannot read the host 'ho$t'"),
        ("[kafka]\nlisteners = ['SSL://a:1']", "not supported"),
        ("[kafka]\nlisteners = ['PLAINTEXT://0.0.0.0:1']", "must be an address or name they can reach"),
        ("[kafka]\nlisteners = ['PLAINTEXT://[::]:1']", "or name one in kafka.advertised_listeners"),
        (
            "[kafka]\nlisteners = ['PLAINTEXT://a:1', 'B://0.0.0.0:2']\nadvertised_listeners = ['PLAINTEXT://a:1']",
            "connect to the host of B",
        ),
        ("[kafka]\nadvertised_listeners = ['PLAINTEXT://0.0.0.0:1']", "0.0.0.0 must be an address or name"),
        ("[kafka]\nadvertised_listeners = ['SSL://a:1']", "not supported"),
        (
            "[kafka]\nlisteners = ['PLAINTEXT://a:1']\nadvertised_listeners = ['CLIENTS://a:1']",
            "kafka.advertised_listeners: CLIENTS is not among kafka.listeners (PLAINTEXT)",
        ),
        ("[kafka]\nadvertised_listeners = ['A://a:1', 'a://b:1']", "the listener name A is there 2 times"),
        ("[kafka]\nadvertised_listeners = ['A://a:1', 'B://a:1']", "each listener needs a port of its own"),
        ("[kafka]\nlisteners = ['PLAINTEXT://0.0.0.0:9191']", "port 9191 is used twice"),
        ("[kafka]\nlisteners = ['CLIENT://a:1']", "PLAINTEXT is not among kafka.listeners (CLIENT)"),
        ("[kafka]\nlisteners = ['PLAINTEXT://127.0.0.1:9191']", "used 2 times"),
        ("[kafka]\ninter_broker_protocol_version = '4.0'", "not a protocol version"),
        ("[kafka]\nmode = 'hidden'", "2.6 or below"),
        (
            "[kafka]\nlisteners = ['PLAINTEXT://a:1']\ncontrol_plane_listener_name = 'control'",
            "CONTROL is not among kafka.listeners (PLAINTEXT)",
        ),
        ("[kafka]\ncontrol_plane_listener_name = 'plaintext'", "PLAINTEXT is the listener between brokers already"),
        ("[controller]\nmode = 'watch'", "one of active, observe"),
        ("[controller]\nobserve_interval_ms = 0", ">= 1"),
        ("[audit]\nlevel = 'verbose'", "one of off, summary, normal, full"),
        ("[audit]\nsnapshot_interval_s = 0", ">= 1"),
        ("[audit]\nhead_key_file = 'key'", "set audit.head_file, audit.head_journal or audit.head_znode too"),
        ("[audit]\nhead_znode = true\n[controller]\nmode = 'observe'", "observe, which writes nothing"),
        ("[controller]\nwhen_broker_holds = 'always'", "one of standby, takeover"),
        ("[zookeeper]\nconnect = 'zk:2181/a/'", "chroot"),
        ("[zookeeper]\nconnect = 'zk:2181,'", "not host:port"),
        ("[zookeeper]\nconnect = ''", "expected text"),
        ("[node]\nid = 2000000100", "not between 2000000000 and 2000000099"),
        ("[http]\nlisten = 9191", "expected text"),
        ("http = 9191", "is a section"),
        ("[http]\nread_token = 'short'", "is shorter than 16 characters; make one with: openssl rand -hex 32"),
        ("[http]\nadmin_token = ''", "expected text: the secret, credential:NAME or file:PATH"),
        ("[http]\ntls_certificate = 'a.pem'", "http.tls_key: is missing"),
        ("[http]\ntls_key = 'a.key'", "http.tls_certificate: is missing"),
        ("[http]\ntls_client_ca = 'ca.pem'", "http.tls_client_ca: needs http.tls_certificate"),
        ("[http]\nlisten = '0.0.0.0:9191'", "needs TLS (http.tls_certificate, http.tls_key) and a token"),
        ("[http]\nlisten = 'controller.example:9191'\nadmin_token = 'file:token'", "needs TLS"),
        (
            "[http]\nlisten = '[::]:9191'\ntls_certificate = 'a.pem'\ntls_key = 'a.key'",
            "needs a token (http.read_token or http.admin_token); set them, or listen on 127.0.0.1",
        ),
        ("[audit]\nsegment_bytes = 1", ">= 65536"),
    ],
)
def test_a_wrong_value_is_reported_with_the_expected_one(tmp_path: Path, lines: str, says: str) -> None:
    assert any(says in problem for problem in problems(tmp_path, lines))


def test_a_public_address_is_served_with_tls_and_a_token(tmp_path: Path) -> None:
    secured = "tls_certificate = 'a.pem'\ntls_key = 'a.key'\nadmin_token = 'credential:admin'"

    assert load(tmp_path, f"[http]\nlisten = '0.0.0.0:9191'\n{secured}").http.listen.host == "0.0.0.0"


def test_a_token_is_never_shown_but_its_origin_is(tmp_path: Path) -> None:
    token = "a token that nobody must see"
    config = load(tmp_path, http__read_token=token, http__admin_token="credential:admin")

    assert token not in f"{config!r} {config.effective()}"
    assert config.effective()["http.read_token"] == {"value": "<hidden>", "origin": "flag"}
    assert config.effective()["http.admin_token"] == {"value": "credential:admin", "origin": "flag"}
    wrong = problems(tmp_path, "[http]\nread_token = ['a token that nobody must see']")
    assert wrong
    assert token not in str(wrong)


def test_hidden_mode_needs_no_listener(tmp_path: Path) -> None:
    flags = {
        "zookeeper.connect": "zk",
        "node.id": 2_000_000_000,
        "node.data_dir": tmp_path,
        "kafka.mode": "hidden",
        "kafka.inter_broker_protocol_version": "2.6",
    }

    assert load_config(None, {}, flags).kafka.listeners == ()


def test_an_observer_needs_no_listener_and_looks_twice_a_second(tmp_path: Path) -> None:
    flags = {
        "zookeeper.connect": "zk",
        "node.id": 2_000_000_000,
        "node.data_dir": tmp_path,
        "controller.mode": "observe",
    }

    config = load_config(None, {}, flags)

    assert (config.kafka.listeners, config.controller.observe_interval_ms) == ((), 500)


def test_the_default_mode_is_active(tmp_path: Path) -> None:
    assert load(tmp_path).controller.mode == "active"


def remembered(folder: Path, content: str) -> Path:
    """Write the file that ``controllerctl takeover --remember`` leaves in the data directory."""
    file = folder / "when_broker_holds"
    file.write_text(content)
    return file


def test_a_remembered_takeover_applies_where_nothing_is_configured(tmp_path: Path) -> None:
    file = remembered(tmp_path, "takeover\n")

    config = load(tmp_path, node__data_dir=tmp_path)

    assert config.controller.when_broker_holds == "takeover"
    assert config.origins["controller.when_broker_holds"] == str(file)


def test_a_configured_value_overrides_a_remembered_takeover(tmp_path: Path) -> None:
    remembered(tmp_path, "takeover\n")

    config = load(tmp_path, '[controller]\nwhen_broker_holds = "standby"', node__data_dir=tmp_path)

    assert config.controller.when_broker_holds == "standby"


def test_an_invalid_remembered_takeover_is_a_problem_that_names_its_file(tmp_path: Path) -> None:
    file = remembered(tmp_path, "perhaps")

    with pytest.raises(ConfigError) as refused:
        load(tmp_path, node__data_dir=tmp_path)

    assert refused.value.problems == [
        f"controller.when_broker_holds ({file}): expected one of standby, takeover, got 'perhaps'"
    ]


def test_an_unreadable_remembered_takeover_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "when_broker_holds").mkdir()

    with pytest.raises(ConfigError, match=r"cannot read .*when_broker_holds"):
        load(tmp_path, node__data_dir=tmp_path)


def test_a_missing_file_is_a_problem_like_any_other(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*nowhere\.toml: No such file"):
        load_config(tmp_path / "nowhere.toml", {}, {})


def test_keys_of_an_unreadable_file_are_not_reported_as_missing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refusal:
        load_config(tmp_path / "nowhere.toml", {}, {})

    assert len(refusal.value.problems) == 1


@pytest.mark.parametrize("content", [b"[node\nid=1", b"\xff\xfe"])
def test_a_file_that_is_not_toml_is_named(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "broken.toml"
    file.write_bytes(content)

    with pytest.raises(ConfigError, match="is not TOML"):
        load_config(file, {}, {})


OLDEST = Features(
    topic_ids=False, leader_recovery=False, alter_partition=False, feature_versioning=False, feature_format=1
)


@pytest.mark.parametrize(
    ("version", "features"),
    [
        ("2.6", OLDEST),
        ("2.7-IV0", OLDEST._replace(feature_versioning=True)),
        ("2.7", OLDEST._replace(feature_versioning=True, alter_partition=True)),
        ("2.8", OLDEST._replace(feature_versioning=True, alter_partition=True, topic_ids=True)),
        ("3.2", Features(feature_format=1)),
        ("3.9-IV0", Features()),
    ],
)
def test_features_follow_the_protocol_version(version: str, features: Features) -> None:
    assert features_of(version) == features


@pytest.mark.parametrize("version", ["", "3", "4.0", "2.9", "3.9-IV", "latest"])
def test_an_unknown_protocol_version_is_refused(version: str) -> None:
    with pytest.raises(ValueError, match="not a protocol version"):
        features_of(version)
