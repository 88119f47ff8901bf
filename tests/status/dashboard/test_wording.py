"""The format of numbers on the dashboard."""

from controllerd.status.dashboard.formatting import numbered


def test_counts_have_commas_and_a_singular() -> None:
    assert numbered(100_000, "partition") == "100,000 partitions"
    assert numbered(1, "topic") == "1 topic"
