"""``controllerctl config``: the daemon's configuration, a file that is checked, a key that is explained."""

from pathlib import Path

import msgspec
import pytest
import yaml

from cli.config import explained
from controllerd.config.kafka_names import KAFKA_NAMES
from controllerd.config.key_reference import MEANINGS
from controllerd.status.schema.config import ConfigList
from tests.cli.documents import run
from tests.cli.running import controllerctl
from tests.status.fake_controller import FakeController, serving

GOOD = """
[zookeeper]
connect = "zk1:2181/kafka"
[node]
id = 2000000001
data_dir = "{folder}"
[kafka]
listeners = ["PLAINTEXT://ctl1.example:9092"]
"""


@pytest.fixture
def controller() -> FakeController:
    """One whose configuration has a default, a value from a file, and a secret."""
    controller = FakeController()
    controller.configuration = {
        "log.level": {"value": "info", "origin": "default"},
        "node.id": {"value": 2_000_000_001, "origin": "/etc/controllerd/prod.toml"},
        "http.admin_token": {"value": "abcdefghijklmnop", "origin": "flag"},
    }
    return controller


async def test_the_configuration_is_shown_with_origins_and_without_secrets(controller: FakeController) -> None:
    async with serving(controller) as url:
        table = await controllerctl("config", "show", "--api", url)
        changed = await controllerctl("config", "show", "--changed", "--api", url, "-o", "json")
        blocks = await controllerctl("config", "show", "--api", url, "-o", "yaml")
        names = await controllerctl("config", "show", "--api", url, "-o", "name")

    assert "abcdefghijklmnop" not in table.out + changed.out + blocks.out
    assert table.out.splitlines()[-1].split() == ["node.id", "2000000001", "/etc/controllerd/prod.toml"]
    items = msgspec.json.decode(changed.out, type=ConfigList).items
    assert [item.key for item in items] == ["http.admin_token", "node.id"]
    assert len(msgspec.convert(yaml.safe_load(blocks.out), ConfigList).items) == 3
    assert names.out.split() == ["http.admin_token", "log.level", "node.id"]


def test_a_good_file_is_fine(tmp_path: Path) -> None:
    file = tmp_path / "good.toml"
    file.write_text(GOOD.format(folder=tmp_path))

    outcome = run("config", "check", str(file))

    assert (outcome.code, outcome.err) == (0, "")
    assert "is valid: 4 keys given" in outcome.out
    assert run("config", "check", str(file), "-o", "json").json() == {"file": str(file), "ok": True, "problems": []}


def test_every_problem_of_a_file_is_reported_with_a_suggestion(tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text('[zookeeper]\nconect = "zk1"\n[node]\nid = 5\n[log]\nlevel = "loud"\n')

    outcome = run("config", "check", str(file))
    data = run("config", "check", str(file), "-o", "json")

    assert (outcome.code, data.code) == (78, 78)
    assert "did you mean zookeeper.connect?" in outcome.out
    assert len(outcome.out.splitlines()) == len(data.json()["problems"]) >= 5  # type: ignore[arg-type]  # a list


def test_a_file_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    outcome = run("config", "check", str(tmp_path / "none.toml"))

    assert (outcome.code, "cannot read" in outcome.out) == (78, True)


@pytest.mark.parametrize("key", sorted(MEANINGS))
def test_every_key_is_explained(key: str) -> None:
    explanation = explained(key)

    assert explanation["meaning"]
    assert explanation["type"]
    assert explanation["default"]
    assert explanation["kafka"] == KAFKA_NAMES.get(key)


def test_a_key_is_found_by_its_name_in_kafka() -> None:
    outcome = run("config", "explain", "zookeeper.session.timeout.ms")

    words = " ".join(outcome.out.split())
    assert outcome.code == 0
    assert words.startswith("key zookeeper.session_timeout_ms meaning The time after which ZooKeeper ends the role")
    assert "type number, at least 1 default 18000 kafka zookeeper.session.timeout.ms" in words


@pytest.mark.parametrize(
    ("asked", "meant"), [("sesion_timeout_ms", "zookeeper.session_timeout_ms"), ("listen", "http.listen")]
)
def test_an_unknown_key_is_answered_with_similar_keys(asked: str, meant: str) -> None:
    outcome = run("config", "explain", asked)

    assert (outcome.code, meant in outcome.err) == (3, True)


def test_a_similar_key_is_named_once() -> None:
    outcome = run("config", "explain", "zookeper.connect")

    assert outcome.err.count("zookeeper.connect ") == 1, outcome.err


def test_an_explanation_has_every_format() -> None:
    explanation = explained("log.level")

    assert run("config", "explain", "log.level", "-o", "json").json() == explanation
    assert yaml.safe_load(run("config", "explain", "log.level", "-o", "yaml").out) == explanation
    assert run("config", "explain", "log.level", "-o", "name").out == "log.level\n"
