"""The page about tools and clients has the results that the tests saw, and the tests cover the promised actions."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.tools import seen
from tests.tools.cells import CELLS, WAYS, Cell, Way
from tests.tools.libraries import CREATE, DELETE, DESCRIBE, ELECT, EXPAND, MOVE
from tests.tools.page import NOT_SEEN, PAGE, ordered, page, results

FILTERS: Final = ("--under-replicated-", "--unavailable-", "--under-min-isr-", "--at-min-isr-")
BOTH: Final = ("a partition", "--path-to-json-file", "--all-topic-partitions")
GROUPS: Final = ("--list", "--describe", "--reset-offsets", "--delete")
MOVES: Final = ("--generate", "--execute", "--throttle", "--list", "--verify", "--cancel", "--additional")
PROMISED: Final[Mapping[str, tuple[str, ...]]] = {
    "org.apache.kafka.tools.TopicCommand": ("--create", "--describe", "--alter --partitions", "--delete", *FILTERS),
    "org.apache.kafka.tools.reassign.ReassignPartitionsCommand": MOVES,
    "org.apache.kafka.tools.LeaderElectionCommand": ("preferred", "unclean"),
    "kafka.admin.ConfigCommand": ("topics:", "brokers:", "users:", "clients"),
    "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand": (
        "--list",
        "--describe",
        "--reset-offsets",
        "--delete",
    ),
    "org.apache.kafka.tools.LogDirsCommand": ("--describe",),
    "kafka.admin.BrokerApiVersionsCommand": ("all nodes",),
    "org.apache.kafka.tools.FeatureCommand": ("describe", "upgrade"),
    "org.apache.kafka.tools.ClusterTool": ("cluster-id",),
    "kafka.tools.ConsoleProducer": ("standard input",),
    "org.apache.kafka.tools.consumer.ConsoleConsumer": ("--group",),
    "org.apache.kafka.tools.ProducerPerformance": ("acks=all", "idempotence", "--transactional-id"),
    "org.apache.kafka.tools.GetOffsetShell": ("offsets",),
    "kafka.admin.AclCommand": ("--list",),
    "AdminClient": (CREATE, EXPAND, ELECT, MOVE, DELETE, DESCRIBE),
    "KafkaAdminClient": (CREATE, EXPAND, ELECT, MOVE, DELETE, DESCRIBE),
}


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == page(), "run: python -m tests.tools.page"


def test_every_result_was_seen_by_way_of_every_bootstrap_server() -> None:
    known = seen.read()
    missing = [each.id for each in CELLS if NOT_SEEN in results(each, known)]

    assert missing == [], f"run tests/real/test_tools.py with {seen.VARIABLE}=1"


def test_no_result_is_kept_of_a_removed_cell() -> None:
    assert seen.read().keys() - {each.id for each in CELLS} == set()


@pytest.mark.parametrize(("client", "words"), PROMISED.items(), ids=PROMISED.keys())
def test_every_client_has_the_promised_actions(client: str, words: tuple[str, ...]) -> None:
    actions = " | ".join(each.action for each in CELLS if each.client.main_class == client)

    assert [word for word in words if word not in actions] == []


@pytest.mark.parametrize("kind", ["preferred", "unclean"])
def test_elections_of_each_kind_are_tried_of_one_partition_of_some_and_of_all(kind: str) -> None:
    actions = " | ".join(each.action for each in CELLS if kind in each.action and "election" in each.client.name)

    assert [word for word in BOTH if word not in actions] == []


def test_every_cell_is_on_the_page_once() -> None:
    assert Counter(each.id for _, cells in ordered() for each in cells) == Counter(each.id for each in CELLS)


def test_no_two_cells_share_a_name() -> None:
    assert [name for name, times in Counter(each.id for each in CELLS).items() if times > 1] == []


async def _nothing(_: Way) -> None: ...


async def _nothing_else(_: Way) -> None:
    """Another source."""


CELL: Final = Cell(CELLS[0].client, "an action", _nothing)
CHANGED: Final = Cell(CELLS[0].client, "an action", _nothing_else)


class TestSeenResults:
    @pytest.fixture
    def record(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv(seen.VARIABLE, "1")
        return tmp_path / "seen.json"

    def test_is_on_the_page_only_for_the_bootstrap_server_where_it_was_seen(self, record: Path) -> None:
        seen.note(CELL, WAYS[1], True, record)

        assert results(CELL, seen.read(record)) == [NOT_SEEN, CELL.result]

    def test_counts_as_not_seen_when_the_cell_has_changed(self, record: Path) -> None:
        seen.note(CELL, WAYS[0], True, record)

        assert results(CHANGED, seen.read(record)) == [NOT_SEEN, NOT_SEEN]

    def test_is_forgotten_when_the_cell_fails(self, record: Path) -> None:
        for held in (True, False):
            seen.note(CELL, WAYS[0], held, record)

        assert results(CELL, seen.read(record)) == [NOT_SEEN, NOT_SEEN]

    def test_is_kept_only_where_that_is_asked_for(self, record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv(seen.VARIABLE)
        seen.note(CELL, WAYS[0], True, record)

        assert not record.exists()
