"""The versions that all brokers serve are kept for the time in which no broker is live."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from controllerd.api.catalog import PARTLY_RELAYED, is_relayable
from controllerd.api.shared_versions import VERSIONS_FILE, SharedVersions, ranges_of
from controllerd.core.protocol_versions import release_of_protocol
from controllerd.core.releases import FIRST_SEEN, NEWEST, Release
from tests.api.test_native_versions import RECORDED
from wire.versions import VersionRange

ONE = {10: VersionRange(0, 4), 22: VersionRange(0, 5), 99: VersionRange(0, 0)}
OTHER = {10: VersionRange(1, 6), 22: VersionRange(0, 3)}
SHARED = {10: VersionRange(1, 4), 22: VersionRange(0, 3)}


@pytest.mark.parametrize("release", RECORDED)
def test_the_versions_of_a_release_equal_the_recorded_answers_of_its_brokers(release: str) -> None:
    major, minor, _ = map(int, release.split("."))
    relayed = {
        key: versions for key, versions in RECORDED[release].items() if is_relayable(key) or key in PARTLY_RELAYED
    }
    assert ranges_of(Release(major, minor)) == relayed


def test_every_release_was_recorded() -> None:
    assert [f"{release}" for release in FIRST_SEEN] == [release.rpartition(".")[0] for release in RECORDED]


@pytest.mark.parametrize(
    ("protocol", "release"), [("3.9", (3, 9)), ("2.7-IV2", (2, 7)), ("2.0", (2, 6)), ("3.0", (3, 0)), ("2.6", (2, 6))]
)
def test_a_protocol_version_belongs_to_a_release_that_is_served(protocol: str, release: tuple[int, int]) -> None:
    assert release_of_protocol(protocol) == release


async def test_the_versions_of_the_last_live_brokers_are_kept() -> None:
    shared = SharedVersions()
    assert shared.of([ONE, OTHER]) == SHARED
    assert shared.of([]) == SHARED
    assert shared.of([OTHER]) == OTHER


def files_in(folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir()]


async def recalled(folder: Path, cluster_id: str = "cluster", release: Release = NEWEST) -> SharedVersions:
    """The versions as a process that has connected to this cluster knows them."""
    shared = SharedVersions(lambda: release, folder)
    await shared.recall(cluster_id)
    return shared


async def keep(folder: Path, cluster_id: str, *brokers: Mapping[int, VersionRange]) -> None:
    """Let a process of this cluster receive the versions of these brokers and end."""
    shared = await recalled(folder, cluster_id)
    shared.of(brokers)
    await shared.close()


async def test_the_latest_versions_are_on_disk_when_it_is_closed(tmp_path: Path) -> None:
    shared = await recalled(tmp_path)
    shared.of([ONE])
    shared.of([ONE, OTHER])
    await shared.close()
    assert (await recalled(tmp_path)).of([]) == SHARED
    assert files_in(tmp_path) == [VERSIONS_FILE]


async def test_the_versions_of_another_cluster_are_ignored_with_one_line_and_replaced(tmp_path: Path) -> None:
    """An operator copied the data directory of an instance of another cluster."""
    await keep(tmp_path, "another", ONE)

    with capture_logs() as lines:
        shared = await recalled(tmp_path, release=Release(2, 7))

    assert shared.of([]) == ranges_of(Release(2, 7))
    assert [(line["event"], line["log_level"], line["cluster"]) for line in lines] == [
        ("ignored stored file of another cluster", "info", "another")
    ]
    await keep(tmp_path, "cluster", OTHER)
    assert (await recalled(tmp_path)).of([]) == OTHER


async def test_versions_without_a_cluster_are_ignored_with_one_line_and_replaced(tmp_path: Path) -> None:
    """An older controllerd wrote the file without a cluster id."""
    (tmp_path / VERSIONS_FILE).write_text('{"10": [0, 4], "22": [0, 5]}', encoding="utf-8")

    with capture_logs() as lines:
        shared = await recalled(tmp_path, release=Release(2, 7))

    assert shared.of([]) == ranges_of(Release(2, 7))
    assert [(line["event"], line["reason"]) for line in lines] == [
        ("failed to read stored file", "Object missing required field `cluster_id`")
    ]
    await keep(tmp_path, "cluster", OTHER)
    assert (await recalled(tmp_path)).of([]) == OTHER


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", *(f'{{"cluster_id": "cluster", "version": {rest}}}' for rest in [
        '2, "ranges": {"3": [0, 1]}', "1", '1, "ranges": {"x": [0, 1]}', '1, "ranges": {"3": [0]}',
        '1, "ranges": {"3": null}', '1, "ranges": {}',
    ])],
)  # fmt: skip
async def test_a_file_that_cannot_be_understood_is_ignored(tmp_path: Path, content: str) -> None:
    (tmp_path / VERSIONS_FILE).write_text(content, encoding="utf-8")
    shared = await recalled(tmp_path, release=Release(2, 7))
    assert shared.of([]) == ranges_of(Release(2, 7))
    shared.of([ONE])
    await shared.close()
    assert json.loads((tmp_path / VERSIONS_FILE).read_text(encoding="utf-8")) == {
        "cluster_id": "cluster", "version": 1, "ranges": {"10": [0, 4], "22": [0, 5], "99": [0, 0]},
    }  # fmt: skip


async def test_nothing_is_kept_before_the_cluster_is_known(tmp_path: Path) -> None:
    shared = SharedVersions(folder=tmp_path)
    assert shared.of([ONE]) == ONE
    await shared.close()
    assert files_in(tmp_path) == []


async def test_a_disk_that_refuses_the_write_changes_nothing_for_clients(tmp_path: Path) -> None:
    shared = await recalled(tmp_path / "missing")
    assert shared.of([ONE]) == ONE
    await shared.close()
    assert shared.of([]) == ONE
