"""Judges the requests that brokers receive, one by one, against the transactions of ZooKeeper."""

from collections.abc import Callable, Sequence
from typing import Final

from tests.sim.oracle_history import BrokerHistory, PartitionHistory, State
from tests.sim.oracle_lives import ReceivedLives
from tests.sim.oracle_offsets import GroupOffsets
from tests.sim.oracle_seen import NO_LEADER, OUR_IDS, SeenRequest, SeenRow, Violation
from tests.sim.oracle_zookeeper import ZooKeeperOracle

RULES: Final = {
    "R-01": "the first request of an epoch to a broker is an UpdateMetadata with live brokers",
    "R-02": "no broker accepts an epoch after it has accepted a newer one",
    "R-03": "accepted LeaderAndIsr never go back in (controller epoch, leader epoch) of a partition",
    "R-04": "leader, leader epoch, ISR and partition epoch were committed together in ZooKeeper",
    "R-05": "replicas were committed in the topic znode",
    "R-06": "a broker epoch is the czxid of a registration of that broker",
    "R-07": "a request carries an epoch that its sender won, under the id with which it won it",
    "R-08": "no request is sent in a term after its instance knew that the term had ended",
    "R-09": "after a pause no request is sent before the epoch was validated again",
    "R-10": "accepted UpdateMetadata never go back per partition",
    "R-11": "live brokers are registered brokers and the sender, never another instance",
    "R-12": "no replica is deleted that the topic znode assigns, but of a topic to be deleted or a replica that moved",
    "R-13": "no request is for an earlier life of a broker if its sender must know that the broker registered anew",
    "R-14": "no topic is reported as gone unless its deletion was requested",
    "R-15": "a broker gets the end of a topic before the state of the next topic of that name",
}
UPDATE_METADATA: Final = "UpdateMetadata"
LEADER_AND_ISR: Final = "LeaderAndIsr"
STOP_REPLICA: Final = "StopReplica"
_DURING_DELETE: Final = -2

_Life = tuple[int, int]
"""A broker and its broker epoch."""
_SentEpochs = tuple[int, int, int, int]
"""Life of the state znode, controller epoch, leader epoch, partition epoch: in the order in which they rise."""


class RequestOracle:
    """The judge of requests. It takes every request in the order of the brokers' answers; see ``violations``."""

    def __init__(self, zookeeper: ZooKeeperOracle) -> None:
        self.violations: list[Violation] = []
        self._zookeeper = zookeeper
        self._history = zookeeper.history
        self.deleted_earlier: Callable[[int, tuple[str, int]], bool] = lambda _broker, _key: False
        """Whether a replica that a broker deleted just now was of an earlier topic of that name; the story sets it."""
        self._first_checked: set[tuple[_Life, int]] = set()
        self._accepted: dict[_Life, int] = {}
        self._sent: dict[tuple[str, _Life], dict[tuple[str, int], _SentEpochs]] = {}
        self._seen: dict[_Life, list[SeenRequest]] = {}
        self._received: dict[_Life, ReceivedLives] = {}
        self._offsets = GroupOffsets()
        self._ended: dict[str, int] = {}
        self._paused: set[str] = set()
        self._works_on: dict[str, float] = {}
        """By instance the time at which its present event came to the queue; an idle instance is absent."""
        self._judged: dict[int, Sequence[SeenRow]] = {}
        """Rows that brokers share, by identity: a committed state stays committed, so each is checked only once."""

    def _say(self, rule: str, time: float, evidence: str) -> None:
        self.violations.append(Violation(rule, time, evidence))

    # -- announcements of the story ----------------------------------------------------------------------------------

    def on_term_end(self, owner: str, epoch: int) -> None:
        """Note that the instance learned that its term of this epoch is over (or gave it up)."""
        self._ended[owner] = max(epoch, self._ended.get(owner, 0))

    def on_pause(self, owner: str) -> None:
        """Note that the process continues after a pause longer than its session, or that its epoch is in doubt."""
        self._paused.add(owner)

    def on_validated(self, owner: str) -> None:
        """Note that the instance has read from ZooKeeper which controller has the role, or has won it."""
        self._paused.discard(owner)

    def on_event(self, owner: str, queued_at: float) -> None:
        """Note that the instance begins an event of its queue: all earlier events are done."""
        self._works_on[owner] = queued_at

    def on_idle(self, owner: str) -> None:
        """Note that the instance has ended an event, and that its queue is empty."""
        self._works_on.pop(owner, None)

    def is_done(self, owner: str, moment: float) -> bool:
        """Whether the instance has handled all events that came to its queue until then."""
        return self._works_on.get(owner, moment) >= moment

    def on_sent(self, owner: str, broker: int, epoch: int, time: float) -> None:
        """Judge a control request at the moment when the instance sends it."""
        if epoch <= self._ended.get(owner, 0):
            self._say("R-08", time, f"{owner} sent to broker {broker} in epoch {epoch}, which it knew to be over")
        if owner in self._paused:
            self._say("R-09", time, f"{owner} sent to broker {broker} before it had validated its epoch")

    # -- received requests -------------------------------------------------------------------------------------------

    def on_request(self, request: SeenRequest) -> None:
        """Judge a request that a broker answered."""
        self._history.reached(request.broker, request.broker_epoch, request.controller_epoch, request.time)
        self._judge_sender(request)
        self._judge_first(request)
        if request.api == STOP_REPLICA:
            self._judge_stops(request)
        else:
            self._judge_rows(request)
        if request.api == UPDATE_METADATA:
            self._judge_live_brokers(request)
        if request.error == 0:
            self._judge_order(request)
            self._note_forgotten(request)
        if request.api == UPDATE_METADATA and request.error == 0:
            self._note_received(request)
            self._judge_offsets(request)

    def _judge_sender(self, request: SeenRequest) -> None:
        term = self._zookeeper.terms.get(request.controller_epoch)
        owner = None if term is None else self._zookeeper.owner_of(term.session)
        if term is None or term.node_id != request.controller_id or owner not in {None, request.owner}:
            who = "nobody" if term is None else f"node {term.node_id} ({owner})"
            self._say("R-07", request.time, f"{_brief(request)}: the epoch was won by {who}")
        broker = self._history.brokers.get(request.broker)
        if broker is None or request.broker_epoch not in broker.epochs:
            known = sorted(broker.epochs) if broker is not None else []
            self._say("R-06", request.time, f"{_brief(request)}: its registrations were {known}")
        elif broker.czxid > request.broker_epoch and self._must_know(request, broker):
            self._say("R-13", request.time, f"{_brief(request)}: it registered with {broker.czxid} long ago")

    def _must_know(self, request: SeenRequest, broker: BrokerHistory) -> bool:
        """Whether the sender must know the present registration of the broker.

        A controller that was elected later has read it. An earlier one notices it within the window, but after all
        events of its queue, which takes as long as ZooKeeper is slow: Kafka's own controller, too, has one queue.
        """
        noticed_at = broker.changed_at + self._history.window
        was_elected_later = request.controller_epoch > broker.registered_in
        return noticed_at < request.time and (was_elected_later or self.is_done(request.owner, noticed_at))

    def _judge_first(self, request: SeenRequest) -> None:
        key = ((request.broker, request.broker_epoch), request.controller_epoch)
        if key in self._first_checked:
            return
        self._first_checked.add(key)
        if request.api != UPDATE_METADATA or not request.live_brokers:
            self._say("R-01", request.time, f"{_brief(request)} is the first of its epoch")

    def _judge_live_brokers(self, request: SeenRequest) -> None:
        brokers = self._history.brokers
        for broker in request.live_brokers:
            known = broker == request.controller_id if broker in OUR_IDS else broker in brokers
            if not known:
                self._say("R-11", request.time, f"{_brief(request)} names broker {broker} as live")

    # -- the content of requests -------------------------------------------------------------------------------------

    def _judge_rows(self, request: SeenRequest) -> None:
        if self._judged.get(id(request.rows)) is request.rows:
            return
        self._judged[id(request.rows)] = request.rows
        partitions = self._history.partitions
        for row in request.rows:
            if row.leader == _DURING_DELETE:
                self._judge_gone(request, row)
                continue
            partition = partitions.get((row.topic, row.partition))
            state = None if partition is None else partition.committed.get(row.partition_epoch)
            if state is None or not _is_same(state, row):
                state = None if partition is None else _state_of_earlier_life(partition, row)
            if partition is None or state is None:
                self._say("R-04", request.time, f"{_brief(request)} says {_row(row)}, which was never committed")
            elif tuple(row.replicas) != partition.replicas:
                self._judge_replicas(request, row, partition)

    def _judge_replicas(self, request: SeenRequest, row: SeenRow, partition: PartitionHistory) -> None:
        replicas = tuple(row.replicas)
        if replicas not in partition.targets and all(replicas != former for former, _ in partition.former):
            what = f"{_brief(request)} assigns {row.topic}-{row.partition} to {list(replicas)}"
            self._say("R-05", request.time, f"{what}, the topic znode to {partition.replicas}")

    def _judge_stops(self, request: SeenRequest) -> None:
        for row in request.rows:
            partition = self._history.partitions.get((row.topic, row.partition))
            if partition is None or row.leader_epoch > partition.highest_epoch:
                self._say("R-04", request.time, f"{_brief(request)} has the leader epoch {row.leader_epoch}")
            elif row.delete and request.error == 0:
                self._judge_deleted(request, row, partition)

    def _judge_gone(self, request: SeenRequest, row: SeenRow) -> None:
        since, is_there = request.time - self._history.window, row.topic in self._history.documents
        if not is_there or self._history.asked.may_be_deleted(row.topic, since):
            return
        if not self._waited_since_before(request, row.topic):
            self._say("R-14", request.time, f"{_brief(request)} says that {row.topic}-{row.partition} is gone")

    def _waited_since_before(self, request: SeenRequest, topic: str) -> bool:
        """Whether the request was queued before the topic was created anew, as far as the broker can know.

        A queue keeps its order and ends with the term: a controller that led when the topic was deleted may have
        queued it then, unless this life of the broker has received the new topic already, which was queued later. A
        state that the earlier topic had as well does not show that.
        """
        if topic not in self._history.gone_in or request.controller_epoch > self._history.gone_in[topic]:
            return False
        gone_at, _ = self._history.gone_at[topic]
        received = self._received.get((request.broker, request.broker_epoch))
        return received is None or not received.has_received_since(topic, gone_at)

    def _judge_deleted(self, request: SeenRequest, row: SeenRow, partition: PartitionHistory) -> None:
        """Judge a deleted replica: it moved elsewhere, or its topic is deleted.

        The replica may be wanted again by now.
        """
        broker, replicas, state = request.broker, partition.replicas, partition.state
        what = f"{_brief(request)} deletes {row.topic}-{row.partition}"
        if replicas is None:
            return
        if row.topic in self._history.asked.markers or self._waited_since_before(request, row.topic):
            return
        # A request that waited is correct if a newer LeaderAndIsr, with a higher leader epoch, waits behind it.
        sent = self._sent.get((LEADER_AND_ISR, (broker, request.broker_epoch)), {}).get((row.topic, row.partition))
        sent_epoch = -1 if sent is None else sent[2]
        if state is not None and broker in state.isr:
            self._say("R-12", request.time, f"{what}, the ISR is {list(state.isr)}")
        elif (
            broker in partition.target
            and partition.moved_at < request.time - self._history.window
            and sent_epoch >= row.leader_epoch
            and not self.deleted_earlier(broker, (row.topic, row.partition))
        ):
            self._say("R-12", request.time, f"{what}, assigned to {list(replicas)}")

    def _note_forgotten(self, request: SeenRequest) -> None:
        """Note the removals of partitions; of a topic that was created anew they are about the earlier one."""
        asked, documents = self._history.asked, self._history.documents
        for row in request.rows:
            if row.leader == _DURING_DELETE and (row.topic in asked.markers or row.topic not in documents):
                self._history.forgot[request.broker, (row.topic, row.partition)] = request.time

    def _note_received(self, request: SeenRequest) -> None:
        """Note which lives of the topics in the request the broker has received."""
        received = self._received.setdefault((request.broker, request.broker_epoch), ReceivedLives())
        for row in request.rows:
            key = row.topic, row.partition
            partition = self._history.partitions.get(key)
            if partition is not None and row.leader == _DURING_DELETE:
                received.take_removal(key, partition.first_life)
            elif partition is not None:
                received.take_state(
                    key, [state.life for state in partition.at(row.partition_epoch) if _is_same(state, row)]
                )

    def _judge_offsets(self, request: SeenRequest) -> None:
        """Judge the offsets: group coordinators drop the offsets of a partition only when they receive its removal."""
        life = request.broker, request.broker_epoch
        for row in request.rows:
            key = row.topic, row.partition
            partition = self._history.partitions.get(key)
            state = None if partition is None else partition.committed.get(row.partition_epoch)
            if row.leader == _DURING_DELETE:
                self._offsets.drop(life, key)
                if row.topic in self._history.asked.markers or row.topic not in self._history.documents:
                    self._offsets.note_deletion(self._registrations(), key, request.controller_epoch)
            elif state is None or not _is_same(state, row):
                continue  # of an earlier life of the topic, or judged above
            elif not self._offsets.commit(life, key, request.controller_epoch, state):
                what = f"{_brief(request)} tells of {_row(row)}"
                self._say("R-15", request.time, f"{what}; that the topic before it is gone was never said")

    def _registrations(self) -> list[_Life]:
        return [(broker, history.czxid) for broker, history in self._history.brokers.items() if history.is_usable]

    # -- order of accepted requests ----------------------------------------------------------------------------------

    def _judge_order(self, request: SeenRequest) -> None:
        life = request.broker, request.broker_epoch
        newest = self._accepted.get(life, 0)
        if request.controller_epoch < newest:
            self._say("R-02", request.time, f"{_brief(request)} was accepted after epoch {newest}")
        self._accepted[life] = max(newest, request.controller_epoch)
        if request.api == STOP_REPLICA:
            return
        sent = self._sent.setdefault((request.api, life), {})
        back = [row for row in request.rows if not self._rises(sent, request.controller_epoch, row)]
        seen = self._seen.setdefault(life, [])
        # The network may deliver a request again that was retried on another connection; that is not a new request.
        if back and not any(_is_repeat(request, earlier) for earlier in seen):
            rule = "R-03" if request.api == LEADER_AND_ISR else "R-10"
            self._say(rule, request.time, f"{_brief(request)} goes back for {[_row(row) for row in back[:3]]}")
        seen.append(request)

    def _rises(self, sent: dict[tuple[str, int], _SentEpochs], epoch: int, row: SeenRow) -> bool:
        """Remember the epochs of the row, and return whether they are not older than the ones before."""
        key = row.topic, row.partition
        partition = self._history.partitions.get(key)
        state = None if partition is None else partition.committed.get(row.partition_epoch)
        if state is None or row.leader == _DURING_DELETE or not _is_same(state, row):
            return True  # of an earlier life of the topic, or judged above
        now = state.life, epoch, row.leader_epoch, row.partition_epoch
        before = sent.get(key)
        if before is None or before <= now:
            sent[key] = now
            return True
        return False


def _is_same(state: State, row: SeenRow) -> bool:
    return (
        state.leader == row.leader
        and state.leader_epoch == row.leader_epoch
        and (state.isr is row.isr or state.isr == tuple(row.isr))
    )


def _state_of_earlier_life(partition: PartitionHistory, row: SeenRow) -> State | None:
    """The state that the row repeats from an earlier life of the topic."""
    for committed in partition.earlier_lives:
        state = committed.get(row.partition_epoch)
        if state is not None and _is_same(state, row):
            return state
    return None


def _is_repeat(one: SeenRequest, other: SeenRequest) -> bool:
    return (
        (one.owner, one.api, one.controller_epoch) == (other.owner, other.api, other.controller_epoch)
        and len(one.rows) == len(other.rows)
        and all(_row(mine) == _row(theirs) for mine, theirs in zip(one.rows, other.rows, strict=True))
        and list(one.live_brokers) == list(other.live_brokers)
    )


def _brief(request: SeenRequest) -> str:
    epochs = f"epoch {request.controller_epoch}, broker epoch {request.broker_epoch}"
    return f"{request.api} of {request.owner} to broker {request.broker} ({epochs})"


def _row(row: SeenRow) -> str:
    leader = "nobody" if row.leader == NO_LEADER else row.leader
    return f"{row.topic}-{row.partition} {leader}/{row.leader_epoch} {list(row.isr)} v{row.partition_epoch}"
