"""The queries as a whole: what reads what, and that none relies on what engines do differently."""

import re

import pytest

from replay.facts.tables import BY_NAME
from replay.sql.queries import QUERIES, READS, needed, readers
from tests.replay.sql.book import Book, answer, columns


def test_every_table_but_those_that_are_folded_is_a_query() -> None:
    assert BY_NAME.keys() - QUERIES.keys() == {"partitions", "violations"}


def test_queries_read_facts_and_what_stands_before_them() -> None:
    order = list(QUERIES)
    assert all(order.index(read) < order.index(name) for name in order for read in READS[name])
    unread = set(order) - BY_NAME.keys() - frozenset().union(*READS.values())
    assert unread == set()


@pytest.mark.parametrize("name", QUERIES)
def test_every_order_says_where_nulls_go(name: str) -> None:
    orders = re.findall(r"ORDER BY\s+(.*?)\s*(?:\)|ROWS|RANGE|$)", QUERIES[name], re.DOTALL)
    keys = [key for order in orders for key in order.split(",")]
    assert [key for key in keys if "NULLS" not in key] == []


def test_what_is_needed_comes_in_order_and_nothing_else() -> None:
    assert needed(["openings"]) == ["snapshots", "openings"]
    assert needed(["extents", "partitions"]) == ["extents"]
    assert needed(["incident_chain"])[-1] == "incident_chain"
    assert "churn" not in needed(["incident_chain"])


def test_a_result_waits_for_all_that_read_it() -> None:
    assert readers(["openings"]) == {"snapshots": {"snapshots", "openings"}, "openings": {"openings"}}


def test_sources_tell_what_was_read() -> None:
    book = Book().add("alarm").at(40).add("brokers", {"broker": 1}, {"broker": 2}).at(50, boot="c").add("alarm")
    assert columns(answer(book, "sources"), "source", "node", "boot", "records", "first_ms", "last_ms") == [
        ("audit", 7, "b", 2, 0, 40),
        ("audit", 7, "c", 1, 50, 50),
    ]
