"""The record of the releases' ApiVersions is complete, and matches a broker of the default release."""

from pathlib import Path

import pytest

from controllerd.dev.releases import DEFAULT_RELEASE, LAST_RELEASES
from tests.releases.record_api_versions import read, record, written
from wire.versions import ApiKey


def test_the_last_release_of_each_line_was_recorded() -> None:
    assert list(read()) == list(LAST_RELEASES)


def test_the_file_is_as_the_recorder_writes_it() -> None:
    assert written(read()) == Path(__file__).with_name("api_versions.json").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("api", "release", "versions"),
    [
        # Leaders report ISR changes through ZooKeeper in 2.6, AlterIsr since 2.7, AlterPartition (version 1) since 3.2.
        (ApiKey.ALTER_PARTITION, "2.6.3", None),
        (ApiKey.ALTER_PARTITION, "2.7.2", [0, 0]),
        (ApiKey.ALTER_PARTITION, "3.2.3", [0, 1]),
        (ApiKey.METADATA, "2.7.2", [0, 9]),
        (ApiKey.LEADER_AND_ISR, "2.6.3", [0, 4]),
        (ApiKey.LEADER_AND_ISR, "3.9.1", [0, 7]),
    ],
)
def test_the_releases_differ_where_their_sources_do(api: ApiKey, release: str, versions: list[int] | None) -> None:
    assert read()[release].get(str(int(api))) == versions


@pytest.mark.kafka
@pytest.mark.zookeeper
@pytest.mark.usefixtures("kafka_jars")
async def test_a_broker_of_the_default_release_serves_what_was_recorded(tmp_path: Path) -> None:
    assert await record(DEFAULT_RELEASE, tmp_path) == read()[DEFAULT_RELEASE]
