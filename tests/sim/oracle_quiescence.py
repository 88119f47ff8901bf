"""Judges the end of a story: faults are off and time has passed, so that all state must agree and all work be done."""

from collections.abc import Iterator
from typing import Final

from tests.sim import oracle_admin_rest
from tests.sim.oracle_admin_rest import judge_requests, left_alone, unusable
from tests.sim.oracle_history import CONTROLLER, NEVER, History, State
from tests.sim.oracle_seen import (
    NO_LEADER,
    OUR_IDS,
    AtRest,
    BrokerAtRest,
    CachedPartition,
    InstanceAtRest,
    Key,
    Violation,
    state_path,
)
from tests.sim.oracle_zookeeper import ZooKeeperOracle

_RULES: Final = {
    "Q-01": "exactly one instance leads, and it is the one that holds /controller",
    "Q-02": "a partition with a live ISR member, or one that only instances were given, has a live leader",
    "Q-03": "a partition that can be placed has a state",
    "Q-04": "the metadata of every live broker equals ZooKeeper",
    "Q-05": "every live broker knows the live brokers: the registered ones and the active controller",
    "Q-06": "every live broker knows the controller",
    "Q-07": "every live broker leads and follows as ZooKeeper has it",
    "Q-08": "the folded audit log equals ZooKeeper",
    "Q-09": "no work is left",
    "Q-10": "every call was answered, once",
    "Q-11": "the context equals one that is built anew from ZooKeeper",
    "Q-12": "every live replica is in the ISR again",
    "Q-13": "no acknowledged record is lost",
    "Q-14": "a dead broker is in no ISR except as its last member",
    "Q-15": "no leader waits for ever for a change of its ISR",
    "Q-25": "the active instance is registered where a broker needs it, and no other instance is",
    "Q-26": "no delegation token is left that expired long ago",
    "Q-24": "no configuration that an instance wrote outlives its topic",
}
RULES: Final = {**_RULES, **oracle_admin_rest.RULES}
Found = Iterator[tuple[str, str]]


def judge_quiescence(zookeeper: ZooKeeperOracle, end: AtRest, *, isr_is_full: bool = False) -> list[Violation]:
    """The violations at the end. ``isr_is_full``: brokers had the time to let every replica catch up."""
    judge = _EndJudge(zookeeper, end)
    found = [*judge.role(), *judge.partitions(isr_is_full=isr_is_full), *judge.brokers(), *judge.work()]
    found += zookeeper.registrations.at_rest(wanted=end.wants_registration)
    found += zookeeper.tokens.at_rest(end.time)
    found += judge_requests(zookeeper.history, end)
    return [Violation(rule, end.time, evidence) for rule, evidence in found]


class _EndJudge:
    def __init__(self, zookeeper: ZooKeeperOracle, end: AtRest) -> None:
        self._zookeeper = zookeeper
        self._history: History = zookeeper.history
        self._end = end
        self._live = zookeeper.history.live()
        self._states: dict[Key, State] = {
            key: partition.state
            for key, partition in zookeeper.history.partitions.items()
            if partition.state is not None and partition.replicas is not None
            and key[0] not in zookeeper.history.asked.markers
        }  # fmt: skip
        self._offline = unusable(zookeeper.history, end)
        self._left_alone = left_alone(zookeeper.history, end)

    # -- the role ----------------------------------------------------------------------------------------------------

    def role(self) -> Found:
        """The violations of Q-01."""
        active = [instance for instance in self._end.instances if instance.is_active]
        if len(active) != 1:
            yield "Q-01", f"{[instance.owner for instance in active]} lead"
            return
        yield from self._holder(active[0])

    def _holder(self, active: InstanceAtRest) -> Found:
        term, node = self._zookeeper.latest_term, self._history.nodes.get(CONTROLLER)
        if term is None or node is None or node.owner != term.session:
            yield "Q-01", f"{active.owner} leads, but /controller is not held by the winner of {term}"
        elif (active.node_id, active.controller_epoch) != (term.node_id, term.epoch):
            yield "Q-01", f"{active.owner} leads in epoch {active.controller_epoch}, ZooKeeper has {term}"

    # -- partitions --------------------------------------------------------------------------------------------------

    def partitions(self, *, isr_is_full: bool) -> Found:
        """The violations of Q-02, Q-03, Q-12 and Q-14."""
        for (topic, number), partition in sorted(self._history.partitions.items()):
            name, replicas, state = f"{topic}-{number}", partition.replicas, partition.state
            if replicas is None or topic in self._history.asked.markers:
                continue
            if state is None:
                if self._can_be_placed(topic, number, replicas):
                    yield "Q-03", f"{name} has no state, assigned to {list(replicas)}, live are {sorted(self._live)}"
                continue
            if self._should_leave_instances(topic, replicas):
                yield "Q-02", f"{name} is on instances alone, {list(replicas)}, live are {sorted(self._live)}"
            able = {broker for broker in state.isr if (broker, (topic, number)) not in self._offline}
            may_lead = able | {broker for broker in state.isr if (broker, (topic, number)) in self._left_alone}
            if self._live & able and state.leader not in self._live & may_lead:
                yield "Q-02", f"{name} is led by {state.leader}, ISR {list(state.isr)}, live are {sorted(self._live)}"
            dead = set(state.isr) - self._live
            if dead and len(state.isr) > 1:
                yield "Q-14", f"{name} has {sorted(dead)} in its ISR {list(state.isr)}, live are {sorted(self._live)}"
            missing = {b for b in self._live & set(replicas) if (b, (topic, number)) not in self._offline} - set(
                state.isr
            )
            if isr_is_full and missing and state.leader in self._live:
                yield "Q-12", f"{name}: {sorted(missing)} are not in the ISR {list(state.isr)}"

    def _should_leave_instances(self, topic: str, replicas: tuple[int, ...]) -> bool:
        """Whether brokers can have a partition whose replicas are only instances: instances hold no records of it."""
        if f"/brokers/topics/{topic}" in self._history.unreadable:
            return False
        return all(broker in OUR_IDS for broker in replicas) and len(self._live) >= len(replicas)

    def _can_be_placed(self, topic: str, number: int, replicas: tuple[int, ...]) -> bool:
        if state_path((topic, number)) in self._history.unreadable or len(set(replicas)) < len(replicas):
            return False
        ours = [broker for broker in replicas if broker in OUR_IDS]
        if ours:
            return len(self._live - set(replicas)) >= len(ours)
        return bool(self._live & set(replicas))

    # -- brokers -----------------------------------------------------------------------------------------------------

    def brokers(self) -> Found:
        """The violations of Q-04 to Q-07, and Q-15."""
        term = self._zookeeper.latest_term
        controller = term.node_id if term is not None else NO_LEADER
        reported = {broker.id for broker in self._end.brokers}
        if reported != self._live:
            yield "Q-05", f"brokers {sorted(reported)} run, {sorted(self._live)} are registered"
        for broker in self._end.brokers:
            if broker.controller_id != controller:
                yield "Q-06", f"broker {broker.id} believes {broker.controller_id} to be the controller {controller}"
            if set(broker.live_brokers) - {controller} != self._live or controller not in broker.live_brokers:
                yield "Q-05", f"broker {broker.id} believes {sorted(broker.live_brokers)} to be live"
            yield from self._metadata(broker)
            yield from self._replicas(broker)
            for key in sorted(key for key in broker.stuck if key[0] not in self._history.asked.markers):
                if (broker.id, key) not in self._left_alone and not self._cannot_be_deposed(broker, key):
                    yield "Q-15", f"broker {broker.id} wants another ISR for {_name(key)} and cannot get it"

    def _cannot_be_deposed(self, broker: BrokerAtRest, key: Key) -> bool:
        """Whether the broker led in an earlier leader epoch, and there is no new leader to send to it.

        A stock broker skips LeaderAndIsr without a leader and keeps its role: a broker whose session ended, but not its
        process, believes to lead until another replica does (Q-02 judges whether another could). Its AlterPartition is
        rightly refused with FENCED_LEADER_EPOCH; a LeaderAndIsr of the next election ends it.
        """
        state, held = self._states.get(key), broker.replicas.get(key)
        if state is None or held is None:
            return False
        return state.leader == NO_LEADER and held.leader_epoch < state.leader_epoch

    def _metadata(self, broker: BrokerAtRest) -> Found:
        for key in sorted(self._states):
            state, shown = self._states[key], broker.metadata.get(key)
            if shown is None or not self._is_known(key, shown, state):
                yield "Q-04", f"broker {broker.id} shows {_name(key)} as {shown}, ZooKeeper has {_shown(state)}"
        # A topic that an operator deleted in ZooKeeper stays in the brokers' metadata, as with Kafka's controller.
        for key in sorted(broker.metadata.keys() - self._states.keys()):
            is_known = key in self._history.partitions and not self._history.asked.was_deleted(key[0])
            is_going = key[0] in self._history.asked.markers
            if not is_known and not is_going and not self._cannot_know_removal(broker.id, key):
                yield "Q-04", f"broker {broker.id} shows {_name(key)}, which is not there"

    def _cannot_know_removal(self, broker: int, key: Key) -> bool:
        """Whether a broker never received the deletion of a topic that later controllers could not know.

        A stock broker merges UpdateMetadata into its cache; only the leader -2 removes a partition, and requests
        that replace everything come from KRaft controllers alone (KIP-866). A broker that was slow when -2 was queued,
        or had lost its session, never gets it once the topic is gone: neither from the next controller nor when
        it registers again. A broker that did receive it must not show the topic again.
        """
        history, holder = self._history, self._history.nodes.get(CONTROLLER)
        partition = history.partitions.get(key)
        if partition is None or history.forgot.get((broker, key), NEVER) > partition.born_at:
            return False
        zxid, time = partition.gone_at
        was_elected_later = holder is not None and 0 < zxid < holder.czxid
        known = history.brokers.get(broker)
        return was_elected_later or (known.changed_at if known is not None else NEVER) > time - history.window

    def _is_known(self, key: Key, shown: CachedPartition, state: State) -> bool:
        """Whether a broker shows the state, or an older version of it with the same content.

        A foreign write of the same state is not noticed. A state that is written again for a leader older than 3.0,
        to give it a newer partition epoch, is answered to that leader and sent to no other broker.
        """
        if shown == _shown(state):
            return True
        partition = self._history.partitions[key]
        same = partition.committed.get(shown[3])
        if same is None or shown != _shown(same):
            return False
        if partition.is_foreign:
            return shown[:3] == _shown(state)[:3]
        since = (each for version, each in partition.committed.items() if version > same.version)
        return all(_is_same(each, same) for each in since)

    def _is_led(self, key: Key, cached: CachedPartition, state: State) -> bool:
        epoch_is_known = cached.partition_epoch == state.version or self._history.partitions[key].is_foreign
        return epoch_is_known and set(cached.isr) == set(state.isr)

    def _replicas(self, broker: BrokerAtRest) -> Found:
        for key in sorted(broker.replicas.keys() - self._states.keys()):
            if self._history.asked.was_deleted(key[0]) and key[0] not in self._history.documents:
                yield "Q-07", f"broker {broker.id} hosts {_name(key)}, which was deleted"
        leaving = self._history.brokers[broker.id].is_leaving if broker.id in self._history.brokers else False
        for key in sorted(self._states):
            state, cached = self._states[key], broker.replicas.get(key)
            if broker.id not in (self._history.partitions[key].replicas or ()):
                if cached is not None:
                    yield "Q-07", f"broker {broker.id} hosts {_name(key)}, which is not assigned to it"
            elif state.leader == NO_LEADER:
                continue  # a broker ignores rows without a leader
            elif cached is None:
                if not leaving and (broker.id, key) not in self._offline:
                    yield "Q-07", f"broker {broker.id} has no role for {_name(key)}"
            elif (cached.leader, cached.leader_epoch) != (state.leader, state.leader_epoch):
                yield "Q-07", f"broker {broker.id} has {_name(key)} as {cached}, ZooKeeper has {_shown(state)}"
            elif (broker.id, key) in self._left_alone:
                continue
            elif state.leader == broker.id and not self._is_led(key, cached, state):
                yield "Q-07", f"broker {broker.id} leads {_name(key)} as {cached}, ZooKeeper has {_shown(state)}"

    # -- work --------------------------------------------------------------------------------------------------------

    def work(self) -> Found:
        """The violations of Q-08 to Q-11, Q-13 and Q-24."""
        for instance in self._end.instances:
            if instance.queued_events or instance.pending_requests:
                left = f"{instance.queued_events} events and {instance.pending_requests} requests"
                yield "Q-09", f"{instance.owner} has {left} left"
            if instance.is_active:
                yield from (("Q-08", f"{instance.owner}: {line}") for line in instance.log_differences)
                yield from (("Q-11", f"{instance.owner}: {line}") for line in instance.context_differences)
        for call, answers in sorted(self._end.answers.items()):
            if answers != 1:
                yield "Q-10", f"{call} was answered {answers} times"
        yield from (("Q-13", line) for line in self._end.lost_records)
        yield from (("Q-24", f"{topic} is gone") for topic in self._zookeeper.calls.stray_configs())


def _shown(state: State) -> tuple[int, int, tuple[int, ...], int]:
    return state.leader, state.leader_epoch, state.isr, state.version


def _is_same(state: State, other: State) -> bool:
    """Whether the states differ at most in the controller epoch and the version."""
    return other._replace(controller_epoch=state.controller_epoch, version=state.version) == state


def _name(key: Key) -> str:
    return f"{key[0]}-{key[1]}"
