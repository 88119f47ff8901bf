"""Each invariant has a log with one thing wrong in it that trips this invariant and no other."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from controllerd.record.invariants import GROUPS, RULES, TITLES, check
from controllerd.record.records import (
    AlarmRecord,
    AssignmentRecord,
    BrokerRow,
    BrokersRecord,
    DecisionRecord,
    DeletionRecord,
    DigestRecord,
    EventBegin,
    EventEnd,
    GapRecord,
    LeadershipRecord,
    OfflineDirsRecord,
    PartitionStateRecord,
    PendingDeletionsRecord,
    QuarantineRecord,
    ReassignmentRecord,
    Record,
    ReplicaStateRecord,
    ReplyRecord,
    RequestRecord,
    ResponseRecord,
    SnapshotEnd,
    TermRecord,
    TopicsForgotten,
    TopicsRecord,
    ZkWriteRecord,
)
from controllerd.record.rules.base import MOST_SEQS
from tests.record.logs import Log, good_log, index_of, log_of, with_more, with_record

STATE: Final = "/brokers/topics/a/partitions/0/state"


def changed(kind: type[Record], nth: int = 0, **fields: Any) -> Callable[[], Log]:
    """The good log with other fields in one of its records."""

    def mutant() -> Log:
        log = good_log()
        index = index_of(log, kind, nth)
        return with_record(log, index, replace(log[index][1], **fields))

    return mutant


def more(*records: Record) -> Callable[[], Log]:
    """The good log with more records after it."""
    return lambda: with_more(good_log(), *records)


def replaced(kind: type[Record], nth: int) -> Callable[[], Log]:
    """The good log with something harmless in place of one of its records."""

    def mutant() -> Log:
        log = good_log()
        return with_record(log, index_of(log, kind, nth), AlarmRecord("nothing", "to see here"))

    return mutant


def event(name: str, *records: Record) -> list[Record]:
    """An event from its beginning to its end."""
    return [EventBegin(9, name, 0, 0.1), *records, EventEnd(9, name, "done", 1.0)]


def write(version: int, leader: int, leader_epoch: int, isr: list[int], *, recovery: int = 0) -> list[Record]:
    """The controller writes a state znode and takes over what it wrote."""
    return [
        ZkWriteRecord(12, 5000 + version, 1.0, ["setData"], [STATE], [version - 1], ["ok"], [version]),
        LeadershipRecord(["a"], [0], [leader], [leader_epoch], [isr], [7], [version], [recovery]),
    ]


def decision(strategy: str, leader: int, isr: list[int], *, unclean: bool = False) -> DecisionRecord:
    return DecisionRecord(strategy, ["a"], [0], [leader], [isr], [unclean])


def metadata(brokers: list[int], *, live: list[int], partition_epoch: int | None = None) -> RequestRecord:
    """An UpdateMetadata with the live brokers, and optionally the partition as at the end of the good log."""
    epochs = [{1: 111, 2: 102}[broker] for broker in brokers]
    if partition_epoch is None:
        return RequestRecord("UpdateMetadata", 7, brokers, epochs, [], [], [], [], [], live)
    return RequestRecord("UpdateMetadata", 7, brokers, epochs, ["a"], [0], [2], [4], [partition_epoch], live)


def in_doubt() -> list[Record]:
    """The session was lost while the state znode was written."""
    return [ZkWriteRecord(12, 0, 1.0, ["setData"], [STATE], [10], ["unknown"], [-1], ambiguous=True)]


def moved(step: str, replicas: list[int], adding: list[int], removing: list[int]) -> list[Record]:
    """An event in which a reassignment of the partition takes a step."""
    return event(
        "ApiPartitionReassignment",
        ReassignmentRecord(step, ["a"], [0]),
        AssignmentRecord(["a"], [0], [replicas], [adding], [removing]),
    )


def delete_on(broker: int) -> RequestRecord:
    """A StopReplica with deletion to a broker."""
    epoch = {1: 111, 2: 102, 3: 103}[broker]
    return RequestRecord("StopReplica", 7, [broker], [epoch], ["a"], [0], [], [5], [], delete=[True])


def gone(path: str) -> ZkWriteRecord:
    """A znode is deleted."""
    return ZkWriteRecord(12, 5020, 1.0, ["delete"], [path], [-1], ["ok"], [-1])


def unfenced(operation: str, path: str) -> ZkWriteRecord:
    """A znode is created or deleted without the fence of a term."""
    return ZkWriteRecord(-1, 5020, 1.0, [operation], [path], [-1], ["ok"], [-1])


JOINED: Final = [
    BrokersRecord(live=[BrokerRow(3, 103, [], None)]),
    RequestRecord("UpdateMetadata", 7, [1, 2, 3], [111, 102, 103], ["a"], [0], [2], [4], [10], [1, 2, 3]),
]
MOVING: Final[list[Record]] = [*event("BrokerChange", *JOINED), *moved("begun", [3, 2, 1], [3], [1])]
"""Broker 3 joins, and the partition is on its way from 1,2 to 3,2."""
SYNCED: Final = event("AlterPartitionReceived", *write(11, 2, 4, [2, 1, 3]))
LIT: Final = [*moved("begun", [1, 2, 3], [3], []), *event("AlterPartitionReceived", *write(11, 2, 4, [2, 1, 3]))]
STARTED: Final[list[Record]] = [DeletionRecord(["a", "a"], ["queued", "started"], [None, None])]
DELETED: Final = ReplicaStateRecord(["a"], [0], [1], ["ReplicaDeletionStarted"], ["ReplicaDeletionSuccessful"])
OFFLINE: Final = PartitionStateRecord(["a"], [0], ["OnlinePartition"], ["OfflinePartition"])


def lost_line() -> Log:
    log = good_log()
    index = index_of(log, ReplicaStateRecord)
    return log[:index] + log[index + 1 :]


def clock_that_goes_back() -> Log:
    log = good_log()
    return [*log[:-1], (replace(log[-1][0], mono_ns=0), log[-1][1])]


def write_after_a_newer_epoch() -> Log:
    newer: list[Record] = [
        TermRecord("elected", 8, 13, "controllerd", ""),
        ZkWriteRecord(13, 4900, 1.0, ["setData"], ["/brokers/topics/b"], [1], ["ok"], [2]),
    ]
    return good_log() + log_of(newer, node=2_000_000_001, epoch=8)


def epoch_won_twice() -> Log:
    return good_log() + log_of([TermRecord("elected", 7, 12, "controllerd", "")], node=2_000_000_001)


def lasting(*records: Record) -> Callable[[], Log]:
    """The good log with more records after it, and then a minute in which nothing comes of it."""
    return lambda: passing(with_more(good_log(), *event("X", *records)))


def passing(log: Log) -> Log:
    """A minute passes; an event ends every ten seconds."""
    for _ in range(6):
        later = with_more(log, *event("UpdateMetadataResponseReceived"))
        log += [(replace(e, mono_ns=e.mono_ns + 10_000_000_000), record) for e, record in later[len(log) :]]
    return log


def handed_out(start: int, version: int, said: str = "error NONE, start {start}, length 1000") -> list[Record]:
    """A block of producer ids is written and given away."""
    name, path = "AllocateProducerIds", "/latest_producer_id_block"
    return [
        EventBegin(9, name, 0, 0.1),
        ZkWriteRecord(12, 5000 + version, 1.0, ["setData"], [path], [version - 1], ["ok"], [version]),
        ReplyRecord(9, name, said.format(start=start)),
        EventEnd(9, name, "done", 1.0),
    ]


def unled(*between: Record, isr: tuple[int, ...] = (2, 1)) -> Log:
    """The leader is removed, and for a minute there is no other one; an event ends every ten seconds."""
    shrunk = write(11, -1, 5, list(isr))
    return passing(with_more(good_log(), *event("BrokerChange", *shrunk), *between))


AGAIN = ResponseRecord(1, 111, "LeaderAndIsr", 7, 1, 100, 1, 1.0, 0)
"""Broker 1 has answered number one already."""


OF_OLD: Final = "ProducerIdBlock(error=0, start={start}, length=1000)"
"""As logs have it that were written by 0.1.0 before replies were said in words."""
IN_FULL: Final = "{{'error': 0, 'start': {start}, 'length': 1000}}"
"""As level ``full`` has it."""


MUTANTS: Final[list[tuple[str, Callable[[], Log]]]] = [
    ("I-01", epoch_won_twice),
    ("I-01", more(TermRecord("elected", 6, 12, "controllerd", ""))),
    ("I-02", changed(ZkWriteRecord, fence=11)),
    ("I-02", changed(ZkWriteRecord, fence=-1)),
    ("I-02", more(unfenced("create", "/brokers/ids/2000000000"))),
    ("I-02", more(unfenced("delete", "/brokers/ids/3"))),
    (
        "I-03",
        changed(
            RequestRecord,
            6,
            controller_epoch=6,
            topics=[],
            partitions=[],
            leaders=[],
            leader_epochs=[],
            partition_epochs=[],
        ),
    ),
    (
        "I-03",
        more(
            TermRecord("resigned", 7, 12, "nobody", ""),
            RequestRecord("UpdateMetadata", 7, [2], [102], [], [], [], [], [], [1, 2]),
        ),
    ),
    ("I-04", write_after_a_newer_epoch),
    ("I-05", more(TermRecord("resigned", 7, 12, "nobody", ""), *event("TopicChange", OFFLINE))),
    ("I-05", more(TermRecord("resigned", 7, 12, "nobody", ""), *event("TopicChange", decision("Offline", 2, [2])))),
    ("I-06", more(*event("BrokerChange", *write(11, -1, 5, [])))),
    (
        "I-08",
        more(
            *event("BrokerChange", BrokersRecord(gone=[1]), metadata([2], live=[2]), *write(11, 2, 5, [2])),
            *event("AlterPartitionReceived", *write(12, 2, 5, [2, 1])),
        ),
    ),
    ("I-07", more(*event("BrokerChange", decision("Offline", 3, [3], unclean=True), *write(11, 3, 5, [3])))),
    ("I-09", more(*event("BrokerChange", *write(11, 1, 5, [2])))),
    ("I-09", changed(RequestRecord, 1, leaders=[-2])),
    ("I-10", more(RequestRecord("LeaderAndIsr", 7, [2], [102], ["a"], [0], [2], [3], [9]))),
    ("I-11", more(RequestRecord("UpdateMetadata", 7, [2], [102], ["a"], [0], [2], [4], [9], [1, 2]))),
    ("I-12", changed(LeadershipRecord, 1, leader_epochs=[3])),
    ("I-12", changed(LeadershipRecord, 2, leader_epochs=[5])),
    ("I-12", more(LeadershipRecord(["a"], [0], [2], [3], [[2]], [6], [11], [0]))),
    ("I-13", changed(RequestRecord, 6, partition_epochs=[11])),
    ("I-14", more(*event("BrokerChange", *write(11, 2, 5, [2])), *event("BrokerChange", *write(12, 1, 6, [1])))),
    (
        "I-14",
        more(
            *event("BrokerChange", *write(11, 2, 5, [2])),
            *event("BrokerChange", decision("Offline", 1, [1, 2], unclean=True), *write(12, 1, 6, [1, 2])),
        ),
    ),
    ("I-15", more(*event("BrokerChange", decision("Offline", 2, [2, 1])))),
    ("I-15", more(*event("ControlledShutdown", decision("ControlledShutdown", 2, [2, 1])))),
    ("I-15", more(*event("AutoPreferredReplicaLeaderElection", decision("Preferred", 2, [2, 1])))),
    ("I-15", more(*event("DrainBroker", decision("Relieve", 2, [2, 1])))),
    (
        "I-15",
        more(*event("BrokerChange", *JOINED), *LIT, *event("DrainBroker", decision("Relieve", 3, [2, 1, 3]))),
    ),
    ("I-16", more(*moved("begun", [2, 1, 3], [], []))),
    ("I-16", more(*moved("begun", [3, 2], [3], []))),
    ("I-16", more(*MOVING, *moved("overridden", [4, 2], [4], []))),
    ("I-16", more(*MOVING, *moved("cancelled", [2], [], []))),
    ("I-16", more(*MOVING, *moved("completing", [3], [], []))),
    ("I-16", more(*MOVING, *moved("completing", [3, 2], [], []))),
    ("I-16", more(*MOVING, *SYNCED, *moved("completing", [3], [], []))),
    (
        "I-17",
        more(
            *event(
                "ZkPartitionReassignment",
                ZkWriteRecord(12, 5009, 1.0, ["setData"], ["/brokers/topics/a"], [0], ["ok"], [1]),
                AssignmentRecord(["a"], [0], [[2, 1]], [[]], [[]]),
            )
        ),
    ),
    ("I-18", more(ReplicaStateRecord(["a"], [0], [1], ["OnlineReplica"], ["ReplicaDeletionStarted"]))),
    ("I-18", more(ReplicaStateRecord(["a"], [0], [3], ["NonExistentReplica"], ["OnlineReplica"]))),
    ("I-19", more(PartitionStateRecord(["a"], [0], ["OnlinePartition"], ["NonExistentPartition"]))),
    ("I-19", more(PartitionStateRecord(["a"], [1], ["NonExistentPartition"], ["OnlinePartition"]))),
    ("I-20", more(*MOVING, *SYNCED, *moved("completing", [3, 2], [], []), delete_on(1))),
    ("I-21", more(DeletionRecord(["a"], ["queued"], [None]), *event("X", *write(11, 2, 5, [2])), delete_on(1))),
    ("I-21", more(*event("X", *write(11, 2, 5, [2]), PendingDeletionsRecord(1, ["a"], [0], ["id-a"])), delete_on(1))),
    ("I-22", more(*event("X", DeletionRecord(["a"], ["queued"], [None]), gone("/brokers/topics/a")))),
    ("I-22", more(*event("X", *STARTED, gone("/admin/delete_topics/a")))),
    ("I-22", more(*event("X", *STARTED, gone("/brokers/topics/a/partitions/0/state")))),
    (
        "I-23",
        more(
            TermRecord("elected", 8, 13, "controllerd", ""),
            RequestRecord("LeaderAndIsr", 8, [2], [102], ["a"], [0], [2], [4], [10]),
        ),
    ),
    ("I-24", replaced(RequestRecord, 2)),
    ("I-24", changed(RequestRecord, 2, live_brokers=[1, 2])),
    ("I-25", replaced(RequestRecord, 5)),
    ("I-25", changed(RequestRecord, 4, topics=[], partitions=[], leaders=[], leader_epochs=[], partition_epochs=[])),
    ("I-25", changed(RequestRecord, 4, topics=["b"], leaders=[-2], partition_epochs=[-1], unnamed=1)),  # first of two
    (
        "I-25",
        more(
            DeletionRecord(["a"], ["queued"], [None]),
            *event(
                "BrokerChange",
                JOINED[0],
                replace(metadata([1, 2], live=[1, 2, 3]), brokers=[1, 2, 3], broker_epochs=[111, 102, 103]),
            ),
        ),
    ),
    ("I-26", more(TopicsRecord(["a"], ["another"], [1]))),
    ("I-27", changed(RequestRecord, 6, brokers=[3], broker_epochs=[103])),
    ("I-27", changed(RequestRecord, 6, broker_epochs=[101])),
    ("I-28", more(ReplyRecord(4, "AlterPartitionReceived", "again"))),
    ("I-28", more(*event("Resync", ReplyRecord(9, "Resync", "done"), ReplyRecord(9, "Resync", "done")))),
    ("I-29", more(ResponseRecord(1, 111, "StopReplica", 4, 2, 100, 1, 1.0, 0))),
    ("I-29", more(ResponseRecord(1, 111, "LeaderAndIsr", 7, 1, 100, 1, 1.0, 0))),
    ("I-29", more(ResponseRecord(3, 103, "LeaderAndIsr", 7, 1, 100, 1, 1.0, 0))),
    ("I-29", more(*event("BrokerChange", AGAIN))),
    ("I-30", changed(SnapshotEnd, partitions=2)),
    ("I-30", more(DigestRecord("0123456789abcdef", 1, 2))),
    ("I-31", more(DeletionRecord(["a", "a"], ["queued", "queued"], [None, None]))),
    ("I-31", more(DeletionRecord(["b"], ["started"], [None]))),
    ("I-31", more(DeletionRecord(["a", "a"], ["queued", "resumed"], [None, None]))),
    ("I-32", changed(EventBegin, 3, detail={"broker": 1})),
    ("I-32", more(*event("AlterPartitionReceived", *write(11, 1, 4, [2, 1])))),
    ("I-33", more(*event("BrokerChange", *write(11, 2, 5, [2, 1], recovery=1)))),
    (
        "I-33",
        more(
            *event("BrokerChange", *write(11, 2, 5, [2])),
            *event("BrokerChange", decision("Offline", 1, [1], unclean=True), *write(12, 1, 6, [1], recovery=1)),
            *event("BrokerChange", *write(13, 1, 7, [1])),
        ),
    ),
    ("I-34", unled),
    ("I-35", lasting(DeletionRecord(["a"], ["queued"], [None]))),
    ("I-35", lasting(QuarantineRecord("/brokers/topics/a2", "no JSON"), DeletionRecord(["a"], ["queued"], [None]))),
    ("I-35", lasting(*STARTED, DELETED)),
    ("I-35", lasting(*moved("begun", [2, 1], [], [1])[1:-1], *write(11, 2, 5, [2]))),
    ("I-36", more(AlarmRecord("picture differs from ZooKeeper", "/brokers/topics/a"))),
    (
        "I-37",
        more(
            QuarantineRecord(STATE, "no JSON"), ZkWriteRecord(12, 5002, 1.0, ["setData"], [STATE], [10], ["ok"], [11])
        ),
    ),
    ("I-38", more(*event("BrokerChange", *in_doubt(), metadata([2], live=[1, 2], partition_epoch=10)))),
    ("I-39", more(*handed_out(1000, 2), *handed_out(1500, 3))),
    ("I-39", more(*handed_out(1000, 3), *handed_out(2000, 2))),
    ("I-39", more(*handed_out(1000, 2, OF_OLD), *handed_out(1500, 3, IN_FULL))),
    ("I-39", more(EventBegin(9, "X", 0, 0.1), handed_out(1000, 2)[2])),
    ("I-40", lost_line),
    ("I-40", clock_that_goes_back),
    ("RT", more(AlarmRecord("invariant broken", "TopicChange: InvariantBroken: I-06: a-0 would have an empty ISR"))),
]


def test_a_good_log_violates_nothing() -> None:
    assert list(check(good_log())) == []


@pytest.mark.parametrize(("invariant", "mutant"), MUTANTS)
def test_a_mutant_trips_its_invariant_and_only_it(invariant: str, mutant: Callable[[], Log]) -> None:
    assert {violation.id for violation in check(mutant())} == {invariant}


def test_every_invariant_has_a_mutant_and_a_title() -> None:
    ids = {rule.id for rule in RULES}
    assert ids == {invariant for invariant, _ in MUTANTS}
    assert ids == TITLES.keys()


@pytest.mark.parametrize(
    "excuse",
    [
        QuarantineRecord(STATE, "no JSON"),
        DeletionRecord(["a", "a"], ["queued", "halted"], [None, "a broker is gone"]),
        BrokersRecord(shutting_down=[1, 2]),
        OfflineDirsRecord(2, ["a"], [0]),
    ],
    ids=lambda record: record.kind,
)
def test_a_partition_without_an_electable_replica_may_be_without_a_leader(excuse: Record) -> None:
    isr = (2,) if isinstance(excuse, OfflineDirsRecord) else (2, 1)
    assert list(check(unled(excuse, isr=isr))) == []


@pytest.mark.parametrize("path", ["/brokers/topics/a", STATE])
def test_a_deletion_may_wait_while_a_znode_of_its_topic_is_in_quarantine(path: str) -> None:
    waits = lasting(QuarantineRecord(path, "no JSON"), DeletionRecord(["a"], ["queued"], [None]))
    assert list(check(waits())) == []


@pytest.mark.parametrize(
    "records", [(AGAIN, BrokersRecord(gone=[1])), (BrokersRecord(gone=[1]), AGAIN)], ids=["before", "after"]
)
def test_a_broker_that_bounced_is_asked_by_a_new_channel_before_the_log_says_that_it_had_gone(
    records: tuple[Record, ...],
) -> None:
    found = check(with_more(good_log(), *event("BrokerChange", *records)))
    assert [violation for violation in found if violation.id == "I-29"] == []


def test_a_partition_that_is_led_within_the_time_is_no_violation() -> None:
    log = unled()
    begin = index_of(log, EventBegin, -3)
    led = with_more(log[:begin], *event("BrokerChange", decision("Offline", 1, [2, 1]), *write(12, 1, 6, [2, 1])))
    assert list(check(led)) == []


WITHOUT_RULES: Final = frozenset({"I-05"})
"""Asserted at run time; the rule of the log sees but a part of it."""


def test_every_invariant_that_records_can_show_has_a_rule() -> None:
    numbered = {f"I-{number:02}" for number in range(1, 41)} - WITHOUT_RULES
    assert numbered <= {rule.id for rule in RULES}


def test_every_rule_has_a_severity_and_a_question() -> None:
    assert {rule.severity for rule in RULES} == {"critical", "error", "warning"}
    assert all(rule.question.endswith("?") for rule in RULES)
    assert len({rule.question for rule in RULES}) == len(RULES)


def test_rules_of_one_invariant_have_the_same_severity() -> None:
    assert len({(rule.id, rule.severity) for rule in RULES}) == len({rule.id for rule in RULES})


def test_the_groups_are_all_rules_once() -> None:
    chosen = [rule for group in GROUPS for rule in group]
    assert len(chosen) == len(RULES)
    assert set(chosen) == set(RULES)


@pytest.mark.parametrize("mutant", [mutant for _, mutant in MUTANTS], ids=[invariant for invariant, _ in MUTANTS])
def test_groups_of_rules_find_together_what_all_rules_find(mutant: Callable[[], Log]) -> None:
    apart = [violation for group in GROUPS for violation in check(mutant(), group)]
    assert sorted(apart) == sorted(check(mutant()))


def test_a_violation_names_the_records_that_show_it() -> None:
    violation, *_ = check(changed(LeadershipRecord, 1, leader_epochs=[3])())
    assert violation.seqs == (13, 16)
    assert violation.severity == "critical"


def test_a_violation_that_only_the_whole_log_shows_names_its_record() -> None:
    violation, *_ = check(more(*handed_out(1000, 2), *handed_out(1500, 3))())
    assert violation.seq == 39
    assert violation.seqs == (39,)


def test_a_violation_in_a_long_event_names_its_first_and_its_last_records() -> None:
    log = with_more(
        good_log(),
        *event("X", *[metadata([1], live=[1, 2])] * 50, replace(metadata([1], live=[1]), brokers=[9])),
    )
    violation, *_ = [found for found in check(log) if found.id == "I-27"]
    assert len(violation.seqs) == MOST_SEQS
    assert violation.seqs[0] == index_of(log, EventBegin, -1) + 1
    assert violation.seqs[-1] == violation.seq


def test_a_violation_has_its_place_and_its_evidence() -> None:
    violation, *_ = check(changed(LeadershipRecord, 1, leader_epochs=[3])())
    assert (violation.seq, violation.boot) == (16, "boot")
    assert violation.evidence == "a-0: leader epoch 3 to 3 by a write of the controller"


def test_a_declared_gap_is_no_violation() -> None:
    log = good_log()
    last = log[-1][0]
    gap = GapRecord(5, last.seq + 1, last.seq + 5, "disk full")
    assert list(check([*log, (replace(last, kind="gap", seq=last.seq + 6), gap)])) == []


def test_a_topic_that_is_created_anew_begins_with_low_epochs_and_another_id() -> None:
    log = with_more(
        good_log(),
        TopicsForgotten(["a"]),
        TopicsRecord(["a"], ["id-b"], [0]),
        RequestRecord("LeaderAndIsr", 7, [2], [102], ["a"], [0], [2], [0], [-1]),
    )
    assert list(check(log)) == []


def test_a_write_during_a_broker_failure_is_checked_against_the_brokers_of_that_moment() -> None:
    log = with_more(
        good_log(),
        BrokersRecord(gone=[2]),
        RequestRecord("StopReplica", 7, [2], [102], ["a"], [0], [], [4], [], delete=[False]),
    )
    assert [violation.id for violation in check(log)] == ["I-27"]


def test_the_election_and_persistent_parents_are_written_without_fence() -> None:
    election = ZkWriteRecord(
        -1, 1, 1.0, ["create", "setData"], ["/controller", "/controller_epoch"], [-1, 3], ["ok"] * 2, [0, 4]
    )
    parents = ZkWriteRecord(-1, 2, 1.0, ["create"], ["/config/topics"], [-1], ["ok"], [0])
    assert list(check(with_more(good_log(), election, parents))) == []


def test_the_registration_of_an_instance_is_deleted_without_fence() -> None:
    """By the election that takes the role, or by the session that lost it."""
    assert list(check(with_more(good_log(), unfenced("delete", "/brokers/ids/2000000000")))) == []


def test_a_drained_broker_passes_its_leadership_to_the_first_other_one_and_stays_in_sync() -> None:
    paused = ["/controllerd", "/controllerd/pauses"]
    log = with_more(
        good_log(),
        *event(
            "DrainBroker",
            ZkWriteRecord(12, 5002, 1.0, ["create"] * 2, paused, [-1] * 2, ["ok"] * 2, [0] * 2),
            decision("Relieve", 1, [2, 1]),
            *write(11, 1, 5, [2, 1]),
        ),
        ZkWriteRecord(12, 5003, 1.0, ["setData"], ["/controllerd/throttle"], [3], ["ok"], [4]),
    )
    assert list(check(log)) == []


@pytest.mark.parametrize(("strategy", "leader"), [("ControlledShutdown", 2), ("Relieve", 1)])
def test_a_replica_on_a_failed_log_directory_is_not_eligible(strategy: str, leader: int) -> None:
    failed = OfflineDirsRecord(3, ["a"], [0])
    log = with_more(good_log(), *MOVING, *SYNCED, *event("X", failed, decision(strategy, leader, [2, 1, 3])))
    assert list(check(log)) == []


def test_a_term_that_is_renewed_is_announced_with_the_old_epoch_and_won_with_the_next() -> None:
    log = with_more(
        good_log(),
        TermRecord("renewed", 7, 12, "2000000000", "an event failed"),
        TermRecord("renewed", 8, 13, "controllerd", ""),
    )
    assert list(check(log)) == []


def test_an_election_that_resolves_a_foreign_write_may_end_an_alter_partition() -> None:
    log = with_more(
        good_log(), *event("AlterPartitionReceived", decision("Offline", 1, [1, 2]), *write(11, 1, 5, [1, 2]))
    )
    assert list(check(log)) == []


def test_an_unclean_election_that_was_decided_on_is_no_violation() -> None:
    log = with_more(
        good_log(),
        *event("BrokerChange", *write(11, 2, 5, [2])),
        *event("BrokerChange", decision("Offline", 1, [1], unclean=True), *write(12, 1, 6, [1], recovery=1)),
        *event("AlterPartitionReceived", *write(13, 1, 6, [1])),
    )
    assert list(check(log)) == []


@pytest.mark.parametrize(
    "steps",
    [
        [*SYNCED, *event("X", *write(12, 2, 5, [2, 3])), *moved("completing", [3, 2], [], []), delete_on(1)],
        [*moved("cancelled", [2, 1], [], []), delete_on(3)],
        [*moved("overridden", [1, 2], [], []), *moved("begun", [2, 1], [], [])],
        [
            *event(
                "X",
                *write(11, 2, 4, [2, 3]),
                ReassignmentRecord("completing", ["a"], [0]),
                AssignmentRecord(["a"], [0], [[3, 2]], [[]], [[]]),
                AssignmentRecord(["a"], [0], [[3, 2, 1]], [[3]], [[1]]),
            )
        ],
    ],
)
def test_a_reassignment_may_be_completed_cancelled_overridden_and_undone(steps: list[Record]) -> None:
    violations = {violation.id for violation in check(with_more(good_log(), *MOVING, *steps))}
    assert not violations & {"I-16", "I-17", "I-20", "I-21"}


def test_a_topic_whose_replicas_are_deleted_or_pending_may_be_deleted() -> None:
    log = with_more(
        good_log(),
        *event(
            "TopicDeletion",
            *STARTED,
            delete_on(2),
            ReplicaStateRecord(["a"], [0], [2], ["ReplicaDeletionStarted"], ["ReplicaDeletionSuccessful"]),
            PendingDeletionsRecord(1, ["a"], [0], [None]),
            gone("/brokers/topics/a/partitions/0/state"),
            gone("/brokers/topics/a"),
            gone("/admin/delete_topics/a"),
            gone("/admin/delete_topics/unknown"),
            TopicsForgotten(["a"]),
        ),
    )
    assert list(check(log)) == []


def test_a_change_by_another_program_is_no_violation() -> None:
    written = ZkWriteRecord(12, 5009, 1.0, ["setData"], ["/brokers/topics/a"], [0], ["ok"], [1])
    said = AlarmRecord("assignment changed by somebody else", "a-0: this -> that")
    changes = AssignmentRecord(["a"], [0], [[2, 1]], [[]], [[]])
    assert list(check(with_more(good_log(), *event("PartitionModifications", written, said, changes)))) == []


def test_producer_ids_may_begin_anew_after_a_write_of_another_program() -> None:
    assert list(check(more(*handed_out(5000, 2), *handed_out(0, 4))())) == []


def test_a_new_term_resolves_writes_with_an_unknown_outcome() -> None:
    begins = TermRecord("elected", 8, 13, "controllerd", "")
    known = RequestRecord("UpdateMetadata", 8, [2], [102], ["a"], [0], [2], [4], [10], [1, 2])
    assert list(check(with_more(good_log(), *in_doubt(), begins, known))) == []


def test_correlation_ids_begin_anew_with_a_channel_that_was_reopened() -> None:
    log = with_more(
        good_log(),
        EventBegin(9, "BrokerRefresh", 2, 0.1, {"broker": 1, "reopen": True}),
        RequestRecord("UpdateMetadata", 7, [1], [111], ["a"], [0], [2], [4], [10], [1, 2]),
        EventEnd(9, "BrokerRefresh", "done", 1.0),
        ResponseRecord(1, 111, "UpdateMetadata", 8, 1, 100, 1, 1.0, 0),
    )
    assert list(check(log)) == []


def test_a_request_that_was_not_authorized_is_answered_again() -> None:
    log = with_more(
        good_log(),
        RequestRecord("UpdateMetadata", 7, [1], [111], ["a"], [0], [2], [4], [10], [1, 2]),
        ResponseRecord(1, 111, "UpdateMetadata", 8, 3, 100, 1, 1.0, 31),
        ResponseRecord(1, 111, "UpdateMetadata", 8, 3, 100, 2, 1.0, 0),
    )
    assert list(check(log)) == []
