"""The versions of every native API compared with those of brokers of each release; differences have a reason.

``tests/releases/api_versions.json`` holds what real brokers of each release answered to ApiVersions.
"""

import json
from pathlib import Path
from typing import Final

import pytest

from controllerd.api.catalog import NATIVE
from wire.versions import ApiKey, VersionRange

Ranges = dict[int, VersionRange]

RECORDED: Final[dict[str, Ranges]] = {
    release: {int(api_key): VersionRange(*versions) for api_key, versions in ranges.items()}
    for release, ranges in json.loads(
        (Path(__file__).parents[1] / "releases" / "api_versions.json").read_text(encoding="utf-8")
    ).items()
}
NEWEST: Final = "3.9.1"
_BROKERS_ASK: Final = "brokers ask it of their controller, and older brokers ask in older versions"
MORE_THAN_A_RELEASE: Final[dict[ApiKey, str]] = {
    ApiKey.METADATA: "a request that goes to a broker is advertised in the versions that all brokers serve",
    ApiKey.LIST_GROUPS: "this node has no groups in any version",
    ApiKey.API_VERSIONS: "its answer is about this node",
    ApiKey.CREATE_TOPICS: "clients send it to the controller, whose versions do not depend on brokers",
    ApiKey.DELETE_TOPICS: "clients send it to the controller, whose versions do not depend on brokers",
    ApiKey.CREATE_PARTITIONS: "clients send it to the controller, whose versions do not depend on brokers",
    ApiKey.INIT_PRODUCER_ID: "a request that goes to a broker is advertised in the versions that all brokers serve",
    ApiKey.DESCRIBE_CONFIGS: "a request that goes to a broker is advertised in the versions that all brokers serve",
    ApiKey.ALTER_CONFIGS: "a request that goes to a broker is advertised in the versions that all brokers serve",
    ApiKey.DESCRIBE_LOG_DIRS: "this node has no log directories in any version",
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: "the controller writes to ZooKeeper what brokers before 2.7 read as well",
    ApiKey.ALTER_PARTITION: _BROKERS_ASK,
    ApiKey.UPDATE_FEATURES: "clients send it to the controller, which refuses it below protocol version 2.7",
    ApiKey.ENVELOPE: "brokers from 3.4 on send it, while they wait for a migration to KRaft",
    ApiKey.DESCRIBE_CLUSTER: "its answer is about this node, and version 1 asks for brokers or controllers (KIP-919)",
    ApiKey.LIST_TRANSACTIONS: "this node has no transactions in any version",
    ApiKey.ALLOCATE_PRODUCER_IDS: _BROKERS_ASK,
}
"""Native APIs that are served in more versions than brokers of some release serve, and why."""


def differences(release: str) -> dict[ApiKey, tuple[VersionRange, VersionRange | None]]:
    theirs = RECORDED[release]
    return {ApiKey(key): (ours, theirs.get(key)) for key, ours in NATIVE.items() if theirs.get(key) != ours}


def test_the_newest_release_serves_the_same_versions_of_every_native_api() -> None:
    assert differences(NEWEST) == {}


@pytest.mark.parametrize("release", RECORDED)
def test_every_version_that_brokers_of_a_release_serve_is_served(release: str) -> None:
    """A client that worked with that release's controller works with this one."""
    missing = {
        api_key: (ours, theirs)
        for api_key, (ours, theirs) in differences(release).items()
        if theirs is not None and not (ours.lowest <= theirs.lowest and theirs.highest <= ours.highest)
    }
    assert missing == {}


@pytest.mark.parametrize("release", RECORDED)
def test_every_version_beyond_the_range_of_a_release_has_its_reason(release: str) -> None:
    assert differences(release).keys() <= MORE_THAN_A_RELEASE.keys()


def test_no_reason_is_left_without_a_difference() -> None:
    assert {api_key for release in RECORDED for api_key in differences(release)} == MORE_THAN_A_RELEASE.keys()
