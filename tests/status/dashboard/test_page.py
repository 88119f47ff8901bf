"""The page as the server renders it, without scripts."""

import asyncio
import re
import shlex
from collections.abc import AsyncIterator
from html import unescape
from html.parser import HTMLParser
from typing import get_args

import aiohttp
import pytest

from cli.app import main as controllerctl
from controllerd.config.model import Address, HttpConfig, Secret
from controllerd.core.model import BrokerId
from controllerd.status.dashboard.page import ListName
from controllerd.status.server import StatusServer
from controllerd.views import ChannelView, SessionView, WorkerView
from tests.status.dashboard.scenes import MARKUP, calm, hold_much, lose_broker_2, talk_markup
from tests.status.fake_controller import FakeController, partition, serving

TOKEN = "r" * 32
LINK = re.compile(r'href="([^"]*)"|src="([^"]*)"')


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(10)) as session:
        yield session


async def get(http: aiohttp.ClientSession, controller: FakeController, path: str = "/") -> str:
    """The page as the server renders it now."""
    async with serving(controller) as url, http.get(url + path) as response:
        assert response.status == 200
        return await response.text()


class Text(HTMLParser):
    """The text of each element with an id, and the tags, copied commands and links of the page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.by_id: dict[str, str] = {}
        self.tags: list[str] = []
        self.copied: list[str] = []
        self.links: dict[str, str] = {}
        """The target of the last link within each element with an id."""
        self._open: list[tuple[str, str | None]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append(tag)
        self.copied += [given["data-copy"] or ""] if "data-copy" in given else []
        if "href" in given:
            self.links |= {identity: given["href"] or "" for _, identity in self._open if identity is not None}
        if tag not in {"meta", "link", "input", "br"}:
            self._open.append((tag, given.get("id")))

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        for _, identity in self._open:
            if identity is not None:
                self.by_id[identity] = f"{self.by_id.get(identity, '')} {data.strip()}".strip()


async def read(http: aiohttp.ClientSession, controller: FakeController, path: str = "/") -> Text:
    return Text(await get(http, controller, path))


# -- headline and tiles ------------------------------------------------------------------------------------------------


async def test_the_headline_of_a_healthy_cluster_says_so(http: aiohttp.ClientSession) -> None:
    page = await read(http, calm())

    assert page.by_id["headline-sentence"] == "All is well"
    assert "7 partitions of 2 topics on 3 brokers" in page.by_id["headline"]
    assert page.by_id["tile-offline"].startswith("Offline 0 ✓ OK")


async def test_a_dead_broker_is_named_with_its_effects_and_next_steps(http: aiohttp.ClientSession) -> None:
    controller = calm()
    lose_broker_2(controller)

    page = await read(http, controller)

    expected = "3 partitions offline and 6 under-replicated because broker 2 is gone"
    assert page.by_id["headline-sentence"] == expected
    assert "bring broker 2 back, or accept data loss:" in page.by_id["headline"]
    assert "controllerctl elect unclean --topic orders --partition 0" in page.copied
    assert page.by_id["tile-offline"].startswith("Offline 3 ✕ Critical")
    assert page.by_id["tile-under-replicated"].startswith("Under-replicated 6 ! Warning")
    assert "✕ gone" in page.by_id["broker-2"]


async def test_the_controller_and_this_instance_are_named(http: aiohttp.ClientSession) -> None:
    page = await read(http, calm())

    assert "controllerd 2000000001 this instance epoch 12, for 4m12s" in page.by_id["instance"]
    assert "active elected with epoch 12" in page.by_id["instance"]
    assert "connected session 0x10000ab" in page.by_id["instance"]


async def test_a_standby_names_the_active_controller_and_shows_no_figures(http: aiohttp.ClientSession) -> None:
    page = await read(http, FakeController())

    assert page.by_id["headline-sentence"].startswith(
        "This instance is standby: broker 2 (built-in) is the active controller"
    )
    assert page.by_id["tile-offline"].startswith("Offline - ○ Unknown")
    assert "not known here" in page.by_id["instance"]


async def test_a_list_of_a_standby_does_not_claim_that_it_is_empty(http: aiohttp.ClientSession) -> None:
    page = await read(http, FakeController(), "/?list=offline")

    assert "This instance does not know the partitions" in page.by_id["list"]


async def test_an_observer_shows_figures_and_its_role(http: aiohttp.ClientSession) -> None:
    controller = calm()
    controller.observe()

    page = await read(http, controller)

    assert "this instance is an observer" in page.by_id["notices"]
    assert page.by_id["tile-offline"].startswith("Offline 1 ✕ Critical")


async def test_a_suspended_session_is_the_headline(http: aiohttp.ClientSession) -> None:
    controller = calm()
    controller.session = SessionView("suspended", 1, 1)

    page = await read(http, controller)

    assert "The ZooKeeper session of this instance is suspended" in page.by_id["headline-sentence"]
    assert "controllerctl doctor --zk HOSTS" in page.copied


async def test_an_event_without_progress_is_the_headline(http: aiohttp.ClientSession) -> None:
    controller = calm()
    controller.worker = WorkerView("BrokerChange", 7, running_s=45.0, since_progress_s=45.0)

    page = await read(http, controller)

    assert "Event 7 BrokerChange is being handled for 45s without progress" in page.by_id["headline-sentence"]
    assert page.by_id["tile-queue"].startswith("Queue age 45s ✕ Critical")


async def test_an_unreachable_broker_is_the_headline_of_an_otherwise_healthy_cluster(
    http: aiohttp.ClientSession,
) -> None:
    controller = calm()
    controller.channels[BrokerId(3)] = ChannelView(4, 12.0, connected=False, error="connection refused")

    page = await read(http, controller)

    expected = "Broker 3 does not receive requests because connection refused"
    assert page.by_id["headline-sentence"] == expected
    assert "! unreachable" in page.by_id["broker-3"]
    assert "4 requests wait, the oldest for 12s" in page.by_id["broker-3"]


async def test_a_missing_first_leader_is_as_critical_as_a_lost_one(http: aiohttp.ClientSession) -> None:
    controller = calm()
    waiting = partition(0, 1, (1,), (8, 9))
    new = waiting._replace(state=type(waiting.state).NEW, leadership=None)
    controller.put_topic("fresh", new)

    page = await read(http, controller)

    assert page.by_id["headline-sentence"].startswith("1 partition without a first leader because brokers 8,9 are gone")
    assert page.by_id["tile-offline"].startswith("Offline 0 ✕ Critical and 1 new without a first leader")
    assert page.links["tile-offline"] == "/?list=waiting#list"
    listed = await read(http, controller, "/?list=waiting")
    assert "Waiting partitions 1" in listed.by_id["list-title"]
    assert "controllerctl why fresh-0" in listed.copied


async def test_the_list_of_offline_partitions_links_to_partitions_without_a_first_leader(
    http: aiohttp.ClientSession,
) -> None:
    controller = calm()
    lose_broker_2(controller)
    waiting = partition(0, 1, (1,), (8, 9))
    controller.put_topic("fresh", waiting._replace(state=type(waiting.state).NEW, leadership=None))

    page = await read(http, controller, "/?list=offline")

    assert page.links["tile-offline"] == "/?list=offline#list"
    assert "and 1 new without a first leader" in page.by_id["list"]


# -- the other parts --------------------------------------------------------------------------------------------------


async def test_pauses_throttle_quarantine_and_alarms_are_notices(http: aiohttp.ClientSession) -> None:
    controller = calm()
    hold_much(controller)

    page = await read(http, controller)

    assert "auto-rebalance is paused by anna until 22:47:32Z: release weekend" in page.by_id["notices"]
    assert "replication is throttled 48 MiB/s per broker for 1 reassignment, set by anna" in page.by_id["notices"]
    assert "left alone: /brokers/topics/broken not JSON" in page.by_id["notices"]
    assert "alarm: topic znode was not written broken: it is not ours" in page.by_id["notices"]
    assert "controllerctl resume auto-rebalance" in page.copied


async def test_reassignments_and_deletions_show_the_reason_for_a_wait(http: aiohttp.ClientSession) -> None:
    controller = calm()
    hold_much(controller)

    page = await read(http, controller)

    assert "progress not known end not known throttled to 48 MiB/s" in page.by_id["reassignments"]
    assert "waits: broker 4 is not alive" in page.by_id["reassignments"]
    assert "held up: broker 2 not online" in page.by_id["deletions"]


async def test_the_queue_shows_ended_events_and_the_feed_shows_records(http: aiohttp.ClientSession) -> None:
    controller = calm()
    lose_broker_2(controller)

    page = await read(http, controller)

    assert "41 BrokerChange done" in page.by_id["queue"]
    assert "brokers broker 2 gone" in page.by_id["happenings"]


async def test_leaders_are_shown_beside_preferred_leaders(http: aiohttp.ClientSession) -> None:
    page = await read(http, calm())

    assert "3 leaders of 3 preferred skew +29 % 7 replicas" in page.by_id["broker-1"]


# -- questions ---------------------------------------------------------------------------------------------------------


async def test_an_explanation_needs_no_scripts(http: aiohttp.ClientSession) -> None:
    controller = calm()
    lose_broker_2(controller)

    page = await read(http, controller, "/?why=orders-2")

    assert page.by_id["why-headline"].startswith("✕ orders-2 is OFFLINE")
    assert "broker 2 left /brokers/ids" in page.by_id["why"]
    assert "controllerctl why orders-2" in page.copied


async def test_a_topic_whose_name_looks_like_a_partition_is_the_topic(http: aiohttp.ClientSession) -> None:
    controller = calm()
    controller.put_topic("orders-70", partition(0, 1, (1, 2, 3)))

    page = await read(http, controller, "/?why=orders-70")

    assert "orders-70 is healthy (1 partition)" in page.by_id["why-headline"]


async def test_a_partition_comes_before_a_topic_of_the_same_name_as_on_the_command_line(
    http: aiohttp.ClientSession,
) -> None:
    controller = calm()
    controller.put_topic("audit-log-0", partition(0, 2, (1, 2, 3)), partition(1, 2, (1, 2, 3)))

    page = await read(http, controller, "/?why=audit-log-0")

    assert "audit-log-0 is healthy, led by broker 1" in page.by_id["why-headline"]


async def test_an_unknown_topic_has_an_explanation(http: aiohttp.ClientSession) -> None:
    page = await read(http, calm(), "/?why=nowhere")

    assert "nowhere" in page.by_id["why-headline"]
    assert "controllerctl why nowhere" in page.copied


@pytest.mark.parametrize(
    ("name", "rows"), [("offline", 3), ("under-replicated", 6), ("non-preferred", 3), ("reassigning", 0)]
)
async def test_each_tile_links_to_the_partitions_that_it_counts(
    http: aiohttp.ClientSession, name: str, rows: int
) -> None:
    controller = calm()
    lose_broker_2(controller)

    page = await read(http, controller, f"/?list={name}")

    assert f"{name.capitalize()} partitions {rows}" in page.by_id["list-title"]
    assert sum(text.startswith("controllerctl why orders-") for text in page.copied) == rows


async def test_a_long_list_continues_on_the_next_page(http: aiohttp.ClientSession) -> None:
    controller = calm()
    controller.put_topic("wide", *(partition(n, -1, (2,), (2, 1)) for n in range(130)))

    async with serving(controller) as url:
        async with http.get(f"{url}/?list=offline") as response:
            first = await response.text()
        following = next(unescape(link) for link, _ in LINK.findall(first) if "cursor=" in link)
        async with http.get(url + following.partition("#")[0]) as response:
            second = await response.text()

    assert (first.count('th scope="row"><a'), second.count('th scope="row"><a')) == (100, 30)
    assert "wide-100" in second


# -- safety ------------------------------------------------------------------------------------------------------------


async def test_markup_from_outside_is_shown_as_text(http: aiohttp.ClientSession) -> None:
    controller = calm()
    talk_markup(controller)

    for path in ("/", "/?list=offline", f"/?why={MARKUP.replace('&', '%26').replace('=', '%3D')}-0"):
        page = await get(http, controller, path)
        assert "<script>complain" not in page
        assert "<img" not in page
        assert MARKUP in unescape(page)


async def test_a_command_is_quoted_for_the_shell(http: aiohttp.ClientSession) -> None:
    controller = calm()
    controller.put_topic("$(reboot)", partition(0, -1, (2,), (2, 1)))

    page = await read(http, controller, "/?list=offline")

    assert "controllerctl why '$(reboot)-0'" in page.copied


async def test_the_page_allows_only_its_own_files(http: aiohttp.ClientSession) -> None:
    async with serving(calm()) as url:
        async with http.get(url) as response:
            page, policy = await response.text(), response.headers["Content-Security-Policy"]
        links = {one or other for one, other in LINK.findall(page)}
        for link in (each for each in links if each.startswith("/dashboard/")):
            async with http.get(url + link) as response:
                assert response.status == 200

    assert policy.startswith("default-src 'self';")
    assert all(link.startswith(("/", "#")) for link in links)
    assert "style=" not in page
    assert " onclick" not in page


async def test_an_unchanged_page_is_not_sent_again(http: aiohttp.ClientSession) -> None:
    controller = calm()
    async with serving(controller) as url:
        async with http.get(url) as response:
            tag = response.headers["ETag"]
        async with http.get(url, headers={"If-None-Match": tag}) as response:
            assert (response.status, await response.read()) == (304, b"")

        lose_broker_2(controller)
        async with asyncio.timeout(5):
            status = 304
            while status == 304:
                async with http.get(url, headers={"If-None-Match": tag}) as response:
                    status = response.status

    assert status == 200


# -- tokens ------------------------------------------------------------------------------------------------------------


async def test_without_a_token_there_is_only_a_form(http: aiohttp.ClientSession) -> None:
    controller = calm()
    config = HttpConfig(listen=Address("127.0.0.1", 0), read_token=Secret(TOKEN))
    server = StatusServer(controller.sources(), config)
    url = f"http://127.0.0.1:{await server.start()}"
    try:
        async with http.get(url) as response:
            page = await response.text()
        async with http.get(url, headers={"Authorization": "Bearer wrong"}) as response:
            refused = response.status
        async with http.get(url, headers={"Authorization": f"Bearer {TOKEN}"}) as response:
            shown = await response.text()
    finally:
        await server.close()

    assert "needs a token" in page
    assert "cluster-1" not in page
    assert refused == 401
    assert "cluster-1" in shown


# -- commands ----------------------------------------------------------------------------------------------------------


async def test_every_command_on_the_page_is_one_of_controllerctl(http: aiohttp.ClientSession) -> None:
    controller = calm()
    lose_broker_2(controller)
    hold_much(controller)
    offered = set()
    lists = [f"/?list={name}" for name in get_args(ListName) if name]
    for path in ("/", "/?why=orders-2", "/?why=audit-log", *lists):
        offered |= set((await read(http, controller, path)).copied)

    assert len(offered) > 15
    for command in sorted(offered):
        with pytest.raises(SystemExit) as ended:
            controllerctl([*shlex.split(command)[1:], "--help"])
        assert ended.value.code == 0, command
