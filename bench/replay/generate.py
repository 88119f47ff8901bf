"""Write an invented audit log with the real encoder and a hash chain, as two instances leave it in their folders."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, Final

from bench.replay.story import Cluster, StampedRecord, Term
from controllerd.audit.lines import GENESIS, digest, encode_line
from controllerd.audit.segments import compress, log_directory, segment_path
from controllerd.record.envelope import Envelope
from controllerd.record.records import SCHEMA_VERSION

CLUSTER: Final = "bench"
NODES: Final = (2_000_000_001, 2_000_000_002)
BOOT_RECORDS: Final = 250_000
_SEGMENT_BYTES: Final = 64 * 1024 * 1024
_CHUNK_BYTES: Final = 1024 * 1024
_START_MS: Final = 1_767_225_600_000
_STEP_NS: Final = 400_000


def generate(root: Path, records: int, *, compressed: bool, boot_records: int = BOOT_RECORDS) -> int:
    """Write about this many records below ``root``: terms of two nodes in turn, each in a boot of its own.

    :param compressed: whether closed segments are compressed, as by the daemon
    :returns: the number of records
    """
    cluster, written, epoch = Cluster(), 0, 0
    with ThreadPoolExecutor(2) as pool:
        logs = [_NodeLog(root, node, pool if compressed else None) for node in NODES]
        while written < records:
            epoch += 1
            log = logs[epoch % len(logs)]
            term = Term(cluster, epoch, log.node)
            written += log.write(f"boot-{epoch:04d}", written, term.records(min(boot_records, records - written)))
    return written


class _NodeLog:
    """The folder of one node."""

    def __init__(self, root: Path, node: int, compressor: ThreadPoolExecutor | None) -> None:
        self.node = node
        self._folder = log_directory(root, CLUSTER, node)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._compressor = compressor
        self._hash = GENESIS
        self._number = 0

    def write(self, boot: str, before: int, records: Iterator[StampedRecord]) -> int:
        """Write one boot, ``before`` records after the beginning of the log; return the number of its records."""
        count = 0
        file, size = self._open(boot), 0
        for chunk in self._chunks(boot, before, records):
            file.write(b"\n".join(chunk) + b"\n")
            count += len(chunk)
            size += sum(map(len, chunk))
            if size >= _SEGMENT_BYTES:
                self._close(file)
                file, size = self._open(boot), 0
        self._close(file)
        return count

    def _chunks(self, boot: str, before: int, records: Iterator[StampedRecord]) -> Iterator[list[bytes]]:
        lines: list[bytes] = []
        size, head, node = 0, self._hash, self.node
        for seq, (epoch, event, record) in enumerate(records, 1):
            at = (before + seq) * _STEP_NS
            place = (CLUSTER, node, boot, seq, epoch, event, _START_MS + at // 1_000_000, at, head)
            line = encode_line(Envelope(SCHEMA_VERSION, record.kind, *place), record)
            head = digest(line)
            lines.append(line)
            size += len(line)
            if size >= _CHUNK_BYTES:
                yield lines
                lines, size = [], 0
        self._hash = head
        if lines:
            yield lines

    def _open(self, boot: str) -> BinaryIO:
        self._number += 1
        return segment_path(self._folder, boot, self._number).open("wb")

    def _close(self, file: BinaryIO) -> None:
        file.close()
        if self._compressor is not None:
            self._compressor.submit(compress, Path(file.name))
