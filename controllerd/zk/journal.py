"""The commit of every transaction, and its record in the audit log."""

from asyncio import CancelledError
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from controllerd.errors import ControllerMoved, StoreUnavailable
from controllerd.ports.audit import AuditLog
from controllerd.ports.clock import Clock
from controllerd.ports.results import WriteResult, Written
from controllerd.record.records import ZkWriteRecord
from controllerd.zk.access import (
    Aborted,
    CheckVersion,
    Committed,
    Create,
    Operation,
    ReplyLost,
    Transaction,
    TransactionOutcome,
    ZooKeeper,
    code_name,
    operation_name,
)

UNFENCED: Final = -1
_NO_VERSION: Final = -1


class TransactionJournal:
    """Commits transactions and records each with its outcome."""

    def __init__(self, zk: ZooKeeper, audit: AuditLog, clock: Clock) -> None:
        self._zk = zk
        self._audit = audit
        self._clock = clock

    async def commit(self, transactions: Sequence[Transaction], *, fence: int = UNFENCED) -> list[TransactionOutcome]:
        """Commit and record. A transaction with a lost reply is recorded by ``read_back`` only."""
        started = self._clock.monotonic()
        with self.settling(transactions, fence=fence):
            outcomes = await self._zk.commit(transactions)
        for transaction, outcome in zip(transactions, outcomes, strict=True):
            self._record_outcome(transaction, outcome, fence, started)
        return outcomes

    @contextmanager
    def settling(self, transactions: Sequence[Transaction], *, fence: int = UNFENCED) -> Iterator[None]:
        """Record the transactions as unknown if the block that finds out their outcome fails."""
        started = self._clock.monotonic()
        try:
            yield
        except (StoreUnavailable, ControllerMoved, CancelledError):
            for transaction in transactions:
                self._record(transaction, fence, started, ["unknown"] * len(transaction), ambiguous=True)
            raise

    def read_back(
        self,
        operations: Sequence[Operation],
        results: Sequence[WriteResult | None],
        fence: int = UNFENCED,
        *,
        took_effect: bool = False,
    ) -> None:
        """Record a transaction with a lost reply, with the results that its znodes show.

        ``took_effect`` is the result of the operations without a result of their own.
        """
        otherwise = "ok" if took_effect else "not written"
        names = [otherwise if result is None else _result_name(result) for result in results]
        versions = [result.version if isinstance(result, Written) else _NO_VERSION for result in results]
        self._record(operations, fence, self._clock.monotonic(), names, versions=versions, ambiguous=True)

    def _record_outcome(
        self, transaction: Transaction, outcome: TransactionOutcome, fence: int, started: float
    ) -> None:
        if isinstance(outcome, ReplyLost):
            return
        versions = outcome.versions if isinstance(outcome, Committed) else None
        results = _results(transaction, outcome)
        self._record(transaction, fence, started, results, versions=versions, zxid=outcome.zxid)

    def _record(
        self,
        transaction: Transaction,
        fence: int,
        started: float,
        results: Sequence[str],
        *,
        versions: Sequence[int] | None = None,
        zxid: int = 0,
        ambiguous: bool = False,
    ) -> None:
        rows = [index for index, operation in enumerate(transaction) if type(operation) is not CheckVersion]
        operations = [transaction[index] for index in rows]
        self._audit.record(
            ZkWriteRecord(
                fence=fence,
                zxid=zxid,
                took_ms=round((self._clock.monotonic() - started) * 1000, 3),
                operations=list(map(operation_name, operations)),
                paths=[operation.path for operation in operations],
                expected=list(map(_expected, operations)),
                results=[results[index] for index in rows],
                versions=[versions[index] for index in rows] if versions else [_NO_VERSION] * len(rows),
                ambiguous=ambiguous,
            )
        )


def _expected(operation: Operation) -> int:
    return _NO_VERSION if isinstance(operation, Create) else operation.version


def _results(transaction: Transaction, outcome: Committed | Aborted) -> list[str]:
    if isinstance(outcome, Committed):
        return ["ok"] * len(transaction)
    results = ["rolled back"] * len(transaction)
    if outcome.failed < 0:
        return [code_name(outcome.code)] * len(transaction)
    if outcome.failed == 0 and isinstance(transaction[0], CheckVersion):
        return ["fenced"] * len(transaction)
    results[outcome.failed] = code_name(outcome.code)
    return results


def _result_name(result: WriteResult) -> str:
    return "ok" if isinstance(result, Written) else result.reason
