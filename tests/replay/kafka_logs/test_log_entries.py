"""Files: stack traces, messages of several lines, lines of megabytes, mixed streams, packed, torn and foreign ones."""

import gzip
import io
from pathlib import Path

import pytest

from replay.facts.engine import ReplayError, Row
from replay.ingest.kafka.layouts import STRIMZI
from replay.ingest.kafka.parse import DEFAULT, ParseOptions, parse_file, parse_stream
from tests.replay.kafka_logs.cases import changed, data, elected, line, said, shrunk

FAILED = "Controller 1 epoch 5 failed to change state for partition a-0 from OfflinePartition to OnlinePartition"
CAUSE = (
    "kafka.common.StateChangeFailedException: Failed to elect leader for partition a-0 under strategy Offline(false)"
)
FRAME = "\tat kafka.controller.ZkPartitionStateMachine.elect(PartitionStateMachine.scala:4)\n"


def raw(text: str, options: ParseOptions = DEFAULT) -> list[Row]:
    return list(parse_stream("state-change.log", io.BytesIO(text.encode()), options))


def counts(rows: list[Row]) -> dict[str, object]:
    assert rows[-1]["kind"] == "log_file"
    return {name: number for name, number in data(rows[-1]).items() if number}


def test_a_stack_trace_belongs_to_its_line_and_its_first_line_is_the_cause() -> None:
    text = changed(1, FAILED) + CAUSE + "\n" + FRAME * 2_000 + changed(2, elected("a-0", 2, [2], 4))

    failed, found, _ = rows = raw(text)

    assert (failed["kind"], failed["reason"], failed["line"]) == ("refused", CAUSE, 1)
    assert (found["kind"], found["line"]) == ("leadership", 2_003)
    assert counts(rows) == {"entries": 2, "facts": 2}


def test_a_message_of_several_lines_is_read_whole_with_its_cause() -> None:
    first, _, rest = said(1, "Error processing event BrokerChange of\n two lines").partition("\n")
    text = f"{first}\n{rest}" + "java.lang.IllegalStateException: no\n" + FRAME

    alarm, *_ = raw(text)

    assert alarm["reason"] == "Error processing event BrokerChange of\n two lines: java.lang.IllegalStateException: no"


def test_a_stream_of_all_loggers_is_read_and_the_others_are_passed_over() -> None:
    lines = [
        "2026-01-31 03:00:00,000 INFO [QuorumController id=1] x (org.apache.kafka.controller.QuorumController) [main]",
        "2026-01-31 03:00:00,001 INFO KafkaConfig values: \n\tbroker.id = 1\n (kafka.server.KafkaConfig) [main]",
        "2026-01-31 03:00:00,002 INFO [Controller id=1] Resigned (kafka.controller.KafkaController) [a thread]",
        f"2026-01-31 03:00:00,003 INFO [Controller id=1 epoch=5] {shrunk('a-0', -1, [1], 3)} (state.change.logger) [t]",
    ]

    rows = raw("\n".join(lines) + "\n")

    assert [row["kind"] for row in rows] == ["term", "leadership", "log_file"]
    assert counts(rows) == {"entries": 4, "facts": 2, "other": 2}
    assert raw("\n".join(lines) + "\n", ParseOptions(pattern=STRIMZI)) == rows


def test_a_line_of_megabytes_is_read() -> None:
    partitions = ",".join(f"topic-{number}-0" for number in range(200_000))
    text = line(1, f"[Controller id=1] Mark replicas {partitions} on broker 3 as offline", "state.change.logger")
    assert len(text) > 2 << 20

    rows = raw(text)

    assert len(rows) == 200_001
    assert (rows[-2]["topic"], rows[-2]["partition"]) == ("topic-199999", 0)


def test_a_line_that_is_too_long_is_cut_and_counted_and_the_next_one_is_read() -> None:
    long = changed(1, "Sending UpdateMetadata request to brokers Set(" + "1, " * 2_000 + ") for 3 partitions")

    rows = raw(long + changed(2, elected("a-0", 2, [2], 4)), ParseOptions(longest=1_000))

    assert [row["kind"] for row in rows] == ["leadership", "log_file"]
    assert rows[0]["line"] == 2
    assert counts(rows) == {"cut": 1, "entries": 2, "facts": 1, "known": 1}


def test_a_line_of_exactly_the_longest_length_is_whole() -> None:
    text = changed(1, elected("a-0", 2, [2], 4))

    for longest in (len(text) - 1, len(text)):
        assert counts(raw(text, ParseOptions(longest=longest))) == {"entries": 1, "facts": 1}


def test_the_line_that_the_file_ends_in_is_a_torn_tail() -> None:
    whole, torn = changed(1, elected("a-0", 2, [2], 4)), changed(2, elected("a-0", 3, [3], 5))

    rows = raw(whole + torn[:60])

    assert [(row["kind"], row["line"]) for row in rows[:-1]] == [("leadership", 1), ("torn_tail", 2)]
    assert counts(raw(whole + torn.rstrip("\n"))) == {"entries": 2, "facts": 2}


def test_unknown_lines_are_counted_and_the_first_ones_are_listed() -> None:
    text = "".join(changed(1, f"Quite something else, {number}") for number in range(1_200))

    rows = raw(text)

    assert counts(rows) == {"entries": 1_200, "unknown": 1_200}
    assert [row["kind"] for row in rows].count("unknown_line") == 1_000
    assert "Quite something else, 0" in str(data(rows[0])["text"])


def test_a_compressed_file_is_read_and_a_truncated_one_has_a_damage(tmp_path: Path) -> None:
    whole = gzip.compress("".join(changed(1, elected(f"a-{n}", 2, [2], 4)) for n in range(500)).encode())
    path = tmp_path / "state-change.log.2026-01-31-03.gz"
    path.write_bytes(whole)
    assert len(list(parse_file(path))) == 501

    path.write_bytes(whole[:-20])
    *_, damaged, last = parse_file(path)

    assert (damaged["kind"], last["kind"]) == ("damaged", "log_file")
    assert "cannot be unpacked further" in str(damaged["reason"])


def test_an_empty_file_gives_nothing_but_its_count() -> None:
    assert counts(raw("")) == {}


def test_a_file_that_is_no_log_is_refused_with_advice() -> None:
    with pytest.raises(
        ReplayError, match=r"state-change.log has a known layout: give the ConversionPattern.*'03:14 x'"
    ):
        raw("03:14 x\n03:15 y\n")
    with pytest.raises(ReplayError, match=r"has the log pattern '%d \[%t\] %m%n'"):
        raw(changed(1, "x"), ParseOptions(pattern="%d [%t] %m%n"))


def test_a_file_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match="cannot be read: No such file"):
        list(parse_file(tmp_path / "state-change.log"))


def test_moments_are_read_in_the_zone_that_was_given() -> None:
    (row, _) = raw(changed(0, elected("a-0", 2, [2], 4)), ParseOptions(zone="Europe/Berlin"))

    assert row["ts_ms"] == 1_769_828_400_000 - 3_600_000
