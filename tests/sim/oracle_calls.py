"""Judges the topics that instances create, extend and mark for deletion because of a call.

Each write is compared with the rows of calls that are open at that time, and each answer with the writes. A row whose
answer was lost may still be carried out for a while.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple

from tests.sim.oracle_history import NEVER, History, assignments_of, document_of
from tests.sim.oracle_seen import OUR_IDS, Operation, Report, Transaction

RULES: Final = {
    "Z-36": "an instance creates, extends and marks topics only for an open call; a refused call leaves nothing behind",
    "Z-37": "a topic is created and extended as requested, on live brokers",
    "Z-38": "a topic and its configuration are created together, and no configuration without a topic",
    "Z-39": "every created topic gets an id that no other topic ever had",
    "Z-40": "an answer is true: without error the request is done, with an error its reason existed",
    "Z-41": "a change of a credential changes nothing else of the user, and is announced",
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


class TopicOperation(Enum):
    """The operation of a call."""

    CREATE = "create"
    GROW = "grow"
    DELETE = "delete"


_REFUSED_AS_EXISTING: Final = {TopicOperation.CREATE: _EXISTS, TopicOperation.GROW: _INVALID_PARTITIONS}
"""The refusal of a row when other programs have written the same or more."""
DEFAULT_PARTITIONS: Final = frozenset({1, 7})
"""Every ``num.partitions`` that brokers of stories have; the majority of the brokers decides which one counts."""


@dataclass(eq=False, slots=True)
class CallRow:
    """One row of a call, from the moment at which the call is sent."""

    wanted: TopicOperation
    topic: str
    asked_at: float
    validates_only: bool = False
    partitions: int = 1
    """The number of partitions of the new topic, or the new total."""
    takes_default: bool = False
    """Whether the caller left the number of partitions of the new topic to the cluster."""
    replication: int = 1
    assignments: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """The assignments given by the caller: of all partitions, or of the added ones."""
    configs: Mapping[str, str] = field(default_factory=dict)
    ended_at: float | None = None
    """When the call ended, None while it goes on."""
    is_answered: bool = False
    """Whether the call ended with an answer."""

    def may_act(self, now: float, window: float) -> bool:
        """Whether a write of this moment may be for this row."""
        if self.validates_only or self.is_answered:
            return False
        return self.ended_at is None or now <= self.ended_at + window


class _RecordedWrite(NamedTuple):
    """A write, and the rows that it may have been for; an answered row is no longer among them."""

    time: float
    rows: list[CallRow]
    topic_id: str | None
    what: str


class CallJudge:
    """Compares the writes and the answers with the calls."""

    def __init__(self, history: History, report: Report) -> None:
        self._history = history
        self._report = report
        self._rows: dict[tuple[TopicOperation, str], list[CallRow]] = {}
        self._acts: dict[tuple[TopicOperation, str], list[_RecordedWrite]] = {}
        self._ids: set[str] = set()
        self._changed_by_others_at: dict[str, float] = {}
        self._users: dict[str, dict[str, Any]] = {}
        """The configuration of users except for credentials, by the path of the znode."""
        self._born: dict[str, int] = {}
        """The zxid at which an instance last created a topic."""
        self.created = 0
        """Topics that instances created."""
        self.grown = 0
        """Topics that instances extended."""
        self.has_quota = False
        """Whether there ever was a quota."""

    # -- announcements of the story ----------------------------------------------------------------------------------

    def ask(self, rows: Iterable[CallRow]) -> None:
        """Note the rows of a call, before any answer."""
        for row in rows:
            self._rows.setdefault((row.wanted, row.topic), []).append(row)

    def lose(self, rows: Iterable[CallRow], now: float) -> None:
        """Note that the answer of a call was lost."""
        for row in rows:
            row.ended_at = now

    def answer(self, row: CallRow, now: float, error: int, topic_id: str | None = None) -> None:
        """Judge the answer to this row."""
        row.ended_at, row.is_answered = now, True
        acts = self._acts.get((row.wanted, row.topic), [])
        mine = [act for act in acts if row in act.rows]
        if error == 0 and not row.validates_only:
            self._judge_done(row, mine, topic_id, now)
            return
        for act in mine:
            act.rows.remove(row)
            if not act.rows and not self._is_hidden(act, row, error):
                self._report("Z-36", now, f"{act.what} at {act.time:.3f} s, and answered {error}")
        if error:
            self._judge_refusal(row, error, now)

    def _is_hidden(self, act: _RecordedWrite, row: CallRow, error: int) -> bool:
        """Whether a write without an answer looks like a foreign one, because others wrote as much since."""
        written_at = self._changed_by_others_at.get(row.topic, NEVER)
        is_as_large = len(assignments_of(self._history.documents.get(row.topic)) or ()) >= row.partitions
        is_explained = row.wanted is TopicOperation.CREATE or is_as_large
        return error == _REFUSED_AS_EXISTING.get(row.wanted) and written_at > act.time and is_explained

    def _judge_done(self, row: CallRow, mine: list[_RecordedWrite], topic_id: str | None, now: float) -> None:
        if row.wanted is TopicOperation.DELETE:
            if not self._history.asked.may_be_deleted(row.topic, row.asked_at):
                self._report("Z-40", now, f"{row.topic} is to be deleted, says the answer, and has no marker")
            return
        acts = mine if row.wanted is TopicOperation.GROW else [act for act in mine if act.topic_id == topic_id]
        if not acts:
            self._report("Z-40", now, f"{row.wanted.value} {row.topic} was answered without error, id {topic_id}")
            return
        # The write was for this row and for no other one.
        self._acts[row.wanted, row.topic].remove(acts[0])

    def _judge_refusal(self, row: CallRow, error: int, now: float) -> None:
        since, asked = row.asked_at - self._history.window, self._history.asked
        topic, name = row.topic, f"{row.wanted.value} {row.topic} was answered {error}"
        was_there = topic in self._history.documents or self._history.gone_at.get(topic, (0, NEVER))[1] >= since
        if error == _EXISTS and not was_there and not asked.may_be_deleted(topic, since):
            self._report("Z-40", now, f"{name}, and there was no such topic")
        elif error == _UNKNOWN_TOPIC and self._was_known(topic, since) and not asked.may_be_deleted(topic, since):
            self._report("Z-40", now, f"{name}, and the topic is there")
        elif error == _THROTTLED and not self.has_quota:
            self._report("Z-40", now, f"{name}, and there is no quota")

    def _was_known(self, topic: str, since: float) -> bool:
        """Whether every controller must have known the topic: no other program wrote its znode either."""
        born_at = self._history.born_at.get(topic, NEVER)
        is_readable = bool(assignments_of(self._history.documents.get(topic)))
        return is_readable and max(born_at, self._changed_by_others_at.get(topic, NEVER)) < since

    # -- transactions, before they are applied -----------------------------------------------------------------------

    def see(self, operation: Operation, transaction: Transaction, *, is_ours: bool) -> None:
        """Take an operation of any writer."""
        if operation.path.startswith(USERS):
            self._users[operation.path] = _all_but_credentials(operation)
        elif operation.path.startswith(TOPICS) and "/" not in operation.path.removeprefix(TOPICS):
            topic_id = (document_of(operation.data) or {}).get("topic_id")
            self._ids |= {topic_id} if topic_id else set()
            if not is_ours:
                self._changed_by_others_at[operation.path.removeprefix(TOPICS)] = transaction.time

    def judge_created(self, operation: Operation, topic: str, transaction: Transaction) -> None:
        """Judge the creation of a topic by an instance."""
        now, document = transaction.time, document_of(operation.data) or {}
        what = f"{topic} was created as {assignments_of(document)}"
        self._judge_id(topic, document.get("topic_id"), now)
        config = _config_in(transaction, topic)
        if config is None:
            self._report("Z-38", now, f"{topic} was created without a configuration")
        open_ones = self._open(TopicOperation.CREATE, topic, now)
        fitting = [row for row in open_ones if self._is_as_wanted(row, document, now) and row.configs == config]
        if open_ones and not fitting:
            self._report("Z-37", now, f"{what} with {config}, wanted was {open_ones}")
        self._note(
            TopicOperation.CREATE,
            topic,
            _RecordedWrite(now, fitting, document.get("topic_id"), what),
            asked=bool(open_ones),
        )
        self._judge_understood(topic, config or {}, now)
        self._born[topic] = transaction.zxid
        self.created += 1

    def _judge_understood(self, topic: str, config: Mapping[str, str], now: float) -> None:
        since = max((UNDERSTOOD_SINCE.get(item, (0, 0)) for item in config.items()), default=(0, 0))
        history = self._history
        releases = sorted(history.releases.items())
        older = [each for each, release in releases if release < since and not self._is_implied_by_version(each, since)]
        ended = [broker for broker in older if history.is_surely_live(broker, now) or history.surely_hosts(broker, now)]
        if ended:
            self._report("Z-46", now, f"{topic} was created with {config}, which brokers {ended} do not understand")

    def _is_implied_by_version(self, broker: int, since: tuple[int, int]) -> bool:
        """Whether a newer protocol version implies the release of a broker that no controller has reached.

        The version has risen while the broker was down: operators raise it when every broker has been upgraded.
        """
        lives = self._history.brokers.get(broker)
        is_never_reached = lives is None or not lives.reached_at
        return is_never_reached and self._history.protocol_version[:2] >= since

    def _judge_id(self, topic: str, topic_id: str | None, now: float) -> None:
        if topic_id is None and not self._history.features().topic_ids:
            return
        if not topic_id or topic_id in self._ids:
            self._report("Z-39", now, f"{topic} was created with the id {topic_id}")

    def _is_as_wanted(self, row: CallRow, document: Mapping[str, Any], now: float) -> bool:
        made = assignments_of(document)
        if document.get("adding_replicas") or document.get("removing_replicas"):
            return False
        if row.assignments:
            return made == row.assignments
        wanted = DEFAULT_PARTITIONS if row.takes_default else {row.partitions}
        return (
            len(made) in wanted
            and sorted(made) == list(range(len(made)))
            and all(self._is_placed(replicas, row.replication, now) for replicas in made.values())
        )

    def _is_placed(self, replicas: tuple[int, ...], count: int, now: float) -> bool:
        live = all(self._history.was_live(broker, now) and broker not in OUR_IDS for broker in replicas)
        return live and len(set(replicas)) == len(replicas) == count

    def judge_growth(self, topic: str, before: Mapping[str, Any], after: Mapping[str, Any], now: float) -> None:
        """Judge a change of an existing topic znode by an instance."""
        old, new = assignments_of(before), assignments_of(after)
        added = {number: new[number] for number in new.keys() - old.keys()}
        if not added:
            return
        what = f"{topic} got {added}"
        open_ones = self._open(TopicOperation.GROW, topic, now)
        fitting = [row for row in open_ones if self._is_grown_as_wanted(row, old, added, now)]
        if open_ones and not fitting:
            self._report("Z-37", now, f"{what}, wanted was {open_ones}")
        self._note(TopicOperation.GROW, topic, _RecordedWrite(now, fitting, None, what), asked=bool(open_ones))
        self.grown += 1

    def _is_grown_as_wanted(
        self,
        row: CallRow,
        old: Mapping[int, tuple[int, ...]],
        added: Mapping[int, tuple[int, ...]],
        now: float,
    ) -> bool:
        if added.keys() != set(range(len(old), row.partitions)):
            return False
        if row.assignments:
            return dict(added) == dict(row.assignments)
        return all(self._is_placed(replicas, len(old[0]), now) for replicas in added.values())

    def judge_marker(self, topic: str, now: float) -> None:
        """Judge the marker of a topic deletion by an instance."""
        rows = self._open(TopicOperation.DELETE, topic, now)
        self._note(
            TopicOperation.DELETE, topic, _RecordedWrite(now, rows, None, f"{topic} was marked"), asked=bool(rows)
        )

    def judge_config(self, topic: str, transaction: Transaction) -> None:
        """Judge a topic configuration written by an instance."""
        if not any(each.kind == "create" and each.path == TOPICS + topic for each in transaction.operations):
            self._report("Z-38", transaction.time, f"the configuration of {topic} was written without the topic")

    def judge_user(self, operation: Operation, transaction: Transaction) -> None:
        """Judge a user configuration written by an instance."""
        kept, written = self._users.get(operation.path, {}), _all_but_credentials(operation)
        if kept != written:
            self._report("Z-41", transaction.time, f"{operation.path} had {kept} and got {written}")
        if not any(each.kind == "create" and each.path.startswith(CHANGES) for each in transaction.operations):
            self._report("Z-41", transaction.time, f"the change of {operation.path} was not announced")

    def _open(self, wanted: TopicOperation, topic: str, now: float) -> list[CallRow]:
        rows = self._rows.get((wanted, topic), [])
        return [row for row in rows if row.may_act(now, self._history.window)]

    def _note(self, wanted: TopicOperation, topic: str, act: _RecordedWrite, *, asked: bool) -> None:
        if asked:
            self._acts.setdefault((wanted, topic), []).append(act)
        else:
            self._report("Z-36", act.time, f"{act.what} without a call for it")

    # -- the end -----------------------------------------------------------------------------------------------------

    def stray_configs(self) -> list[str]:
        """The configurations that instances wrote for topics that no longer exist."""
        nodes, marked = self._history.nodes, self._history.asked.markers
        gone = [topic for topic in sorted(self._born) if TOPICS + topic not in nodes and topic not in marked]
        left = [topic for topic in gone if CONFIGS + topic in nodes]
        return [topic for topic in left if nodes[CONFIGS + topic].czxid <= self._born[topic]]


def _config_in(transaction: Transaction, topic: str) -> Mapping[str, str] | None:
    found = [each for each in transaction.operations if each.path == CONFIGS + topic and each.kind in {"create", "set"}]
    config = (document_of(found[0].data) or {}).get("config") if found else None
    return config if isinstance(config, dict) else None


def _all_but_credentials(operation: Operation) -> dict[str, Any]:
    config = (document_of(operation.data) or {}).get("config") or {}
    return {name: value for name, value in config.items() if not name.startswith(_CREDENTIAL)}
