"""The page over a real controller, ZooKeeper and brokers: one of them dies, and comes back."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

from controllerd.core.model import NO_LEADER
from controllerd.dev.cluster import DevCluster, open_cluster
from controllerd.dev.observe import ZooKeeperView
from tests.report.browser import Page, chromium

pytestmark = [pytest.mark.zookeeper, pytest.mark.timeout(240)]

SEEN: Final = "CONTROLLERD_DASHBOARD_SEEN"
"""If set to 1, screenshots of this run replace those of the documentation."""
DOCS: Final = Path(__file__).resolve().parents[3] / "docs"
SHOTS: Final = {"light": (1280, 1400, False), "dark": (1280, 1400, True), "phone": (360, 1400, False)}
"""Width and height in pixels, and whether the theme is dark."""
LARGEST: Final = 300_000
VICTIM: Final = 2
FRAGILE: Final = "payments"
"""A topic with one replica per partition, which is offline without its broker."""
TOPICS: Final = {
    "orders": {n: [1 + (n + at) % 3 for at in range(3)] for n in range(12)},
    "clicks": {n: [1 + (n + at) % 3 for at in range(2)] for n in range(24)},
    FRAGILE: {n: [1 + n % 3] for n in range(9)},
    "sessions-2019": {n: [1 + (n + at) % 3 for at in range(2)] for n in range(6)},
}
HEADLINE: Final = "document.querySelector('#headline-sentence').textContent"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[DevCluster]:
    async with open_cluster("embedded", tmp_path, lambda _line: None, instances=1) as running:
        for name, assignments in TOPICS.items():
            await running.observer.create_topic(name, assignments)
        yield running


async def tile(page: Page, key: str) -> int:
    """The figure of a tile."""
    shown = await page.run(f"document.querySelector('#tile-{key} .value').textContent")
    return int(str(shown).replace(",", ""))


async def until(page: Page, condition: str) -> None:
    """Wait for a change of the cluster, which takes longer than one of the page."""
    for _ in range(6):
        try:
            await page.until(condition)
        except TimeoutError:
            continue
        return
    raise AssertionError(f"{condition} did not become true: {await page.run('document.body.innerText')}")


def offline(view: ZooKeeperView) -> int:
    return sum(state.leader == NO_LEADER for state in view.leaderships.values())


def lacking(view: ZooKeeperView) -> int:
    return sum(len(state.isr) < len(view.assignments[tp].replicas) for tp, state in view.leaderships.items())


async def ask(cluster: DevCluster, path: str, body: dict[str, Any]) -> None:
    """Send a request to change something, as controllerctl does."""
    url = f"http://{cluster.controllers[0].http}{path}"
    async with aiohttp.ClientSession() as http, http.post(url, json=body) as response:
        assert response.status < 300, await response.text()


async def test_an_open_page_shows_that_a_broker_dies_and_comes_back(chromium_binary: str, cluster: DevCluster) -> None:
    address = f"http://{cluster.controllers[0].http}/"
    async with chromium(chromium_binary) as page:
        await page.look(1280, 900)
        await page.open(address)
        await until(page, f"{HEADLINE} === 'All is well' && document.body.innerText.includes('51 partitions')")
        assert [await tile(page, key) for key in ("offline", "under-replicated")] == [0, 0]
        await page.run("window.isTheSame = true")

        await cluster.brokers[VICTIM].kill()

        await until(page, f"{HEADLINE}.endsWith('because broker {VICTIM} is gone')")
        await until(page, "document.querySelector('#tile-under-replicated .value').textContent !== '0'")
        view = await cluster.view()
        assert (await tile(page, "offline"), await tile(page, "under-replicated")) == (offline(view), lacking(view))
        assert offline(view) == 3
        assert f"broker {VICTIM} gone" in await page.run("document.querySelector('#happenings').textContent")
        if os.environ.get(SEEN) == "1":
            await ask(cluster, "/v1/pause", {"what": "auto-rebalance", "for_s": 1800, "reason": "release weekend"})
            await ask(cluster, "/v1/topics/sessions-2019/delete", {"confirm": "sessions-2019", "reason": "old"})
            await until(page, "document.querySelector('#deletions').textContent.includes('held up')")
            await publish(page, address)

        await cluster.brokers[VICTIM].start()

        await until(page, f"!{HEADLINE}.includes('because broker {VICTIM} is gone')")
        await until(
            page,
            "['offline', 'under-replicated'].every((key) => "
            "document.querySelector(`#tile-${key} .value`).textContent === '0')",
        )
        view = await cluster.view()
        assert (offline(view), lacking(view)) == (0, 0)
        assert await page.run("window.isTheSame"), "the page was loaded anew"
        assert page.complaints == []
        assert [asked for asked in page.requests if not asked.startswith(address)] == []


async def publish(page: Page, address: str) -> None:
    """Take the screenshots for the documentation."""
    for name, (width, height, dark) in SHOTS.items():
        await page.look(width, height, dark=dark)
        screenshot = await page.screenshot()
        assert len(screenshot) < LARGEST, f"{name} has {len(screenshot)} bytes"
        await asyncio.to_thread((DOCS / f"dashboard-{name}.png").write_bytes, screenshot)
    await page.look(1280, 900)
