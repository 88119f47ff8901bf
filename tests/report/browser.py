"""Chromium without a window, steered over its debugging protocol: opens pages, runs scripts, takes screenshots."""

import asyncio
import base64
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Self

import aiohttp
import anyio

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
START_S: Final = 30
FLAGS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)


def find_chromium() -> str | None:
    """The path of a Chromium: ``CONTROLLERD_CHROMIUM``, or the first on the path; None where there is none."""
    named = os.environ.get("CONTROLLERD_CHROMIUM")
    return named or next(filter(None, map(shutil.which, NAMES)), None)


class Page:
    """One tab. ``complaints`` are errors of the console, ``requests`` the addresses that it asked for."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self._socket = socket
        self._last = 0
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._loaded = asyncio.Event()

    async def listen(self) -> None:
        """Handle messages of the browser until it closes the connection."""
        async for message in self._socket:
            said = message.json()
            if "id" in said:
                self._answers.pop(said["id"]).set_result(said)
            else:
                self._happened(said["method"], said["params"])

    def _happened(self, what: str, params: Mapping[str, Any]) -> None:
        if what == "Page.loadEventFired":
            self._loaded.set()
        elif what == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif what == "Runtime.exceptionThrown":
            self.complaints.append(str(params["exceptionDetails"]))
        elif what == "Log.entryAdded" and params["entry"]["level"] in {"error", "warning"}:
            self.complaints.append(str(params["entry"]["text"]))
        elif what == "Runtime.consoleAPICalled" and params["type"] in {"error", "warning", "assert"}:
            self.complaints.append(str(params["args"]))

    async def call(self, method: str, **params: object) -> dict[str, Any]:
        """Send one command of the protocol; its result. :raises RuntimeError: the browser refused it."""
        self._last += 1
        answer = self._answers[self._last] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": self._last, "method": method, "params": params})
        said = await answer
        if "error" in said:
            raise RuntimeError(f"{method}: {said['error']}")
        result: dict[str, Any] = said["result"]
        return result

    async def prepare(self) -> Self:
        """Enable the events of the browser that this class handles."""
        for domain in ("Page", "Runtime", "Log", "Network"):
            await self.call(f"{domain}.enable")
        return self

    async def open(self, address: str) -> None:
        """Open an address and wait until it is loaded."""
        self._loaded.clear()
        await self.call("Page.navigate", url=address)
        await self._loaded.wait()

    async def run(self, script: str) -> Any:
        """The value of an expression, awaited. :raises AssertionError: it threw."""
        said = await self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in said, said["exceptionDetails"]
        return said["result"].get("value")

    async def until(self, condition: str) -> None:
        """Wait, frame by frame, until an expression is true. :raises TimeoutError: not within ten seconds."""
        with anyio.fail_after(10):
            while not await self.run(condition):
                await self.run("new Promise(requestAnimationFrame)")

    async def look(self, width: int, height: int, *, dark: bool = False) -> None:
        """Emulate a screen of this size in pixels that prefers light or dark colours."""
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])

    async def screenshot(self) -> bytes:
        """A PNG of the screen as it is now."""
        said = await self.call("Page.captureScreenshot", format="png")
        return base64.b64decode(said["data"])


@asynccontextmanager
async def chromium(binary: str) -> AsyncIterator[Page]:
    """A fresh browser with one empty tab; it ends with the block."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [binary, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        quiet = asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(*command, stdin=quiet, stdout=quiet, stderr=quiet)
        try:
            port = await _port(Path(profile, "DevToolsActivePort"), process)
            async with aiohttp.ClientSession() as http, _tab(http, port) as page:
                yield page
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()


async def _port(file: Path, process: asyncio.subprocess.Process) -> int:
    """The port that the browser chose, as soon as it has written it down."""
    with anyio.fail_after(START_S):
        while not (lines := _lines(file)):
            if process.returncode is not None:
                raise RuntimeError(f"Chromium ended with {process.returncode} instead of starting")
            await anyio.sleep(0.02)
    return int(lines[0])


def _lines(file: Path) -> list[str]:
    """The lines of a file, none before the first is whole."""
    text = file.read_text() if file.exists() else ""
    return text.splitlines() if "\n" in text else []


@asynccontextmanager
async def _tab(http: aiohttp.ClientSession, port: int) -> AsyncIterator[Page]:
    async with http.get(f"http://127.0.0.1:{port}/json/list") as answer:
        tabs = [tab for tab in await answer.json() if tab["type"] == "page"]
    async with http.ws_connect(tabs[0]["webSocketDebuggerUrl"], max_msg_size=0) as socket:
        page = Page(socket)
        async with asyncio.TaskGroup() as tasks:
            listener = tasks.create_task(page.listen())
            yield await page.prepare()
            listener.cancel()
