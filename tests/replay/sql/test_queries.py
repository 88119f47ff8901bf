"""The queries as a whole: their dependencies, and that none relies on behaviour in which engines differ."""

import re

import pytest

from replay.facts.tables import BY_NAME
from replay.sql.queries import QUERIES, READS, needed, readers
from tests.replay.sql.book import Book, answer, columns


def test_every_table_is_a_query_except_the_folded_ones() -> None:
    assert BY_NAME.keys() - QUERIES.keys() == {"partitions", "violations"}


def test_queries_read_facts_and_earlier_queries() -> None:
    order = list(QUERIES)
    assert all(order.index(read) < order.index(name) for name in order for read in READS[name])
    unread = set(order) - BY_NAME.keys() - frozenset().union(*READS.values())
    assert unread == set()


@pytest.mark.parametrize("name", QUERIES)
def test_every_order_by_places_nulls_explicitly(name: str) -> None:
    orders = re.findall(r"ORDER BY\s+(.*?)\s*(?:\)|ROWS|RANGE|$)", QUERIES[name], re.DOTALL)
    keys = [key for order in orders for key in order.split(",")]
    assert [key for key in keys if "NULLS" not in key] == []


def test_needed_queries_come_in_order_without_others() -> None:
    assert needed(["openings"]) == ["snapshots", "openings"]
    assert needed(["extents", "partitions"]) == ["extents"]
    assert needed(["incident_chain"])[-1] == "incident_chain"
    assert "churn" not in needed(["incident_chain"])


def test_a_result_is_kept_for_all_its_readers() -> None:
    assert readers(["openings"]) == {"snapshots": {"snapshots", "openings"}, "openings": {"openings"}}


def test_sources_list_the_logs_that_were_read() -> None:
    book = Book().add("alarm").at(40).add("brokers", {"broker": 1}, {"broker": 2}).at(50, boot="c").add("alarm")
    assert columns(answer(book, "sources"), "source", "node", "boot", "records", "first_ms", "last_ms") == [
        ("audit", 7, "b", 2, 0, 40),
        ("audit", 7, "c", 1, 50, 50),
    ]
