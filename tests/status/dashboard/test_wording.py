"""Numbers on the dashboard, as a person reads them."""

from controllerd.status.dashboard.formatting import numbered


def test_many_things_are_counted_with_commas_and_one_thing_is_one() -> None:
    assert numbered(100_000, "partition") == "100,000 partitions"
    assert numbered(1, "topic") == "1 topic"
