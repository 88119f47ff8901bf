"""Shows the judge what the simulated ZooKeeper commits."""

from collections.abc import Callable
from typing import Final

from tests.sim.oracle_seen import ANY_VERSION, Operation, Transaction
from tests.sim.oracle_zookeeper import ZooKeeperOracle
from tests.sim.zk_server import SimZooKeeper
from tests.sim.zk_tree import Change, Txn

_KINDS: Final = {"create": "create", "setData": "set", "delete": "delete", "check": "check"}


def watch(zookeeper: SimZooKeeper, oracle: ZooKeeperOracle) -> None:
    """From now on the judge sees every committed transaction; do so before the first one."""
    zookeeper.observers.append(observer(zookeeper, oracle.on_transaction))


def observer(zookeeper: SimZooKeeper, see: Callable[[Transaction], None]) -> Callable[[Txn], None]:
    """Translates; a session that the server has forgotten is being cleared away."""

    def observe(txn: Txn) -> None:
        is_over = txn.session != 0 and txn.session not in zookeeper.sessions
        operations = [_operation(change) for change in txn.changes]
        see(Transaction(txn.zxid, txn.session, operations, txn.time, is_over))

    return observe


def _operation(change: Change) -> Operation:
    # A create demands nothing; of other writes the server may say what they demanded.
    demanded = change.version if change.op == "check" else getattr(change, "expected", None)
    expected = ANY_VERSION if change.op == "create" else demanded
    return Operation(_KINDS[change.op], change.path, change.data, expected, change.ephemeral)
