"""The answers of a node without data about groups, transactions and log directories."""

import pytest

from controllerd.core.kafka_error import KafkaError
from tests.wire.asking import asked, read_back
from wire.api_messages import answer_nothing

LIST_TRANSACTIONS = 66


@pytest.mark.parametrize(("key", "version", "rows"), [(16, 5, "groups"), (LIST_TRANSACTIONS, 1, "transaction_states")])
def test_lists_of_groups_and_transactions_are_empty(key: int, version: int, rows: str) -> None:
    entity = read_back(key, version, answer_nothing(asked(key, version)))

    assert (entity.error_code, getattr(entity, rows)) == (KafkaError.NONE, ())


def test_unknown_state_filters_are_named_once() -> None:
    wanted = ("Ongoing", "Sleeping", "PrepareEpochFence", "ongoing", "Sleeping")

    entity = read_back(LIST_TRANSACTIONS, 1, answer_nothing(asked(LIST_TRANSACTIONS, 1, state_filters=wanted)))

    assert entity.unknown_state_filters == ("Sleeping", "ongoing")
