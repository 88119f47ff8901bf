"""Judges the writes to ZooKeeper, transaction by transaction."""

from typing import Final

from tests.sim import (
    oracle_admin,
    oracle_alter_partition,
    oracle_calls,
    oracle_registration,
    oracle_role,
    oracle_settings,
    oracle_states,
    oracle_tokens,
    oracle_topics,
)
from tests.sim.oracle_admin import AdminJudge
from tests.sim.oracle_alter_partition import AlterPartitionJudge
from tests.sim.oracle_calls import MARKERS, USERS, CallJudge
from tests.sim.oracle_history import PRODUCER_IDS, History
from tests.sim.oracle_registration import RegistrationJudge
from tests.sim.oracle_role import RoleJudge, Term
from tests.sim.oracle_seen import AskedIsr, Operation, Transaction, Violation
from tests.sim.oracle_settings import SettingsJudge
from tests.sim.oracle_states import StateJudge
from tests.sim.oracle_tokens import TokenJudge
from tests.sim.oracle_topics import TopicJudge

_PARTS: Final = (
    oracle_role, oracle_states, oracle_topics, oracle_admin, oracle_calls, oracle_registration, oracle_settings,
    oracle_alter_partition, oracle_tokens,
)  # fmt: skip
RULES: Final = dict(sorted(rule for part in _PARTS for rule in part.RULES.items()))
"""The text of each rule, by its id."""


class ZooKeeperOracle:
    """The judge of transactions. It takes them in order, and the announcements; see ``violations``.

    Each transaction is judged against the state before it, so that the cost is that of its own operations.
    """

    def __init__(
        self,
        *,
        window: float,
        unclean_by_default: bool = False,
        leader_recovery: bool = True,
        takes_from_brokers: bool = True,
    ) -> None:
        """``window``: seconds for which a controller may act on old state, e.g. twice the session time-out.

        ``takes_from_brokers``: whether ``when_broker_holds`` of the instances is ``takeover``.
        """
        self.violations: list[Violation] = []
        self.history = History(window, unclean_by_default=unclean_by_default)
        self._role = RoleJudge(self.history, self.report, takes_from_brokers=takes_from_brokers)
        self.registrations = RegistrationJudge(self.history, self._role, self.report)
        self.settings = SettingsJudge(self.history, self.report)
        self.questions = AlterPartitionJudge(self.history, self.report)
        self.tokens = TokenJudge(self.history, self.report)
        self._states = StateJudge(self.history, self.report, leader_recovery=leader_recovery)
        self.admin = AdminJudge(self.history, self.report)
        self.calls = CallJudge(self.history, self.report)
        self._topics = TopicJudge(self.history, self.report, self.admin, self.calls)

    def report(self, rule: str, time: float, evidence: str) -> None:
        """Add a violation."""
        self.violations.append(Violation(rule, time, evidence))

    @property
    def terms(self) -> dict[int, Term]:
        """Every election that was won, by its epoch."""
        return self._role.terms

    @property
    def latest_term(self) -> Term | None:
        """The last election that was won; ``/controller`` shows whether that term still lasts."""
        return self._role.latest

    def owner_of(self, session_id: int) -> str | None:
        """The instance that the session belongs to."""
        return self._role.owners.get(session_id)

    # -- announcements of the story ----------------------------------------------------------------------------------

    def on_session(self, owner: str, session_id: int) -> None:
        """Note that an instance has a new session."""
        self._role.owners[session_id] = owner

    def on_takeover_asked(self, instance: str) -> None:
        """Note that an operator asks the instance with this uuid (that of ``/controller``) to take the role."""
        self._role.may_take_over(instance)

    def on_takeover_answered(self, instance: str) -> None:
        """Note that the instance answered such a request."""
        self._role.takeover_ended(instance)

    def on_alter_partition(self, asked: AskedIsr) -> None:
        """Note that a broker proposes an ISR; before any answer."""
        self._states.on_alter_partition(asked)

    def on_controlled_shutdown(self, broker: int) -> None:
        """Note that a broker asks for a controlled shutdown; before any answer."""
        self.history.leaves(broker)

    def on_released(self, broker: int, broker_epoch: int, epoch: int) -> None:
        """Note that the controller of that epoch agreed to move leaderships away from this life of a broker."""
        self.history.released(broker, broker_epoch, epoch)

    def on_bad_log_dir(self, broker: int) -> None:
        """Note that a broker reports a failed log directory."""
        self.history.loses_dirs(broker)

    def on_unclean_default(self, time: float, *, allowed: bool, by_files: bool = False) -> None:
        """Change the cluster's default of unclean elections; ``by_files``: the files of brokers alone decide it."""
        self.history.set_unclean_default(time, allowed=allowed, by_files=by_files)

    # -- committed transactions --------------------------------------------------------------------------------------

    def on_transaction(self, transaction: Transaction) -> None:
        """Judge the transaction and remember it."""
        self._role.judge(transaction)
        self.registrations.judge(transaction)
        is_ours = self._role.is_ours(transaction.session_id) and not transaction.closes_session
        for operation in transaction.operations:
            self._role.judge_version(operation, transaction)
            if operation.kind == "check":
                continue
            if is_ours:
                self._judge(operation, transaction)
                self.questions.writes(self.owner_of(transaction.session_id) or "", operation, transaction)
            self.calls.see(operation, transaction, is_ours=is_ours)
            self.tokens.see(operation, transaction, is_ours=is_ours)
            self.history.apply(operation, transaction)

    def _judge(self, operation: Operation, transaction: Transaction) -> None:
        if operation.kind == "delete":
            self._role.judge_deletion(operation, transaction)
            self.admin.judge_deletion(operation, transaction)
            return
        place = self.history.place(operation.path)
        if place.kind == "state":
            term = self._role.term_of(transaction.session_id)
            self._states.judge(operation, place, transaction, term.epoch if term is not None else 0)
        elif place.kind == "topic":
            self._topics.judge_topic(operation, place.topic, transaction)
        elif place.kind == "config":
            self.calls.judge_config(place.topic, transaction)
        elif operation.path == PRODUCER_IDS:
            self._topics.judge_block(operation, transaction)
        elif operation.path.startswith(MARKERS):
            self.calls.judge_marker(operation.path.removeprefix(MARKERS), transaction.time)
        elif operation.path.startswith(USERS):
            self.calls.judge_user(operation, transaction)
        else:
            self.admin.judge_request(operation, transaction)
