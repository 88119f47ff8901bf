"""Judges the role: which instance holds it, under which epoch, and whether every writer still has it."""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from tests.sim.oracle_admin import DELETABLE
from tests.sim.oracle_history import CONTROLLER, EPOCH, History, document_of, is_registration, number_of
from tests.sim.oracle_seen import ANY_VERSION, Operation, Report, Transaction
from tests.sim.oracle_tokens import TOKENS

RULES: Final = {
    "Z-01": "every write of an instance checks, first of all, the version of /controller_epoch that it won itself",
    "Z-02": "the controller epoch rises by one, and only together with a new /controller",
    "Z-03": "an instance writes nothing after another controller was elected",
    "Z-04": "/controller is an ephemeral znode of the winner, and an instance deletes only its own",
    "Z-05": "an instance never takes the role from another one by itself, nor from a broker if it is to stand by",
    "Z-23": "an instance deletes nothing but its /controller, registrations of instances, notifications that it read, "
    "delegation tokens, and what was asked for",
    "Z-24": "a compared write finds the version that it demands, and zxids rise",
}
_PARENTS: Final = frozenset({
    "/admin", "/admin/delete_topics", "/brokers", "/brokers/ids", "/brokers/seqid", "/brokers/topics", "/cluster",
    "/cluster/id", "/config", "/config/brokers", "/config/changes", "/config/clients", "/config/ips", "/config/topics",
    "/config/users", "/consumers", "/isr_change_notification", "/log_dir_event_notification",
})  # fmt: skip
_DELETABLE: Final = ("/isr_change_notification/", "/log_dir_event_notification/", TOKENS, *DELETABLE)


class Term(NamedTuple):
    """An election that was won."""

    session: int
    epoch: int
    epoch_version: int
    node_id: int
    instance: str | None


class RoleJudge:
    """Tracks every election, and the sessions of instances."""

    def __init__(self, history: History, report: Report, *, takes_from_brokers: bool) -> None:
        self._takes_from_brokers = takes_from_brokers
        self._history = history
        self._report = report
        self.terms: dict[int, Term] = {}
        """The terms by epoch."""
        self.latest: Term | None = None
        self.owners: dict[int, str] = {}
        """The instance of each session."""
        self._won: dict[int, Term] = {}
        self._asked: Counter[str] = Counter()
        self._zxid = 0

    def may_take_over(self, instance: str) -> None:
        """Note that an operator asks the instance with this uuid to take the role from any holder."""
        self._asked[instance] += 1

    def takeover_ended(self, instance: str) -> None:
        """Note that the instance answered such a request."""
        self._asked[instance] -= 1

    def is_ours(self, session: int) -> bool:
        """Whether the session belongs to an instance."""
        return session in self.owners or session in self._won

    def term_of(self, session: int) -> Term | None:
        """The election that this session won last."""
        return self._won.get(session)

    def judge(self, transaction: Transaction) -> None:
        """Judge a transaction before it is applied."""
        if transaction.zxid <= self._zxid:
            self._say("Z-24", transaction, f"zxid {transaction.zxid:#x} after {self._zxid:#x}")
        self._zxid = transaction.zxid
        writes = [operation for operation in transaction.operations if operation.kind != "check"]
        is_election = any(operation.path == EPOCH and operation.kind == "set" for operation in writes)
        if is_election:
            self._judge_election(transaction, writes)
        elif self.is_ours(transaction.session_id) and not transaction.closes_session and writes:
            self._judge_fence(transaction, writes)
        self._judge_controller(transaction, writes, is_election=is_election)

    def judge_version(self, operation: Operation, transaction: Transaction) -> None:
        """Judge the required version right before the operation is applied."""
        if operation.path == EPOCH:
            return  # the fence has rules of its own
        node = self._history.nodes.get(operation.path)
        if node is not None and operation.expected not in {None, ANY_VERSION, node.version}:
            found = f"{operation.kind} {operation.path} demanded {operation.expected}, there is {node.version}"
            self._say("Z-24", transaction, found)

    def judge_deletion(self, operation: Operation, transaction: Transaction) -> None:
        """Judge a deletion by an instance."""
        path = operation.path
        if path != CONTROLLER and not is_registration(path) and not path.startswith(_DELETABLE):
            self._say("Z-23", transaction, f"deleted {path}")

    # -- elections ---------------------------------------------------------------------------------------------------

    def _judge_election(self, transaction: Transaction, writes: Sequence[Operation]) -> None:
        raised = [operation for operation in writes if operation.path == EPOCH]
        created = [operation for operation in writes if operation.path == CONTROLLER and operation.kind == "create"]
        epoch, before = number_of(raised[-1].data), self._history.epoch
        if len(raised) != 1 or epoch != before + 1 or raised[0].expected == ANY_VERSION:
            self._say("Z-02", transaction, f"epoch {before} became {epoch}, compared with {raised[0].expected}")
        if len(created) != 1:
            self._say("Z-02", transaction, f"epoch {epoch} was written without a new /controller")
            return
        others = [
            operation.path
            for operation in writes
            if operation.path not in {EPOCH, CONTROLLER}
            and not (operation.kind == "delete" and is_registration(operation.path))
        ]
        if others and self.is_ours(transaction.session_id):
            self._say("Z-01", transaction, f"an election also wrote {others}")
        self._win(transaction, epoch, raised[-1], created[0])

    def _win(self, transaction: Transaction, epoch: int, raised: Operation, created: Operation) -> None:
        held, payload = self._history.controller, document_of(created.data) or {}
        instance, previous = payload.get("instance"), held.get("instance")
        takes_foreign = previous not in {None, instance} or (held and previous is None and not self._takes_from_brokers)
        if instance is not None and takes_foreign and not self._asked[instance]:
            self._say("Z-05", transaction, f"{instance} took the role from {previous or held}")
        version = self._history.node_after(raised, transaction).version
        term = Term(transaction.session_id, epoch, version, payload.get("brokerid", -1), instance)
        self.terms[epoch] = self.latest = term
        if instance is not None:
            self._won[transaction.session_id] = term

    def _judge_controller(self, transaction: Transaction, writes: Sequence[Operation], *, is_election: bool) -> None:
        for operation in writes:
            if operation.path != CONTROLLER:
                continue
            if operation.kind == "create" and not (operation.ephemeral and is_election):
                self._say("Z-04", transaction, "/controller was created persistent or without an epoch of its own")
            if operation.kind == "set":
                self._say("Z-04", transaction, "/controller was rewritten in place")
            if operation.kind == "delete" and not is_election:
                self._judge_resignation(transaction)

    def _judge_resignation(self, transaction: Transaction) -> None:
        node = self._history.nodes.get(CONTROLLER)
        if not self.is_ours(transaction.session_id) or node is None:
            return
        if node.owner != transaction.session_id:
            self._say("Z-04", transaction, f"deleted the /controller of session {node.owner:#x}")

    # -- the fence ---------------------------------------------------------------------------------------------------

    def _judge_fence(self, transaction: Transaction, writes: Sequence[Operation]) -> None:
        if all(self._may_be_unfenced(operation) for operation in writes):
            return
        if all(self._is_own_registration(operation, transaction.session_id) for operation in writes):
            return
        term, first = self._won.get(transaction.session_id), transaction.operations[0]
        is_fenced = (
            term is not None and first.kind == "check" and first.path == EPOCH and first.expected == term.epoch_version
        )
        if not is_fenced:
            at = first.expected if first.path == EPOCH else "no"
            won = term.epoch_version if term is not None else "never"
            self._say("Z-01", transaction, f"fence at {at} version, won at {won}: {_paths(writes)}")
        if term is not None and term.epoch < self._history.epoch:
            later = f"wrote in epoch {term.epoch} after epoch {self._history.epoch} had begun: {_paths(writes)}"
            self._say("Z-03", transaction, later)

    def _may_be_unfenced(self, operation: Operation) -> bool:
        if operation.kind != "create" or operation.ephemeral:
            return False
        return operation.path in _PARENTS or (operation.path == EPOCH and number_of(operation.data) == 0)

    def _is_own_registration(self, operation: Operation, session: int) -> bool:
        """Whether it deletes the registration of its own session, which needs no fence: no other session can own it."""
        node = self._history.nodes.get(operation.path)
        return (
            operation.kind == "delete"
            and is_registration(operation.path)
            and node is not None
            and node.owner == session
        )

    def _say(self, rule: str, transaction: Transaction, evidence: str) -> None:
        owner = self.owners.get(transaction.session_id, f"session {transaction.session_id:#x}")
        self._report(rule, transaction.time, f"{owner} at zxid {transaction.zxid:#x}: {evidence}")


def _paths(writes: Sequence[Operation]) -> list[str]:
    return [f"{operation.kind} {operation.path}" for operation in writes[:3]]
