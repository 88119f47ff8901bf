"""The tables of topic configs are compared with real brokers of each release: refusals and effective values."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from kazoo.client import KazooClient

from controllerd.api.broker_settings import LiveBrokerSettings
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import Broker, BrokerId, Endpoint
from controllerd.core.releases import Release
from controllerd.core.topic_configs import InvalidTopicConfig, check_topic_configs
from controllerd.core.topic_defaults import EffectiveConfig, effective_configs
from controllerd.dev.kafka import KafkaBroker
from controllerd.dev.ports import LOOPBACK
from controllerd.dev.processes import DevError
from controllerd.dev.releases import LAST_RELEASES, line_of
from controllerd.dev.zookeeper import EmbeddedZooKeeper
from controllerd.snapshot import ClusterSnapshot
from tests.real.comparison.asking import CREATE, answer_of, ms
from tests.real.comparison.creations import topic
from tests.releases.topic_configs import ANSWERS, STRICTER, depends_on_broker_settings

pytestmark = [pytest.mark.kafka, pytest.mark.zookeeper, pytest.mark.releases, pytest.mark.usefixtures("kafka_jars")]

_VERSION: Final = 5
"""The version of CreateTopics. Every release from 2.6 on serves it; it returns the effective configs (KIP-525)."""
_TOPICS_PER_REQUEST: Final = 200
_ELECTION_S: Final = 30.0
_NOT_READY: Final = frozenset({KafkaError.NOT_CONTROLLER, KafkaError.INVALID_REPLICATION_FACTOR})
"""The errors of a broker that is not the controller yet, or whose metadata does not yet show itself as live."""


class Answer(NamedTuple):
    """A broker's response to the validation of one new topic."""

    error: KafkaError
    text: str | None
    configs: list[EffectiveConfig]


class SingleBrokerCluster:
    """A cluster of one real broker, which is the controller."""

    def __init__(self, version: str, broker: KafkaBroker, zookeeper: EmbeddedZooKeeper) -> None:
        self.release = Release(*line_of(version))
        self.broker = broker
        self.zookeeper = zookeeper

    async def validate(self, wanted: Sequence[Mapping[str, str]]) -> list[Answer]:
        """Return the broker's answer to each of these configs of a new topic; no topic is created."""
        answers: list[Answer] = []
        for start in range(0, len(wanted), _TOPICS_PER_REQUEST):
            answers += await self._create(wanted[start : start + _TOPICS_PER_REQUEST], validate_only=True)
        return answers

    async def create_topic(self) -> None:
        """Create a topic, ``topic-0``."""
        assert [answer.error for answer in await self._create([{}], validate_only=False)] == [KafkaError.NONE]

    async def _create(self, wanted: Sequence[Mapping[str, str]], *, validate_only: bool) -> list[Answer]:
        rows = [topic(f"topic-{number}", configs=configs) for number, configs in enumerate(wanted)]
        values = {"topics": rows, "timeout": ms(15_000), "validate_only": validate_only}
        by_name = {row.name: _answer(row) for row in (await self._as_controller(values)).topics}
        return [by_name[str(row["name"])] for row in rows]

    async def _as_controller(self, values: Mapping[str, object]) -> Any:
        """Return the response, once the broker is the controller and its metadata shows itself as live."""
        async with asyncio.timeout(_ELECTION_S):
            while True:
                answer = await answer_of(self.broker.port, CREATE, _VERSION, values)
                if _NOT_READY.isdisjoint({row.error_code for row in answer.topics}):
                    return answer

    async def settings(self) -> Any:
        """Return the broker's own settings."""
        snapshot = ClusterSnapshot(1)
        endpoint = Endpoint("PLAINTEXT", LOOPBACK, self.broker.port)
        snapshot.brokers = {BrokerId(1): Broker(BrokerId(1), 1, (endpoint,), None)}
        found = await LiveBrokerSettings(snapshot, ask_s=10.0, patience_s=10.0).of_any("PLAINTEXT")
        assert found
        return found

    async def set_configs(self, name: str, configs: Mapping[str, str]) -> None:
        """Write the configs of a topic as an older controllerd would have."""
        client = KazooClient(self.zookeeper.connect)
        data = json.dumps({"version": 1, "config": dict(configs)}).encode()
        await asyncio.to_thread(client.start)
        try:
            await asyncio.to_thread(client.set, f"/config/topics/{name}", data)
        finally:
            await asyncio.to_thread(client.stop)
            await asyncio.to_thread(client.close)


def _answer(row: Any) -> Answer:
    configs = [EffectiveConfig(each.name, each.value, each.config_source) for each in row.configs or ()]
    return Answer(KafkaError(row.error_code), row.error_message, configs)


@asynccontextmanager
async def cluster_of(version: str, directory: Path) -> AsyncIterator[SingleBrokerCluster]:
    """Run a broker of this release with a ZooKeeper of its own."""
    async with (
        EmbeddedZooKeeper(directory / "zookeeper") as zookeeper,
        KafkaBroker(1, zookeeper.connect, directory / "broker", version=version) as broker,
    ):
        yield SingleBrokerCluster(version, broker, zookeeper)


def questions() -> Iterator[Mapping[str, str]]:
    """Return every configuration that the releases' ``LogConfig`` validated, for brokers without tiered storage."""
    return (row["configs"] for row in json.loads(ANSWERS.read_text("utf-8")) if not row["tiered_storage"])


def refusal(configs: Mapping[str, str], release: Release) -> str | None:
    try:
        check_topic_configs(configs, release)
    except InvalidTopicConfig as problem:
        return str(problem)
    return None


def same(own: str | None, answer: Answer, configs: Mapping[str, str]) -> bool:
    """Return whether both answers agree. Of several unknown names, Java names the first one of a hash table."""
    unknown = {f"Unknown topic config name: {name}" for name in configs}
    if own is None:
        return answer.error is KafkaError.NONE
    return answer.error is KafkaError.INVALID_CONFIG and (own == answer.text or {own, answer.text} <= unknown)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("version", LAST_RELEASES)
async def test_topic_configs_are_refused_and_shown_as_a_broker_of_that_release_does(
    version: str, tmp_path: Path
) -> None:
    asked = list(questions())
    async with cluster_of(version, tmp_path) as cluster:
        answers = await cluster.validate(asked)
        settings = await cluster.settings()

    differing = [
        (configs, answer.text, own)
        for configs, answer in zip(asked, answers, strict=True)
        if not same(own := refusal(configs, cluster.release), answer, configs)
        and not (STRICTER in (own or "") and depends_on_broker_settings(configs, cluster.release))
    ]
    assert differing == []
    accepted = [
        (configs, answer) for configs, answer in zip(asked, answers, strict=True) if answer.error is KafkaError.NONE
    ]
    shown_differently = {
        config
        for configs, answer in accepted
        for config in set(answer.configs) ^ set(effective_configs(configs, settings, cluster.release))
    }
    assert shown_differently == set()
    assert len(accepted) > 150


@pytest.mark.timeout(120)
async def test_a_format_of_39_ends_the_next_start_of_a_28_broker(tmp_path: Path) -> None:
    async with cluster_of("2.8.2", tmp_path) as cluster:
        await cluster.create_topic()
        await cluster.set_configs("topic-0", {"message.format.version": "3.9-IV0"})
        await cluster.broker.terminate()

        with pytest.raises(DevError):
            await cluster.broker.start()

        assert "Version `3.9-IV0` is not a valid version" in "".join(cluster.broker.process.log_tail(200))
