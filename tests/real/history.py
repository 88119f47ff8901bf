"""ZooKeeper's own transaction log by author: the terms of controllers, and the states that each of them wrote."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from controllerd.core.model import LeaderAndIsr, TopicPartition
from controllerd.dev.cluster import CHROOT
from controllerd.dev.txnlog import Logged, LoggedTransaction
from controllerd.zk import codecs, paths

WRITES: Final = {"create", "setData"}


class Term(NamedTuple):
    """A controller that was elected: its epoch, the node id in ``/controller`` and the session that wrote both."""

    epoch: int
    node: int
    session_id: int


class WrittenState(NamedTuple):
    """A partition state that was written; ``term`` is the newest one of that moment."""

    tp: TopicPartition
    state: LeaderAndIsr
    session_id: int
    zxid: int
    term: Term | None

    @property
    def is_of_its_term(self) -> bool:
        """Whether the controller of that moment wrote the state, with its own epoch."""
        term = self.term
        return term is not None and (self.session_id, self.state.controller_epoch) == (term.session_id, term.epoch)


def effective(transactions: Iterable[LoggedTransaction]) -> Iterator[LoggedTransaction]:
    """The transactions that were not refused."""
    return (each for each in transactions if not each.was_refused)


def terms(transactions: Iterable[LoggedTransaction]) -> list[Term]:
    """Every election, in the order in which they happened."""
    return [term for each in effective(transactions) if (term := _term(each)) is not None]


def _term(transaction: LoggedTransaction) -> Term | None:
    written = {_path(operation): operation for operation in transaction.operations if operation.op in WRITES}
    holder, epoch = written.get(paths.CONTROLLER), written.get(paths.CONTROLLER_EPOCH)
    if holder is None:
        return None
    assert epoch is not None, f"a controller without an epoch of its own: {transaction}"
    node = codecs.decode_controller(holder.data).broker_id
    return Term(codecs.decode_controller_epoch(epoch.data), node, transaction.session_id)


def states(transactions: Iterable[LoggedTransaction]) -> Iterator[WrittenState]:
    """Every state of a partition that was written, in the order of the log."""
    term: Term | None = None
    for each in effective(transactions):
        term = _term(each) or term
        for operation in each.operations:
            tp = paths.parse_partition(_path(operation))
            if tp is not None and operation.op in WRITES and _path(operation).endswith("/state"):
                state = codecs.decode_state(tp, operation.data, operation.version or 0)
                yield WrittenState(tp, state, each.session_id, each.zxid, term)


def registrations(transactions: Iterable[LoggedTransaction]) -> dict[int, int]:
    """The sessions in which brokers registered, with the ids of the brokers."""
    found: dict[int, int] = {}
    for each in effective(transactions):
        for operation in each.operations:
            head, _, name = _path(operation).rpartition("/")
            if operation.op == "create" and head == paths.BROKER_IDS:
                found[each.session_id] = int(name)
    return found


def ended(transactions: Iterable[LoggedTransaction], session_id: int) -> int:
    """The transaction that ended a session. :raises StopIteration: the session lives."""
    ends = (each.zxid for each in transactions if each.session_id == session_id and _ends(each))
    return next(ends)


def _ends(transaction: LoggedTransaction) -> bool:
    return any(operation.op == "closeSession" for operation in transaction.operations)


def writers(transactions: Iterable[LoggedTransaction]) -> dict[int, list[str]]:
    """The paths that each session wrote or removed."""
    found: dict[int, list[str]] = {}
    for each in effective(transactions):
        touched = [_path(operation) for operation in each.operations if operation.path and operation.op != "check"]
        if touched:
            found.setdefault(each.session_id, []).extend(touched)
    return found


def _path(operation: Logged) -> str:
    return operation.path.removeprefix(CHROOT)
