"""``python -m tests.report.screenshot OUTDIR [REPORT_DIR]``: screenshots of a report, or of one with invented tables.

Writes report-light.png, report-dark.png and report-phone.png.
"""

import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from replay.report.writer import write_report
from tests.report.browser import Page, chromium, find_chromium
from tests.report.sample import sample, sample_meta


class Shot(NamedTuple):
    """One screenshot: its name, the width of the screen, and its colours."""

    name: str
    width: int
    dark: bool


SHOTS: Final = (Shot("light", 1280, dark=False), Shot("dark", 1280, dark=True), Shot("phone", 390, dark=False))
FIRST_SCREEN: Final = 900
BUILT: Final = "document.querySelector(':not(details) > .table > .data-table:not(:has(table))') === null"
"""Whether every table that is not folded away is there."""


def main(arguments: Sequence[str]) -> int:
    """Take the screenshots; the exit code."""
    binary = find_chromium()
    if not arguments or binary is None:
        print(
            __doc__ if not arguments else "no Chromium: install it, or name it in CONTROLLERD_CHROMIUM", file=sys.stderr
        )
        return 2
    out = Path(arguments[0])
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(arguments[1]) if len(arguments) > 1 else Path(folder)
        if len(arguments) == 1:
            write_report(sample(), sample_meta(), report)
        address = (report / "report.html").resolve().as_uri()
        for name, image in asyncio.run(screenshots(binary, address)).items():
            path = out / name
            path.write_bytes(image)
            print(path)
    return 0


async def screenshots(binary: str, address: str, *, tallest: int | None = None) -> dict[str, bytes]:
    """A report in each of ``SHOTS``, as PNG by the name of its file: from top to bottom, or down to ``tallest``."""
    async with chromium(binary) as page:
        return {f"report-{shot.name}.png": await _shoot(page, address, shot, tallest) for shot in SHOTS}


async def _shoot(page: Page, address: str, shot: Shot, tallest: int | None) -> bytes:
    await page.look(shot.width, FIRST_SCREEN, dark=shot.dark)
    await page.open(address)
    height = await page.run("document.documentElement.scrollHeight")
    # Tables are built when they come near, and the page grows by them.
    await page.look(shot.width, 4 * height, dark=shot.dark)
    await page.until(BUILT)
    height = await page.run("Math.ceil(document.querySelector('main').getBoundingClientRect().bottom)")
    await page.look(shot.width, min(height, tallest or height), dark=shot.dark)
    return await page.screenshot()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
