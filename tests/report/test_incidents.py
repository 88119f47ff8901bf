"""Incidents with the chain of events that led to them."""

from replay.report.incidents import MOST_SHOWN, Incident, incidents
from tests.report.sample import CLUSTER, END_MS, FIRST_MS, Rows, row, sample, sample_meta


def causes(incident: Incident) -> list[str]:
    return [link.text for link in incident.links if link.is_cause]


def test_the_cause_is_in_the_event_that_began_the_first_window() -> None:
    first = incidents(sample(), sample_meta())[0]

    assert causes(first) == ["broker 3 is gone"]
    assert [link.phase for link in first.links[:4]] == ["before", "before", "before", "during"]
    assert [link.offset for link in first.links[2:5]] == ["-0.001 s", "+0.000 s", "+0.031 s"]


def test_a_cause_without_a_link_is_that_of_the_window() -> None:
    second = incidents(sample(), sample_meta())[1]

    assert causes(second) == ["LogDirEventNotification: log directory failed on broker 5"]
    assert second.links[0].at == second.start


def test_a_record_of_another_event_is_no_cause() -> None:
    tables = sample()
    for each in tables["timeline"]:
        each["event"] = 1

    assert causes(incidents(tables, sample_meta())[0]) == ["BrokerChange: broker 3 died"]


def test_without_numbers_of_events_the_broker_lost_just_before_is_the_cause() -> None:
    tables = sample()
    for each in tables["windows"]:
        each["start_event"] = 0

    assert causes(incidents(tables, sample_meta())[0]) == ["broker 3 is gone"]


def test_an_incident_that_lasts_is_measured_to_the_end_of_the_log() -> None:
    last = incidents(sample(), sample_meta())[2]

    assert last.is_open
    assert (last.end, last.lasted, last.longest) == ("", "4 min 12 s", "4 min 12 s")
    assert last.axis.end_ms >= END_MS


def test_the_chart_of_an_incident_counts_its_own_windows() -> None:
    assert [each.most for each in incidents(sample(), sample_meta())] == [36, 6, 1]


def test_only_the_worst_incidents_are_shown_in_the_order_of_time() -> None:
    tables: Rows = sample()
    tables["incidents"] = [
        row("incidents", incident=n, start_ms=FIRST_MS + n * 100_000, end_ms=FIRST_MS + n * 100_000 + 9, total_us=n)
        for n in range(1, MOST_SHOWN + 6)
    ]

    shown = incidents(tables, sample_meta())

    assert [each.number for each in shown] == list(range(6, MOST_SHOWN + 6))
    assert {each.cluster for each in shown} == {CLUSTER}
    assert len({each.anchor for each in shown}) == MOST_SHOWN


def test_the_command_opens_the_moment_at_which_it_began() -> None:
    first = incidents(sample(), sample_meta())[0]

    assert first.command == f"controllerctl replay at --time {first.start} /var/lib/controllerd/audit/payments-prod"
