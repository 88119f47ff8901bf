"""``/v1/partitions``: filters, order, pages, ETags, single partitions, and explanations."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

import msgspec
import pytest

from controllerd.core.cluster_settings import KAFKAS_DEFAULTS, Policy
from controllerd.core.model import PartitionState
from controllerd.record.records import EventBegin, EventEnd, LeadershipRecord
from controllerd.status.schema.cluster import PartitionDetail, PartitionItem, PartitionList, WhyResponse
from tests.status.fake_controller import FakeController, partition
from tests.status.reads.conftest import Client, asking


class FixedSettings(NamedTuple):
    """Settings with ``min.insync.replicas`` of 2, unless the topic has another value."""

    configs: Mapping[str, Mapping[str, str]]

    @property
    def version(self) -> int:
        return 1

    @property
    def policy(self) -> Policy:
        return KAFKAS_DEFAULTS

    async def of(self, topics: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        return {topic: self.configs.get(topic, {}) for topic in topics}

    def unclean_by_default(self) -> bool | None:
        return False

    async def min_isr_by_default(self) -> int | None:
        return 2


def names(answer: PartitionList) -> list[str]:
    return [f"{item.topic}-{item.partition}" for item in answer.items]


def led(topic: str, number: int, leader: int) -> LeadershipRecord:
    """One partition's new leadership."""
    return LeadershipRecord([topic], [number], [leader], [5], [[leader]], [11], [10], [0])


async def test_all_are_listed_in_order_of_topic_and_number(client: Client) -> None:
    answer = await client.get("/v1/partitions", PartitionList)

    assert names(answer) == ["audit-0", "orders-0", "orders-1", "orders-2"]
    assert (answer.total, answer.next_cursor) == (4, None)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"offline": "true"}, ["orders-2"]),
        ({"offline": "false"}, ["audit-0", "orders-0", "orders-1"]),
        ({"under_replicated": "true"}, ["orders-1", "orders-2"]),
        ({"non_preferred": "true"}, ["orders-1", "orders-2"]),
        ({"reassigning": "true"}, []),
        ({"leader": "2"}, ["orders-1"]),
        ({"leader": "-1"}, ["orders-2"]),
        ({"on": "9"}, []),
        ({"on": "3", "topic": "aud*"}, ["audit-0"]),
        ({"topic": "orders", "leader": "1"}, ["orders-0"]),
        ({"sort": "isr"}, ["orders-2", "orders-1", "audit-0", "orders-0"]),
        ({"sort": "-isr"}, ["audit-0", "orders-0", "orders-1", "orders-2"]),
        ({"sort": "leader"}, ["orders-2", "audit-0", "orders-0", "orders-1"]),
    ],
)
async def test_filters_select_as_kafkas_tools_do(client: Client, query: dict[str, str], expected: list[str]) -> None:
    answer = await client.get("/v1/partitions", PartitionList, **query)

    assert (names(answer), answer.total) == (expected, len(expected))


async def test_without_settings_a_filter_by_min_isr_is_refused(client: Client) -> None:
    assert (await client.refused("/v1/partitions", at_min_isr="true"))["code"] == "min_isr_unknown"


@pytest.mark.parametrize(
    ("query", "expected"),
    [({"at_min_isr": "true"}, ["audit-0", "orders-1"]), ({"under_min_isr": "true"}, ["orders-2"])],
)
async def test_partitions_at_and_under_their_min_isr_are_distinguished(
    controller: FakeController, query: dict[str, str], expected: list[str]
) -> None:
    controller.settings = FixedSettings({"audit": {"min.insync.replicas": "3"}})

    async with asking(controller) as client:
        answer = await client.get("/v1/partitions", PartitionList, **query)

    assert names(answer) == expected
    assert {(item.topic, item.min_isr) for item in answer.items} <= {("audit", 3), ("orders", 2)}


async def test_new_partitions_without_a_first_leader_are_waiting_and_not_offline(
    client: Client, controller: FakeController
) -> None:
    first = partition(0, 1, (1, 2))
    controller.put_topic("fresh", first, first._replace(partition=1, state=PartitionState.NEW, leadership=None))

    assert names(await client.get("/v1/partitions", PartitionList, waiting="true")) == ["fresh-1"]
    assert "fresh-1" not in names(await client.get("/v1/partitions", PartitionList, offline="true"))
    assert "fresh-1" not in names(await client.get("/v1/partitions", PartitionList, waiting="false"))


@pytest.mark.parametrize("path", ["/v1/topics", "/v1/replicas"])
async def test_a_cursor_of_another_list_is_refused(client: Client, path: str) -> None:
    page = await client.get(path, dict[str, object], limit=1)

    problem = await client.refused("/v1/partitions", cursor=str(page["next_cursor"]))

    assert (problem["status"], problem["code"]) == (400, "bad_cursor")


@pytest.mark.parametrize("sort", ["topic", "-isr", "leader", "replicas", "-leader_epoch"])
@pytest.mark.parametrize("limit", [1, 2, 3])
async def test_pages_together_are_the_whole_list(client: Client, sort: str, limit: int) -> None:
    whole = await client.get("/v1/partitions", PartitionList, sort=sort)
    pages: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = await client.get("/v1/partitions", PartitionList, sort=sort, limit=limit, cursor=cursor)
        assert (len(page.items) <= limit, page.total) == (True, 4)
        pages += names(page)
        cursor = page.next_cursor

    assert pages == names(whole)


async def test_a_cursor_stays_valid_when_its_topic_is_deleted(client: Client, controller: FakeController) -> None:
    first = await client.get("/v1/partitions", PartitionList, limit=2)
    del controller.snapshot.topics["orders"]
    controller.put_topic("payments", partition(0, 1, (1, 2, 3)))

    second = await client.get("/v1/partitions", PartitionList, limit=2, cursor=first.next_cursor or "")

    assert names(second) == ["payments-0"]


@pytest.mark.parametrize("cursor", ["nonsense", "eyJhIjoxfQ", "WyJsZWFkZXIiLDAsIm9yZGVycyIsMF0"])
async def test_an_invalid_cursor_is_refused(client: Client, cursor: str) -> None:
    problem = await client.refused("/v1/partitions", cursor=cursor)

    assert (problem["status"], problem["code"]) == (400, "bad_cursor")


@pytest.mark.parametrize(
    "query",
    [
        {"limit": "0"},
        {"limit": "-1"},
        {"limit": "2001"},
        {"limit": "x"},
        {"offline": "maybe"},
        {"sort": "name"},
        {"leader": "-2"},
    ],
)
async def test_invalid_values_are_refused(client: Client, query: dict[str, str]) -> None:
    problem = await client.refused("/v1/partitions", **query)

    assert (problem["status"], problem["code"]) == (400, "bad_parameter")
    assert next(iter(query)) in str(problem["detail"])


async def test_a_refused_value_has_the_allowed_ones_as_a_hint(client: Client) -> None:
    problem = await client.refused("/v1/partitions", sort="name")

    assert str(problem["hint"]).startswith("sort is one of topic, ")
    assert "cursor" not in str(problem["hint"])


async def test_an_unknown_parameter_is_refused_with_the_known_names(client: Client) -> None:
    problem = await client.refused("/v1/partitions", ofline="true")

    assert problem["status"] == 400
    assert "'ofline'" in str(problem["detail"])
    assert "under_replicated" in str(problem["hint"])


async def test_an_unchanged_list_is_not_sent_again(client: Client, controller: FakeController) -> None:
    _, headers = await client.headers("/v1/partitions")
    tag = headers["ETag"]

    assert (await client.headers("/v1/partitions", **{"If-None-Match": f'"other", {tag}'}))[0] == 304
    controller.put_topic("payments", partition(0, 1, (1, 2, 3)))
    assert (await client.headers("/v1/partitions", **{"If-None-Match": tag}))[0] == 200


async def test_a_list_has_the_last_change_of_each_partition(client: Client, controller: FakeController) -> None:
    controller.recent.record(EventBegin(7, "BrokerChange", 2, 0.0), led("orders", 2, 1), EventEnd(7, "", "done", 1.0))
    controller.recent.record(EventBegin(8, "BrokerChange", 2, 0.0), led("orders", 2, -1), EventEnd(8, "", "done", 1.0))

    answer = await client.get("/v1/partitions", PartitionList, topic="orders")

    assert [(item.last_event, item.since is not None) for item in answer.items] == [
        (None, False),
        (None, False),
        (8, True),
    ]


async def test_one_partition_has_its_last_transitions(client: Client, controller: FakeController) -> None:
    controller.recent.record(EventBegin(8, "BrokerChange", 2, 0.0), led("orders", 2, -1), EventEnd(8, "", "done", 1.0))

    answer = await client.get("/v1/partitions/orders/2", PartitionDetail)

    item = answer.partition
    assert (item.state, item.leader, item.isr, item.preferred) == ("OfflinePartition", -1, (3,), 1)
    assert [(each.event_id, each.event) for each in answer.transitions] == [(8, "BrokerChange")]


async def test_a_partition_in_quarantine_has_the_reason(client: Client, controller: FakeController) -> None:
    controller.snapshot.quarantine = {"/brokers/topics/orders/partitions/1/state": "not JSON"}

    answer = await client.get("/v1/partitions", PartitionList, topic="orders")

    assert [item.quarantine for item in answer.items] == [None, "not JSON", None]


@pytest.mark.parametrize(
    ("path", "code"),
    [("/v1/partitions/nothing/0", "unknown_topic"), ("/v1/partitions/orders/9", "unknown_partition")],
)
async def test_an_unknown_topic_or_partition_is_not_found(client: Client, path: str, code: str) -> None:
    problem = await client.refused(path)

    assert (problem["status"], problem["code"]) == (404, code)


async def test_an_offline_partition_is_explained(client: Client) -> None:
    answer = await client.get("/v1/partitions/orders/2/why", WhyResponse)

    assert (answer.why.subject, answer.why.condition, answer.why.severity) == ("orders-2", "offline", "critical")
    assert answer.why.causes
    assert answer.partition is not None


async def test_an_unknown_partition_is_explained(client: Client) -> None:
    answer = await client.get("/v1/partitions/nothing/0/why", WhyResponse)

    assert (answer.why.condition, answer.partition) == ("unknown", None)


def test_an_item_has_the_fields_that_the_interface_promises() -> None:
    promised = (
        "topic partition state leader leader_epoch isr replicas adding removing zk_version preferred since last_event"
    )

    assert set(promised.split()) <= {field.name for field in msgspec.structs.fields(PartitionItem)}
