"""Logs made of a few lines: at seconds after a fixed moment, as a release writes them."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from replay.facts.engine import Row
from replay.ingest.kafka.reader import LogOptions, read_logs

START_MS = 1_769_828_400_000
"""2026-01-31 03:00:00 UTC."""
STATE, CONTROLLER = "state.change.logger", "kafka.controller.KafkaController"


def line(second: float, message: str, logger: str) -> str:
    """One line, within the hour."""
    minutes, seconds = divmod(second, 60)
    stamp = f"{seconds:06.3f}".replace(".", ",")
    return f"[2026-01-31 03:{int(minutes):02}:{stamp}] INFO {message} ({logger})\n"


def changed(second: float, body: str, *, node: int = 1, epoch: int = 5) -> str:
    """A line of a controller's ``state-change.log``."""
    return line(second, f"[Controller id={node} epoch={epoch}] {body}", STATE)


def said(second: float, body: str, *, node: int = 1) -> str:
    """A line of ``controller.log``."""
    return line(second, f"[Controller id={node}] {body}", CONTROLLER)


def stopped_fetchers(second: float, *, node: int, epoch: int = 5) -> str:
    """A broker's line that names the controller's epoch, as there is one before every leader."""
    body = (
        f"Stopped fetchers as part of LeaderAndIsr request correlationId 1 from controller 1 epoch {epoch} as part of"
    )
    return line(second, f"[Broker id={node}] {body} the become-leader transition for 1 partitions", STATE)


def leads(second: float, partition: str, leader_epoch: int, *, node: int) -> str:
    """A broker's line that it leads."""
    rest = (
        "from offset 0 with partition epoch 1, high watermark 0, ISR [1], adding replicas [] and removing replicas [] ."
    )
    return line(second, f"[Broker id={node}] Leader {partition} starts at leader epoch {leader_epoch} {rest}", STATE)


def elected(
    partition: str, leader: int, isr: Sequence[int], leader_epoch: int, before: str = "OfflinePartition"
) -> str:
    """The body of S2."""
    brokers = ", ".join(map(str, isr))
    state = f"LeaderAndIsr(leader={leader}, leaderEpoch={leader_epoch}, isr=List({brokers}), zkVersion={leader_epoch})"
    return f"Changed partition {partition} from {before} to OnlinePartition with state {state}"


def shrunk(partition: str, leader: int, isr: Sequence[int], leader_epoch: int) -> str:
    """The body of S3."""
    state = f"(Leader:{leader},ISR:{','.join(map(str, isr))},LeaderEpoch:{leader_epoch},ZkVersion:2,ControllerEpoch:5)"
    return f"Partition {partition} state changed to {state} after removing replica 9 from the ISR"


def brokers(second: float, *, added: str = "", deleted: str = "", bounced: str = "", node: int = 1) -> str:
    """C2."""
    body = f"Newly added brokers: {added}, deleted brokers: {deleted}, bounced brokers: {bounced}, all live brokers: 1"
    return said(second, body, node=node)


def won(second: float, epoch: int, *, node: int = 1) -> str:
    """C1."""
    body = f"{node} successfully elected as the controller. Epoch incremented to {epoch} and epoch zk version is now 1"
    return said(second, body, node=node)


def facts(folder: Path, logs: dict[str, str], **options: str) -> list[Row]:
    """The facts of files by name."""
    paths = []
    for name, text in logs.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        paths.append(path)
    return list(read_logs(paths, LogOptions(**options)))


def of(rows: Iterable[Row], kind: str, *columns: str) -> list[tuple[object, ...]]:
    """The columns of the facts of a kind; moments in seconds after the start."""
    return [tuple(_value(row, name) for name in columns) for row in rows if row["kind"] == kind]


def _value(row: Row, name: str) -> object:
    value = row[name]
    return (value - START_MS) / 1000 if name == "ts_ms" and isinstance(value, int) else value


def data(row: Row) -> dict[str, object]:
    """The values of a row that have no column."""
    found = json.loads(str(row["data"]))
    assert isinstance(found, dict)
    return found
