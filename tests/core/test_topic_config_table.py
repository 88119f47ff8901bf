"""The controller's judgement of topic configs beside the answers of every release's own ``LogConfig``, word by word."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from controllerd.core.releases import NEWEST, OLDEST, Release
from controllerd.core.topic_configs import InvalidTopicConfig, check_topic_configs, topic_configs
from tests.releases.topic_configs import STRICTER, depends_on_broker_settings

ANSWERS = Path(__file__).parents[1] / "releases/topic_configs.json"
RELEASES = [*(Release(2, minor) for minor in range(6, 9)), *(Release(3, minor) for minor in range(10))]


class Asked(NamedTuple):
    configs: Mapping[str, str]
    tiered_storage: bool
    answer: str | None


def refusal(configs: Mapping[str, str], release: Release, *, tiered_storage: bool = False) -> str | None:
    try:
        check_topic_configs(configs, release, tiered_storage=tiered_storage)
    except InvalidTopicConfig as problem:
        return str(problem)
    return None


def asked_of(release: Release) -> Iterator[Asked]:
    """The questions to ``LogConfig`` of that release, with its answers."""
    for row in json.loads(ANSWERS.read_text("utf-8")):
        changes = {Release(*map(int, since.split("."))): answer for since, answer in row["answers"].items()}
        latest = max(since for since in changes if since <= release)
        yield Asked(row["configs"], row["tiered_storage"], changes[latest])


def is_same(own: str | None, asked: Asked) -> bool:
    """Whether both answers are the same; of several unknown names Java gives the first of a hash table."""
    unknown = {f"Unknown topic config name: {name}" for name in asked.configs}
    return own == asked.answer or {own, asked.answer} <= unknown


@pytest.mark.parametrize("release", RELEASES, ids=str)
def test_every_release_is_judged_as_it_judges_itself(release: Release) -> None:
    asked = list(asked_of(release))

    assert len(asked) > 600
    ours = [refusal(each.configs, release, tiered_storage=each.tiered_storage) for each in asked]
    differing = [
        (each, own)
        for each, own in zip(asked, ours, strict=True)
        if not is_same(own, each)
        and not (STRICTER in (own or "") and depends_on_broker_settings(each.configs, release))
    ]
    assert differing == []


@pytest.mark.parametrize("release", RELEASES, ids=str)
def test_a_config_that_depends_on_settings_of_brokers_is_refused_though_it_fits_kafkas_defaults(
    release: Release,
) -> None:
    dependent = [each for each in asked_of(release) if depends_on_broker_settings(each.configs, release)]

    assert all(refusal(each.configs, release, tiered_storage=each.tiered_storage) for each in dependent)
    assert any(each.answer is None for each in dependent) == (Release(3, 0) <= release < Release(3, 6))


@pytest.mark.parametrize("release", [Release(3, 0), Release(3, 5)], ids=str)
@pytest.mark.parametrize("local", ["600000000", "0", "-1"])
def test_a_local_retention_is_accepted_by_30_to_35_only_beside_the_topics_own_retention(
    local: str, release: Release
) -> None:
    assert refusal({"local.retention.ms": local}, release) == (
        f"Invalid value {local} for configuration local.retention.ms: Where a topic has no retention.ms, brokers of "
        f"Kafka {release} compare this value with their own log.retention settings at every start, and end if it does "
        "not fit. Name retention.ms, too."
    )
    named = {"local.retention.ms": local, "retention.ms": "-1" if local == "-1" else "600000000"}
    assert refusal(named, release) is None


@pytest.mark.parametrize("release", [Release(3, 0), Release(3, 5)], ids=str)
def test_a_local_retention_that_is_the_same_as_the_whole_needs_no_retention(release: Release) -> None:
    assert refusal({"local.retention.ms": "-2", "local.retention.bytes": "-2"}, release) is None


def test_a_format_of_39_is_not_accepted_for_28() -> None:
    assert refusal({"message.format.version": "3.9-IV0"}, Release(3, 9)) is None
    assert refusal({"message.format.version": "3.9-IV0"}, Release(2, 8)) == (
        "Invalid value 3.9-IV0 for configuration message.format.version: Version `3.9-IV0` is not a valid version"
    )


def test_a_release_beyond_the_table_is_judged_as_the_nearest_one() -> None:
    assert topic_configs(Release(2, 5)) is topic_configs(OLDEST)
    assert topic_configs(Release(4, 0)) is topic_configs(NEWEST)
