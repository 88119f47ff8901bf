"""The memory of one run of a simulated broker: epochs, metadata cache, replicas. A crash loses it all.

Followers do not poll. A leader wakes the followers that lack records, which stands for the long poll of a real fetch. A
fetch is one instant, and fetched records count for the leader only at the next fetch, as in Kafka.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from broker.gate import ControlGate
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, LeaderAndIsr, TopicPartition
from controllerd.errors import ControllerdError
from events.admin import AllocateProducerIds, ControlledShutdown, ProducerIdBlock
from events.replicas import AlterPartitionReceived, AlterPartitionReply, ProposedIsr
from tests.sim.broker_frames import LEADER_AND_ISR, STOP_REPLICA, Key, PartitionRow, SimRequest
from tests.sim.broker_log import LogKey, ReplicaLog
from tests.sim.broker_metadata import Metadata
from tests.sim.broker_replica import Fetched, IsrChange, Role, SimReplica
from tests.sim.loop import VirtualLoop
from tests.sim.oracle_seen import AskedIsr

if TYPE_CHECKING:
    from asyncio import TimerHandle

    from tests.sim.broker import SimBroker

_DELETES_TOPIC: Final = -2
_UNKNOWN_EPOCH: Final = -1
_BY_ID: Final = 3
_BY_NAME: Final = 1
_BY_3_0: Final = 0
_FIRST_BACKOFF_S: Final = 0.05
_LONGEST_BACKOFF_S: Final = 1.0

Errors = list[tuple[Key, int]]


class BrokerLife:
    """One run of a broker's process."""

    def __init__(self, broker: "SimBroker", owner: str, broker_epoch: int) -> None:
        self.owner: Final = owner
        """The loop owner of its callbacks and tasks."""
        self.gate: Final = ControlGate()
        self.gate.broker_epoch = broker_epoch
        self.metadata: Final = Metadata()
        self.replicas: Final[dict[Key, SimReplica]] = {}
        self.conflicting: Final[dict[Key, None]] = {}
        """Replicas that cannot start because the disk has a replica of an earlier topic of that name."""
        self.since: Final = broker.cluster.loop.time()
        self.configured: Final = dict(broker.configured)
        """The settings in the broker's file at its start."""
        self._broker = broker
        self._id = broker.id
        self._cluster = broker.cluster
        self._disk = broker.disk
        self._dirty: dict[Key, None] = {}
        self._later: dict[Key, None] = {}
        self._fetch_timer: TimerHandle | None = None
        self._retry_timer: TimerHandle | None = None
        self._lag_timer: TimerHandle | None = None
        self._is_asking = False

    @property
    def _loop(self) -> VirtualLoop:
        return self._cluster.loop

    def _call_later(self, delay_s: float, callback: object, *args: object) -> "TimerHandle":
        context = self._loop.context_of(self.owner)
        return self._loop.call_later(delay_s, callback, *args, context=context)  # type: ignore[arg-type]

    # -- control requests --------------------------------------------------------------------------------------------

    def handle(self, request: SimRequest) -> tuple[KafkaError, Errors]:
        """Take a control request as a 3.9 broker does: top-level error, and errors of partitions."""
        gate = self.gate
        error = gate.admit(request.broker_epoch, request.controller_epoch, is_kraft_controller=request.is_kraft)
        if request.api == LEADER_AND_ISR:
            if error is not KafkaError.NONE:
                return error, [((row.topic, row.partition), error) for row in request.rows]
            ids = request.topic_ids
            return error, [((row.topic, row.partition), self._become(row, ids.get(row.topic))) for row in request.rows]
        if error is not KafkaError.NONE:
            return error, []
        if request.api == STOP_REPLICA:
            return error, [((row.topic, row.partition), self._stop(row)) for row in request.rows]
        if self.metadata.update(request):
            self._wake_outsiders()
        self._cluster.malformed += [
            f"broker {self._id} was made to forget the id of {topic} by UpdateMetadata {request.version}"
            for topic in self.metadata.take_forgotten()
        ]
        return error, []

    def _become(self, row: PartitionRow, topic_id: str | None) -> KafkaError:
        key = (row.topic, row.partition)
        if key in self._broker.offline:
            return KafkaError.KAFKA_STORAGE_ERROR
        replica = self.replicas.get(key)
        log = self._disk.get(key)
        known_id = None if log is None else log.topic_id
        if topic_id is not None and known_id is not None and topic_id != known_id:
            self.conflicting[key] = None
            return KafkaError.INCONSISTENT_TOPIC_ID
        leader_epoch = -1 if replica is None else replica.leader_epoch
        if row.leader_epoch <= leader_epoch:
            return self._nothing_new(row, log, topic_id, leader_epoch)
        if self._id not in row.replicas:
            return KafkaError.UNKNOWN_TOPIC_OR_PARTITION
        if log is None:
            if not self._broker.dirs.may_host(row):
                self._broker.offline[key] = None
                return KafkaError.KAFKA_STORAGE_ERROR
            self._broker.dirs.place(key)
            log = self._disk[key] = ReplicaLog(topic_id)
        log.topic_id = topic_id or log.topic_id
        if replica is None:
            replica = self.replicas[key] = SimReplica(key, self._id, log)
        self._take_role(replica, row)
        return KafkaError.NONE

    def _nothing_new(
        self, row: PartitionRow, log: ReplicaLog | None, topic_id: str | None, leader_epoch: int
    ) -> KafkaError:
        if row.leader_epoch == leader_epoch and topic_id is not None and log is not None and log.topic_id is None:
            log.topic_id = topic_id
            return KafkaError.NONE
        return KafkaError.STALE_CONTROLLER_EPOCH

    def _take_role(self, replica: SimReplica, row: PartitionRow) -> None:
        """Take the role of the row.

        A leader that is not live for this broker is ignored, and its leader epoch is not stored.
        """
        if row.leader == self._id:
            if replica.lead(row, self._loop.time()):
                self._cluster.ledger.leads(_log_key(replica), self._id, replica.leader_epoch, replica.log)
                self._advance(replica)
                self._wake_followers(replica)
                self._watch_lag()
        elif row.leader in self.metadata.brokers and replica.follow(row):
            self.want_fetch(replica.key)

    def _stop(self, row: PartitionRow) -> KafkaError:
        key = (row.topic, row.partition)
        if key in self._broker.offline:
            return KafkaError.KAFKA_STORAGE_ERROR
        replica = self.replicas.get(key)
        if replica is not None:
            if row.leader_epoch not in {_DELETES_TOPIC, _UNKNOWN_EPOCH} and row.leader_epoch < replica.leader_epoch:
                return KafkaError.FENCED_LEADER_EPOCH
            replica.stop()
        if row.delete:
            self.replicas.pop(key, None)
            if self._broker.dirs.refuses(key):
                return KafkaError.KAFKA_STORAGE_ERROR
            self._broker.dirs.deleted(key)
            self.conflicting.pop(key, None)
            log = self._disk.pop(key, None)
            self._broker.deleted[key] = None if log is None else log.topic_id
            if log is not None and row.leader_epoch == _DELETES_TOPIC:
                self._cluster.ledger.forget((row.topic, log.topic_id, row.partition))
        return KafkaError.NONE

    def fail_disk(self, key: Key) -> None:
        """Drop the replica whose log directory failed."""
        self.replicas.pop(key, None)

    # -- as leader ---------------------------------------------------------------------------------------------------

    def append(self, key: Key, value: int) -> KafkaError:
        """Append a producer's record, with acks=all."""
        replica = self.replicas.get(key)
        if replica is None:
            return KafkaError.NOT_LEADER_OR_FOLLOWER
        error = replica.append(value, self._loop.time(), self._cluster.min_insync_of(key[0]))
        if error is KafkaError.NONE:
            self._advance(replica)
            self._wake_followers(replica)
            self._watch_lag()
        return error

    def serve(self, follower: int, key: Key, leader_epoch: int, end: int, last_epoch: int) -> Fetched:
        """Answer a follower's fetch."""
        replica = self.replicas.get(key)
        if replica is None:
            return Fetched(KafkaError.NOT_LEADER_OR_FOLLOWER)
        answer = replica.serve(follower, leader_epoch, end, last_epoch, self._loop.time())
        if answer.error is not KafkaError.NONE or answer.diverges_at is not None:
            return answer
        if replica.may_join(follower) and follower in self.metadata.brokers:
            self._propose(replica, (*replica.isr, follower))
        self._advance(replica)
        return answer._replace(high_watermark=replica.log.high_watermark)

    def _advance(self, replica: SimReplica) -> None:
        mark = replica.log.high_watermark
        self._acknowledge(replica)
        if replica.log.high_watermark > mark:
            self._wake_followers(replica)

    def _acknowledge(self, replica: SimReplica) -> None:
        for offset in replica.advance(self._cluster.min_insync_of(replica.key[0])):
            record = replica.log.records[offset]
            self._cluster.ledger.acknowledge(_log_key(replica), offset, record, self._id, replica.leader_epoch)

    def _wake_followers(self, replica: SimReplica) -> None:
        for follower in replica.followers:
            self._cluster.wake(follower, replica.key)

    def _wake_outsiders(self) -> None:
        """Let the followers outside of the ISR fetch again, so that they are considered anew."""
        for replica in self.replicas.values():
            if replica.role is Role.LEADER and replica.pending is None:
                for follower in replica.outsiders:
                    self._cluster.wake(follower, replica.key)

    def _watch_lag(self) -> None:
        if self._lag_timer is None:
            self._lag_timer = self._call_later(self._broker.settings.lag_s / 2, self._check_lag)

    def _check_lag(self) -> None:
        self._lag_timer = None
        now, lag_s, unsettled = self._loop.time(), self._broker.settings.lag_s, False
        for replica in self.replicas.values():
            if replica.role is not Role.LEADER or replica.is_settled:
                continue
            unsettled = True
            if replica.pending is None and (out := replica.lagging(now, lag_s)):
                self._propose(replica, tuple(member for member in replica.isr if member not in out))
        if unsettled:
            self._watch_lag()

    # -- asking the controller ---------------------------------------------------------------------------------------

    def _propose(self, replica: SimReplica, isr: tuple[int, ...]) -> None:
        replica.propose(isr)
        if not self._is_asking:
            self._is_asking = True
            self._loop.spawn(self.owner, self._change_isrs(), name=f"{self.owner} isr")

    async def _change_isrs(self) -> None:
        backoff_s = _FIRST_BACKOFF_S
        while changes := self._wanted():
            if await self._ask_for(changes):
                backoff_s = _FIRST_BACKOFF_S
            else:
                await self._cluster.sleep(backoff_s)
                backoff_s = min(2 * backoff_s, _LONGEST_BACKOFF_S)
        self._is_asking = False

    def _wanted(self) -> dict[Key, IsrChange]:
        return {
            key: replica.pending
            for key, replica in self.replicas.items()
            if replica.role is Role.LEADER and replica.pending is not None and not replica.pending.stuck
        }

    async def _ask_for(self, changes: Mapping[Key, IsrChange]) -> bool:
        """Send one AlterPartition; False when any change of it must be sent again."""
        self._announce(changes)
        try:
            reply = await self._cluster.ask(self._alter_partition(changes))
        except (OSError, ControllerdError) as error:  # a time-out is an OSError
            self._trace(f"isr change not answered: {type(error).__name__}")
            return False
        outcomes = _outcomes(reply, changes, {key: self._topic_id(key) for key in changes})
        if reply.error is not KafkaError.NONE or KafkaError.NOT_CONTROLLER in outcomes.values():
            return False
        for key, change in changes.items():
            if key in outcomes and key in self.replicas:
                self._settle(self.replicas[key], change, outcomes[key])
        wanted = self._wanted()
        return not any(wanted.get(key) is change for key, change in changes.items())

    def _announce(self, changes: Mapping[Key, IsrChange]) -> None:
        for observer in self._cluster.on_asked_isr:
            for (topic, partition), change in changes.items():
                observer(AskedIsr(self._id, topic, partition, change.leader_epoch, change.partition_epoch, change.isr))

    def _alter_partition(self, changes: Mapping[Key, IsrChange]) -> AlterPartitionReceived:
        """The request by topic id when every topic has one (version 3), else by name (version 1.

        3.0 knows only version 0).
        """
        asked = {
            key: ProposedIsr(change.leader_epoch, change.partition_epoch, tuple(map(BrokerId, change.isr)))
            for key, change in changes.items()
        }
        by_id = {(topic_id, key[1]): each for key, each in asked.items() if (topic_id := self._topic_id(key))}
        is_first = self._broker.freezes_isr
        has_ids = len(by_id) == len(asked) and not is_first
        return AlterPartitionReceived(
            broker=BrokerId(self._id),
            broker_epoch=self.gate.broker_epoch,
            version=_BY_ID if has_ids else _BY_3_0 if is_first else _BY_NAME,
            by_name={} if has_ids else {TopicPartition(*key): each for key, each in asked.items()},
            by_id=by_id if has_ids else {},
        )

    def _topic_id(self, key: Key) -> str | None:
        log = self._disk.get(key)
        return None if log is None else log.topic_id

    def _settle(self, replica: SimReplica, change: IsrChange, outcome: LeaderAndIsr | KafkaError) -> None:
        was_pending = replica.pending is change
        replica.answered(change, outcome, self._broker.settings.release)
        if not was_pending or replica.pending is not None:
            return
        self._advance(replica)
        # The next follower may join now; after a refusal only in a while, or refusal and request would alternate for
        # ever.
        pause_s = 0.0 if isinstance(outcome, LeaderAndIsr) else _LONGEST_BACKOFF_S
        self._call_later(pause_s, self._wake_outsiders_of, replica)
        self._watch_lag()

    def _wake_outsiders_of(self, replica: SimReplica) -> None:
        if replica.role is Role.LEADER and replica.pending is None:
            for follower in replica.outsiders:
                self._cluster.wake(follower, replica.key)

    async def leave(self, attempts: int, backoff_s: float) -> bool:
        """Send ControlledShutdown until no partition remains; False after so many attempts without success."""
        for attempt in range(attempts):
            if attempt:
                await self._cluster.sleep(backoff_s)
            try:
                reply = await self._cluster.ask(ControlledShutdown(BrokerId(self._id), self.gate.broker_epoch))
            except (OSError, ControllerdError) as error:
                self._trace(f"controlled shutdown not answered: {type(error).__name__}")
                continue
            if reply.error is KafkaError.NONE and not reply.remaining:
                return True
        return False

    async def allocate_producer_ids(self) -> ProducerIdBlock:
        """Ask for a block of producer ids until there is one."""
        backoff_s = _FIRST_BACKOFF_S
        while True:
            try:
                block: ProducerIdBlock = await self._cluster.ask(
                    AllocateProducerIds(BrokerId(self._id), self.gate.broker_epoch)
                )
            except (OSError, ControllerdError) as error:
                self._trace(f"producer ids not answered: {type(error).__name__}")
            else:
                if block.error is KafkaError.NONE:
                    self._cluster.blocks.append((block.start, block.start + block.length - 1, self._id))
                    return block
            await self._cluster.sleep(backoff_s)
            backoff_s = min(2 * backoff_s, _LONGEST_BACKOFF_S)

    # -- as follower -------------------------------------------------------------------------------------------------

    def want_fetch(self, key: Key) -> None:
        """Fetch soon; also called by a leader that has new records."""
        replica = self.replicas.get(key)
        if replica is None or not replica.fetching:
            return
        self._dirty[key] = None
        self._later.pop(key, None)
        if self._fetch_timer is None:
            delay_s = self._broker.fetch_s.draw(self._cluster.rng)
            self._fetch_timer = self._call_later(delay_s, self._fetch_round)

    def _fetch_round(self) -> None:
        self._fetch_timer = None
        dirty, self._dirty = self._dirty, {}
        for key in dirty:
            replica = self.replicas.get(key)
            if replica is not None and replica.fetching:
                self._fetch(replica)
        if self._later and self._retry_timer is None:
            self._retry_timer = self._call_later(self._broker.settings.fetch_backoff_s, self._retry)

    def _retry(self) -> None:
        self._retry_timer = None
        later, self._later = self._later, {}
        for key in later:
            self.want_fetch(key)

    def _fetch(self, replica: SimReplica) -> None:
        key, log = replica.key, replica.log
        leader = None if self._broker.is_stuck else self._cluster.reach(self._id, replica.leader)
        if leader is None:
            self._later[key] = None
            return
        answer = leader.serve(self._id, key, replica.leader_epoch, log.end, log.last_epoch)
        if answer.error is KafkaError.FENCED_LEADER_EPOCH:
            replica.fetching = False
        elif answer.error is not KafkaError.NONE:
            self._later[key] = None
        elif replica.take_fetched(answer):
            self.want_fetch(key)

    def _trace(self, text: str) -> None:
        self._cluster.trace(f"broker {self._id}: {text}")


def _log_key(replica: SimReplica) -> LogKey:
    return (replica.key[0], replica.log.topic_id, replica.key[1])


def _outcomes(
    reply: AlterPartitionReply, changes: Mapping[Key, IsrChange], ids: Mapping[Key, str | None]
) -> dict[Key, LeaderAndIsr | KafkaError]:
    outcomes: dict[Key, LeaderAndIsr | KafkaError] = {}
    for key in changes:
        found = reply.partitions.get(TopicPartition(*key))
        if key[1] in reply.unknown_ids.get(ids[key] or "", ()):
            outcomes[key] = reply.unknown_error
        elif found is not None:
            outcomes[key] = found
    return outcomes
