"""Small logs that are made quickly, and the hands that change them."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

import zstandard

from controllerd.audit.lines import GENESIS, Head, digest, encode_line
from controllerd.record.envelope import Envelope
from controllerd.record.records import AlarmRecord, GapRecord, Record
from tests.audit.samples import CLUSTER, NODE

_LINK: Final = re.compile(rb'"prev":"[0-9a-f]{64}"')


class Line(NamedTuple):
    """One line and what it stands for; ``first`` is less than ``seq`` for a gap record."""

    boot: str
    first: int
    seq: int
    data: bytes

    @property
    def head(self) -> Head:
        """As exported when this line was the newest."""
        return Head(self.boot, self.seq, digest(self.data))

    @property
    def numbers(self) -> set[tuple[str, int]]:
        """All numbers that it stands for."""
        return {(self.boot, seq) for seq in range(self.first, self.seq + 1)}


@dataclass(frozen=True, slots=True)
class Part:
    """A segment in the making."""

    number: int
    boot: str
    lines: tuple[Line, ...]
    torn: bytes = b""

    @property
    def content(self) -> bytes:
        """The bytes of the file."""
        return b"".join(line.data + b"\n" for line in self.lines) + self.torn


Log = tuple[Part, ...]


def line(boot: str, seq: int, prev: str, record: Record, first: int | None = None) -> Line:
    """A line as the writer makes it."""
    envelope = Envelope(1, record.kind, CLUSTER, NODE, boot, seq, 7, 3, 1_700_000_000_000 + seq, seq * 1000, prev)
    return Line(boot, first or seq, seq, encode_line(envelope, record))


def written(rng: Random, boot: str, prev: str, count: int, start: int = 1) -> list[Line]:
    """So many lines of one boot, one in ten a gap record."""
    lines: list[Line] = []
    seq = start
    for _ in range(count):
        lost = rng.randint(1, 3) if rng.random() < 0.1 else 0
        text = AlarmRecord("test", f"{boot} {rng.random()}")
        record = GapRecord(lost, seq, seq + lost - 1, f"no space {rng.random()}") if lost else text
        lines.append(line(boot, seq + lost, prev, record, seq))
        prev, seq = digest(lines[-1].data), seq + lost + 1
    return lines


def new_log(rng: Random, boots: int = 4) -> Log:
    """Up to so many boots of one to three segments with one to six lines each, some with a torn tail."""
    parts: list[Part] = []
    prev = GENESIS
    for number in range(1, rng.randint(2, boots) + 1):
        boot = f"boot-{number}"
        sizes = [rng.randint(1, 6) for _ in range(rng.randint(1, 3))]
        lines = written(rng, boot, prev, sum(sizes))
        prev = lines[-1].head.hash
        for size in sizes:
            parts.append(Part(len(parts) + 1, boot, tuple(lines[:size])))
            del lines[:size]
        if rng.random() < 0.3:
            parts[-1] = replace(parts[-1], torn=b'{"v":1,"kind":"al')
    return tuple(parts)


def lines_of(log: Log) -> list[Line]:
    """All lines in order."""
    return [each for part in log for each in part.lines]


def with_lines(log: Log, change: Callable[[list[Line]], Iterable[Line]]) -> Log:
    """The log with other lines in the same segments: the last takes or lacks what is more or less."""
    lines = list(change(lines_of(log)))
    parts = []
    for part in log:
        parts.append(replace(part, lines=tuple(lines[: len(part.lines)])))
        del lines[: len(part.lines)]
    return (*parts[:-1], replace(parts[-1], lines=(*parts[-1].lines, *lines)))


def without(log: Log, gone: Iterable[Line]) -> Log:
    """The log without some lines; the others stay in their segments."""
    missing = set(gone)
    return tuple(replace(part, lines=tuple(each for each in part.lines if each not in missing)) for part in log)


def swapped(log: Log, old: Line, new: Sequence[Line]) -> Log:
    """The log with other lines in the place of one."""
    return tuple(
        replace(part, lines=tuple(one for each in part.lines for one in (new if each == old else (each,))))
        for part in log
    )


def relinked(log: Log, first: int, last: int | None = None) -> Log:
    """The log in which the links of these lines (by their index) are made to fit again."""
    lines = lines_of(log)
    for index in range(max(1, first), len(lines) if last is None else last):
        link = b'"prev":"%s"' % digest(lines[index - 1].data).encode()
        lines[index] = lines[index]._replace(data=_LINK.sub(link, lines[index].data, count=1))
    return with_lines(log, lambda _: lines)


def write(log: Log, directory: Path, compressed: Callable[[Part], bool] = lambda part: False) -> Path:
    """The files of a log; segments without lines and tail have none."""
    directory.mkdir(parents=True)
    for part in log:
        name = f"{part.boot}-{part.number:08d}.jsonl"
        if not part.lines and not part.torn:
            continue
        if compressed(part):
            (directory / f"{name}.zst").write_bytes(_squeezed(part.content))
        else:
            (directory / name).write_bytes(part.content)
    return directory


def _squeezed(content: bytes) -> bytes:
    """As the compressor does it, in two frames where there is more than a line."""
    middle = content.find(b"\n") + 1
    compressor = zstandard.ZstdCompressor(level=1, write_checksum=True)
    return b"".join(compressor.compress(piece) for piece in (content[:middle], content[middle:]) if piece)
