"""Judges what instances do because somebody called for it: topics that they create, extend and mark for deletion.

A wish is one row of a call. What is written is compared with the wishes that are open at that time; what is answered is
compared with what was written. A wish whose answer nobody got may still be carried out for a while.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple

from tests.sim.oracle_history import NEVER, History, assignments_of, document_of
from tests.sim.oracle_seen import OUR_IDS, Operation, Report, Transaction

RULES: Final = {
    "Z-36": "an instance creates, extends and dooms topics only for an open call; a refused one leaves nothing behind",
    "Z-37": "a topic is created and extended as it was asked for, on brokers that live",
    "Z-38": "a topic and its configuration come into being together, and no configuration without a topic",
    "Z-39": "every topic that is created gets an id that no other one ever had",
    "Z-40": "an answer is true: what is answered without error is done, what is refused was in the way",
    "Z-41": "whoever changes a credential changes nothing else of the user, and tells it",
    "Z-46": "a topic gets no configuration that a broker, live or with replicas, cannot read: its next start fails",
}
UNDERSTOOD_SINCE: Final[Mapping[tuple[str, str], tuple[int, int]]] = {
    ("compression.zstd.level", "7"): (3, 8),
    ("message.format.version", "3.4-IV0"): (3, 4),
    ("message.format.version", "3.9-IV0"): (3, 8),
    ("message.timestamp.after.max.ms", "5000"): (3, 6),
    ("local.retention.bytes", "5"): (3, 6),
}
"""Name and value of a configuration -> the first release whose brokers start with it, from Kafka's ``LogConfig``."""
TOPICS: Final = "/brokers/topics/"
CONFIGS: Final = "/config/topics/"
USERS: Final = "/config/users/"
MARKERS: Final = "/admin/delete_topics/"
CHANGES: Final = "/config/changes/config_change_"
_UNKNOWN_TOPIC: Final = 3
_EXISTS: Final = 36
_INVALID_PARTITIONS: Final = 37
_DISABLED: Final = 73
_THROTTLED: Final = 89
_CREDENTIAL: Final = "SCRAM-"


class Wanted(Enum):
    """What a call asks for."""

    CREATE = "create"
    GROW = "grow"
    DELETE = "delete"


_SAID_OF_OTHERS: Final = {Wanted.CREATE: _EXISTS, Wanted.GROW: _INVALID_PARTITIONS}
"""The answer when others have written what was asked for, or more."""
DEFAULT_PARTITIONS: Final = frozenset({1, 7})
"""Every ``num.partitions`` that brokers of stories have: which of them counts, the majority of the brokers decides."""


@dataclass(eq=False, slots=True)
class RequestedReplicas:
    """One row of a call, from the moment at which it is asked."""

    wanted: Wanted
    topic: str
    asked_at: float
    validates_only: bool = False
    partitions: int = 1
    """Of the new topic, or the new total."""
    takes_default: bool = False
    """Whether the caller left the number of partitions of the new topic to the cluster."""
    replication: int = 1
    assignments: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Given by the caller: of all partitions, or of the added ones."""
    configs: Mapping[str, str] = field(default_factory=dict)
    ended_at: float | None = None
    """When the call ended, None while it goes on."""
    is_answered: bool = False
    """Whether it ended with an answer."""

    def may_act(self, now: float, window: float) -> bool:
        """Whether something that is written now may be for this wish."""
        if self.validates_only or self.is_answered:
            return False
        return self.ended_at is None or now <= self.ended_at + window


class _Act(NamedTuple):
    """Something that was written, and the wishes that it may have been for; an answered one is no longer among them."""

    time: float
    wishes: list[RequestedReplicas]
    topic_id: str | None
    what: str


class CallJudge:
    """Compares what is written and what is answered with what was asked for."""

    def __init__(self, history: History, report: Report) -> None:
        self._history = history
        self._report = report
        self._wishes: dict[tuple[Wanted, str], list[RequestedReplicas]] = {}
        self._acts: dict[tuple[Wanted, str], list[_Act]] = {}
        self._ids: set[str] = set()
        self._strangers_at: dict[str, float] = {}
        self._users: dict[str, dict[str, Any]] = {}
        """What is configured for users besides credentials, by the path of the znode."""
        self._born: dict[str, int] = {}
        """The zxid at which an instance last created a topic."""
        self.created = 0
        """Topics that instances created."""
        self.grown = 0
        """Topics that instances extended."""
        self.has_quota = False
        """Whether anybody ever had a quota."""

    # -- announcements of the story ----------------------------------------------------------------------------------

    def ask(self, wishes: Iterable[RequestedReplicas]) -> None:
        """A call is made; before any answer."""
        for wish in wishes:
            self._wishes.setdefault((wish.wanted, wish.topic), []).append(wish)

    def lose(self, wishes: Iterable[RequestedReplicas], now: float) -> None:
        """Nobody knows what became of the call."""
        for wish in wishes:
            wish.ended_at = now

    def answer(self, wish: RequestedReplicas, now: float, error: int, topic_id: str | None = None) -> None:
        """The call was answered for this wish."""
        wish.ended_at, wish.is_answered = now, True
        acts = self._acts.get((wish.wanted, wish.topic), [])
        mine = [act for act in acts if wish in act.wishes]
        if error == 0 and not wish.validates_only:
            self._judge_done(wish, mine, topic_id, now)
            return
        for act in mine:
            act.wishes.remove(wish)
            if not act.wishes and not self._is_hidden(act, wish, error):
                self._report("Z-36", now, f"{act.what} at {act.time:.3f} s, and answered {error}")
        if error:
            self._judge_refusal(wish, error, now)

    def _is_hidden(self, act: _Act, wish: RequestedReplicas, error: int) -> bool:
        """Whether a write cannot be told from that of others: its answer was lost, and they wrote as much since."""
        written_at = self._strangers_at.get(wish.topic, NEVER)
        is_as_large = len(assignments_of(self._history.documents.get(wish.topic)) or ()) >= wish.partitions
        is_said_of_them = wish.wanted is Wanted.CREATE or is_as_large
        return error == _SAID_OF_OTHERS.get(wish.wanted) and written_at > act.time and is_said_of_them

    def _judge_done(self, wish: RequestedReplicas, mine: list[_Act], topic_id: str | None, now: float) -> None:
        if wish.wanted is Wanted.DELETE:
            if not self._history.asked.may_be_deleted(wish.topic, wish.asked_at):
                self._report("Z-40", now, f"{wish.topic} is to be deleted, says the answer, and has no marker")
            return
        acts = mine if wish.wanted is Wanted.GROW else [act for act in mine if act.topic_id == topic_id]
        if not acts:
            self._report("Z-40", now, f"{wish.wanted.value} {wish.topic} was answered without error, id {topic_id}")
            return
        # It was for this wish and for no other one.
        self._acts[wish.wanted, wish.topic].remove(acts[0])

    def _judge_refusal(self, wish: RequestedReplicas, error: int, now: float) -> None:
        since, asked = wish.asked_at - self._history.window, self._history.asked
        topic, name = wish.topic, f"{wish.wanted.value} {wish.topic} was answered {error}"
        was_there = topic in self._history.documents or self._history.gone_at.get(topic, (0, NEVER))[1] >= since
        if error == _EXISTS and not was_there and not asked.may_be_deleted(topic, since):
            self._report("Z-40", now, f"{name}, and there was no such topic")
        elif error == _UNKNOWN_TOPIC and self._was_known(topic, since) and not asked.may_be_deleted(topic, since):
            self._report("Z-40", now, f"{name}, and the topic is there")
        elif error == _THROTTLED and not self.has_quota:
            self._report("Z-40", now, f"{name}, and nobody has a quota")

    def _was_known(self, topic: str, since: float) -> bool:
        """Whether every controller must have known the topic: nobody else touched its znode either."""
        born_at = self._history.born_at.get(topic, NEVER)
        is_readable = bool(assignments_of(self._history.documents.get(topic)))
        return is_readable and max(born_at, self._strangers_at.get(topic, NEVER)) < since

    # -- what is committed, not applied yet --------------------------------------------------------------------------

    def see(self, operation: Operation, transaction: Transaction, *, is_ours: bool) -> None:
        """Anybody writes something."""
        if operation.path.startswith(USERS):
            self._users[operation.path] = _all_but_credentials(operation)
        elif operation.path.startswith(TOPICS) and "/" not in operation.path.removeprefix(TOPICS):
            topic_id = (document_of(operation.data) or {}).get("topic_id")
            self._ids |= {topic_id} if topic_id else set()
            if not is_ours:
                self._strangers_at[operation.path.removeprefix(TOPICS)] = transaction.time

    def judge_created(self, operation: Operation, topic: str, transaction: Transaction) -> None:
        """An instance creates a topic."""
        now, document = transaction.time, document_of(operation.data) or {}
        what = f"{topic} was created as {assignments_of(document)}"
        self._judge_id(topic, document.get("topic_id"), now)
        config = _config_in(transaction, topic)
        if config is None:
            self._report("Z-38", now, f"{topic} was created without a configuration")
        open_ones = self._open(Wanted.CREATE, topic, now)
        fitting = [wish for wish in open_ones if self._is_as_wanted(wish, document, now) and wish.configs == config]
        if open_ones and not fitting:
            self._report("Z-37", now, f"{what} with {config}, wanted was {open_ones}")
        self._note(Wanted.CREATE, topic, _Act(now, fitting, document.get("topic_id"), what), asked=bool(open_ones))
        self._judge_understood(topic, config or {}, now)
        self._born[topic] = transaction.zxid
        self.created += 1

    def _judge_understood(self, topic: str, config: Mapping[str, str], now: float) -> None:
        since = max((UNDERSTOOD_SINCE.get(item, (0, 0)) for item in config.items()), default=(0, 0))
        history = self._history
        releases = sorted(history.releases.items())
        older = [each for each, release in releases if release < since and not self._is_stood_for(each, since)]
        ended = [broker for broker in older if history.is_surely_live(broker, now) or history.surely_hosts(broker, now)]
        if ended:
            self._report("Z-46", now, f"{topic} was created with {config}, which brokers {ended} do not understand")

    def _is_stood_for(self, broker: int, since: tuple[int, int]) -> bool:
        """Whether a newer protocol version stands for a broker that no controller has reached in its present life.

        It has risen while the broker was down: operators raise it when every broker has been upgraded.
        """
        lives = self._history.brokers.get(broker)
        is_unheard_of = lives is None or not lives.heard
        return is_unheard_of and self._history.protocol_version[:2] >= since

    def _judge_id(self, topic: str, topic_id: str | None, now: float) -> None:
        if topic_id is None and not self._history.features().topic_ids:
            return
        if not topic_id or topic_id in self._ids:
            self._report("Z-39", now, f"{topic} was created with the id {topic_id}")

    def _is_as_wanted(self, wish: RequestedReplicas, document: Mapping[str, Any], now: float) -> bool:
        made = assignments_of(document)
        if document.get("adding_replicas") or document.get("removing_replicas"):
            return False
        if wish.assignments:
            return made == wish.assignments
        wanted = DEFAULT_PARTITIONS if wish.takes_default else {wish.partitions}
        return (
            len(made) in wanted
            and sorted(made) == list(range(len(made)))
            and all(self._is_placed(replicas, wish.replication, now) for replicas in made.values())
        )

    def _is_placed(self, replicas: tuple[int, ...], count: int, now: float) -> bool:
        live = all(self._history.was_live(broker, now) and broker not in OUR_IDS for broker in replicas)
        return live and len(set(replicas)) == len(replicas) == count

    def judge_growth(self, topic: str, before: Mapping[str, Any], after: Mapping[str, Any], now: float) -> None:
        """An instance writes a topic znode that was there."""
        old, new = assignments_of(before), assignments_of(after)
        added = {number: new[number] for number in new.keys() - old.keys()}
        if not added:
            return
        what = f"{topic} got {added}"
        open_ones = self._open(Wanted.GROW, topic, now)
        fitting = [wish for wish in open_ones if self._is_grown_as_wanted(wish, old, added, now)]
        if open_ones and not fitting:
            self._report("Z-37", now, f"{what}, wanted was {open_ones}")
        self._note(Wanted.GROW, topic, _Act(now, fitting, None, what), asked=bool(open_ones))
        self.grown += 1

    def _is_grown_as_wanted(
        self,
        wish: RequestedReplicas,
        old: Mapping[int, tuple[int, ...]],
        added: Mapping[int, tuple[int, ...]],
        now: float,
    ) -> bool:
        if added.keys() != set(range(len(old), wish.partitions)):
            return False
        if wish.assignments:
            return dict(added) == dict(wish.assignments)
        return all(self._is_placed(replicas, len(old[0]), now) for replicas in added.values())

    def judge_marker(self, topic: str, now: float) -> None:
        """An instance asks for a deletion."""
        wishes = self._open(Wanted.DELETE, topic, now)
        self._note(Wanted.DELETE, topic, _Act(now, wishes, None, f"{topic} was marked"), asked=bool(wishes))

    def judge_config(self, topic: str, transaction: Transaction) -> None:
        """An instance writes the configuration of a topic."""
        if not any(each.kind == "create" and each.path == TOPICS + topic for each in transaction.operations):
            self._report("Z-38", transaction.time, f"the configuration of {topic} was written without the topic")

    def judge_user(self, operation: Operation, transaction: Transaction) -> None:
        """An instance writes what is configured for a user."""
        kept, written = self._users.get(operation.path, {}), _all_but_credentials(operation)
        if kept != written:
            self._report("Z-41", transaction.time, f"{operation.path} had {kept} and got {written}")
        if not any(each.kind == "create" and each.path.startswith(CHANGES) for each in transaction.operations):
            self._report("Z-41", transaction.time, f"nobody was told of {operation.path}")

    def _open(self, wanted: Wanted, topic: str, now: float) -> list[RequestedReplicas]:
        wishes = self._wishes.get((wanted, topic), [])
        return [wish for wish in wishes if wish.may_act(now, self._history.window)]

    def _note(self, wanted: Wanted, topic: str, act: _Act, *, asked: bool) -> None:
        if asked:
            self._acts.setdefault((wanted, topic), []).append(act)
        else:
            self._report("Z-36", act.time, f"{act.what}, and nobody asked for it")

    # -- the end -----------------------------------------------------------------------------------------------------

    def stray_configs(self) -> list[str]:
        """The configurations that instances wrote for topics that are gone, and that are left."""
        nodes, doomed = self._history.nodes, self._history.asked.markers
        gone = [topic for topic in sorted(self._born) if TOPICS + topic not in nodes and topic not in doomed]
        left = [topic for topic in gone if CONFIGS + topic in nodes]
        return [topic for topic in left if nodes[CONFIGS + topic].czxid <= self._born[topic]]


def _config_in(transaction: Transaction, topic: str) -> Mapping[str, str] | None:
    found = [each for each in transaction.operations if each.path == CONFIGS + topic and each.kind in {"create", "set"}]
    config = (document_of(found[0].data) or {}).get("config") if found else None
    return config if isinstance(config, dict) else None


def _all_but_credentials(operation: Operation) -> dict[str, Any]:
    config = (document_of(operation.data) or {}).get("config") or {}
    return {name: value for name, value in config.items() if not name.startswith(_CREDENTIAL)}
