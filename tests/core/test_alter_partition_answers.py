"""The reaction of leaders of each release to each answer to AlterPartition."""

from itertools import pairwise

import pytest

from controllerd.core.alter_partition_answers import (
    LeaderReaction,
    needs_newer_partition_epoch,
    reaction,
    release_of_leader,
    understood,
)
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, LeaderAndIsr
from controllerd.core.releases import FIRST_SEEN, Release

RETRIES, REVERTS = LeaderReaction.RETRIES, LeaderReaction.REVERTS
AWAITS, STALLS = LeaderReaction.AWAITS_LEADER_EPOCH, LeaderReaction.STALLS
CURRENT = LeaderAndIsr(BrokerId(1), 5, (BrokerId(1), BrokerId(2)), 3, 10)
CODES = (
    KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.INVALID_UPDATE_VERSION,
    KafkaError.NOT_CONTROLLER,
    KafkaError.OPERATION_NOT_ATTEMPTED,
    KafkaError.INVALID_REQUEST,
    KafkaError.INELIGIBLE_REPLICA,
    KafkaError.UNKNOWN_TOPIC_ID,
    KafkaError.UNKNOWN_SERVER_ERROR,
)
SINCE_3_3 = (AWAITS, AWAITS, AWAITS, RETRIES, REVERTS, AWAITS, REVERTS, AWAITS, RETRIES)
TABLE = {
    Release(2, 7): (AWAITS, AWAITS, AWAITS, RETRIES, STALLS, STALLS, STALLS, STALLS, STALLS),
    Release(2, 8): (AWAITS, AWAITS, AWAITS, RETRIES, STALLS, STALLS, STALLS, STALLS, STALLS),
    Release(3, 0): (AWAITS, AWAITS, AWAITS, RETRIES, STALLS, STALLS, STALLS, STALLS, STALLS),
    Release(3, 1): (AWAITS, AWAITS, AWAITS, RETRIES, REVERTS, REVERTS, REVERTS, REVERTS, REVERTS),
    Release(3, 2): (AWAITS, AWAITS, AWAITS, RETRIES, REVERTS, AWAITS, REVERTS, REVERTS, REVERTS),  # as 3.2.0
    **{release: SINCE_3_3 for release in FIRST_SEEN if release >= Release(3, 3)},
}
RELEASES = tuple(TABLE)


@pytest.mark.parametrize("release", RELEASES, ids=str)
def test_a_leader_reacts_as_the_source_of_its_release_says(release: Release) -> None:
    assert tuple(reaction(release, code) for code in CODES) == TABLE[release]


def test_every_release_that_asks_has_its_row() -> None:
    assert [*RELEASES] == [release for release in FIRST_SEEN if release >= Release(2, 7)]


@pytest.mark.parametrize("release", RELEASES, ids=str)
@pytest.mark.parametrize("code", CODES)
def test_no_release_is_answered_what_stalls_it_or_moves_it_elsewhere(release: Release, code: KafkaError) -> None:
    answer = understood(code, CURRENT, release)

    meant = SINCE_3_3[CODES.index(code)]
    if answer is None:
        assert meant is RETRIES
    elif isinstance(answer, LeaderAndIsr):
        assert (answer, meant) == (CURRENT, REVERTS)
    else:
        assert TABLE[release][CODES.index(answer)] is meant


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        (KafkaError.UNKNOWN_SERVER_ERROR, None),
        (KafkaError.OPERATION_NOT_ATTEMPTED, CURRENT),
        (KafkaError.INVALID_REQUEST, KafkaError.INVALID_UPDATE_VERSION),
    ],
)
def test_an_old_leader_gets_an_answer_that_it_knows_instead(
    code: KafkaError, answer: KafkaError | LeaderAndIsr | None
) -> None:
    assert understood(code, CURRENT, Release(2, 8)) == answer
    assert understood(code, CURRENT, Release(3, 9)) is code


@pytest.mark.parametrize("release", RELEASES, ids=str)
def test_leaders_older_than_3_0_go_back_by_a_newer_partition_epoch_alone(release: Release) -> None:
    """2.7.0, 2.7.1 and 2.8.0 ignore an equal one, and ApiVersions does not tell 2.7.2 and 2.8.1 from them."""
    needing = [code for code in CODES if needs_newer_partition_epoch(code, release)]

    assert needing == (
        [KafkaError.OPERATION_NOT_ATTEMPTED, KafkaError.INELIGIBLE_REPLICA] if release < Release(3, 0) else []
    )


def test_a_leader_of_unknown_release_is_taken_for_the_oldest_that_sends_its_version() -> None:
    assert [str(release_of_leader(None, version)) for version in range(4)] == ["2.7", "3.2", "3.3", "3.5"]
    assert release_of_leader(Release(3, 1), 0) == Release(3, 1)
    assert release_of_leader(Release(2, 8), 3) == Release(3, 5), (
        "the broker was upgraded, and has not answered ApiVersions since"
    )


def test_a_release_below_the_first_that_asks_is_taken_for_that_one() -> None:
    assert reaction(Release(2, 6), KafkaError.UNKNOWN_SERVER_ERROR) is STALLS


def test_the_table_is_in_order() -> None:
    assert all(older < newer for older, newer in pairwise(RELEASES))
