"""Plays conversations against the target, batch after batch, and keeps the figures."""

import asyncio
import struct
import time
from asyncio import FIRST_COMPLETED
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Final

from tests.fuzz.judge import SeenFrame, Wrong, deframe, judge, read_answer, unfinished
from tests.fuzz.leaks import MOST_PEAK_BYTES, forget_peak, peak_bytes, rss_bytes
from tests.fuzz.lines import Line
from tests.fuzz.spoil import Expect
from tests.fuzz.talks import Conversation, ConversationMaker, Way
from tests.fuzz.target import Target

TALKS_PER_BATCH: Final = 120
AT_ONCE: Final = 4
PATIENCE_S: Final = 120.0
_API: Final = struct.Struct(">hh")
_FAREWELL: Final = struct.pack(">hhih", 18, 0, 0x5EED, -1)
"""ApiVersions, which every open connection has to answer; no other request has its correlation id."""


@dataclass
class Figures:
    """The figures of a run."""

    frames: int = 0
    answered: int = 0
    connections: int = 0
    hung_up: int = 0
    slowest_s: float = 0.0
    slowest: str = ""
    harms: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    """The changes to frames that the server hung up on."""
    sound: Counter[tuple[int, int]] = field(default_factory=Counter)
    """Requests that were answered correctly, by API and version."""
    peak: int = 0
    """The most bytes of memory by which the process grew within a batch."""


class FuzzRun:
    """A run over one target."""

    def __init__(
        self, target: Target, seed: int, keep: Callable[[bytes, bytes], None] = lambda _request, _answer: None
    ) -> None:
        """``keep`` gets each request that had to be answered, with its answer."""
        self.target = target
        self.seed = seed
        self.figures = Figures()
        self._keep = keep

    async def batch(self, number: int) -> None:
        """Play one batch: conversations, several at a time, then clean up and check everything.

        :raises Wrong: a defect.
        """
        talker = ConversationMaker(f"{self.seed}/{number}", self.target.facts())
        talks = iter([talker.talk() for _ in range(TALKS_PER_BATCH)])

        async def work() -> None:
            for talk in talks:
                await self._play(talk, number)

        forget_peak()
        before = rss_bytes()
        await self._all(*(work() for _ in range(AT_ONCE)))
        self.figures.peak = max(self.figures.peak, peak_bytes() - before)
        if self.figures.peak > MOST_PEAK_BYTES:
            raise Wrong(f"{self.figures.peak:,} bytes were taken at once\n  {self._where(number)}")
        try:
            await self.target.put_in_order()
            await self.target.check()
        except (Wrong, AssertionError, TimeoutError) as wrong:
            raise Wrong(f"after a batch: {wrong!r}\n  {self._where(number)}") from wrong

    def _where(self, number: int) -> str:
        again = f"play it again: python -m tests.fuzz --seed {self.seed} --batch {number}"
        return f"{self.figures.frames:,} frames before; {again}\n  {self.target.state()}"

    async def _all(self, *works: Coroutine[None, None, None]) -> None:
        """Wait for all, or until the first has failed or the controller is dead."""
        waiting = {*map(asyncio.ensure_future, works)}
        try:
            while waiting and not self.target.controller.done():
                done, left = await asyncio.wait({*waiting, self.target.controller}, return_when=FIRST_COMPLETED)
                waiting &= left
                for task in done - {self.target.controller}:
                    task.result()
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        self.target.check_controller()

    async def _play(self, talk: Conversation, number: int) -> None:
        try:
            await self.play(talk)
        except Wrong as wrong:
            done = next((frame.done for frame in talk.frames if frame.content == wrong.frame), ())
            raise Wrong(
                f"{wrong}\n  {', '.join(done)}; {talk.way.value}, {'socket' if talk.over_socket else 'memory'}"
                f"\n  {self._where(number)}"
                f"\n  frame: {(wrong.frame or talk.stream).hex()}"
            ) from wrong

    async def play(self, talk: Conversation) -> None:
        """Play one conversation. :raises Wrong: the server did something forbidden."""
        line = await self.target.line(over_socket=talk.over_socket)
        try:
            if talk.way is Way.DEAF:
                line.send(talk.stream)
                self._count(talk, deframe(talk.stream, talk.expected()), 0, closed=False)
                return
            answers, seen = await self._converse(line, talk)
            closed = line.inbox.is_closed
            may_lose, finished = talk.over_socket and talk.way is not Way.TURNS, talk.way is Way.HALF_OPEN
            answered = judge(seen, answers, closed=closed, may_lose=may_lose, finished=finished)
            self._keep_sound(seen, answers)
            self._count(talk, seen, answered, closed=closed)
            if not closed:
                await self._part(line, is_whole=not unfinished(talk.stream) and not finished)
        finally:
            line.abort()

    async def _part(self, line: Line, *, is_whole: bool) -> None:
        """Send one more request, if the connection is usable, and end it: only its answer may come."""
        if is_whole:
            line.send(struct.pack(">i", len(_FAREWELL)) + _FAREWELL)
            answer = await line.inbox.next_frame(PATIENCE_S)
            if answer is None:
                raise Wrong("the server hung up on a request after all others were answered", _FAREWELL)
            read_answer(_FAREWELL, answer)
        line.finish()
        more = await line.inbox.next_frame(PATIENCE_S)
        if more is not None or line.inbox.rest:
            raise Wrong(f"there was no request for {(more or bytes(line.inbox.rest)).hex()[:400]}")

    def _keep_sound(self, seen: list[SeenFrame], answers: list[bytes]) -> None:
        for frame, answer in zip(seen, answers, strict=False):
            if frame.expect is Expect.ANSWER and frame.content is not None:
                self.figures.sound[_API.unpack_from(frame.content)] += 1
                self._keep(frame.content, answer)

    async def _converse(self, line: Line, talk: Conversation) -> tuple[list[bytes], list[SeenFrame]]:
        """Send everything; return the answers, and the frames that the server has read."""
        expected, answers, sent = talk.expected(), list[bytes](), b""
        if talk.way is Way.SLOW:
            line.pause()
        for chunk in talk.chunks:
            if line.inbox.is_closed:
                break
            line.send(chunk)
            sent += chunk
            if talk.way is Way.TURNS:
                await self._wait(line, answers, deframe(sent, expected))
            else:
                await asyncio.sleep(0)
        if talk.way is Way.HALF_OPEN and not line.inbox.is_closed:
            line.finish()
        if talk.way is Way.SLOW:
            await asyncio.sleep(0.02)
            line.resume()
        seen = deframe(sent, expected)
        await self._wait(line, answers, seen)
        return answers, seen

    async def _wait(self, line: Line, answers: list[bytes], seen: list[SeenFrame]) -> None:
        """Wait until every frame is answered, or the server hung up."""
        while len(answers) < len(seen):
            began = time.monotonic()
            try:
                frame = await line.inbox.next_frame(PATIENCE_S)
            except TimeoutError as error:
                raise Wrong(f"nothing came for {PATIENCE_S} s", seen[len(answers)].content) from error
            if frame is None:
                return
            took, asked = time.monotonic() - began, seen[len(answers)].content or b""
            if took > self.figures.slowest_s:
                self.figures.slowest_s, self.figures.slowest = took, asked[:8].hex()
            answers.append(frame)

    def _count(self, talk: Conversation, seen: list[SeenFrame], answered: int, *, closed: bool) -> None:
        figures = self.figures
        figures.connections += 1
        figures.frames += len(seen) if talk.way is Way.DEAF else answered + closed
        figures.answered += answered
        figures.hung_up += closed
        done = {frame.content: frame.done for frame in talk.frames}
        other = (talk.way.value,) if talk.way is Way.FOREIGN else ("misaligned",)
        for number, frame in enumerate(seen[: answered + closed]):
            harms = done.get(frame.content or b"", other)
            figures.harms.update(harms)
            if number == answered:
                figures.refused.update(harms[-1:])
