"""Releases by the versions that their brokers serve."""

from controllerd.core.model import BrokerId
from controllerd.core.releases import FIRST_SEEN, NEWEST, OLDEST, Release, Releases, release_of


def test_the_newest_version_that_a_broker_serves_names_its_release() -> None:
    served: dict[int, tuple[int, int]] = {}
    for release, (api_key, version) in FIRST_SEEN.items():
        served[api_key] = (0, version)
        assert release_of(served) == release


def test_a_peer_that_serves_none_of_the_versions_has_no_release() -> None:
    assert release_of({}) is None
    assert release_of({4: (0, 5), 18: (0, 3)}) is None


def test_every_release_from_the_oldest_to_the_newest_can_be_recognized() -> None:
    assert list(FIRST_SEEN) == sorted(FIRST_SEEN)
    assert (min(FIRST_SEEN), max(FIRST_SEEN)) == (OLDEST, NEWEST)


def test_the_oldest_of_no_release_is_none() -> None:
    releases = Releases()
    assert releases.oldest is None
    releases.update({BrokerId(1): Release(3, 0), BrokerId(2): Release(2, 8), BrokerId(3): Release(3, 9)})
    assert releases.oldest == Release(2, 8)


def test_the_release_of_a_broker_that_is_removed_is_the_last_known_one() -> None:
    releases = Releases()
    releases[BrokerId(1)] = Release(2, 8)

    releases.remove(BrokerId(1))

    assert (releases, releases.last_known) == ({}, {1: Release(2, 8)})


def test_nothing_is_known_of_a_broker_that_came_back_and_was_removed_before_it_answered() -> None:
    releases = Releases()
    releases[BrokerId(1)] = Release(2, 8)
    releases.remove(BrokerId(1))

    releases.remove(BrokerId(1))

    assert releases.last_known == {}


def test_a_release_is_written_with_a_dot() -> None:
    assert str(Release(2, 8)) == "2.8"
