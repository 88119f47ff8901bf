"""The values that follow from the settings of brokers: agreement, disagreement, and a version that never falls."""

from collections.abc import Mapping

import pytest

from controllerd.core.broker_answers import SettingsAnswer
from controllerd.core.cluster_settings import (
    AN_AUTHORIZER,
    AUTO_REBALANCE,
    DELETE_TOPICS,
    MUST_BE_ABSENT,
    MUST_BE_FALSE,
    NAMES,
    PARTITIONS,
    PROTOCOL_VERSION,
    REPLICATION_FACTOR,
    SETTINGS,
    TIERED_STORAGE,
    UNCLEAN,
    understood,
)
from controllerd.core.model import BrokerId
from controllerd.core.resolved_settings import Source
from controllerd.core.settings_book import Configured, Remembered, SettingsBook
from tests.fakes.disagreements import COMMON, DISAGREEMENTS, Disagreement, title

ALL = {BrokerId(1): 11, BrokerId(2): 12, BrokerId(3): 13}


def answer_of(broker: int, **changed: str) -> dict[BrokerId, SettingsAnswer]:
    """The answer of a broker; settings that differ from the others are named with underscores."""
    values = {**COMMON, **{name.replace("_", "."): value for name, value in changed.items()}}
    return {BrokerId(broker): SettingsAnswer(ALL.get(BrokerId(broker), 99), understood(values))}


def book_of(*answers: Mapping[BrokerId, SettingsAnswer], book: SettingsBook | None = None) -> SettingsBook:
    """A book in which these brokers answered, and no other broker is registered."""
    found = book or SettingsBook()
    together = {broker: answer for each in answers for broker, answer in each.items()}
    found.take(together, {broker: answer.broker_epoch for broker, answer in together.items()})
    return found


def answers_of_version(version: str, *brokers: int) -> dict[BrokerId, SettingsAnswer]:
    """Answers of these brokers with this protocol version."""
    return {b: a for broker in brokers for b, a in answer_of(broker, inter_broker_protocol_version=version).items()}


ALL_REASONS = {**MUST_BE_FALSE, **MUST_BE_ABSENT}


def test_every_setting_is_in_the_table_of_thirty_disagreements() -> None:
    assert {case.name for case in DISAGREEMENTS} == {setting.name for setting in SETTINGS}
    assert len(set(DISAGREEMENTS)) == 30


@pytest.mark.parametrize("case", DISAGREEMENTS, ids=title)
def test_where_one_broker_differs_the_safer_value_or_the_majority_counts(case: Disagreement) -> None:
    agreed = {case.name: case.agreed}
    book = book_of(answer_of(1, **agreed), answer_of(2, **agreed), answer_of(3, **{case.name: case.other}))

    resolved = book.current.settings[case.name]

    assert (resolved.value, resolved.source) == (case.used, case.source)
    assert book.current.problems == {case.name: case.problem}


def test_the_common_value_of_all_brokers_is_used_without_a_problem() -> None:
    book = book_of(answer_of(1), answer_of(2), answer_of(3))

    assert book.current.values == COMMON
    assert {resolved.source for resolved in book.current.settings.values()} == {Source.BROKERS}
    assert book.current.problems == {}
    assert book.policy.unknown == frozenset()


def test_a_setting_that_an_older_broker_does_not_know_has_the_value_that_it_acts_on() -> None:
    values = understood({PROTOCOL_VERSION: "2.6-IV0"})

    assert values[TIERED_STORAGE] == "false"
    assert values[DELETE_TOPICS] == "true"
    assert set(values) == set(NAMES)


@pytest.mark.parametrize(("name", "value"), [(PARTITIONS, "many"), (UNCLEAN, "perhaps"), (PROTOCOL_VERSION, "new")])
def test_an_answer_with_a_value_that_makes_no_sense_is_no_answer(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=value):
        understood({**COMMON, name: value})


def test_the_configured_value_wins_and_the_problem_names_both() -> None:
    book = book_of(
        answer_of(1), answer_of(2), answer_of(3, default_replication_factor="2"),
        book=SettingsBook({REPLICATION_FACTOR: Configured("5", "/etc/controllerd/prod.toml")}),
    )  # fmt: skip

    assert book.policy.default_replication_factor == 5
    assert book.current.problems == {
        REPLICATION_FACTOR: (
            "default.replication.factor: 5 is configured here (/etc/controllerd/prod.toml) and used, "
            "but broker 1 says 3, broker 2 says 3, broker 3 says 2"
        )
    }


def test_two_spellings_of_a_version_are_the_same() -> None:
    book = book_of(answers_of_version("3.9", 1), answers_of_version("3.9-IV0", 2), answers_of_version("3.9.1", 3))

    assert book.current.problems == {}


def test_before_any_answer_settings_have_values_that_do_no_harm() -> None:
    book = SettingsBook()

    assert not book.policy.auto_leader_rebalance_enable
    assert not book.policy.delete_topic_enable
    assert not book.current.unclean.under(None)
    assert not book.current.unclean.under(dynamic=True)
    assert {DELETE_TOPICS, REPLICATION_FACTOR, AUTO_REBALANCE} <= book.policy.unknown
    assert not any(book.features[:4])
    assert not book.is_protocol_known
    assert book.current.min_isr is None


# -- the protocol version ----------------------------------------------------------------------------------------------


def test_a_version_that_zookeeper_showed_does_not_fall_to_a_lower_kept_or_answered_one() -> None:
    book = SettingsBook()
    book.recall(Remembered({}, "2.7-IV2"))

    book.note_evidence("2.8-IV0")
    book_of(answers_of_version("2.7", 1, 2, 3), book=book)

    assert book.current.values[PROTOCOL_VERSION] == "2.8-IV0"


def test_the_protocol_version_rises_by_itself_when_the_last_broker_was_raised() -> None:
    book = book_of(answers_of_version("2.8", 1, 2, 3))

    book_of(answers_of_version("3.9", 1, 2), answers_of_version("2.8", 3), book=book)
    assert (book.current.values[PROTOCOL_VERSION], book.features.leader_recovery) == ("2.8", False)
    book_of(answers_of_version("3.9", 1, 2, 3), book=book)

    assert (book.current.values[PROTOCOL_VERSION], book.features.leader_recovery) == ("3.9", True)


def test_the_protocol_version_does_not_rise_while_a_live_broker_has_not_answered_in_this_life() -> None:
    book = book_of(answers_of_version("2.8", 1, 2, 3))

    book.take(answers_of_version("3.9", 1, 2), ALL)
    book.take({}, {**ALL, BrokerId(3): 33})

    assert book.current.values[PROTOCOL_VERSION] == "2.8"


def test_the_protocol_version_never_falls_by_itself() -> None:
    book = book_of(answers_of_version("3.9", 1, 2, 3))

    book_of(answers_of_version("3.9", 1, 2), answers_of_version("2.7", 3), book=book)

    assert book.current.values[PROTOCOL_VERSION] == "3.9"
    assert book.current.problems == {
        PROTOCOL_VERSION: "inter.broker.protocol.version: 3.9 never falls by itself and is used, but broker 3 says 2.7"
    }


def test_a_version_below_the_served_ones_is_an_alarm_that_names_the_lowest_served() -> None:
    book = book_of(answers_of_version("3.9", 2, 3), answers_of_version("1.1", 1))

    assert book.current.values[PROTOCOL_VERSION] == "2.0"
    assert book.current.problems[PROTOCOL_VERSION] == (
        "inter.broker.protocol.version: 2.0 is used as the lowest that is served, but broker 1 says 1.1, "
        "broker 2 says 3.9, broker 3 says 3.9"
    )


def test_the_protocol_version_of_before_is_kept_beyond_a_restart() -> None:
    before = book_of(answers_of_version("3.9", 1, 2, 3))
    book = SettingsBook()
    book.recall(before.remembered())

    assert book.current.values[PROTOCOL_VERSION] == "3.9"
    book_of(answers_of_version("2.8", 1, 2, 3), book=book)
    assert book.current.values[PROTOCOL_VERSION] == "3.9"


def test_an_operator_lowers_the_protocol_version_by_configuring_it() -> None:
    book = SettingsBook({PROTOCOL_VERSION: Configured("2.8", "flag")})
    book.recall(Remembered({}, "3.9"))

    book_of(answers_of_version("2.8", 1, 2, 3), book=book)

    assert book.current.values[PROTOCOL_VERSION] == "2.8"
    assert book.remembered().protocol_version == "2.8"


def test_until_all_brokers_have_answered_zookeeper_says_what_the_version_was_at_least() -> None:
    book = SettingsBook()

    book.note_evidence("2.8-IV0")
    book.take(answers_of_version("3.9", 1), ALL)

    assert (book.features.topic_ids, book.features.leader_recovery) == (True, False)
    assert book.current.problems == {}
    assert book.current.settings[PROTOCOL_VERSION].source is Source.ZOOKEEPER
    book.take(answers_of_version("3.9", 2, 3), ALL)
    assert book.features.leader_recovery


def test_brokers_that_say_less_than_zookeeper_shows_do_not_lower_the_version() -> None:
    book = SettingsBook()
    book.note_evidence("2.8-IV0")

    book_of(answers_of_version("2.7", 1, 2, 3), book=book)

    assert book.features.topic_ids
    assert PROTOCOL_VERSION in book.current.problems


# -- what is known, and for how long -----------------------------------------------------------------------------------


def test_the_last_answers_of_brokers_are_used_while_none_answers() -> None:
    book = SettingsBook()
    book.recall(book_of(answer_of(1), answer_of(2)).remembered())
    book.take({}, ALL)

    assert book.policy.default_replication_factor == 3
    assert book.current.settings[REPLICATION_FACTOR].source is Source.CACHE


def test_an_answer_of_a_broker_that_is_not_registered_changes_nothing() -> None:
    book = book_of(answer_of(1))

    book.take(answer_of(9, delete_topic_enable="false"), {BrokerId(1): 11})

    assert book.policy.delete_topic_enable


def test_the_same_answers_are_no_news() -> None:
    book = book_of(answer_of(1), answer_of(2))
    registered = {BrokerId(1): 11, BrokerId(2): 12}

    assert not book.would_change({**answer_of(1), **answer_of(2)}, registered)
    assert book.would_change(answer_of(1, num_partitions="7"), registered)
    assert book.would_change({}, {BrokerId(1): 11})


# -- what must not be led ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*MUST_BE_FALSE, *MUST_BE_ABSENT])
def test_one_broker_with_a_rule_that_we_do_not_enforce_is_enough_to_refuse(name: str) -> None:
    value = "true" if name in MUST_BE_FALSE else "org.example.Rules"

    book = book_of(answer_of(1), answer_of(2, **{name: value}))

    assert book.current.refusal == f"{name} (broker 2): {ALL_REASONS[name]}"


def test_a_broker_that_does_not_let_us_read_its_settings_has_an_authorizer() -> None:
    book = book_of(answer_of(1, authorizer_class_name=AN_AUTHORIZER))

    assert book.current.refusal is not None
    assert book.current.refusal.startswith("authorizer.class.name (broker 1): ACLs are not enforced")


@pytest.mark.parametrize("name", [UNCLEAN, DELETE_TOPICS, AUTO_REBALANCE, TIERED_STORAGE])
def test_a_switch_stays_off_when_the_broker_that_turned_it_off_is_gone(name: str) -> None:
    book = book_of(answer_of(1), answer_of(2), answer_of(3, **{name.replace(".", "_"): "false"}))
    two = {broker: ALL[broker] for broker in (BrokerId(1), BrokerId(2))}

    book.take({}, two)
    kept = SettingsBook()
    kept.recall(book.remembered())
    kept.take({**answer_of(1), **answer_of(2)}, two)

    for each in (book, kept):
        assert not each.current.is_on(name)
        assert each.current.settings[name].source is Source.SAFER
        assert "last answer of broker 3, now gone" in each.current.problems[name]

    book.take(answer_of(3), ALL)

    assert book.current.is_on(name)
    assert book.current.problems == {}


@pytest.mark.parametrize("name", sorted(ALL_REASONS))
def test_a_setting_that_refuses_the_role_counts_until_its_broker_has_answered_again(name: str) -> None:
    value = "true" if name in MUST_BE_FALSE else "org.example.Rules"
    book = book_of(answer_of(1), answer_of(2, **{name: value}))

    book.take(answer_of(1), {BrokerId(1): 11})
    later = SettingsBook()
    later.recall(book.remembered())
    later.take(answer_of(1), {BrokerId(1): 11})

    for each in (book, later):
        assert each.current.refusal is not None
        assert each.current.refusal.startswith(f"{name} (broker 2, by its last answer)")
        each.take(answer_of(1) | answer_of(2), {BrokerId(1): 11, BrokerId(2): 12})
        assert each.current.refusal is None


def test_unclean_elections_wait_for_a_broker_that_has_never_answered() -> None:
    book = SettingsBook()
    book.take(answer_of(1, unclean_leader_election_enable="true"), {BrokerId(1): 11, BrokerId(2): 12})
    found = book.current.settings[UNCLEAN]
    assert (found.value, found.source, found.problem) == ("false", Source.WAITING, None)

    both = answer_of(1, unclean_leader_election_enable="true") | answer_of(2, unclean_leader_election_enable="true")
    book.take(both, {BrokerId(1): 11, BrokerId(2): 12})

    assert book.current.settings[UNCLEAN].value == "true"


def test_it_is_the_broker_without_an_answer_that_keeps_unclean_elections_off_whatever_it_said_before() -> None:
    """The files of all brokers said no; then the dynamic default was set, and broker 2, which restarted, is silent."""
    one, two = BrokerId(1), BrokerId(2)
    book = book_of(
        answer_of(1, unclean_leader_election_enable="false"), answer_of(2, unclean_leader_election_enable="false")
    )
    book.expect({two: 99})
    (yes,) = answer_of(1, unclean_leader_election_enable="true").values()

    book.take({one: yes._replace(hidden={UNCLEAN: "false"})}, {one: ALL[one], two: 99})

    assert not book.current.unclean.under(True)
    assert (book.current.settings[UNCLEAN].source, book.current.unclean.awaited) == (Source.WAITING, (two,))


def test_a_broker_that_is_gone_and_has_not_answered_is_waited_for() -> None:
    book = book_of(
        answer_of(1, unclean_leader_election_enable="true"), answer_of(2, unclean_leader_election_enable="true")
    )
    book.expect({BrokerId(2): 99})

    book.take({}, {BrokerId(1): ALL[BrokerId(1)]})

    assert (book.current.unclean.is_on, book.current.unclean.awaited) == (False, (2,))
    assert book.current.settings[PROTOCOL_VERSION].source is Source.BROKERS


def test_a_broker_that_was_left_out_for_a_while_comes_back_in_the_same_life_with_its_answer() -> None:
    """Its registration could not be understood for a while."""
    book = book_of(answer_of(1), answer_of(2))
    lives = {broker: ALL[broker] for broker in (BrokerId(1), BrokerId(2))}
    book.take({}, {BrokerId(1): ALL[BrokerId(1)]})

    book.expect(lives)
    book.note_evidence("2.8")
    book.take({}, lives)

    assert book.unanswered(lives) == ()
    assert set(book.current.settings[PARTITIONS].brokers) == {1, 2}


def test_a_broker_is_not_waited_for_that_answered_in_a_later_life_than_the_one_in_which_it_was_served() -> None:
    """The instance led, stood by while the broker was restarted and answered, and leads again when it is gone."""
    yes = {"unclean_leader_election_enable": "true"}
    book = book_of(answer_of(1, **yes), answer_of(2, **yes))
    book.expect({BrokerId(1): ALL[BrokerId(1)], BrokerId(2): ALL[BrokerId(2)]})
    (answer,) = answer_of(2, **yes).values()
    book.take({BrokerId(2): answer._replace(broker_epoch=99)}, {BrokerId(1): ALL[BrokerId(1)], BrokerId(2): 99})

    book.take({}, {BrokerId(1): ALL[BrokerId(1)]})

    assert (book.current.unclean.is_on, book.current.unclean.awaited) == (True, ())


def test_the_answers_of_earlier_lives_are_a_cache() -> None:
    book = book_of(answer_of(1))

    book.expect({BrokerId(1): 99})

    assert book.current.settings[PARTITIONS].source is Source.CACHE


@pytest.mark.parametrize("before", ["true", "false"])
def test_while_no_live_broker_has_answered_in_its_present_life_unclean_elections_wait(before: str) -> None:
    book = book_of(answer_of(1, unclean_leader_election_enable=before))

    book.expect({BrokerId(1): 99})

    assert (book.current.settings[UNCLEAN].source, book.current.unclean.awaited) == (Source.WAITING, (1,))


def test_a_broker_that_is_back_and_silent_after_it_said_no_is_not_called_gone() -> None:
    book = book_of(
        answer_of(1, unclean_leader_election_enable="true"), answer_of(2, unclean_leader_election_enable="false")
    )
    book.take({}, {BrokerId(1): ALL[BrokerId(1)]})
    assert book.current.settings[UNCLEAN].decided_by == (2,)

    book.expect({BrokerId(2): 99})

    assert (book.current.settings[UNCLEAN].source, book.current.unclean_awaits) == (Source.WAITING, (2,))
    assert book.current.problems == {}
    assert not book.current.unclean.is_on


def test_brokers_that_never_answered_are_awaited() -> None:
    book = SettingsBook()

    book.expect({BrokerId(1): 11})

    assert (book.current.settings[UNCLEAN].source, book.current.unclean_awaits) == (Source.DEFAULT, (1,))


def test_a_size_of_a_broker_that_is_gone_is_forgotten() -> None:
    book = book_of(answer_of(1), answer_of(2), answer_of(3, num_partitions="9"))

    book.take({}, {broker: ALL[broker] for broker in (BrokerId(1), BrokerId(2))})

    assert book.current.problems == {}
