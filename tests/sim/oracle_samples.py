"""A small correct history for tests of the judge: two instances, three brokers, one topic; a step is a transaction."""

import json
from collections.abc import Callable
from typing import Any, Final

from tests.sim.oracle import Oracle
from tests.sim.oracle_seen import OUR_IDS, AskedIsr, CachedPartition, Operation, Row, SeenRequest, Transaction

WINDOW: Final = 10.0
LONG: Final = 100.0
A_SESSION, B_SESSION, TOOL_SESSION = 1, 2, 9
BROKER_SESSIONS: Final = {1: 11, 2: 12, 3: 13}
A_NODE, B_NODE = OUR_IDS[0], OUR_IDS[1]
STATE: Final = "/brokers/topics/t/partitions/0/state"
TOPIC: Final = "/brokers/topics/t"
CONFIG: Final = "/config/topics/t"


def create(path: str, data: bytes | None = None, *, ephemeral: bool = False) -> Operation:
    return Operation("create", path, data, ephemeral=ephemeral)


def set_(path: str, data: bytes, expected: int) -> Operation:
    return Operation("set", path, data, expected)


def delete(path: str, expected: int = -1) -> Operation:
    return Operation("delete", path, expected=expected)


def fence(version: int) -> Operation:
    return Operation("check", "/controller_epoch", expected=version)


def document(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def state(leader: int, epoch: int, isr: list[int], *, written_by: int = 1, recovery: int | None = None) -> bytes:
    more = {} if recovery is None else {"leader_recovery_state": recovery}
    return document(version=1, leader=leader, leader_epoch=epoch, controller_epoch=written_by, isr=isr, **more)


def topic(partitions: dict[int, list[int]], **more: Any) -> bytes:
    fields = {"topic_id": "id-t", "adding_replicas": {}, "removing_replicas": {}, "kept": 1, **more}
    return document(version=3, partitions={str(number): r for number, r in partitions.items()}, **fields)


def election(node: int, instance: str | None, epoch: int, version: int, *, replaces: bool = False) -> list[Operation]:
    """The operations of an election; without ``instance`` a broker is elected."""
    held = [delete("/controller")] if replaces else []
    payload = document(version=2, brokerid=node, timestamp="1", instance=instance)
    raised = set_("/controller_epoch", b"%d" % epoch, version)
    return [raised, *held, create("/controller", payload, ephemeral=True)]


class SampleHistory:
    """A history with the judge that observes it. ``a`` leads in epoch 1; all brokers have been live for long."""

    def __init__(self, *, unclean: bool = False, takes: bool = True) -> None:
        self.oracle = Oracle(window=WINDOW, unclean_by_default=unclean, takes_from_brokers=takes)
        self.zookeeper, self.requests = self.oracle.zookeeper, self.oracle.requests
        self.zxid, self.time = 0, 0.0
        self.zookeeper.on_session("a", A_SESSION)
        self.zookeeper.on_session("b", B_SESSION)
        self.write(TOOL_SESSION, create("/controller_epoch", b"0"))
        for broker in BROKER_SESSIONS:
            self.register(broker)
        self.write(A_SESSION, *election(A_NODE, "uuid-a", 1, 0))
        self.write(TOOL_SESSION, create(TOPIC, topic({0: [1, 2, 3]})))
        self.write(A_SESSION, fence(1), create(STATE, state(1, 0, [1, 2, 3])))
        self.time += LONG

    def write(self, session: int, *operations: Operation, closes: bool = False) -> int:
        """Commit a transaction; return its zxid."""
        self.zxid += 1
        self.time += 1.0
        self.zookeeper.on_transaction(Transaction(self.zxid, session, operations, self.time, closes))
        return self.zxid

    def fenced(self, *operations: Operation) -> int:
        """Write as ``a`` with its fence."""
        return self.write(A_SESSION, fence(1), *operations)

    def register(self, broker: int) -> int:
        return self.write(
            BROKER_SESSIONS[broker], create(f"/brokers/ids/{broker}", document(version=5), ephemeral=True)
        )

    def die(self, broker: int) -> None:
        self.write(BROKER_SESSIONS[broker], delete(f"/brokers/ids/{broker}"), closes=True)

    def depose(self) -> None:
        """End the session of ``a`` and elect ``b``."""
        self.write(A_SESSION, delete("/controller"), closes=True)
        self.write(B_SESSION, *election(B_NODE, "uuid-b", 2, 1))

    def ask(self, isr: list[int], *, broker: int = 1, leader_epoch: int = 0, partition_epoch: int = 0) -> None:
        self.zookeeper.on_alter_partition(AskedIsr(broker, "t", 0, leader_epoch, partition_epoch, isr))

    def epoch_of(self, broker: int) -> int:
        return self.zookeeper.history.brokers[broker].czxid

    def send(self, api: str, *rows: Row, broker: int = 1, **fields: Any) -> None:
        """Let a broker accept a request of ``a``; ``fields`` replace correct values."""
        live = [1, 2, 3, A_NODE] if api == "UpdateMetadata" else []
        request: dict[str, Any] = {
            "owner": "a",
            "controller_id": A_NODE,
            "controller_epoch": 1,
            "broker_epoch": self.epoch_of(broker),
            "error": 0,
            "live_brokers": live,
            **fields,
        }
        self.requests.on_request(SeenRequest(broker=broker, api=api, rows=rows, time=self.time, **request))

    def send_live_brokers(self, broker: int = 1) -> None:
        self.send("UpdateMetadata", broker=broker)


def broken_by(history: Callable[[SampleHistory], object]) -> set[str]:
    """The rules that a history breaks."""
    sample = SampleHistory()
    history(sample)
    return {found.id for found in sample.oracle.violations}


PENDING_FIELD: Final = "owed"
"""The field of the znode of pending deletions, as the daemon writes it."""
ROW: Final = Row("t", 0, 1, 0, (1, 2, 3), 0, (1, 2, 3))
"""The partition as it is at the beginning."""
CACHED: Final = CachedPartition(1, 0, (1, 2, 3), 0)
