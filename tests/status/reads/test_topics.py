"""``/v1/topics``: counts, filters, order, and explanations."""

import pytest

from controllerd.record.records import TopicsRecord
from controllerd.status.schema.cluster import TopicDetail, TopicList, WhyResponse
from tests.status.fake_controller import FakeController
from tests.status.reads.conftest import Client


async def test_topics_have_their_counts(client: Client) -> None:
    audit, orders = (await client.get("/v1/topics", TopicList)).items

    assert (audit.topic, audit.partitions, audit.replication_factor, audit.under_replicated) == ("audit", 1, 3, 0)
    assert (orders.partitions, orders.offline, orders.under_replicated, orders.non_preferred) == (3, 1, 2, 2)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"offline": "true"}, ["orders"]),
        ({"under_replicated": "false"}, ["audit"]),
        ({"deleting": "true"}, []),
        ({"topic": "*d*"}, ["audit", "orders"]),
        ({"sort": "-offline"}, ["orders", "audit"]),
    ],
)
async def test_topics_are_filtered_and_sorted(client: Client, query: dict[str, str], expected: list[str]) -> None:
    answer = await client.get("/v1/topics", TopicList, **query)

    assert ([item.topic for item in answer.items], answer.total) == (expected, len(expected))


async def test_the_next_page_begins_after_the_last_topic(client: Client) -> None:
    first = await client.get("/v1/topics", TopicList, limit=1)
    second = await client.get("/v1/topics", TopicList, limit=1, cursor=first.next_cursor or "")

    assert [item.topic for item in (*first.items, *second.items)] == ["audit", "orders"]
    assert second.next_cursor is None


async def test_one_topic_has_its_last_transitions(client: Client, controller: FakeController) -> None:
    controller.recent.record(TopicsRecord(["orders"], ["abc"], [0]))

    answer = await client.get("/v1/topics/orders", TopicDetail)

    assert (answer.topic.topic, answer.topic.partitions) == ("orders", 3)
    assert len(answer.transitions) == 1


async def test_a_topic_in_quarantine_is_not_found_and_has_the_reason(
    client: Client, controller: FakeController
) -> None:
    controller.snapshot.quarantine = {"/brokers/topics/broken": "not JSON"}

    problem = await client.refused("/v1/topics/broken")

    assert (problem["status"], problem["code"]) == (404, "unknown_topic")
    assert "not JSON" in str(problem["detail"])


async def test_a_topic_is_explained_by_its_worst_partitions(client: Client) -> None:
    answer = await client.get("/v1/topics/orders/why", WhyResponse)

    assert (answer.why.subject, answer.why.condition) == ("orders", "offline")
