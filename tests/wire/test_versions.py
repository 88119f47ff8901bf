"""The version chosen for a peer, and that the table of flexible versions agrees with kio."""

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.schema.index import schema_name_map

from wire.errors import UnsupportedByPeer
from wire.versions import (
    CONTROL_VERSIONS,
    ApiKey,
    VersionRange,
    choose,
    choose_control,
    is_flexible,
    request_header_version,
    response_header_version,
)

EVERYTHING: dict[int, VersionRange] = {int(key): versions for key, versions in CONTROL_VERSIONS.items()}
SCHEMAS = [
    (key, version)
    for key in ApiKey
    for version in schema_name_map[key.name.lower()]
]  # fmt: skip


@pytest.mark.parametrize(("key", "version"), SCHEMAS)
def test_headers_and_flexible_versions_agree_with_the_schemas(key: ApiKey, version: int) -> None:
    request, response = load_request_schema(key, version), load_response_schema(key, version)

    assert is_flexible(key, version) is request.__flexible__
    assert request_header_version(key, version) == request.__header_schema__.__version__
    assert response_header_version(key, version) == response.__header_schema__.__version__


@pytest.mark.parametrize(
    ("peer", "ours", "chosen"),
    [
        (VersionRange(0, 7), VersionRange(0, 7), 7),
        (VersionRange(0, 4), VersionRange(0, 7), 4),
        (VersionRange(2, 9), VersionRange(0, 7), 7),
        (VersionRange(8, 9), VersionRange(0, 7), None),
        (VersionRange(0, 1), VersionRange(2, 7), None),
        (None, VersionRange(0, 7), None),
    ],
)
def test_the_highest_common_version_is_chosen(
    peer: VersionRange | None, ours: VersionRange, chosen: int | None
) -> None:
    assert choose(peer, ours) == chosen


@pytest.mark.parametrize(
    ("key", "topic_ids", "version"),
    [
        (ApiKey.LEADER_AND_ISR, True, 7),
        (ApiKey.LEADER_AND_ISR, False, 4),
        (ApiKey.UPDATE_METADATA, True, 8),
        (ApiKey.UPDATE_METADATA, False, 6),
        (ApiKey.STOP_REPLICA, True, 4),
        (ApiKey.STOP_REPLICA, False, 4),
    ],
)
def test_without_topic_ids_the_versions_that_carry_them_are_avoided(key: ApiKey, topic_ids: bool, version: int) -> None:
    assert choose_control(key, EVERYTHING, topic_ids=topic_ids) == version


def test_a_peer_that_shares_no_version_is_refused() -> None:
    with pytest.raises(UnsupportedByPeer, match="LEADER_AND_ISR"):
        choose_control(ApiKey.LEADER_AND_ISR, {}, topic_ids=True)
