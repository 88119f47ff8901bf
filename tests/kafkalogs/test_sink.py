"""The two files of Kafka's format, as the daemon writes them beside its audit log."""

import threading
from dataclasses import dataclass
from pathlib import Path

from structlog.testing import capture_logs

from controllerd.kafkalogs.files import KafkaLogFiles
from controllerd.kafkalogs.sink import KafkaLogs
from controllerd.kafkalogs.texts import CONTROLLER, Line
from controllerd.record.records import AlarmRecord, Record, TermRecord

NODE = 2_000_000_000
HOUR_MS = 3_600_000
START_MS = 1_769_829_240_123
"""2026-01-31T03:14:00.123Z."""
ELECTED = TermRecord("elected", 7, 12, "controllerd", "")
ENDS_S = 20.0


@dataclass
class WallClock:
    """A clock that a test sets."""

    at_ms: int = START_MS

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic(self) -> float:
        return self.at_ms / 1000


def logged(folder: Path, *records: Record) -> str:
    """The content of controller.log after these records."""
    sink = KafkaLogs(WallClock(), NODE, folder)
    sink.start()
    sink.record(*records)
    sink.close(ENDS_S)
    return (folder / "controller.log").read_text()


def test_a_line_has_the_pattern_that_kafka_ships(tmp_path: Path) -> None:
    assert logged(tmp_path, ELECTED) == (
        f"[2026-01-31 03:14:00,123] INFO [Controller id={NODE}] {NODE} successfully elected as the controller. "
        "Epoch incremented to 7 and epoch zk version is now 12 (kafka.controller.KafkaController)\n"
    )


def test_the_file_of_a_past_hour_is_renamed(tmp_path: Path) -> None:
    clock = WallClock()
    files = KafkaLogFiles(tmp_path)
    line = Line(CONTROLLER, "INFO", "[Controller id=1] Resigned", "kafka.controller.KafkaController")
    files.write(clock.at_ms, line)
    files.close()
    (tmp_path / "controller.log").touch()

    files.write(clock.at_ms + HOUR_MS, line)
    files.close()

    rolled = [path.name for path in tmp_path.glob("controller.log.*")]
    assert len(rolled) == 1
    assert (tmp_path / "controller.log").read_text().startswith("[2026-01-31 04:14:00,123]")


def test_records_that_exceed_the_bound_are_left_out_and_counted(tmp_path: Path) -> None:
    """Nothing is written before the start, so that the first record alone fits."""
    sink = KafkaLogs(WallClock(), NODE, tmp_path, max_rows=1)
    sink.record(*[AlarmRecord("planted", "x")] * 500)
    sink.start()
    sink.close(ENDS_S)

    text = (tmp_path / "controller.log").read_text()
    assert text.count("Error planted: x") == 1
    assert "Error left out: 499 records, because the disk did not keep up" in text


def test_a_missing_folder_is_reported_once_and_costs_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    sink = KafkaLogs(WallClock(), NODE, folder)
    sink.start()
    folder.rmdir()
    with capture_logs() as lines:
        sink.record(ELECTED, ELECTED)
        sink.close(ENDS_S)

    assert [line["event"] for line in lines] == ["failed to write logs in Kafka's format"]
    assert not any(thread.name == "kafka-logs" for thread in threading.enumerate())
