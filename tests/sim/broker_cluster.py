"""All simulated brokers together: how they reach each other, and the invariants of their data at the end."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import pairwise
from random import Random
from typing import Any, Final

from controllerd.core.kafka_error import KafkaError
from events.base import Call
from tests.sim.broker import BrokerSettings, SimBroker
from tests.sim.broker_frames import Key, SimRequest
from tests.sim.broker_life import BrokerLife
from tests.sim.broker_log import Ledger, LogKey, Loss
from tests.sim.broker_replica import Role
from tests.sim.loop import VirtualLoop
from tests.sim.network import SimNetwork
from tests.sim.oracle_seen import AskedIsr, BrokerAtRest, SeenRequest, state_path
from tests.sim.zk_server import SimZooKeeper
from tests.sim.zk_tree import Txn

_IDS: Final = "/brokers/ids/"

OnRequest = Callable[[int, str, str, SimRequest, KafkaError], None]
"""Broker id, owner of the link, name of the api, the request, the top-level error that is answered."""


class SimCluster:
    """The brokers of one simulated cluster.

    ``ask`` brings a call to the active controller: it gives the handler's reply, or raises ``NotController``,
    ``CallFailed`` or an ``OSError`` (``TimeoutError`` for an answer that never came).
    """

    def __init__(
        self,
        loop: VirtualLoop,
        network: SimNetwork,
        server: SimZooKeeper,
        rng: Random,
        ask: Callable[[Call[Any]], Awaitable[Any]],
        *,
        trace: Callable[[str], None] | None = None,
    ) -> None:
        self.loop = loop
        self.network = network
        self.server = server
        self.rng = rng
        self.ask = ask
        self.trace = trace or loop.trace
        self.brokers: dict[int, SimBroker] = {}
        self.ledger = Ledger()
        self.on_request: list[OnRequest] = []
        self.on_asked_isr: list[Callable[[AskedIsr], None]] = []
        self.on_bad_dirs: list[Callable[[int], None]] = []
        """Called with the id of a broker that lost a log directory, before the broker notifies the controller."""
        self.malformed: list[str] = []
        """Requests that no broker could have read; must be empty at the end of every test."""
        self.blocks: list[tuple[int, int, int]] = []
        """Producer ids handed out: first, last, broker."""
        self.min_insync: dict[str, int] = {}
        """``min.insync.replicas`` of topics, 1 where it is not set."""
        self._separated: set[tuple[int, int]] = set()
        self._values = 0
        server.observers.append(self._committed)

    def _committed(self, txn: Txn) -> None:
        for change in txn.changes:
            if change.op == "delete" and change.path.startswith(_IDS):
                broker = self.brokers.get(int(change.path.removeprefix(_IDS)))
                if broker is not None:
                    broker.deregistered()

    def add(self, broker: int, *, rack: str | None = None, settings: BrokerSettings | None = None) -> SimBroker:
        """Add a broker that is not started yet."""
        added = self.brokers[broker] = SimBroker(broker, self, rack=rack, settings=settings or BrokerSettings())
        return added

    async def sleep(self, seconds: float) -> None:
        """Sleep in virtual time."""
        await asyncio.sleep(seconds)

    # -- between brokers ---------------------------------------------------------------------------------------------

    def separate(self, one: int, other: int) -> None:
        """Cut the network between two brokers."""
        self._separated |= {(one, other), (other, one)}

    def reunite(self) -> None:
        """Restore the network between all brokers."""
        self._separated.clear()

    def reach(self, follower: int, leader: int) -> BrokerLife | None:
        """The process of a leader, if a follower can talk to it now."""
        found = self.brokers.get(leader)
        if found is None or not found.is_serving or (follower, leader) in self._separated:
            return None
        return found.life

    def wake(self, follower: int, key: Key) -> None:
        """Let a follower fetch, because its leader has something new."""
        found = self.brokers.get(follower)
        if found is not None and found.life is not None:
            found.life.want_fetch(key)

    def min_insync_of(self, topic: str) -> int:
        """``min.insync.replicas`` of a topic."""
        return self.min_insync.get(topic, 1)

    # -- producers ---------------------------------------------------------------------------------------------------

    def believed_leaders(self, topic: str, partition: int) -> list[int]:
        """The running brokers that believe to lead the partition: more than one while some have stale state."""
        return [
            broker.id
            for broker in self.brokers.values()
            if broker.is_serving
            and broker.life is not None
            and (replica := broker.life.replicas.get((topic, partition))) is not None
            and replica.role is Role.LEADER
        ]

    def produce(self, topic: str, partition: int) -> int:
        """Append a record of its own, acks=all, at every broker that believes to lead; return how many took it."""
        taken = 0
        for leader in self.believed_leaders(topic, partition):
            self._values += 1
            taken += self.brokers[leader].append(topic, partition, self._values) is KafkaError.NONE
        return taken

    @property
    def acknowledged(self) -> int:
        """How many records were acknowledged to producers."""
        return self.ledger.count

    # -- invariants --------------------------------------------------------------------------------------------------

    def lost_records(self) -> list[str]:
        """Acknowledged records that are lost without the excuse of an unclean election, as sentences."""
        return [str(loss) for loss in [*self.ledger.lost, *self._lost_at_last(excused=False)]]

    def records_lost_uncleanly(self) -> list[str]:
        """Lost records that an unclean election excuses."""
        return [str(loss) for loss in [*self.ledger.lost_uncleanly, *self._lost_at_last(excused=True)]]

    def _lost_at_last(self, *, excused: bool) -> list[Loss]:
        losses: list[Loss] = []
        for key in self.ledger.acknowledged:
            keeper = self._keeper(key)
            if (
                keeper is None
                or (key[0] in self.ledger.unclean_allowed) is not excused
                or key[0] in self.ledger.being_deleted
            ):
                continue
            log = self.brokers[keeper].disk.get((key[0], key[2]))
            # a topic may have got its id later, and LeaderAndIsr without ids leaves a log without one
            is_its_log = log is None or key[1] == log.topic_id or None in {key[1], log.topic_id}
            losses += self.ledger.check_last(key, keeper, log if is_its_log else None)
        return losses

    def _keeper(self, key: LogKey) -> int | None:
        """The broker that must have every record: the leader in ZooKeeper, the last leader, or the last in the ISR."""
        node = self.server.nodes.get(state_path((key[0], key[2])))
        with suppress(ValueError, KeyError):
            state = json.loads((node.data if node is not None else b"") or b"")
            keeper = state["leader"] if state["leader"] in self.brokers else state["isr"][0]
            return int(keeper) if keeper in self.brokers else None
        return self.ledger.last_leader(key)

    def diverged(self) -> list[str]:
        """In-sync followers whose log differs from their leader's below the high watermark, and rival leaders."""
        found = list(self.ledger.double_leaders)
        for broker in self.brokers.values():
            if broker.life is None:
                continue
            for key, replica in broker.life.replicas.items():
                if replica.role is Role.LEADER and key[0] not in self.ledger.being_deleted:
                    found += self._differing(broker.id, key)
        return found

    def _differing(self, leader: int, key: Key) -> list[str]:
        life = self.brokers[leader].life
        assert life is not None
        replica, found = life.replicas[key], []
        mark = replica.log.high_watermark
        for member in replica.isr:
            if member in self.brokers and key in self.brokers[member].offline:
                continue
            log = self.brokers[member].disk.get(key) if member in self.brokers else None
            if log is None or log.records[:mark] != replica.log.records[:mark]:
                found.append(f"{key[0]}-{key[1]}: the log of {member} is not that of its leader {leader} up to {mark}")
        return found

    def overlapping_blocks(self) -> list[str]:
        """Producer ids that were handed out twice, as sentences."""
        blocks = sorted(self.blocks)
        return [
            f"producer ids {later} were handed out after {earlier}"
            for earlier, later in pairwise(blocks)
            if later[0] <= earlier[1]
        ]

    def at_rest(self) -> list[BrokerAtRest]:
        """The brokers that are registered and serve, for the judge of the end."""
        return [broker.at_rest() for broker in self.brokers.values() if broker.is_serving]

    def seen(self, broker: int, owner: str, request: SimRequest, error: KafkaError) -> SeenRequest:
        """The request in the form that the judge takes."""
        return SeenRequest(
            broker, owner, request.api_name, request.controller_id, request.controller_epoch, request.broker_epoch,
            int(error), self.loop.time(), request.rows, tuple(each.id for each in request.live_brokers),
        )  # fmt: skip
