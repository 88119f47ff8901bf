"""A table gives back the rows that were put in, however they are stored."""

import pytest

from replay.facts.engine import CHUNK, Row, Rows, Value

ROW: Row = {"cluster": "c", "partition": -1, "unclean": None, "isr": [1, 2], "is_open": True, "took_us": 2**62}


def numbered(count: int) -> list[Row]:
    return [{**ROW, "partition": number} for number in range(count)]


@pytest.mark.parametrize("count", [0, 1, CHUNK, 2 * CHUNK + 1])
def test_rows_are_given_back_in_order_and_counted(count: int) -> None:
    rows = Rows(numbered(count))

    assert list(rows) == numbered(count)
    assert len(rows) == count
    assert bool(rows) is bool(count)


def test_values_with_the_names_of_their_columns_are_the_same_rows() -> None:
    chunks: list[list[tuple[Value, ...]]] = [[("c", number)] for number in range(3)]

    assert Rows.of(["cluster", "partition"], chunks) == [{"cluster": "c", "partition": number} for number in range(3)]


def test_rows_are_found_by_their_places() -> None:
    rows = Rows(numbered(3))

    assert (rows[0]["partition"], rows[-1]["partition"], rows[1:]) == (0, 2, numbered(3)[1:])
    with pytest.raises(IndexError):
        rows[3]


def test_rows_differ_from_other_rows() -> None:
    assert Rows(numbered(2)) != numbered(3)
    assert Rows(numbered(2)) != "rows"
    assert Rows() == []


def test_the_number_of_rows_left_out_is_shown() -> None:
    assert repr(Rows([{"topic": "t"}], left_out=4)) == "Rows([{'topic': 't'}], left_out=4)"


def test_a_large_table_takes_a_tenth_of_its_rows_as_dicts() -> None:
    assert sum(map(len, Rows(numbered(CHUNK)).encoded)) < 100 * CHUNK
