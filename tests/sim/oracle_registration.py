"""Judges the registrations of instances under ``/brokers/ids``: each exists only while its owner leads."""

from collections.abc import Iterator
from typing import Final

from tests.sim.oracle_history import CONTROLLER, EPOCH, IDS, History, document_of, is_registration
from tests.sim.oracle_role import RoleJudge
from tests.sim.oracle_seen import Operation, Report, Transaction

RULES: Final = {
    "Z-47": "an instance registers as an ephemeral znode of its own id and the session that owns /controller, in a "
    "transaction that checks the epoch it won and /controller",
    "Z-43": "an election or a resignation of an instance leaves no registration of an instance behind",
    "Z-44": "an idle instance without a term is not registered",
    "Z-45": "an instance deletes the registration of its own session, or in an election, or behind its fence",
}
_LAG_S: Final = 6.0
"""For so long a follower may hide a younger registration from the instance that is elected."""


class RegistrationJudge:
    """Tracks the registrations of instances, and since when each exists."""

    def __init__(self, history: History, role: RoleJudge, report: Report) -> None:
        self._history = history
        self._role = role
        self._report = report
        self.since: dict[str, float] = {}
        """When the registration was created, by path."""

    def judge(self, transaction: Transaction) -> None:
        """Judge a transaction before it is applied."""
        is_ours = self._role.is_ours(transaction.session_id) and not transaction.closes_session
        touched = [each for each in transaction.operations if each.kind != "check" and is_registration(each.path)]
        if is_ours:
            for operation in touched:
                self._judge_one(operation, transaction)
            self._judge_role(transaction)
        for operation in touched:
            if operation.kind == "create":
                self.since[operation.path] = transaction.time
            elif operation.kind == "delete":
                self.since.pop(operation.path, None)

    def on_idle(self, owner: str, session: int, time: float) -> None:
        """Note that an instance without a term is idle, and connected in this session."""
        for path in self.since:
            if self._owner_of(path) == session:
                self._report("Z-44", time, f"{owner} does not lead, and {path} is still there")

    def at_rest(self, *, wanted: bool) -> Iterator[tuple[str, str]]:
        """Q-25, as rule and evidence; ``wanted``: a broker needs the registration of the active instance."""
        holder = self._history.nodes.get(CONTROLLER)
        session = holder.owner if holder is not None else 0
        for path in sorted(self.since):
            if self._owner_of(path) != session:
                yield "Q-25", f"{path} belongs to {self._owner_of(path):#x}, /controller to {session:#x}"
        if wanted and self._role.is_ours(session) and not self.since:
            yield "Q-25", "a broker older than 3.0 is live, and the active instance is not registered"

    def _owner_of(self, path: str) -> int:
        node = self._history.nodes.get(path)
        return node.owner if node is not None else 0

    def _judge_one(self, operation: Operation, transaction: Transaction) -> None:
        if operation.kind == "delete":
            self._judge_deletion(operation, transaction)
            return
        term = self._role.term_of(transaction.session_id)
        checks = {each.path: each.expected for each in transaction.operations if each.kind == "check"}
        wrong = [
            what
            for what, is_right in (
                ("outside of a term", term is not None),
                ("not ephemeral", operation.kind == "set" or operation.ephemeral),
                ("without the check of the epoch", term is not None and checks.get(EPOCH) == term.epoch_version),
                ("without the check of /controller", CONTROLLER in checks),
                ("while another session owns /controller", self._owner_of(CONTROLLER) == transaction.session_id),
                ("under another id", term is not None and operation.path == f"{IDS}{term.node_id}"),
                ("without its uuid", bool((document_of(operation.data) or {}).get("instance"))),
            )
            if not is_right
        ]
        if wrong:
            self._say("Z-47", transaction, f"{operation.path} was registered {', '.join(wrong)}")

    def _judge_deletion(self, operation: Operation, transaction: Transaction) -> None:
        is_election = any(each.path == EPOCH and each.kind == "set" for each in transaction.operations)
        is_fenced = transaction.operations[0].kind == "check" and transaction.operations[0].path == EPOCH
        if not (is_election or is_fenced or self._owner_of(operation.path) == transaction.session_id):
            self._say("Z-45", transaction, f"deleted {operation.path} of session {self._owner_of(operation.path):#x}")

    def _judge_role(self, transaction: Transaction) -> None:
        """Judge the registrations that the winner of an election, or a resigning instance, leaves."""
        kinds = {(each.kind, each.path) for each in transaction.operations}
        left = [path for path in self.since if ("delete", path) not in kinds]
        if ("set", EPOCH) in kinds:
            left = [path for path in left if self.since[path] < transaction.time - _LAG_S]
        elif ("delete", CONTROLLER) in kinds:
            left = [path for path in left if self._owner_of(path) == transaction.session_id]
        else:
            return
        if left:
            self._say("Z-43", transaction, f"left {left}")

    def _say(self, rule: str, transaction: Transaction, evidence: str) -> None:
        owner = self._role.owners.get(transaction.session_id, f"session {transaction.session_id:#x}")
        self._report(rule, transaction.time, f"{owner} at zxid {transaction.zxid:#x}: {evidence}")
