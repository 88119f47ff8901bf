"""The page in a real Chromium: it sends no request, logs no error, and its tables can be sorted and filtered."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from controllerd.record.moments import duration, moment
from replay.report.views import VIEWS
from replay.report.writer import write_report
from tests.report.browser import Page, chromium
from tests.report.sample import FIRST_MS, Rows, row, sample, sample_meta
from tests.report.screenshot import SHOTS, screenshots
from tests.report.test_page import EVIL, evil_everywhere

PNG: Final = b"\x89PNG"


def written(tables: Rows, folder: Path) -> str:
    """The address of a report."""
    report, *_ = write_report(tables, sample_meta(), folder)
    return report.resolve().as_uri()


@asynccontextmanager
async def shown(binary: str, tables: Rows, folder: Path) -> AsyncIterator[Page]:
    """A report of these tables in a browser."""
    async with opened(binary, written(tables, folder)) as page:
        yield page


@asynccontextmanager
async def opened(binary: str, address: str) -> AsyncIterator[Page]:
    """A page in a browser, with the table of windows built; it must not complain or ask for anything."""
    async with chromium(binary) as page:
        await page.look(1280, 900)
        await page.open(address)
        await page.run("document.querySelector('#windows').scrollIntoView({ behavior: 'instant' })")
        await page.until("document.querySelector('#table-windows table') !== null")
        yield page
        assert page.complaints == []
        assert page.requests == [address]


def windows(part: str) -> str:
    """A script for the text of one part of each row of the table of windows."""
    return f"[...document.querySelectorAll('#table-windows tbody tr > {part}')].map((cell) => cell.textContent)"


async def type_in(page: Page, text: str) -> None:
    field = "document.querySelector('#table-windows input')"
    await page.run(f"{field}.value = {text!r}; {field}.dispatchEvent(new Event('input'))")


async def test_windows_can_be_sorted_filtered_paged_and_opened(chromium_binary: str, tmp_path: Path) -> None:
    async with shown(chromium_binary, sample(), tmp_path) as page:
        names = await page.run(windows("th"))
        assert (names[:3], len(names)) == (["fraud-scores-6", "notifications-0", "payments-0"], 12)
        assert (await page.run(windows("td:nth-child(3)")))[:2] == ["still lasts", "≥ 63.2 s"]

        await page.run("document.querySelector('#table-windows th[data-key=duration_us] button').click()")
        assert (await page.run(windows("td:nth-child(3)")))[0] == "4.2 s"
        assert await page.run("document.querySelector('#table-windows th[aria-sort]').ariaSort") == "ascending"

        await type_in(page, "LEDGER.entries-1")
        assert await page.run(windows("th")) == ["ledger.entries-1", "ledger.entries-1"]
        assert await page.run("document.querySelector('#table-windows .shown').textContent") == "2 of 43 rows"

        await type_in(page, "nothing of that name")
        assert await page.run(windows("td")) == ["No row matches the filter."]

        await type_in(page, "")
        await page.run("document.querySelector('#table-windows select').value = '=unclean leader'")
        await page.run("document.querySelector('#table-windows select').dispatchEvent(new Event('change'))")
        assert await page.run(windows("th")) == ["notifications-0"]

        await page.run("document.querySelector('#table-windows .row-button').click()")
        detail = await page.run("document.querySelector('#table-windows .detail').textContent")
        assert "not before" in detail
        assert "controllerctl replay why notifications-0 --at 2026-01-31T03:14:07.213Z /var/lib" in detail


async def test_pages_of_a_table_follow_each_other(chromium_binary: str, tmp_path: Path) -> None:
    async with shown(chromium_binary, sample(), tmp_path) as page:
        seen = await page.run(windows("th"))
        for _ in range(3):
            await page.run("document.querySelector('#table-windows [aria-label^=Next]').click()")
            seen += await page.run(windows("th"))

        assert len(seen) == len(sample()["windows"])
        assert await page.run("document.querySelector('#table-windows [aria-label^=Next]').disabled")
        assert await page.run("document.activeElement.closest('#table-windows .pages') !== null")


async def test_the_theme_follows_the_system_until_it_is_chosen(chromium_binary: str, tmp_path: Path) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    async with shown(chromium_binary, sample(), tmp_path) as page:
        light = await page.run(ground)
        await page.look(1280, 900, dark=True)
        dark = await page.run(ground)
        assert light != dark

        await page.run("document.querySelector('#theme').click()")
        assert await page.run(ground) == light
        assert await page.run("document.querySelector('#theme').ariaPressed") == "false"


async def test_every_table_is_built_and_fits_a_phone(chromium_binary: str, tmp_path: Path) -> None:
    async with shown(chromium_binary, sample(), tmp_path) as page:
        await page.look(360, 800)
        await page.run("document.querySelectorAll('details').forEach((each) => (each.open = true))")
        height = await page.run("document.documentElement.scrollHeight")
        await page.look(360, 3 * height)
        await page.until("document.querySelectorAll('.data-table:not(:has(table))').length === 0")

        assert await page.run("document.querySelectorAll('.data-table').length") == len(VIEWS)
        assert await page.run("document.documentElement.scrollWidth") == 360


async def test_markup_of_a_log_is_never_run(chromium_binary: str, tmp_path: Path) -> None:
    async with shown(chromium_binary, evil_everywhere(sample()), tmp_path) as page:
        assert (await page.run(windows("th")))[0].startswith(EVIL)
        await page.run("document.querySelector('#table-windows .row-button').click()")

        assert await page.run("document.querySelectorAll('main img, main script:not([type])').length") == 0
        command = await page.run("document.querySelector('#table-windows .detail code').textContent")
        assert command.startswith("controllerctl replay why '<script>")


async def test_the_script_writes_moments_and_durations_as_the_rest_does(chromium_binary: str, tmp_path: Path) -> None:
    lengths = [
        0,
        999,
        1_240,
        15_900,
        250_000,
        9_999_000,
        63_204_000,
        119_940_000,
        252_000_000,
        11_100_000_000,
        187_200_000_000,
    ]
    starts = [FIRST_MS + n for n in range(len(lengths) - 1)] + [10**15]
    tables = sample()
    tables["windows"] = [
        row("windows", topic="t", partition=n, start_ms=start, end_ms=start, duration_us=length)
        for n, (start, length) in enumerate(zip(starts, lengths, strict=True))
    ]
    async with shown(chromium_binary, tables, tmp_path) as page:
        await page.run("document.querySelector('#table-windows th[data-key=topic] button').click()")

        assert await page.run(windows("td:nth-child(3)")) == [duration(length) for length in lengths]
        assert await page.run(windows("td:nth-child(2)")) == [moment(start) for start in starts]


async def test_fifty_thousand_windows_open_at_once(chromium_binary: str, large_page: Path) -> None:
    async with opened(chromium_binary, large_page.as_uri()) as page:
        assert await page.run("performance.now()") < 3_000

        await type_in(page, "topic-123-4")
        assert await page.run("document.querySelector('#table-windows .shown').textContent") == "11 of 50,000 rows"


async def test_screenshots_are_taken_in_light_dark_and_on_a_phone(chromium_binary: str, tmp_path: Path) -> None:
    taken = await screenshots(chromium_binary, written(sample(), tmp_path))

    assert tuple(taken) == tuple(f"report-{shot.name}.png" for shot in SHOTS)
    assert all(image.startswith(PNG) and len(image) > 50_000 for image in taken.values())
    assert len(set(taken.values())) == len(SHOTS)
