"""The page in a real Chromium: it uses no other host, logs no errors, and updates itself."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

import pytest

from controllerd.config.model import Address, HttpConfig, Secret
from controllerd.dev.proxy import Chunk, TcpProxy
from controllerd.recent import Recent
from controllerd.record.records import AlarmRecord
from controllerd.status.reads.events import HEARTBEAT_S
from controllerd.status.server import StatusServer
from tests.report.browser import Page, chromium
from tests.status.dashboard.scenes import MARKUP, calm, hold_much, lose_broker_2, talk_markup
from tests.status.fake_controller import NOW_MS, FakeController, serving

TOKEN: Final = "r" * 32
AXE: Final = files("axe_core_python").joinpath("axe.min.js")
HEADLINE: Final = "document.querySelector('#headline-sentence').textContent"
FOCUSED: Final = "document.activeElement.id || document.activeElement.textContent.trim()"
LOST: Final = "3 partitions offline and 6 under-replicated because broker 2 is gone"


def text(selector: str) -> str:
    """An expression for the text of an element."""
    return f"document.querySelector({json.dumps(selector)}).innerText.replace(/\\s+/g, ' ').trim()"


@asynccontextmanager
async def opened(binary: str, controller: FakeController, path: str = "/") -> AsyncIterator[Page]:
    """Open the page of this controller, and check that it logged no errors and used no other host."""
    async with serving(controller) as url, chromium(binary) as page:
        await page.look(1280, 900)
        await page.open(url + path)
        await page.until("document.documentElement.classList.contains('js')")
        yield page
        await page.open("about:blank")
        assert page.complaints == []
        assert [address for address in page.requests if not address.startswith((f"{url}/", "about:"))] == []


async def press(page: Page, key: str, **more: object) -> None:
    """Press one key."""
    text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
    code = {"Tab": 9, "Enter": 13}.get(key, 0)
    for kind in ("keyDown", "keyUp"):
        given = text if kind == "keyDown" else {}
        await page.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **given, **more)


async def write(page: Page, words: str) -> None:
    await page.call("Input.insertText", text=words)


# -- updates -----------------------------------------------------------------------------------------------------------


async def test_an_open_page_shows_the_death_of_a_broker(chromium_binary: str) -> None:
    controller = calm()
    async with opened(chromium_binary, controller) as page:
        assert await page.run(HEADLINE) == "All is well"
        assert (await page.run(text("#tile-offline"))).startswith("Offline 0")
        await page.run("window.isTheSame = true")

        lose_broker_2(controller)

        await page.until(f"{HEADLINE} === {json.dumps(LOST)}")
        assert (await page.run(text("#tile-offline"))).startswith("Offline 3")
        assert "gone" in await page.run(text("#broker-2"))
        assert "broker 2 gone" in await page.run(text("#happenings li"))
        assert await page.run("window.isTheSame"), "the page was loaded anew"


async def test_events_during_a_pause_are_kept(chromium_binary: str) -> None:
    controller = calm()
    async with opened(chromium_binary, controller) as page:
        await page.until(f"{text('#feed-state')} === 'live'")
        await page.run("document.querySelector('#pause').click()")

        controller.recent.record(AlarmRecord("late", "during the pause"))

        await page.until(f"{text('#feed-state')} === 'paused, 1 new'")
        assert await page.run(text("#happenings")) == "Nothing yet."
        await page.run("document.querySelector('#pause').click()")
        assert "during the pause" in await page.run(text("#happenings li"))


async def test_other_kinds_of_events_can_be_selected(chromium_binary: str) -> None:
    controller = calm()
    lose_broker_2(controller)
    async with opened(chromium_binary, controller) as page:
        await page.run("document.querySelector('#kinds').value = 'event_begin,event_end,reply'")
        await page.run("document.querySelector('#kinds').dispatchEvent(new Event('change', { bubbles: true }))")

        await page.until("document.querySelectorAll('#happenings li').length === 2")
        assert "event 41 BrokerChange done in 12.5 ms" in await page.run(text("#happenings li"))


async def test_at_most_fifty_events_are_kept(chromium_binary: str) -> None:
    controller = calm()
    async with opened(chromium_binary, controller) as page:
        await page.until(f"{text('#feed-state')} === 'live'")

        controller.recent.record(*(AlarmRecord("many", str(number)) for number in range(120)))

        await page.until(f"{text('#happenings li')}.endsWith('many: 119')")
        assert await page.run("document.querySelectorAll('#happenings li').length") == 50


async def test_open_details_and_the_focus_survive_an_update(chromium_binary: str) -> None:
    controller = calm()
    lose_broker_2(controller)
    async with opened(chromium_binary, controller, "/?why=orders") as page:
        await page.run("document.querySelector('#why details').open = true")
        await page.run("document.querySelector('#tile-offline a').focus()")

        controller.put_topic("audit-log")

        await page.until(f"{text('#instance')}.includes('6 partitions')")
        assert await page.run("document.querySelector('#why details').open")
        assert await page.run("document.activeElement === document.querySelector('#tile-offline a')")


async def test_a_stopped_daemon_is_reported(chromium_binary: str) -> None:
    async with chromium(chromium_binary) as page:
        async with serving(calm()) as url:
            await page.open(url)

        await page.until(f"{text('#connection')}.startsWith('controllerd does not answer: this page is from')")


class Hanging(TcpProxy):
    """A proxy that can stop passing data on, like a daemon that hangs."""

    def __init__(self, upstream: str) -> None:
        super().__init__(upstream)
        self.flows = asyncio.Event()
        self.flows.set()

    async def release(self, chunk: Chunk) -> None:
        await self.flows.wait()


async def test_a_hanging_daemon_is_reported_until_it_answers(chromium_binary: str) -> None:
    async with (
        serving(calm()) as url,
        Hanging(url.removeprefix("http://")) as between,
        chromium(chromium_binary) as page,
    ):
        await page.open(f"http://{between.connect}/")
        await page.until(f"{text('#feed-state')} === 'live'")

        between.flows.clear()
        await page.until(f"{text('#connection')}.startsWith('controllerd does not answer: this page is from')")

        between.flows.set()
        await page.until(f"{text('#connection')} === ''")


async def test_a_stream_without_heartbeats_is_interrupted(chromium_binary: str) -> None:
    async with opened(chromium_binary, calm()) as page:
        await page.until(f"{text('#feed-state')} === 'live'")
        assert await page.run("Number(document.querySelector('#feed').dataset.quiet)") > 2 * 1000 * HEARTBEAT_S

        await page.run("document.querySelector('#feed').dataset.quiet = '300'")
        await page.run("document.querySelector('#kinds').dispatchEvent(new Event('change', { bubbles: true }))")

        await page.until(f"{text('#feed-state')} === 'interrupted'")
        await page.until(f"{text('#feed-state')} === 'live'")


async def test_a_hidden_tab_uses_no_stream_and_misses_no_events(chromium_binary: str) -> None:
    """A browser has six connections for all of its tabs: with a stream in each of six, no page would load any more."""
    controller = calm()
    async with opened(chromium_binary, controller) as page:
        await page.until(f"{text('#feed-state')} === 'live'")

        await page.run("Object.defineProperty(document, 'hidden', { configurable: true, get: () => true })")
        await page.run("document.dispatchEvent(new Event('visibilitychange'))")
        await page.until(f"{text('#feed-state')} === 'hidden'")
        controller.recent.record(AlarmRecord("late", "while the tab was hidden"))

        await page.run("delete document.hidden")
        await page.run("document.dispatchEvent(new Event('visibilitychange'))")
        await page.until(f"{text('#happenings li')}.includes('while the tab was hidden')")
        await page.until(f"{text('#feed-state')} === 'live'")


@dataclass
class Wall:
    """A clock with a time that is set by hand."""

    at_ms: int

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic(self) -> float:
        return self.at_ms / 1000


async def test_events_of_another_day_have_their_date(chromium_binary: str) -> None:
    controller, clock = calm(), Wall(NOW_MS - 24 * 3_600_000)
    controller.recent = Recent(clock)
    controller.recent.record(AlarmRecord("early", "before midnight"))
    clock.at_ms = NOW_MS
    controller.recent.record(AlarmRecord("late", "after midnight"))
    async with opened(chromium_binary, controller) as page:
        times = "[...document.querySelectorAll('#happenings time')].map((time) => time.textContent)"
        written = await page.run(times)
        await page.run("document.querySelector('#kinds').value = 'alarm,gap'")
        await page.run("document.querySelector('#kinds').dispatchEvent(new Event('change', { bubbles: true }))")
        await page.until("document.querySelectorAll('#happenings li').length === 2")

        assert await page.run(times) == written
        assert re.fullmatch(r"\d\d:\d\d:\d\d", written[0])
        assert re.fullmatch(r"\d\d-\d\d \d\d:\d\d:\d\d", written[1])
        assert "UTC" in await page.run(text("#events .head"))


# -- questions ---------------------------------------------------------------------------------------------------------


async def test_an_explanation_needs_only_the_keyboard(chromium_binary: str) -> None:
    controller = calm()
    lose_broker_2(controller)
    async with opened(chromium_binary, controller) as page:
        await press(page, "/")
        assert await page.run(FOCUSED) == "subject"

        await write(page, "orders-2")
        await press(page, "Enter")

        await page.until("document.querySelector('#why') !== null && document.activeElement.id === 'why'")
        assert "orders-2 is OFFLINE" in await page.run(text("#why"))
        assert await page.run("location.search") == "?why=orders-2"

        await page.run("history.back()")
        await page.until("document.querySelector('#why') === null")


async def test_every_control_is_reached_by_the_tab_key_and_has_a_visible_focus(chromium_binary: str) -> None:
    controller = calm()
    lose_broker_2(controller)
    hold_much(controller)
    async with opened(chromium_binary, controller) as page:
        await page.run("document.body.focus()")
        script = "a[href], button, input, select, summary, [tabindex='0']"
        wanted = await page.run(f"[...document.querySelectorAll({json.dumps(script)})].length")
        await page.run("window.reached = new Set(); window.unseen = []")
        for _ in range(wanted):
            await press(page, "Tab")
            await page.run(
                "reached.add(document.activeElement);"
                "getComputedStyle(document.activeElement).outlineStyle === 'none'"
                " && unseen.push(document.activeElement.outerHTML)"
            )

        assert await page.run("reached.size") == wanted
        assert await page.run("unseen") == []


async def test_a_tile_links_to_its_list_and_the_list_to_explanations(chromium_binary: str) -> None:
    controller = calm()
    lose_broker_2(controller)
    async with opened(chromium_binary, controller) as page:
        await page.run("document.querySelector('#tile-offline a').click()")
        await page.until("document.querySelectorAll('#list tbody tr').length === 3")

        await page.run("document.querySelector('#list tbody a').click()")
        await page.until("document.querySelector('#why') !== null")
        assert "orders-0 is OFFLINE" in await page.run(text("#why"))


async def test_a_command_is_copied(chromium_binary: str) -> None:
    controller = calm()
    lose_broker_2(controller)
    async with opened(chromium_binary, controller, "/?list=offline") as page:
        await page.call("Browser.grantPermissions", permissions=["clipboardReadWrite"])
        await page.call("Emulation.setFocusEmulationEnabled", enabled=True)
        await page.run("document.querySelector('#list tbody button').click()")

        await page.until(f"{text('#copied')} === 'Copied: controllerctl why orders-0'")
        assert await page.run("navigator.clipboard.readText()") == "controllerctl why orders-0"


async def test_markup_from_outside_never_runs(chromium_binary: str) -> None:
    controller = calm()
    async with opened(chromium_binary, controller, "/?list=offline") as page:
        await page.run("window.complain = () => { window.hasRun = true; }")
        await page.until(f"{text('#feed-state')} === 'live'")

        talk_markup(controller)

        await page.until(f"document.querySelector('#happenings').textContent.includes({json.dumps(MARKUP)})")
        await page.until(f"document.querySelector('#list').textContent.includes({json.dumps(MARKUP)})")
        assert await page.run("window.hasRun") is None
        assert await page.run("document.querySelectorAll('body img, body script').length") == 0


# -- layout ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/?why=orders-2", "/?list=under-replicated"])
async def test_it_fits_a_phone(chromium_binary: str, path: str) -> None:
    controller = calm()
    lose_broker_2(controller)
    hold_much(controller)
    async with opened(chromium_binary, controller, path) as page:
        await page.look(360, 740)

        assert await page.run("document.documentElement.scrollWidth") == 360


async def test_the_theme_follows_the_system_until_one_is_chosen(chromium_binary: str) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    async with opened(chromium_binary, calm()) as page:
        light = await page.run(ground)
        await page.look(1280, 900, dark=True)
        dark = await page.run(ground)
        assert light != dark

        await page.run("document.querySelector('#theme').click()")
        assert await page.run(ground) == light
        await page.open(await page.run("location.href"))
        assert await page.run(ground) == light, "the choice was forgotten"


async def violations(page: Page) -> list[dict[str, Any]]:
    """The serious and critical violations that axe-core finds."""
    await page.run(f"{AXE.read_text()}; undefined")
    found = await page.run("axe.run(document).then((results) => JSON.stringify(results.violations))")
    serious = [each for each in json.loads(found) if each["impact"] in {"serious", "critical"}]
    return [{"id": each["id"], "nodes": [node["html"] for node in each["nodes"]]} for each in serious]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("path", ["/", "/?why=orders-2", "/?list=offline"])
async def test_axe_finds_nothing_serious(chromium_binary: str, path: str, dark: bool) -> None:
    controller = calm()
    lose_broker_2(controller)
    hold_much(controller)
    async with opened(chromium_binary, controller, path) as page:
        await page.look(1280, 900, dark=dark)

        assert await violations(page) == []


async def test_axe_finds_nothing_serious_on_a_phone_of_a_standby(chromium_binary: str) -> None:
    async with opened(chromium_binary, FakeController()) as page:
        await page.look(360, 740)

        assert await violations(page) == []


# -- tokens ------------------------------------------------------------------------------------------------------------


async def test_a_token_is_requested_and_kept_for_this_tab(chromium_binary: str) -> None:
    controller = calm()
    config = HttpConfig(listen=Address("127.0.0.1", 0), read_token=Secret(TOKEN))
    server = StatusServer(controller.sources(), config)
    url = f"http://127.0.0.1:{await server.start()}/"
    try:
        async with chromium(chromium_binary) as page:
            await page.open(url)
            assert await violations(page) == []
            await page.run("document.querySelector('#token').focus()")
            await write(page, "guessed")
            await press(page, "Enter")
            await page.until(f"{text('#login-answer')} === 'This token is wrong.'")

            await page.run("document.querySelector('#token').select()")
            await write(page, TOKEN)
            await press(page, "Enter")

            await page.until("document.querySelector('#headline') !== null")
            await page.until(f"{text('#feed-state')} === 'live'")
            lose_broker_2(controller)
            await page.until(f"{HEADLINE} === {json.dumps(LOST)}")

            await page.open(url)
            await page.until("document.querySelector('#headline') !== null")
            assert not any(TOKEN in address for address in page.requests)
    finally:
        async with asyncio.timeout(10):
            await server.close()
