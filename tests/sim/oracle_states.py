"""Judges leaderships: every write of a state znode by an instance, against the previous state and the live brokers."""

from typing import Final, NamedTuple

from tests.sim.oracle_admin import caught_up
from tests.sim.oracle_history import History, PartitionHistory, PathKind, State
from tests.sim.oracle_seen import ANY_VERSION, NO_LEADER, OUR_IDS, AskedIsr, Operation, Report, Transaction

RULES: Final = {
    "Z-06": "an ISR is never empty and has no broker twice",
    "Z-07": "a leader is in its ISR, or there is none",
    "Z-08": "ISR and leader are replicas of the topic znode",
    "Z-09": "a leader epoch begins at 0, rises by one with an election or a shrink, and stays in an AlterPartition",
    "Z-10": "a state names the epoch of the term that wrote it",
    "Z-11": "topic and state znodes are written on the condition of their version",
    "Z-12": "an ISR grows only as its leader proposed, and stays as it is where a leader before 3.0 proposed in vain",
    "Z-13": "a broker that is added to an ISR is live",
    "Z-14": "an election takes the first eligible in-sync replica in the order of the assignment",
    "Z-15": "an elected broker is live",
    "Z-16": "a leader is outside the ISR only where unclean elections are allowed and no ISR member is eligible",
    "Z-17": "an unclean leader recovers until its own AlterPartition ends that",
    "Z-21": "an unreadable znode is not overwritten",
    "Z-25": "an ISR loses no broker that is surely eligible",
    "Z-34": "a live leader is not removed where a replica in sync could follow at once (KAFKA-14808)",
    "Z-35": "the deletion of a topic does not begin while a reassignment of it is under way that can end",
    "Z-42": "while the deletion of a topic waits for a reassignment, another ISR member succeeds a leader that dies",
    "Z-26": "a broker whose shutdown was granted is neither elected nor added to an ISR by the same term",
}


_ALWAYS_ANSWERED: Final = (3, 0)
"""The first release whose leaders take an answer with the partition epoch that they know."""
_FIRST_TO_TELL_BY_VERSION: Final = (3, 2)
"""The first release whose leaders send another version of AlterPartition than 2.7 does."""
_KNOWN_SHARE: Final = 0.25
"""The share of the window for which the brokers of a reassignment must have been unchanged before it began."""


class _Write(NamedTuple):
    """A state that is about to be written."""

    place: PathKind
    partition: PartitionHistory
    before: State | None
    after: State
    now: float
    epoch: int

    def __str__(self) -> str:
        before = "nothing" if self.before is None else _brief(self.before)
        return f"{self.place.topic}-{self.place.number} from {before} to {_brief(self.after)}"


class StateJudge:
    """Recomputes the states that a controller may write, from ZooKeeper and the proposals of brokers alone."""

    def __init__(self, history: History, report: Report, *, leader_recovery: bool) -> None:
        self._history = history
        self._report = report
        self._leader_recovery = leader_recovery
        self._asked: set[tuple[str, int, int, int, int, int, frozenset[int]]] = set()

    def on_alter_partition(self, asked: AskedIsr) -> None:
        """Note that a broker proposes an ISR."""
        self._asked.add((
            asked.topic,
            asked.partition,
            asked.broker,
            asked.leader_epoch,
            asked.partition_epoch,
            asked.recovery_state,
            frozenset(asked.isr),
        ))  # fmt: skip

    def judge(self, operation: Operation, place: PathKind, transaction: Transaction, epoch: int) -> None:
        """Judge a state before it is applied; ``epoch`` is the epoch of the writer's election."""
        history, now = self._history, transaction.time
        partition = history.partition(place.topic, place.number)
        is_new = operation.kind == "create"
        if not is_new and operation.expected == ANY_VERSION:
            self._report("Z-11", now, f"{operation.path} was written at whatever version")
        if not is_new and operation.path in history.unreadable:
            self._report("Z-21", now, f"{operation.path} was overwritten")
            return
        after = history.state_after(operation, history.node_after(operation, transaction))
        if after is None:
            self._report("Z-21", now, f"{operation.path} was given {operation.data!r}")
            return
        write = _Write(place, partition, None if is_new else partition.state, after, now, epoch)
        self._judge_alone(write, epoch)
        if write.before is None:
            self._judge_first(write)
        else:
            self._judge_change(write, write.before)

    def _say(self, rule: str, write: _Write, why: str = "") -> None:
        self._report(rule, write.now, f"{write}{': ' if why else ''}{why}")

    # -- rules of a state alone --------------------------------------------------------------------------------------

    def _judge_alone(self, write: _Write, epoch: int) -> None:
        after = write.after
        if not after.isr or len(set(after.isr)) < len(after.isr):
            self._say("Z-06", write)
        elif after.leader != NO_LEADER and after.leader not in after.isr:
            self._say("Z-07", write)
        replicas = write.partition.replicas or ()
        unassigned = [broker for broker in after.isr if broker not in replicas]
        since = write.now - self._history.window
        if unassigned and not all(write.partition.was_assigned(broker, since) for broker in unassigned):
            self._say("Z-08", write, f"{unassigned} are no replicas, the topic znode has {write.partition.replicas}")
        if after.controller_epoch != epoch:
            self._say("Z-10", write, f"the writer won epoch {epoch}")

    # -- the first state ---------------------------------------------------------------------------------------------

    def _judge_first(self, write: _Write) -> None:
        after = write.after
        if after.leader_epoch != 0:
            self._say("Z-09", write, "a first leader epoch is 0")
        if after.recovery_state != 0:
            self._say("Z-17", write, "nothing is there to recover")
        dead = [broker for broker in after.isr if not self._history.was_live(broker, write.now)]
        if dead:
            self._say("Z-15", write, f"{dead} are not live")
        self._judge_order(write, write.partition.replicas or ())
        left_out = [b for b in write.partition.replicas or () if b not in after.isr and self._is_surely_known(b, write)]
        if left_out:
            self._say("Z-25", write, f"{left_out} were left out")

    # -- a changed state ---------------------------------------------------------------------------------------------

    def _judge_change(self, write: _Write, before: State) -> None:
        after = write.after
        step = after.leader_epoch - before.leader_epoch
        if step == 0:
            self._judge_alter_partition(write, before)
        elif step == 1:
            self._judge_decision(write, before)
        else:
            self._say("Z-09", write, f"the leader epoch moved by {step}")

    def _judge_alter_partition(self, write: _Write, before: State) -> None:
        after, place = write.after, write.place
        if after.leader != before.leader:
            self._say("Z-09", write, "another leader without another leader epoch")
            return
        asked = (
            place.topic, place.number, after.leader, after.leader_epoch, before.version, after.recovery_state,
            frozenset(after.isr),
        )  # fmt: skip
        if asked not in self._asked and not self._is_given_back(write, before):
            self._say("Z-12", write, "the leader never asked for it")
        dead = [b for b in after.isr if b not in before.isr and not self._history.was_live(b, write.now)]
        if dead:
            self._say("Z-13", write, f"{dead} are not live")
        self._judge_leaving([broker for broker in after.isr if broker not in before.isr], write)

    def _is_given_back(self, write: _Write, before: State) -> bool:
        """Whether a leader before 3.0, which ignores its own partition epoch, proposed an ineligible broker.

        Such a leader returns to the ISR of ZooKeeper only with a newer partition epoch. The new controller may take any
        leader that sends AlterPartition 0 for one, until it has its ApiVersions response.
        """
        history, place, after = self._history, write.place, write.after
        if after._replace(version=before.version, controller_epoch=before.controller_epoch) != before:
            return False
        leads = (place.topic, place.number, after.leader, after.leader_epoch, before.version)
        wanted = {broker for asked in self._asked if asked[:5] == leads for broker in asked[6]}
        is_in_vain = any(not self._is_surely_known(broker, write) for broker in wanted)
        is_known = history.is_release_known(after.leader, write.epoch, write.now)
        counts_as_old = _ALWAYS_ANSWERED if is_known else _FIRST_TO_TELL_BY_VERSION
        return is_in_vain and history.releases.get(after.leader, counts_as_old) < counts_as_old

    def _judge_decision(self, write: _Write, before: State) -> None:
        after = write.after
        if after.leader != NO_LEADER and after.leader not in before.isr:
            self._judge_unclean(write, before)
            return
        grown = [broker for broker in after.isr if broker not in before.isr]
        if grown:
            self._say("Z-12", write, f"{grown} came in by a decision of the controller")
        if after.recovery_state != before.recovery_state:
            self._say("Z-17", write)
        self._judge_dropped(write, [b for b in before.isr if b not in after.isr and self._is_surely_known(b, write)])
        if after.leader == NO_LEADER:
            self._judge_deposed(write, before)
        if after.leader not in {NO_LEADER, before.leader}:
            self._judge_elected(write)
            self._judge_order(write, before.isr)

    def _judge_dropped(self, write: _Write, dropped: list[int]) -> None:
        """Check that an eligible broker leaves an ISR only with its topic, or because its replica moves elsewhere."""
        partition = write.partition
        if self._may_be_deleted(write):
            return
        moved = [broker for broker in dropped if broker in partition.removing]
        if moved and not caught_up(partition):
            self._say("Z-28", write, f"{moved} were removed, the target is {list(partition.target)}")
        others = [broker for broker in dropped if broker in partition.target]
        if others:
            self._say("Z-25", write, f"{others} are live and well")

    def _may_be_deleted(self, write: _Write) -> bool:
        """Whether the topic may have been under deletion until recently."""
        return self._history.asked.may_be_deleted(write.place.topic, write.now - self._history.window)

    def _judge_deposed(self, write: _Write, before: State) -> None:
        """Check that only a dead leader leaves the ISR before the next election, as at the start of a term."""
        if not self._history.is_surely_eligible(before.leader, write.now):
            if before.leader != NO_LEADER:
                self._judge_waiting(write)
            return
        successors = [broker for broker in write.after.isr if self._is_surely_known(broker, write)]
        target = write.partition.target
        if not self._may_be_deleted(write):
            if successors:
                self._say("Z-34", write, f"{before.leader} is live, and {successors} could have followed")
        elif write.partition.is_being_reassigned and self._are_surely_served({before.leader, *target}, write):
            self._say("Z-35", write, f"the topic goes, and could have moved to {list(target)} before")

    def _are_surely_served(self, brokers: set[int], write: _Write) -> bool:
        """Whether the controller must know that these brokers are live, and has handled their registrations.

        A leader that registered anew is replaced before it leads again, however late the controller notices it.
        """
        history = self._history
        return all(
            history.is_surely_eligible(broker, write.now) and history.is_surely_noticed(broker, write.now, write.epoch)
            for broker in brokers
        )

    def _judge_waiting(self, write: _Write) -> None:
        """Check that a topic whose deletion waits for a reassignment is served: a dead leader gets a successor at once.

        Judged where the reassignment began in this term, when all brokers that it needs had been known for a while:
        at the start of a term a dead leader leaves the ISR before an election.
        """
        history, topic = self._history, write.place.topic
        if topic not in history.asked.markers or any(topic in path.split("/") for path in history.unreadable):
            return
        for (name, _), partition in history.partitions.items():
            successors = self._successors(partition, write) if name == topic and partition.is_being_reassigned else []
            if successors:
                self._say("Z-42", write, f"its deletion waits, and {successors} could have followed")
                return

    def _successors(self, moving: PartitionHistory, write: _Write) -> list[int]:
        """The possible successors, if all brokers that the reassignment needs are live."""
        history, leader = self._history, moving.state.leader if moving.state is not None else NO_LEADER
        reached_at = history.brokers[leader].reached_at if leader in history.brokers else {}
        since = moving.moved_at + history.window * (1 - _KNOWN_SHARE)
        if not reached_at.get(write.epoch, write.now) < moving.moved_at:
            return []
        known = {each for each in (leader, *moving.target, *write.after.isr) if history.is_surely_eligible(each, since)}
        is_noticed = history.is_surely_noticed
        successors = [each for each in write.after.isr if each in known and is_noticed(each, write.now, write.epoch)]
        return successors if known >= {leader, *moving.target} else []

    def _judge_elected(self, write: _Write) -> None:
        if not self._history.was_live(write.after.leader, write.now):
            self._say("Z-15", write, f"{write.after.leader} is not live")
        self._judge_leaving([write.after.leader], write)

    def _judge_leaving(self, brokers: list[int], write: _Write) -> None:
        leaving = [broker for broker in brokers if self._history.may_leave(broker, write.epoch)]
        if leaving:
            self._say("Z-26", write, f"{leaving} are in controlled shutdown")

    def _judge_order(self, write: _Write, candidates: tuple[int, ...]) -> None:
        """Check that no replica before the leader in the assignment could have been elected."""
        replicas = write.partition.replicas or ()
        if write.after.leader not in replicas:
            return
        earlier = replicas[: replicas.index(write.after.leader)]
        passed = [b for b in earlier if b in candidates and self._is_surely_known(b, write)]
        if passed:
            self._say("Z-14", write, f"{passed} come first in {list(replicas)}")

    def _judge_unclean(self, write: _Write, before: State) -> None:
        after = write.after
        better = [broker for broker in before.isr if self._is_surely_known(broker, write)]
        if better:
            self._say("Z-16", write, f"{better} of the ISR are eligible")
        elif self._was_on_instances_alone(write, before):
            pass  # no record can be lost
        elif not self._is_unclean_allowed(write):
            self._say("Z-16", write, "unclean elections are not allowed")
        elif self._is_against_its_file(write):
            self._say("Z-16", write, "the file of the leader turns unclean elections off, and nothing overrides it")
        elif lost := self._dead_and_against_it(write, before):
            self._say("Z-16", write, f"the files of {lost} of the ISR, now dead, turn unclean elections off")
        if after.isr != (after.leader,):
            self._say("Z-12", write, "after an unclean election the leader alone is in sync")
        is_marked = self._leader_recovery and self._history.features().leader_recovery
        expected = 1 if is_marked else before.recovery_state
        if after.recovery_state != expected:
            self._say("Z-17", write, "an unclean election")
        self._judge_elected(write)

    def _was_on_instances_alone(self, write: _Write, before: State) -> bool:
        """Whether no broker can have a record: another controller started the partition on instances alone."""
        never_led = all(broker in OUR_IDS for state in write.partition.committed.values() for broker in state.isr)
        return never_led and all(broker in OUR_IDS for broker in before.isr)

    def _is_unclean_allowed(self, write: _Write) -> bool:
        key = (write.place.topic, write.place.number)
        return key in self._history.asked.unclean or self._history.is_unclean_allowed(write.place.topic, write.now)

    def _is_against_its_file(self, write: _Write) -> bool:
        """Whether the controller knows this life of the leader, whose file forbids unclean elections."""
        leader = self._history.brokers.get(write.after.leader)
        if leader is None or not leader.is_clean or not self._is_up_to_files(write):
            return False
        return write.epoch > leader.registered_in or write.epoch in leader.read_in  # elected later: it has read all

    def _dead_and_against_it(self, write: _Write, before: State) -> list[int]:
        """The dead members of the ISR whose last lives the controller knew, and whose files forbid the election."""
        if not self._is_up_to_files(write):
            return []
        lives = {broker: self._history.brokers.get(broker) for broker in before.isr}
        dead = {broker: life for broker, life in lives.items() if life is not None and not life.czxid}
        return [broker for broker, life in dead.items() if life.is_clean and write.epoch in life.known_in]

    def _is_up_to_files(self, write: _Write) -> bool:
        """Whether only the files of brokers can allow the election, and every controller knows that."""
        is_asked_for = (write.place.topic, write.place.number) in self._history.asked.unclean
        return not is_asked_for and self._history.is_surely_up_to_files(write.place.topic, write.now)

    def _is_surely_known(self, broker: int, write: _Write) -> bool:
        """Whether every controller must know that the broker is an eligible replica of this partition."""
        if write.partition.moved_at >= write.now - self._history.window and write.partition.former:
            return False
        is_eligible = self._history.is_surely_eligible(broker, write.now)
        return is_eligible and self._history.is_surely_noticed(broker, write.now, write.epoch)


def _brief(state: State) -> str:
    recovering = " recovering" if state.recovery_state else ""
    return f"{state.leader}/{state.leader_epoch} {list(state.isr)} v{state.version}{recovering}"
