"""Layouts: every conversion that brokers are configured with, and a clear refusal of unknown ones."""

import re

import pytest

from replay.facts.engine import ReplayError
from replay.ingest.kafka.layouts import KNOWN, SHIPPED, STRIMZI, compile_layout, fitting

MESSAGE = "[Controller id=1 epoch=2] Changed partition a-0 (really)"


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        (SHIPPED, f"[2026-01-31 03:14:15,926] INFO {MESSAGE} (state.change.logger)"),
        (STRIMZI, f"2026-01-31 03:14:15,926 INFO {MESSAGE} (state.change.logger) [controller-event-thread]"),
        (
            "%d{ISO8601} %-5p [%t] %c - %m%n",
            f"2026-01-31 03:14:15,926 INFO  [a thread] state.change.logger - {MESSAGE}",
        ),
        ("%d %5p %X{user} %m (%c)%n", f"2026-01-31 03:14:15,926  INFO somebody {MESSAGE} (state.change.logger)"),
        ("%d{DATE}|%p|%c|%m", f"31 Jan 2026 03:14:15,926|INFO|state.change.logger|{MESSAGE}"),
        (
            "%d{yyyy-MM-dd'T'HH:mm:ss.SSSXXX} 100%% %p (%F:%L) %m (%c)%n",
            f"2026-01-31T03:14:15.926+01:00 100% INFO (A.scala:12) {MESSAGE} (state.change.logger)",
        ),
        ("%date %level %msg [%logger]%n", f"2026-01-31 03:14:15,926 INFO {MESSAGE} [state.change.logger]"),
    ],
)
def test_a_layout_reads_the_lines_that_it_writes(pattern: str, line: str) -> None:
    match = compile_layout(pattern).line.match(line)

    assert match is not None
    assert (match["message"], match["logger"], match["level"]) == (MESSAGE, "state.change.logger", "INFO")


def test_a_layout_without_logger_still_reads_messages() -> None:
    match = compile_layout("%d %m%n").line.match(f"2026-01-31 03:14:15,926 {MESSAGE}")

    assert match is not None
    assert match["message"] == MESSAGE


def test_a_layout_does_not_read_lines_of_another() -> None:
    line = f"[2026-01-31 03:14:15,926] INFO {MESSAGE} (state.change.logger)"

    assert compile_layout(STRIMZI).line.match(line) is None
    assert (
        compile_layout(SHIPPED).line.match("\tat kafka.controller.KafkaController.elect(KafkaController.scala:1)")
        is None
    )


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("%p %m%n", "needs a date (%d)"),
        ("%d %p%n", "needs a date (%d) and a message (%m)"),
        ("%d %q %m%n", "has %q, which is not known"),
        ("%d{ABSOLUTE} %m%n", "has no day"),
        ("%d{HH:mm:ss} %m%n", "has no day"),
        ("%d{yyyy-MM-dd KK:mm:ss} %m%n", "has 'KK', which is not known"),
        ("%d % %m%n", "write a percent sign as %%"),
    ],
)
def test_a_pattern_that_cannot_be_read_is_refused_with_the_reason(pattern: str, says: str) -> None:
    with pytest.raises(ReplayError, match=re.escape(says)):
        compile_layout(pattern)


def test_the_layout_that_most_lines_have_is_taken() -> None:
    lines = ["a banner", f"2026-01-31 03:14:15,926 INFO {MESSAGE} (state.change.logger) [main]"]

    found = fitting(lines)

    assert found is not None
    assert found.text == STRIMZI
    assert fitting(["a banner"]) is None
    assert KNOWN[0] == SHIPPED
