"""The controller mutation quota: what the token bucket lets through, and whose quota holds for whom."""

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllerd.core.mutation_quota import (
    DEFAULT_ENTITY,
    IDLE_S,
    NO_THROTTLE,
    Mutation,
    MutationQuota,
    MutationQuotas,
    QuotaEntity,
    QuotaWindow,
    ThrottleTime,
    TokenBucket,
    entity_of,
    parse_rate,
    sanitize,
)

START_S = 1_000.0
STRICT = 7
PERMISSIVE = 5
LONGEST_MS = 2**31 - 1
BY_PRECEDENCE = (
    "users/alice/clients/app",
    "users/alice/clients/<default>",
    "users/alice",
    "users/<default>/clients/app",
    "users/<default>/clients/<default>",
    "users/<default>",
    "clients/app",
    "clients/<default>",
)


def entity(path: str) -> QuotaEntity:
    found = entity_of(path)
    assert found is not None
    return found


def quotas_of(rates: Mapping[str, float], window: QuotaWindow | None = None) -> MutationQuotas:
    quotas = MutationQuotas(window)
    quotas.replace_rates({entity(path): rate for path, rate in rates.items()})
    return quotas


def creation(
    quotas: MutationQuotas, now_s: float, *, user: str = "alice", client: str | None = "app", version: int = STRICT
) -> MutationQuota:
    return quotas.quota_for(user, client, Mutation.CREATE_TOPICS, version, now_s)


def subsets(paths: Sequence[str]) -> list[tuple[str, ...]]:
    return [chosen for size in range(len(paths) + 1) for chosen in combinations(paths, size)]


# -- the bucket --------------------------------------------------------------------------------------------------------


def test_a_new_bucket_holds_as_much_as_the_windows_at_the_full_rate() -> None:
    bucket = TokenBucket(QuotaWindow().burst_s, START_S)

    assert bucket.balance(2.0, START_S) == 22.0


def test_tokens_come_back_at_the_rate() -> None:
    bucket = TokenBucket(10.0, START_S)
    bucket.take(20, 2.0, START_S)

    assert bucket.balance(2.0, START_S + 3.5) == 7.0


def test_a_bucket_is_never_fuller_than_full() -> None:
    bucket = TokenBucket(10.0, START_S)
    bucket.take(1, 2.0, START_S)

    assert bucket.balance(2.0, START_S + 1e6) == 20.0


def test_a_bucket_can_be_overdrawn() -> None:
    bucket = TokenBucket(100.0, START_S)

    assert bucket.take(560, 5.0, START_S) == -60.0


def test_a_negative_balance_is_kept_when_the_rate_changes() -> None:
    bucket = TokenBucket(10.0, START_S)
    bucket.take(30, 2.0, START_S)

    assert bucket.balance(5.0, START_S + 1) == -5.0


def test_a_lower_rate_shrinks_what_is_left() -> None:
    bucket = TokenBucket(10.0, START_S)
    bucket.take(1, 10.0, START_S)

    assert bucket.balance(2.0, START_S) == 20.0


def test_a_clock_that_goes_back_takes_nothing_away_and_gives_nothing_twice() -> None:
    bucket = TokenBucket(10.0, START_S)
    bucket.take(20, 2.0, START_S)
    bucket.balance(2.0, START_S + 2)
    bucket.balance(2.0, START_S)

    assert bucket.balance(2.0, START_S + 2) == 4.0


@given(st.floats(0.1, 1000), st.lists(st.tuples(st.floats(0, 100), st.integers(0, 500)), min_size=1, max_size=30))
def test_strict_clients_never_get_more_than_the_bucket_the_rate_and_one_overdraft(
    rate: float, steps: list[tuple[float, int]]
) -> None:
    quotas, now, granted = quotas_of({"users/alice": rate}), START_S, 0
    for pause, partitions in steps:
        now += pause
        granted += partitions if creation(quotas, now).take(partitions, now) else 0

    largest = max(partitions for _, partitions in steps)
    assert granted <= rate * (11 + now - START_S) + largest + 1e-6


# -- strict and permissive ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mutation", "first"),
    [(Mutation.CREATE_TOPICS, 6), (Mutation.DELETE_TOPICS, 5), (Mutation.CREATE_PARTITIONS, 3)],
)
def test_requests_are_refused_only_from_the_version_that_knows_the_error(mutation: Mutation, first: int) -> None:
    assert (mutation.is_strict(first - 1), mutation.is_strict(first)) == (False, True)


def test_a_strict_request_may_overdraw_the_bucket_without_a_wait() -> None:
    quota = creation(quotas_of({"users/alice": 1.0}), START_S)

    assert (quota.take(100, START_S), quota.throttle) == (True, NO_THROTTLE)


def test_the_topics_of_a_strict_request_are_refused_from_the_overdraft_on() -> None:
    quota = creation(quotas_of({"users/alice": 1.0}), START_S)

    assert [quota.take(6, START_S) for _ in range(4)] == [True, True, False, False]


def test_a_refused_strict_request_has_the_time_until_the_balance_is_repaid() -> None:
    quotas = quotas_of({"users/alice": 5.0}, QuotaWindow(samples=100, seconds=1))
    creation(quotas, START_S).take(560, START_S)
    quota = creation(quotas, START_S)
    quota.take(1, START_S)

    assert quota.throttle.left_ms(START_S) == 12_000


def test_being_refused_costs_nothing() -> None:
    quotas = quotas_of({"users/alice": 1.0})
    creation(quotas, START_S).take(12, START_S)
    creation(quotas, START_S).take(50, START_S)

    assert creation(quotas, START_S + 1).take(1, START_S + 1)


def test_a_balance_of_exactly_zero_is_not_overdrawn() -> None:
    quotas = quotas_of({"users/alice": 1.0})
    creation(quotas, START_S).take(11, START_S)

    assert creation(quotas, START_S).take(1, START_S)


def test_a_topic_without_partitions_is_refused_all_the_same_while_the_bucket_is_overdrawn() -> None:
    quotas = quotas_of({"users/alice": 1.0})
    creation(quotas, START_S).take(12, START_S)

    assert not creation(quotas, START_S).take(0, START_S)


def test_a_permissive_request_is_never_refused_and_waits_for_its_own_overdraft() -> None:
    quota = creation(quotas_of({"users/alice": 1.0}), START_S, version=PERMISSIVE)

    assert [quota.take(10, START_S) for _ in range(3)] == [True, True, True]
    assert quota.throttle.left_ms(START_S) == 19_000


def test_a_permissive_request_within_its_quota_does_not_wait() -> None:
    quota = creation(quotas_of({"users/alice": 1.0}), START_S, version=PERMISSIVE)
    quota.take(11, START_S)

    assert quota.throttle == NO_THROTTLE


@pytest.mark.parametrize(("rate", "wait_ms"), [(2_500.0, 0), (2_000.0, 1), (800.0, 1), (400.0, 3)])
def test_waits_are_rounded_to_the_nearest_millisecond_and_halves_up(rate: float, wait_ms: int) -> None:
    quota = MutationQuota(TokenBucket(0.0, START_S), rate, strict=False)
    quota.take(1, START_S)

    assert quota.throttle.wait_ms == wait_ms


def test_the_time_that_an_answer_waited_for_leaders_counts_as_waited() -> None:
    assert ThrottleTime(5_000, START_S).left_ms(START_S + 2) == 3_000


def test_an_answer_that_waited_longer_than_the_throttle_has_none_left() -> None:
    assert ThrottleTime(5_000, START_S).left_ms(START_S + 6) == 0


def test_at_a_rate_of_zero_one_mutation_passes_and_then_none_ever() -> None:
    quotas = quotas_of({"users/alice": 0.0})
    creation(quotas, START_S).take(1, START_S)
    quota = creation(quotas, START_S + 1000)

    assert (quota.take(1, START_S + 1000), quota.throttle.wait_ms) == (False, LONGEST_MS)


def test_a_wait_that_does_not_fit_its_field_is_the_longest_that_does() -> None:
    quota = creation(quotas_of({"users/alice": 1e-9}), START_S, version=PERMISSIVE)
    quota.take(1_000, START_S)

    assert quota.throttle.wait_ms == LONGEST_MS


# -- whose quota -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("paths", subsets(BY_PRECEDENCE))
def test_of_all_quotas_that_could_hold_the_most_specific_one_does(paths: tuple[str, ...]) -> None:
    quotas = quotas_of({path: float(BY_PRECEDENCE.index(path) + 1) for path in paths})

    expected = min((float(BY_PRECEDENCE.index(path) + 1) for path in paths), default=None)
    assert quotas.rate_of("alice", "app") == expected


def test_the_quotas_of_others_do_not_hold() -> None:
    quotas = quotas_of({"users/bob": 1.0, "clients/other": 2.0, "users/alice/clients/other": 3.0})

    assert quotas.rate_of("alice", "app") is None


@pytest.mark.parametrize("client", ["", None])
def test_a_client_without_an_id_is_limited_by_the_quotas_of_users_alone(client: str | None) -> None:
    quotas = quotas_of(dict(zip(BY_PRECEDENCE, map(float, range(8)), strict=True)))

    assert quotas.rate_of("alice", client) == 2.0


@pytest.mark.parametrize("path", ["clients/<default>", "users/<default>/clients/<default>"])
def test_the_default_of_client_ids_does_not_hold_for_a_client_without_one(path: str) -> None:
    assert quotas_of({path: 1.0}).rate_of("alice", "") is None


def test_no_client_is_limited_without_a_quota() -> None:
    quota = creation(MutationQuotas(), START_S)

    assert quota.take(1_000_000, START_S)


def test_an_infinite_quota_is_none() -> None:
    quota = creation(quotas_of({"users/alice": math.inf}), START_S, version=PERMISSIVE)
    quota.take(1_000_000, START_S)

    assert quota.throttle == NO_THROTTLE


def test_the_clients_of_a_user_share_the_quota_of_the_user() -> None:
    quotas = quotas_of({"users/alice": 1.0})
    creation(quotas, START_S, client="one").take(12, START_S)

    assert not creation(quotas, START_S, client="two").take(1, START_S)


def test_users_share_the_quota_of_a_client_id() -> None:
    quotas = quotas_of({"clients/app": 1.0})
    creation(quotas, START_S, user="alice").take(12, START_S)

    assert not creation(quotas, START_S, user="bob").take(1, START_S)


@pytest.mark.parametrize("path", ["users/<default>", "users/<default>/clients/app"])
def test_under_a_default_of_users_each_user_has_a_quota(path: str) -> None:
    quotas = quotas_of({path: 1.0})
    creation(quotas, START_S, user="alice").take(12, START_S)

    assert creation(quotas, START_S, user="bob").take(1, START_S)


@pytest.mark.parametrize("path", ["clients/<default>", "users/alice/clients/<default>"])
def test_under_a_default_of_clients_each_client_has_a_quota(path: str) -> None:
    quotas = quotas_of({path: 1.0})
    creation(quotas, START_S, client="one").take(12, START_S)

    assert creation(quotas, START_S, client="two").take(1, START_S)


def test_a_quota_that_is_taken_away_limits_no_longer() -> None:
    quotas = quotas_of({"users/alice": 1.0})
    creation(quotas, START_S).take(100, START_S)
    quotas.set_rate(entity("users/alice"), None)

    assert creation(quotas, START_S).take(1, START_S)


def test_a_negative_balance_survives_a_change_of_the_quota() -> None:
    quotas = quotas_of({"users/alice": 1.0})
    creation(quotas, START_S).take(100, START_S)
    quotas.set_rate(entity("users/alice"), 2.0)

    assert not creation(quotas, START_S + 1).take(1, START_S + 1)


def test_a_negative_balance_is_forgotten_after_an_hour_without_a_mutation() -> None:
    quotas = quotas_of({"users/alice": 1.0})
    creation(quotas, START_S).take(1_000_000, START_S)
    later = START_S + IDLE_S + 1

    assert creation(quotas, later).take(1, later)


def test_a_negative_balance_is_remembered_for_an_hour_without_a_mutation() -> None:
    quotas = quotas_of({"users/alice": 1.0})
    creation(quotas, START_S).take(1_000_000, START_S)

    assert not creation(quotas, START_S + IDLE_S).take(1, START_S + IDLE_S)


# -- names and values --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "sanitized"),
    [
        ("app-1_x.y", "app-1_x.y"),
        ("a b", "a%20b"),
        ("a*b", "a%2Ab"),
        ("~", "%7E"),
        ("CN=a,O=b/c+d", "CN%3Da%2CO%3Db%2Fc%2Bd"),
        ("ü", "%C3%BC"),
        ("a/ü b", "a%2F%C3%BC%20b"),
        (DEFAULT_ENTITY, "%3Cdefault%3E"),
    ],
)
def test_names_are_written_as_kafka_writes_them(name: str, sanitized: str) -> None:
    assert sanitize(name) == sanitized


def test_a_user_named_like_the_default_does_not_limit_other_users() -> None:
    quotas = quotas_of({f"users/{sanitize(DEFAULT_ENTITY)}": 1.0})

    assert (quotas.rate_of("alice", "app"), quotas.rate_of(DEFAULT_ENTITY, "app")) == (None, 1.0)


@pytest.mark.parametrize("written", ["my%20app", "my+app", "my app"])
def test_client_ids_are_compared_decoded(written: str) -> None:
    assert quotas_of({f"clients/{written}": 1.0}).rate_of("alice", "my app") == 1.0


def test_a_client_id_beyond_ascii_is_found_under_its_encoded_name() -> None:
    assert quotas_of({"clients/%c3%bcber%2F1": 1.0}).rate_of("alice", "über/1") == 1.0


@pytest.mark.parametrize(
    "path", ["topics/t", "brokers/1", "users", "users/", "users/a/clients", "users/a/b/c", "clients/a/b", "ips/1", ""]
)
def test_other_entities_have_no_mutation_quota(path: str) -> None:
    assert entity_of(path) is None


@pytest.mark.parametrize(
    ("text", "rate"),
    [("5", 5.0), (" 2.5 ", 2.5), ("1e3", 1000.0), (".5", 0.5), ("3d", 3.0), ("Infinity", math.inf), ("0", 0.0)],
)
def test_rates_are_read_as_java_reads_them(text: str, rate: float) -> None:
    assert parse_rate(text) == rate


@pytest.mark.parametrize("text", ["", "fast", "NaN", "-1", "-Infinity", "1_000", "٣", "1,5", "inf"])
def test_a_text_that_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="controller_mutation_rate"):
        parse_rate(text)
