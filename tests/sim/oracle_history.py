"""The present and past content of ZooKeeper, as the judge remembers it: updated by each committed transaction."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec

from controllerd.core.model import Features
from controllerd.core.protocol_versions import LOWEST, ProtocolVersion, parse_broker_version
from tests.sim.oracle_asked import AdminRequests
from tests.sim.oracle_seen import OUR_IDS, Key, Operation, Transaction

CONTROLLER: Final = "/controller"
EPOCH: Final = "/controller_epoch"
IDS: Final = "/brokers/ids/"
PRODUCER_IDS: Final = "/latest_producer_id_block"
NEVER: Final = float("-inf")
_UNCLEAN: Final = "unclean.leader.election.enable"
_DECODER: Final = msgspec.json.Decoder()


class _StateDocument(msgspec.Struct, gc=False):
    leader: int
    leader_epoch: int
    controller_epoch: int
    isr: tuple[int, ...]
    leader_recovery_state: int = 0


_STATE_DECODER: Final = msgspec.json.Decoder(_StateDocument)


class PathKind(NamedTuple):
    """The meaning of a path: ``state``, ``topic``, ``config``, ``broker`` or ``other``."""

    kind: str
    topic: str = ""
    number: int = -1


class State(NamedTuple):
    """The content of a state znode; ``version`` is the version of the znode and ``life`` its czxid."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    recovery_state: int
    version: int
    life: int


class Node(NamedTuple):
    """A znode without its data."""

    version: int
    czxid: int
    owner: int
    mzxid: int


@dataclass(slots=True)
class PartitionHistory:
    """One partition through all lives of its topic."""

    replicas: tuple[int, ...] | None = None
    """The present assignment, None while there is none."""
    moved_at: float = NEVER
    """When the assignment last changed."""
    born_at: float = NEVER
    """When it was last created; its topic may have been created again without it."""
    gone_at: tuple[int, float] = 0, float("inf")
    """The zxid and the time at which it was last deleted with its topic."""
    is_gone: bool = True
    """Whether its topic was deleted, or did not exist yet."""
    former: list[tuple[tuple[int, ...], float]] = field(default_factory=list)
    """Earlier assignments, and until when each was valid."""
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    targets: set[tuple[int, ...]] = field(default_factory=set)
    """The assignments so far, each as it is or would be after its reassignment."""
    state: State | None = None
    committed: dict[int, State] = field(default_factory=dict)
    """Every state that was committed in the present life of the znode, by version."""
    earlier_lives: list[dict[int, State]] = field(default_factory=list)
    """The states of the earlier lives of the znode."""
    highest_epoch: int = -1
    is_foreign: bool = False
    """Whether the present version was written by another program: no instance need know its number."""

    @property
    def first_life(self) -> int:
        """The life of the first state that was ever committed, 0 while there was none."""
        lives = (state.life for committed in (*self.earlier_lives, self.committed) for state in committed.values())
        return next(lives, 0)

    def at(self, version: int) -> list[State]:
        """The states of this version, of every life of the znode in order."""
        return [committed[version] for committed in (*self.earlier_lives, self.committed) if version in committed]

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas after the reassignment that is under way, if any is."""
        return tuple(replica for replica in self.replicas or () if replica not in self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        """The replicas before the reassignment that is under way."""
        return tuple(replica for replica in self.replicas or () if replica not in self.adding)

    @property
    def is_being_reassigned(self) -> bool:
        """Whether a reassignment is under way."""
        return bool(self.adding or self.removing)

    def was_assigned(self, broker: int, since: float) -> bool:
        """Whether the broker had a replica at any time since then."""
        if self.replicas is not None and broker in self.replicas:
            return True
        return any(until >= since and broker in replicas for replicas, until in self.former)


@dataclass(slots=True)
class BrokerHistory:
    """One broker id through all its registrations."""

    czxid: int = 0
    """The czxid of the present registration, 0 while there is none."""
    changed_at: float = NEVER
    """When it last registered or was deregistered."""
    gone_at: int = 0
    """The zxid at which it was last deregistered."""
    is_usable: bool = False
    is_leaving: bool = False
    """Whether it asked for a controlled shutdown since it registered."""
    has_bad_dirs: bool = False
    """Whether it reported a failed log directory since it registered."""
    released: tuple[int, int] = (-1, -1)
    """The last answer to a request for controlled shutdown: for which broker epoch, in which controller epoch."""
    epochs: set[int] = field(default_factory=set)
    """The czxids of all its registrations."""
    registered_in: int = 0
    """The controller epoch in which it registered."""
    reached_at: dict[int, float] = field(default_factory=dict)
    """When the controller of an epoch first reached it since it registered."""
    read_in: set[int] = field(default_factory=set)
    """The epochs of the controllers that have read its present registration while they led."""
    known_in: set[int] = field(default_factory=set)
    """The epochs of the controllers that had read the registration before the present one, or before it died."""
    is_clean: bool = False
    """Whether its process has unclean elections turned off in its file."""


class History:
    """The judge's own image of ZooKeeper. ``window``: for so many seconds a controller may act on old state."""

    def __init__(self, window: float, *, unclean_by_default: bool = False) -> None:
        self.window = window
        self.nodes: dict[str, Node] = {}
        self.documents: dict[str, Any] = {}
        """Topic znodes by name, parsed; None for an unreadable one."""
        self.partitions: dict[Key, PartitionHistory] = {}
        self.brokers: dict[int, BrokerHistory] = {}
        self.releases: dict[int, tuple[int, int]] = {}
        """The releases of brokers; a broker without one supports every feature."""
        self.unreadable: set[str] = set()
        """State znodes whose content is unreadable."""
        self.controller: dict[str, Any] = {}
        self.epoch = 0
        self.last_producer_id = -1
        self.gone_at: dict[str, tuple[int, float]] = {}
        """The zxid at which a topic was last deleted, and when."""
        self.born_at: dict[str, float] = {}
        """When a topic was last created."""
        self.forgot: dict[tuple[int, Key], float] = {}
        """When a broker last received leader -2 for a partition."""
        self.gone_in: dict[str, int] = {}
        """The controller epoch in which a topic was last deleted."""
        self.asked = AdminRequests()
        """The requests that the controller got."""
        self._unclean_default = unclean_by_default
        self.features: Callable[[], Features] = Features
        """The features that the protocol version allows the active controller; S-02 and S-03 judge the version."""
        self.protocol_version = parse_broker_version(LOWEST)
        """The highest protocol version that a controller of the cluster ever had."""
        self._unclean: dict[str, bool] = {}
        self._clean_since: dict[str, float] = {}
        self._clean_by_default_since = NEVER
        self._configured_at: dict[str, float] = {}
        self._is_by_files = False
        self._by_files_since = NEVER
        self._places: dict[str, PathKind] = {}
        self._parsed: tuple[Operation | None, State | None] = None, None

    # -- questions ---------------------------------------------------------------------------------------------------

    @property
    def proven_version(self) -> ProtocolVersion:
        """The protocol version that the cluster has had: a controller had it, or a program wrote the id of a topic."""
        has_ids = any(document is not None and "topic_id" in document for document in self.documents.values())
        return max(self.protocol_version, parse_broker_version("2.8-IV0") if has_ids else parse_broker_version(LOWEST))

    def place(self, path: str) -> PathKind:
        """The meaning of the path."""
        place = self._places.get(path)
        if place is None:
            place = self._places[path] = _place(path)
        return place

    def partition(self, topic: str, number: int) -> PartitionHistory:
        """The history of a partition, empty if the partition never existed."""
        key = (topic, number)
        found = self.partitions.get(key)
        if found is None:
            found = self.partitions[key] = PartitionHistory()
        return found

    def live(self) -> set[int]:
        """The brokers with a readable registration."""
        return {broker for broker, history in self.brokers.items() if history.czxid and history.is_usable}

    def was_live(self, broker: int, now: float) -> bool:
        """Whether the broker was registered at any time within the window."""
        history = self.brokers.get(broker)
        return history is not None and (history.czxid > 0 or history.changed_at >= now - self.window)

    def is_surely_live(self, broker: int, now: float) -> bool:
        """Whether every controller must know by now that this broker is registered."""
        history = self.brokers.get(broker)
        is_live = history is not None and history.czxid > 0 and history.is_usable
        return is_live and self.brokers[broker].changed_at < now - self.window

    def surely_hosts(self, broker: int, now: float) -> bool:
        """Whether every controller must know by now that the broker has a replica, be it live or not."""
        return any(
            broker in (partition.replicas or ()) and partition.moved_at < now - self.window
            for partition in self.partitions.values()
        )

    def is_surely_eligible(self, broker: int, now: float) -> bool:
        """Whether every controller must know by now that this broker is eligible for leadership."""
        history = self.brokers.get(broker)
        return (
            history is not None
            and history.czxid > 0
            and history.changed_at < now - self.window
            and history.is_usable
            and not history.is_leaving
            and not history.has_bad_dirs
            and broker not in OUR_IDS
        )

    def is_surely_noticed(self, broker: int, now: float, epoch: int) -> bool:
        """Whether the controller of that epoch must have handled the registration of the broker.

        A controller that was elected later has read it. An earlier one handles it after all events in its queue, which
        takes as long as ZooKeeper is slow, and handles a broker that registered anew as dead first, then as new: so
        does Kafka's own controller. Its first request to that life of the broker shows that it knows.
        """
        history = self.brokers[broker]
        return epoch > history.registered_in or history.reached_at.get(epoch, now) < now - self.window

    def is_release_known(self, broker: int, epoch: int, now: float) -> bool:
        """Whether the controller of that epoch must know the release of the broker, because it reached it before."""
        history = self.brokers.get(broker)
        return history is None or history.reached_at.get(epoch, now) < now - self.window

    def may_leave(self, broker: int, epoch: int) -> bool:
        """Whether the controller of that epoch knows that this life of the broker is in controlled shutdown."""
        history = self.brokers.get(broker)
        return history is not None and history.released == (history.czxid, epoch)

    def is_unclean_allowed(self, topic: str, now: float) -> bool:
        """Whether the topic allowed unclean elections at any time within the window."""
        if self.allows_unclean_now(topic):
            return True
        since = self._clean_since.get(topic, NEVER)
        if topic not in self._unclean:
            since = max(since, self._clean_by_default_since)
        return since >= now - self.window

    def is_surely_up_to_files(self, topic: str, now: float) -> bool:
        """Whether every controller must know by now that only the files of brokers can allow unclean elections."""
        since = max(self._by_files_since, self._configured_at.get(topic, NEVER))
        return self._is_by_files and topic not in self._unclean and since < now - self.window

    def allows_unclean_now(self, topic: str) -> bool:
        """Whether the topic allows unclean elections."""
        return self._unclean.get(topic, self._unclean_default)

    # -- announcements of the story ----------------------------------------------------------------------------------

    def leaves(self, broker: int) -> None:
        """Note that the broker asks for a controlled shutdown."""
        self.brokers.setdefault(broker, BrokerHistory()).is_leaving = True

    def released(self, broker: int, broker_epoch: int, epoch: int) -> None:
        """Note that the controller of that epoch has begun to move leaderships away from the broker."""
        self.brokers.setdefault(broker, BrokerHistory()).released = broker_epoch, epoch

    def reached(self, broker: int, broker_epoch: int, epoch: int, now: float) -> None:
        """Note that a life of the broker got a request of the controller of that epoch."""
        history = self.brokers.get(broker)
        if history is not None and history.czxid == broker_epoch:
            history.reached_at.setdefault(epoch, now)

    def reads(self, broker: int, zxid: int, epoch: int) -> None:
        """Note that the controller of that epoch reads the registration that the broker had at that zxid."""
        history = self.brokers.get(broker)
        if history is not None and 0 < history.czxid <= zxid:
            history.read_in.add(epoch)

    def starts(self, broker: int, *, is_clean: bool) -> None:
        """Note that the process of the broker registers; ``is_clean``: its file turns unclean elections off."""
        self.brokers.setdefault(broker, BrokerHistory()).is_clean = is_clean

    def loses_dirs(self, broker: int) -> None:
        """Note that the broker reports a failed log directory."""
        self.brokers.setdefault(broker, BrokerHistory()).has_bad_dirs = True

    def set_unclean_default(self, now: float, *, allowed: bool, by_files: bool = False) -> None:
        """Change the cluster's default of unclean elections; ``by_files``: the files of brokers alone decide it."""
        if self._unclean_default and not allowed:
            self._clean_by_default_since = now
        self._unclean_default = allowed
        if self._is_by_files != by_files:
            self._is_by_files, self._by_files_since = by_files, now

    # -- committed transactions --------------------------------------------------------------------------------------

    def apply(self, operation: Operation, transaction: Transaction) -> None:
        """Apply an operation."""
        path, kind = operation.path, operation.kind
        if kind == "check":
            return
        if kind == "delete":
            self.nodes.pop(path, None)
            if self.place(path).kind == "topic":
                self.gone_at[self.place(path).topic] = transaction.zxid, transaction.time
                self._end_partitions(self.place(path).topic, transaction)
                self.gone_in[self.place(path).topic] = self.epoch
            elif self.place(path).kind == "broker":
                self.brokers[self.place(path).number].gone_at = transaction.zxid
            self._take(operation, None, None, transaction)
        else:
            if operation.kind == "create" and self.place(path).kind == "topic":
                self.born_at[self.place(path).topic] = transaction.time
            node = self.nodes[path] = self.node_after(operation, transaction)
            self._take(operation, operation.data, node, transaction)
        if self.asked.concerns(path):
            found = None if kind == "delete" else document_of(operation.data)
            self.asked.take(path, found, transaction.time, exists=kind != "delete")

    def _end_partitions(self, topic: str, transaction: Transaction) -> None:
        for (name, _), partition in self.partitions.items():
            if name == topic and not partition.is_gone:
                partition.is_gone, partition.gone_at = True, (transaction.zxid, transaction.time)

    def node_after(self, operation: Operation, transaction: Transaction) -> Node:
        """The znode after a create or set."""
        before = self.nodes.get(operation.path) if operation.kind == "set" else None
        if before is not None:
            return Node(before.version + 1, before.czxid, before.owner, transaction.zxid)
        owner = transaction.session_id if operation.ephemeral else 0
        return Node(0, transaction.zxid, owner, transaction.zxid)

    def state_after(self, operation: Operation, node: Node) -> State | None:
        """The state after a create or set of a state znode, None if it is unreadable; parsed only once."""
        if self._parsed[0] is not operation:
            self._parsed = operation, _state_of(operation.data, node)
        return self._parsed[1]

    def _take(self, operation: Operation, data: bytes | None, node: Node | None, transaction: Transaction) -> None:
        path = operation.path
        place = self.place(path)
        if place.kind == "state":
            self._take_state(operation, place, node)
            self.partition(place.topic, place.number).is_foreign = transaction.session_id == 0
        elif place.kind == "topic":
            self._take_topic(place.topic, data, node, transaction.time)
        elif place.kind == "broker":
            self._take_broker(place.number, data, node, transaction.time)
        elif place.kind == "config":
            self._take_config(place.topic, data, transaction.time)
        elif path == EPOCH and node is not None:
            self.epoch = number_of(data)
        elif path == CONTROLLER:
            self.controller = document_of(data) or {}
        elif path == PRODUCER_IDS:
            self.last_producer_id = max(self.last_producer_id, block_of(data)[1])

    def _take_state(self, operation: Operation, place: PathKind, node: Node | None) -> None:
        partition = self.partition(place.topic, place.number)
        state = partition.state = self.state_after(operation, node) if node is not None else None
        is_unreadable = state is None and node is not None
        (self.unreadable.add if is_unreadable else self.unreadable.discard)(operation.path)
        if state is None:
            return
        if node is not None and node.version == 0 and partition.committed:
            partition.earlier_lives.append(partition.committed)
            partition.committed = {}
        partition.committed[state.version] = state
        partition.highest_epoch = max(partition.highest_epoch, state.leader_epoch)

    def _take_topic(self, topic: str, data: bytes | None, node: Node | None, now: float) -> None:
        before, document = self.documents.get(topic) or {}, document_of(data)
        if node is None:
            self.documents.pop(topic, None)
        else:
            self.documents[topic] = document
        after = assignments_of(document)
        adding, removing = assignments_of(document, "adding_replicas"), assignments_of(document, "removing_replicas")
        for number in sorted(assignments_of(before).keys() | after.keys()):
            partition = self.partition(topic, number)
            lists = adding.get(number, ()), removing.get(number, ())
            if (partition.adding, partition.removing) != lists:
                (partition.adding, partition.removing), partition.moved_at = lists, now
            self._assign(partition, after.get(number), now)
            if partition.replicas:
                partition.targets.add(partition.target)

    def _assign(self, partition: PartitionHistory, replicas: tuple[int, ...] | None, now: float) -> None:
        if partition.replicas == replicas:
            return
        if replicas is not None and partition.is_gone:
            partition.is_gone, partition.born_at = False, now
        if partition.replicas is not None:
            partition.former.append((partition.replicas, now))
        partition.replicas, partition.moved_at = replicas, now

    def _take_broker(self, broker: int, data: bytes | None, node: Node | None, now: float) -> None:
        history = self.brokers.setdefault(broker, BrokerHistory())
        czxid = node.czxid if node is not None else 0
        usable = isinstance(document_of(data), dict)
        if czxid != history.czxid or usable != history.is_usable:
            history.changed_at = now
        if czxid != history.czxid:
            history.is_leaving = history.has_bad_dirs = False
            history.registered_in, history.reached_at = self.epoch, {}
            history.read_in, history.known_in = set(), history.read_in
        history.czxid, history.is_usable = czxid, usable
        if czxid:
            history.epochs.add(czxid)

    def _take_config(self, topic: str, data: bytes | None, now: float) -> None:
        before = self._unclean.get(topic, self._unclean_default)
        override = _override_of(data)
        self._configured_at[topic] = now
        if override is None:
            self._unclean.pop(topic, None)
        else:
            self._unclean[topic] = override
        if before and not self._unclean.get(topic, self._unclean_default):
            self._clean_since[topic] = now


def is_registration(path: str) -> bool:
    """Whether the path is the registration of an instance of controllerd; no broker registers there."""
    number = path.removeprefix(IDS)
    return path.startswith(IDS) and number.isdecimal() and int(number) in OUR_IDS


def _place(path: str) -> PathKind:
    names = path.split("/")[1:]
    match names:
        case ["brokers", "topics", topic, "partitions", number, "state"] if number.isdecimal():
            return PathKind("state", topic, int(number))
        case ["brokers", "topics", topic]:
            return PathKind("topic", topic)
        case ["brokers", "ids", number] if number.isdecimal() and not is_registration(path):
            return PathKind("broker", number=int(number))
        case ["config", "topics", topic]:
            return PathKind("config", topic)
        case _:
            return PathKind("other")


def document_of(data: bytes | None) -> dict[str, Any] | None:
    """Parse the data as a JSON object, None if it is none."""
    try:
        found = _DECODER.decode(data or b"")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def number_of(data: bytes | None) -> int:
    """Parse the data as a number, -1 if it is none."""
    return int(data) if data is not None and data.isdigit() else -1


def block_of(data: bytes | None) -> tuple[int, int]:
    """The first and the last producer id of a block, (-1, -1) if there is none."""
    document = document_of(data)
    if document is None:
        return -1, -1
    first, last = str(document.get("block_start", "")), str(document.get("block_end", ""))
    return (int(first), int(last)) if first.isdecimal() and last.isdecimal() else (-1, -1)


def _state_of(data: bytes | None, node: Node) -> State | None:
    try:
        found = _STATE_DECODER.decode(data or b"")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    recovery = found.leader_recovery_state
    return State(
        found.leader, found.leader_epoch, found.isr, found.controller_epoch, recovery, node.version, node.czxid
    )


def assignments_of(document: Mapping[str, Any] | None, field_name: str = "partitions") -> dict[int, tuple[int, ...]]:
    """The replicas of each partition; unreadable ones are left out."""
    partitions = document.get(field_name) if document is not None else None
    if not isinstance(partitions, dict):
        return {}
    return {
        int(number): tuple(replicas)
        for number, replicas in partitions.items()
        if number.isdecimal() and isinstance(replicas, Sequence)
    }


def _override_of(data: bytes | None) -> bool | None:
    """The value of ``unclean.leader.election.enable`` in a topic's configuration; an unreadable one allows none."""
    if not data:
        return None
    document = document_of(data)
    config = document.get("config") if document is not None else None
    if not isinstance(config, dict):
        return False
    value = config.get(_UNCLEAN)
    return None if value is None else str(value).lower() == "true"
