"""``controllerctl diff``: where three views of the cluster differ, and two moments of a log."""

from collections.abc import Iterator

import msgspec
import pytest
import yaml

from controllerd.status.reads.comparison import Comparison, ComparisonProgress, Differing
from controllerd.status.schema.work import Difference, DifferenceList
from tests.cli.documents import META, Daemon, answering, run
from tests.cli.running import controllerctl
from tests.status.fake_controller import FakeController, serving

FOUND = DifferenceList(
    meta=META,
    items=[Difference(subject="payments-7", field="leader", zookeeper="3", memory="5", broker="1: 5")],
    compared=40,
    brokers=[1, 2],
    notes=["broker 3 was not compared: it did not tell in 10 s"],
)


@pytest.fixture
def daemon() -> Daemon:
    """One that finds a difference."""
    return Daemon({"/v1/diff": FOUND})


@pytest.fixture
def api(daemon: Daemon) -> Iterator[str]:
    """Its address."""
    with answering(daemon) as url:
        yield url


def test_a_difference_is_a_row_and_ends_with_1(daemon: Daemon, api: str) -> None:
    outcome = run("diff", "--api", api)

    assert (outcome.code, daemon.asked) == (1, ["/v1/diff?brokers=true"])
    assert outcome.out.splitlines()[1].split() == ["payments-7", "leader", "3", "5", "1:", "5"]
    assert "compared: 40 partitions; metadata of brokers: 1,2" in outcome.err
    assert "broker 3 was not compared" in outcome.err


def test_every_format_has_the_shape_of_the_schema(api: str) -> None:
    assert msgspec.json.decode(run("diff", "--api", api, "-o", "json").out, type=DifferenceList) == FOUND
    assert msgspec.convert(yaml.safe_load(run("diff", "--api", api, "-o", "yaml").out), DifferenceList) == FOUND
    assert msgspec.json.decode(run("diff", "--api", api, "-o", "jsonl").out, type=Difference) == FOUND.items[0]
    assert run("diff", "--api", api, "-o", "name").out == "payments-7\n"
    assert len(run("diff", "--api", api, "-o", "wide").out.splitlines()) == 2


def test_no_difference_ends_with_0(daemon: Daemon, api: str) -> None:
    daemon.documents["/v1/diff"] = msgspec.structs.replace(FOUND, items=[])

    outcome = run("diff", "--no-brokers", "--api", api)

    assert (outcome.code, outcome.out) == (0, "no differences\n")
    assert daemon.asked == ["/v1/diff?brokers=false"]


def test_moments_need_a_log_and_a_log_moments() -> None:
    assert run("diff", "--at", "2026-01-31T03:00:00Z").code == 2
    assert run("diff", "/nowhere").code == 2


def test_two_moments_are_compared_by_files(tmp_path_factory: pytest.TempPathFactory) -> None:
    empty = tmp_path_factory.mktemp("log")

    outcome = run("diff", "--at", "1769828400000", "--at", "1769832000000", str(empty))

    assert outcome.code == 66


async def found(_with_brokers: bool, _progress: ComparisonProgress) -> Comparison:
    """A comparison that found something."""
    return Comparison(
        differences=(Differing("t-0", "leader", "2", "1"),), partitions=3, brokers=(1,), unanswered={2: "gone"}
    )


async def test_the_daemon_compares_and_names_the_brokers_it_could_not_ask(controller: FakeController) -> None:
    controller.compare = found

    async with serving(controller) as url:
        outcome = await controllerctl("diff", "--api", url, "-o", "json")

    answer = msgspec.json.decode(outcome.out, type=DifferenceList)
    assert (outcome.code, answer.compared, answer.brokers) == (1, 3, [1])
    assert answer.notes == ["broker 2 was not compared: gone"]


async def test_a_standby_has_nothing_to_compare(controller: FakeController) -> None:
    controller.compare = found
    controller.stand_by("broker 2 (built-in) leads")

    async with serving(controller) as url:
        outcome = await controllerctl("diff", "--api", url)

    assert (outcome.code, "broker 2 (built-in) leads" in outcome.err) == (4, True)


@pytest.fixture
def controller() -> FakeController:
    """One that leads."""
    controller = FakeController()
    controller.lead(3)
    return controller
