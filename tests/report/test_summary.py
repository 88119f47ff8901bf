"""The one sentence and the figures at the top."""

from dataclasses import replace

from replay.report.markdown import markdown
from replay.report.summary import tiles, verdict
from tests.report.sample import Rows, empty, row, sample, sample_meta


def calm() -> Rows:
    tables = sample()
    return {name: rows if name == "terms" else [] for name, rows in tables.items()}


def test_the_log_of_a_standby_alone_gives_no_verdict_on_leaders() -> None:
    judged = verdict(calm() | {"terms": []}, sample_meta())

    assert judged.sentence.startswith("No controller of these logs was in its term, so nothing is known of leaders;")


def test_a_log_without_problems_has_the_level_good() -> None:
    judged = verdict(calm(), sample_meta())

    assert judged.sentence == "No partition was without a leader; no invariant violated; the log is complete."
    assert judged.level == "good"


def test_the_sentence_has_the_partitions_and_the_longest_window() -> None:
    tables = calm()
    tables["cluster_windows"] = [row("cluster_windows", partitions=12, windows=14, longest_us=63_204_000, open=0)]

    judged = verdict(tables, sample_meta())

    assert judged.sentence.startswith("12 partitions were without a leader for up to 63.2 s; no invariant violated;")
    assert judged.level == "warn"


def test_an_open_window_is_reported_and_has_the_level_bad() -> None:
    judged = verdict(sample(), sample_meta())

    assert judged.level == "bad"
    assert judged.sentence == (
        "37 partitions were without a leader for up to 4 min 12 s, 1 of them still has none when the log ends; "
        "2 invariants violated (3 times); the log is not complete: 120 records were dropped."
    )


def test_logs_without_numbers_are_not_called_complete() -> None:
    meta = replace(sample_meta(), invariants=())

    assert verdict(calm(), meta).sentence.endswith("nothing is damaged, and missing lines cannot be detected.")
    assert [tile.value for tile in tiles(calm(), meta) if tile.label == "The log"] == ["undamaged"]
    assert "complete" not in markdown(calm(), meta)


def test_duplicates_leave_the_log_complete() -> None:
    tables = calm()
    tables["quality"] = [row("quality", what="duplicate", count=14)]

    judged = verdict(tables, sample_meta())

    assert judged.sentence.endswith("the log is complete (14 duplicates).")
    assert judged.level == "good"


def test_unchecked_invariants_are_not_reported_as_held() -> None:
    judged = verdict(calm(), replace(sample_meta(), invariants=()))

    assert "invariants were not checked" in judged.sentence


def test_an_empty_log_has_the_level_warn() -> None:
    judged = verdict(*empty())

    assert judged == ("There is nothing to report: the logs have no record.", "warn")


def test_the_longest_window_may_be_open() -> None:
    shown = {tile.label: tile for tile in tiles(sample(), sample_meta())}

    assert (shown["Longest"].value, shown["Longest"].note) == ("4 min 12 s", "still lasting")
    assert shown["Invariants violated"].note == f"of {len(sample_meta().invariants)} checked"
    assert shown["Partitions without a leader"].value == "37"
