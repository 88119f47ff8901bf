"""``controllerctl get``, ``describe`` and ``why``: every list in every format, against the types of the schema."""

from collections.abc import Iterator

import msgspec
import pytest
import yaml

from controllerd.status.schema.common import Problem
from tests.cli.documents import DOCUMENTS, META, PARTITION, Daemon, answering, run

LISTS = {
    "brokers": "/v1/brokers",
    "balance": "/v1/brokers",
    "topics": "/v1/topics",
    "partitions": "/v1/partitions",
    "replicas": "/v1/replicas",
    "queue": "/v1/queue",
    "requests": "/v1/requests",
    "reassignments": "/v1/reassignments",
    "deletions": "/v1/deletions",
    "elections": "/v1/elections",
    "history": "/v1/history",
    "tasks": "/v1/tasks",
}
ONE = {
    ("describe", "topic", "payments"): "/v1/topics/payments",
    ("describe", "partition", "payments-7"): "/v1/partitions/payments/7",
    ("describe", "broker", "3"): "/v1/brokers/3",
    ("why", "payments-7"): "/v1/partitions/payments/7/why",
}
COMMANDS = {("get", noun): path for noun, path in LISTS.items()} | ONE


@pytest.fixture
def daemon() -> Daemon:
    """A leader."""
    return Daemon()


@pytest.fixture
def api(daemon: Daemon) -> Iterator[str]:
    """Its address."""
    with answering(daemon) as url:
        yield url


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_json_is_the_document_of_the_schema(api: str, command: tuple[str, ...]) -> None:
    outcome = run(*command, "--api", api, "-o", "json")

    document = DOCUMENTS[COMMANDS[command]]
    assert outcome.code == 0, outcome.err
    assert msgspec.json.decode(outcome.out, type=type(document), strict=True) == document


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_yaml_is_the_same_document(api: str, command: tuple[str, ...]) -> None:
    outcome = run(*command, "--api", api, "-o", "yaml")

    document = DOCUMENTS[COMMANDS[command]]
    assert msgspec.convert(yaml.safe_load(outcome.out), type(document)) == document


@pytest.mark.parametrize("noun", LISTS)
def test_jsonl_is_an_item_on_each_line(api: str, noun: str) -> None:
    outcome = run("get", noun, "--api", api, "-o", "jsonl")

    items = DOCUMENTS[LISTS[noun]].items  # type: ignore[attr-defined]  # every list has items
    assert [msgspec.json.decode(line, type=type(items[0])) for line in outcome.out.splitlines()] == items


@pytest.mark.parametrize(
    ("noun", "names"),
    [
        ("brokers", "3 5"),
        ("balance", "3 5"),
        ("topics", "payments"),
        ("partitions", "payments-7"),
        ("replicas", "payments-7-5"),
        ("queue", "9 10"),
        ("requests", "3"),
        ("reassignments", "payments-7"),
        ("deletions", "old"),
        ("elections", "payments-7"),
        ("history", "12"),
        ("tasks", "t1"),
    ],
)
def test_names_can_be_given_to_other_commands(api: str, noun: str, names: str) -> None:
    assert run("get", noun, "--api", api, "-o", "name").out.split() == names.split()


@pytest.mark.parametrize("noun", LISTS)
def test_a_table_has_a_line_for_each_item_and_wide_never_has_fewer_columns(api: str, noun: str) -> None:
    table, wide = (run("get", noun, "--api", api, "-o", how).out.splitlines() for how in ("table", "wide"))

    items = DOCUMENTS[LISTS[noun]].items  # type: ignore[attr-defined]
    assert len(table) == len(wide) == 1 + len(items)
    assert set(table[0].split()) <= set(wide[0].split())


def test_tables_have_human_units(api: str) -> None:
    line = run("get", "reassignments", "--api", api).out.splitlines()[1]

    assert [what for what in ("42.0%", "5.0 GiB", "48 MiB/s", "1m47s") if what not in line] == []


def test_headings_can_be_left_out(api: str) -> None:
    assert run("get", "topics", "--api", api, "--no-headers").out.startswith("payments ")


def test_filters_are_sent_to_the_daemon(daemon: Daemon, api: str) -> None:
    run("get", "partitions", "--offline", "--on", "3", "--topic", "pay*", "--sort", "-isr", "--api", api)

    assert daemon.asked[0] == "/v1/partitions?offline=true&on=3&topic=pay%2A&sort=-isr&limit=1000"


def test_an_empty_list_is_a_sentence_and_no_error(daemon: Daemon, api: str) -> None:
    daemon.documents["/v1/partitions"] = msgspec.structs.replace(DOCUMENTS["/v1/partitions"], items=[], total=0)

    outcome = run("get", "partitions", "--offline", "--leader", "3", "--api", api)

    assert (outcome.code, outcome.out) == (0, "no partitions (offline, leader 3)\n")


def test_an_empty_list_of_a_standby_is_not_reported_as_empty(daemon: Daemon, api: str) -> None:
    daemon.documents["/v1/partitions"] = msgspec.structs.replace(DOCUMENTS["/v1/partitions"], items=[], total=0)
    daemon.role = "standby"

    outcome = run("get", "partitions", "--offline", "--api", api)

    assert outcome.out == "no partitions (offline), as far as is known here\n"


def test_an_empty_list_of_names_prints_nothing(daemon: Daemon, api: str) -> None:
    daemon.documents["/v1/topics"] = msgspec.structs.replace(DOCUMENTS["/v1/topics"], items=[], total=0)

    assert run("get", "topics", "-o", "name", "--api", api).out == ""


def _many(number: int) -> msgspec.Struct:
    items = [msgspec.structs.replace(PARTITION, partition=n) for n in range(number)]
    return msgspec.structs.replace(DOCUMENTS["/v1/partitions"], items=items, total=number)


def test_pages_are_fetched_to_the_end_and_joined(daemon: Daemon, api: str) -> None:
    daemon.documents["/v1/partitions"] = _many(2500)

    found = msgspec.json.decode(run("get", "partitions", "--api", api, "-o", "json").out)

    assert [item["partition"] for item in found["items"]] == list(range(2500))
    assert found["next_cursor"] is None
    assert sum(target.startswith("/v1/partitions") for target in daemon.asked) == 3


def test_fetching_many_pages_prints_progress(daemon: Daemon, api: str) -> None:
    daemon.documents["/v1/partitions"] = _many(6000)

    loud, quiet = (run("get", "partitions", "--api", api, "-o", "name", *more) for more in ((), ("-q",)))

    assert "read 5000 of 6000" in loud.err
    assert (quiet.err, quiet.out) == ("", loud.out)


def test_no_more_items_are_requested_than_the_limit(daemon: Daemon, api: str) -> None:
    daemon.documents["/v1/partitions"] = _many(2500)

    outcome = run("get", "partitions", "--limit", "1200", "--api", api, "-o", "name")

    assert len(outcome.out.splitlines()) == 1200
    assert "limit=200&cursor=1000" in daemon.asked[1]


def test_a_standby_shows_its_own_view_with_a_note(daemon: Daemon, api: str) -> None:
    daemon.role = "standby"

    outcome = run("get", "topics", "--api", api)

    assert (outcome.code, "payments" in outcome.out) == (0, True)
    assert "standby: broker 2 (built-in) leads" in outcome.err


@pytest.mark.parametrize(
    ("status", "code"), [(400, 2), (401, 77), (403, 77), (404, 3), (409, 4), (500, 70), (503, 69), (504, 124)]
)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_refusal_has_its_exit_code_and_its_message(
    daemon: Daemon, api: str, command: tuple[str, ...], status: int, code: int
) -> None:
    daemon.problem = Problem(title="no", status=status, detail="it is not to be", code="no", hint="do this")

    outcome = run(*command, "--api", api)

    assert (outcome.code, outcome.out) == (code, "")
    assert "it is not to be (no); do this" in outcome.err


def test_why_prints_the_headline_the_causes_and_advice(api: str) -> None:
    outcome = run("why", "payments-7", "--api", api)

    assert outcome.out.splitlines()[0] == "payments-7 is OFFLINE for 4m12s"
    assert "broker 5 left /brokers/ids" in outcome.out
    assert outcome.out.splitlines()[-1] == "next: bring broker 5 back"


def test_why_takes_a_topic_with_a_number_for_a_topic_where_there_is_no_such_partition(api: str) -> None:
    """The daemon answers for a partition that does not exist: the answer says so."""
    outcome = run("why", "payments-8", "--api", api)

    assert (outcome.code, outcome.out.splitlines()[0]) == (0, "payments-8 is a topic")


def test_why_of_an_unknown_name_reports_the_partition(api: str) -> None:
    outcome = run("why", "gone-3", "--api", api)

    assert (outcome.code, outcome.out.splitlines()[0]) == (3, "topic gone has no partition 3")


def test_why_of_an_unknown_topic_is_not_found(api: str) -> None:
    outcome = run("why", "nothing-3", "--api", api)

    assert outcome.code == 3
    assert "/v1/partitions/nothing/3/why is not there" in outcome.err


def test_a_partition_is_described_with_its_events_and_queued_work(api: str) -> None:
    outcome = run("describe", "partition", "payments-7", "--api", api)

    assert "state        OfflinePartition since 2026-01-31T03:14:00.000Z\n" in outcome.out
    assert "last change  event 88121\n" in outcome.out
    assert "88121 BrokerChange" in outcome.out
    assert "LeaderAndIsr" in outcome.out


def test_a_broker_is_described_with_its_events(api: str) -> None:
    outcome = run("describe", "broker", "3", "--api", api)

    assert "recent changes, newest last" in outcome.out
    assert "88121 BrokerChange" in outcome.out


def test_a_topic_is_described_with_its_partitions(daemon: Daemon, api: str) -> None:
    outcome = run("describe", "topic", "payments", "--api", api)

    assert "1 offline, 2 under-replicated, 3 not led by the preferred replica, 1 reassigning" in outcome.out
    assert "payments-7  OfflinePartition" in outcome.out
    assert "/v1/partitions?topic=payments&limit=1000" in daemon.asked


def test_an_invalid_partition_is_wrong_usage(api: str) -> None:
    assert run("describe", "partition", "payments", "--api", api).code == 2


def test_unknown_fields_of_a_newer_daemon_are_kept_in_json(daemon: Daemon, api: str) -> None:
    class NewerList(msgspec.Struct):
        meta: object
        items: list[dict[str, object]]
        total: int = 1
        kind: str = "TopicList"
        colour: str = "green"

    topic = msgspec.to_builtins(DOCUMENTS["/v1/topics"])["items"][0]
    daemon.documents["/v1/topics"] = NewerList(meta=META, items=[topic | {"shape": "round"}])

    found = msgspec.json.decode(run("get", "topics", "--api", api, "-o", "json").out)

    assert (found["colour"], found["items"][0]["shape"]) == ("green", "round")
