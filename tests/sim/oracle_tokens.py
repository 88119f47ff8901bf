"""Judges delegation tokens: an instance deletes the expired ones, at the version that had expired."""

from collections.abc import Iterator
from typing import Final

from tests.sim.oracle_history import History, document_of
from tests.sim.oracle_seen import ANY_VERSION, WALL_MS, Operation, Report, Transaction

RULES: Final = {
    "Z-48": "an instance deletes a delegation token only when it has expired, at a version that it demands, and in one "
    "transaction with the notification of it",
}
TOKENS: Final = "/delegation_token/tokens/"
_CHANGES: Final = "/delegation_token/token_changes/"


class TokenJudge:
    """Tracks when each existing token expires."""

    def __init__(self, history: History, report: Report) -> None:
        self._history = history
        self._report = report
        self._expires_at: dict[str, float] = {}
        """The expiry by path, in virtual seconds."""

    def see(self, operation: Operation, transaction: Transaction, *, is_ours: bool) -> None:
        """Judge an operation of an instance before it is applied, and remember its effect."""
        path = operation.path
        if not path.startswith(TOKENS):
            return
        if operation.kind == "delete":
            if is_ours:
                self._judge(operation, transaction)
            self._expires_at.pop(path, None)
        else:
            document = document_of(operation.data) or {}
            expires_ms = min(document["expiryTimestamp"], document["maxTimestamp"])
            self._expires_at[path] = (expires_ms - WALL_MS) / 1000

    def at_rest(self, time: float) -> Iterator[tuple[str, str]]:
        """The violations of Q-26, as rule and evidence."""
        for path, expires_at in sorted(self._expires_at.items()):
            if expires_at < time - self._history.window:
                yield "Q-26", f"{path} has expired at {expires_at:.3f} s"

    def _judge(self, operation: Operation, transaction: Transaction) -> None:
        created = [each for each in transaction.operations if each.kind == "create" and each.path.startswith(_CHANGES)]
        notified = {(each.data or b"").decode() for each in created}
        wrong = [
            what
            for what, is_wrong in (
                ("before it had expired", self._expires_at.get(operation.path, 0.0) >= transaction.time),
                ("at whatever version", operation.expected == ANY_VERSION),
                ("without a notification", operation.path.removeprefix(TOKENS) not in notified),
            )
            if is_wrong
        ]
        if wrong:
            self._report("Z-48", transaction.time, f"{operation.path} was deleted {', '.join(wrong)}")
