"""ISR changes: by request of the leader (AlterPartition), or by notification from brokers below 2.7-IV2.

AlterPartition from a broker that does not lead
-----------------------------------------------
Only the leader may change the ISR, because it alone knows which followers have its records. An ISR from
another broker could name a replica without them, and the next election could choose that replica: records
that were acknowledged would be lost. Three checks keep such a request out, in this order. The broker epoch
has to be the registered one, so that an earlier run of the broker is refused. The leader epoch has to be
the current one (``core/alter_partition.py``): the next leader has a greater epoch, so a former leader that
has not received its LeaderAndIsr yet gets FENCED_LEADER_EPOCH. And the sender has to be the leader itself,
which Kafka does not check: with both epochs right, a request of any other broker is INVALID_REQUEST. The
write then demands the partition epoch on which the leader based its proposal, so that a change in between
is not overwritten.

UpdateMetadata after an AlterPartition
--------------------------------------
UpdateMetadata goes to all brokers, with the changed partitions only. If none was changed, none is
sent. The other states were sent when they were written, or at the start of this term, so that a
repetition would have no effect. Kafka (``KafkaController.tryProcessAlterPartition``) sends every
partition that was asked for, refused or not.

The difference matters because refusals recur. While a member of the assignment is live and not
eligible, as after a controlled shutdown that does not end, the leaders ask for its return with every
fetch that catches up, and ask anew after each INELIGIBLE_REPLICA: tens of requests a second, and with
Kafka's rule as many to every broker.

No answer stops such a leader without harm. INELIGIBLE_REPLICA (OPERATION_NOT_ATTEMPTED before KIP-841)
is the only refusal after which it returns to the committed ISR. After any other final refusal it keeps
the larger ISR pending until a newer leader epoch: its high watermark waits for the ineligible member,
and it can take no other member out of the ISR. A leader proposes every caught-up follower that
UpdateMetadata names as live, and a broker in an unfinished controlled shutdown must stay named for its
clients. So the controller takes a broker out of an ISR only where it also stops the replica
(``handlers/brokers.py``).

A leader older than 3.0 returns to the committed ISR only by a newer partition epoch, so each such
refusal to it writes the same state again. The write changes only the partition epoch and the
controller epoch, and is sent to no broker. The leader alone uses the partition epoch, in its next
request, and it gets the new one in the answer. A broker reads neither epoch of a partition from
UpdateMetadata: ``MetadataCache`` answers with leader, leader epoch, ISR and replicas. The next leader
and followers get both with LeaderAndIsr. The answer is held back (``api/broker_calls.py``), which
bounds the writes per leader.
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Final

import structlog

from controllerd.controller import Controller
from controllerd.core.alter_partition import Accepted, AlreadySo, Proposal, judge
from controllerd.core.alter_partition_answers import (
    needs_newer_partition_epoch,
    reads_newer_epochs_only,
    release_of_leader,
    understood,
)
from controllerd.core.deletion_waits import is_hidden
from controllerd.core.election import OfflineElection
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, LeaderAndIsr, PartitionState, TopicPartition
from controllerd.core.releases import Release
from controllerd.ports.results import Conflict, WriteResult, Written
from controllerd.record.records import AlarmRecord
from controllerd.services.quarantine import quarantine
from controllerd.services.reassignments import expect_completion
from events.base import Event
from events.replicas import AlterPartitionReceived, AlterPartitionReply, ProposedIsr

log = structlog.get_logger(__name__)

_TOPIC: Final = re.compile(r"/brokers/topics/([^/]+)")
Outcome = LeaderAndIsr | KafkaError
_ASK_AGAIN: Final = KafkaError.UNKNOWN_SERVER_ERROR
"""The answer for a partition in quarantine: the only error after which a leader sends its proposal again.

UNKNOWN_TOPIC_OR_PARTITION would be final: after it only a newer leader epoch helps the leader, and a later controller,
which finds the znode repaired, would not know that it is needed.
"""


async def on_isr_change_notification(_event: Event, c: Controller) -> None:
    """Read the ISRs that leaders changed in ZooKeeper themselves, and send them to all brokers."""
    notes = await c.store.notifications.read_isr_notifications()
    for bad in notes.broken:
        c.audit.record(AlarmRecord("notification cannot be read", str(bad)))
    known = [tp for tp in notes.partitions if tp in c.context]
    if known:
        await _refresh(known, c)
        await c.outbox.update_metadata(c.context.live_or_shutting_down, known)
        expect_completion(known, c)
    await c.store.notifications.delete_isr_notifications(notes.names)


async def _refresh(partitions: list[TopicPartition], c: Controller) -> None:
    read = await c.store.states.read_states(partitions)
    quarantine(c, read.broken.values())
    for tp, leadership in read.states.items():
        c.context.set_leadership(tp, leadership)


async def on_alter_partition(event: AlterPartitionReceived, c: Controller) -> AlterPartitionReply:
    """Judge each partition, write the accepted changes in one go, answer, and send the changes to all brokers."""
    if c.context.epochs().get(event.broker) != event.broker_epoch:
        return AlterPartitionReply(KafkaError.STALE_BROKER_EPOCH, {}, {})
    proposed, unknown_ids = _resolve(event, c)
    error_of_unknown_ids = _error_of_unknown_ids(c)
    outcomes, wanted = _judge_all(event, proposed, c)
    changes = {tp for tp, state in wanted.items() if _is_change(state, c.context.leadership(tp))}
    results = await c.store.states.update_states(wanted, by_leaders=True) if wanted else {}
    outcomes |= _take_results(wanted, results, c)
    changed = [tp for tp, result in results.items() if tp in changes and isinstance(result, Written)]
    if changed:
        await c.outbox.update_metadata(c.context.live_or_shutting_down, changed)
    expect_completion((tp for tp, outcome in outcomes.items() if isinstance(outcome, LeaderAndIsr)), c)
    stuck = [tp for tp in outcomes if _needs_newer_leader_epoch(tp, outcomes[tp], event, proposed, results, c)]
    outcomes |= await _elect_again_for(stuck, c)
    answers = _understood_by(event, outcomes, c)
    costs_writes = len(changes) < len(wanted)
    return AlterPartitionReply(KafkaError.NONE, answers, unknown_ids, error_of_unknown_ids, costs_writes)


def _is_change(wanted: LeaderAndIsr, before: LeaderAndIsr | None) -> bool:
    """Whether the state differs in more than the controller epoch.

    If not, it is written only to get a newer partition epoch.
    """
    return before is None or wanted != before._replace(controller_epoch=wanted.controller_epoch)


def _understood_by(
    event: AlterPartitionReceived, outcomes: Mapping[TopicPartition, Outcome], c: Controller
) -> dict[TopicPartition, Outcome]:
    """Return outcomes that the leader's release understands; a partition to ask for again is left out."""
    release = _release_of(event, c)
    answers: dict[TopicPartition, Outcome] = {}
    for tp, outcome in outcomes.items():
        if isinstance(outcome, LeaderAndIsr):
            answers[tp] = outcome
        elif (answer := understood(outcome, c.context.leadership(tp), release)) is not None:
            answers[tp] = answer
    return answers


def _release_of(event: AlterPartitionReceived, c: Controller) -> Release:
    return release_of_leader(c.context.releases.get(event.broker), event.version)


def _needs_newer_leader_epoch(
    tp: TopicPartition,
    outcome: Outcome,
    event: AlterPartitionReceived,
    proposed: Mapping[TopicPartition, ProposedIsr],
    results: Mapping[TopicPartition, WriteResult],
    c: Controller,
) -> bool:
    """Whether the leader is stuck: it keeps its refused ISR pending until it gets a newer leader epoch."""
    if outcome is KafkaError.INVALID_UPDATE_VERSION:
        return tp in results or _is_of_an_earlier_term(tp, c)
    if outcome is KafkaError.INVALID_REQUEST:
        return _counts_on_former_replicas(tp, proposed[tp], event.broker, c)
    return False


def _counts_on_former_replicas(tp: TopicPartition, ask: ProposedIsr, broker: BrokerId, c: Controller) -> bool:
    """Whether the leader proposes a broker that has no replica, in a leader epoch that an earlier term wrote.

    In that leader epoch an earlier controller sent the leader an assignment with a replica being added. Then the
    reassignment was cancelled, and the term ended after the topic znode was written and before the leader epoch rose.
    No reassignment is under way that would raise it now.

    A leader learns its assignment only with a newer leader epoch. This term may have written the state in the same
    leader epoch (it granted an ISR, or wrote the state once more for a leader older than 3.0) without sending the
    leader its assignment. So the leader epoch is compared, and not the controller epoch of the state. A leader gets
    at most one election per partition and term in this way, because the leader epoch is a newer one afterwards.
    """
    record = c.context.find(tp)
    if record is None or (state := record.leadership) is None or state.leader_epoch != record.loaded_epoch:
        return False
    return state.leader == broker and not set(ask.isr) <= set(record.assignment.replicas)


def _is_of_an_earlier_term(tp: TopicPartition, c: Controller) -> bool:
    """Whether an earlier term wrote the state, so that the leader may not know its version.

    At its start this term sends the loaded state to the leader, which ignores a LeaderAndIsr of the leader epoch that
    it has. This term writes a newer version in the same leader epoch only at the request of the leader, which named
    the version before. Such a leader knew the loaded version; if it missed the answer, it is answered again.
    """
    state = c.context.leadership(tp)
    return state is not None and state.controller_epoch < c.context.epoch


async def _elect_again_for(stuck: list[TopicPartition], c: Controller) -> dict[TopicPartition, Outcome]:
    """Elect again for leaders that must drop their proposal, so that they get a newer leader epoch.

    Return better answers for the leaders that get none. A leader is stuck for one of two reasons:

    - Another writer changed the state, during this term or before it. If before, then this term loaded a version that
      the leader does not know.
    - The leader has an outdated assignment.

    On such an error it waits for a LeaderAndIsr with a newer leader epoch (KAFKA-2729), which an election brings. Where
    no leader can be elected now, the answer makes it repeat its proposal.

    No leader is elected for a hidden topic. Its brokers have deleted replicas, or are about to. A broker that is sent a
    LeaderAndIsr after its StopReplica creates the replica again, and keeps it when the topic is gone: nothing deletes
    a replica of a topic that no longer exists. The leader needs no newer leader epoch, because it is stopped next.
    """
    hidden = {tp for tp in stuck if is_hidden(c.context, tp.topic)}
    elections = await c.partitions.handle(
        [tp for tp in stuck if tp not in hidden], PartitionState.ONLINE, OfflineElection()
    )
    return {tp: _ASK_AGAIN for tp in stuck if tp in hidden or tp in elections.failed}


def _resolve(
    event: AlterPartitionReceived, c: Controller
) -> tuple[dict[TopicPartition, ProposedIsr], dict[str, tuple[int, ...]]]:
    """The proposals by partition, and the partitions with an unknown topic id."""
    proposed = dict(event.by_name)
    unknown: defaultdict[str, list[int]] = defaultdict(list)
    for (topic_id, partition), proposal in event.by_id.items():
        name = c.context.topic_names.get(topic_id)
        if name is None:
            unknown[topic_id].append(partition)
        else:
            proposed[TopicPartition(name, partition)] = proposal
    return proposed, {topic_id: tuple(partitions) for topic_id, partitions in unknown.items()}


def _error_of_unknown_ids(c: Controller) -> KafkaError:
    """The error for unknown ids: while there are topics that were never read, an id may be of one of them."""
    unread = (match[1] for path in c.context.quarantine if (match := _TOPIC.fullmatch(path)))
    return _ASK_AGAIN if any(topic not in c.context.topics for topic in unread) else KafkaError.UNKNOWN_TOPIC_ID


def _waits_for_repair(tp: TopicPartition, c: Controller) -> bool:
    """Whether its state is in quarantine, or no state is known because its topic or assignment is in quarantine."""
    quarantined = c.context.quarantine
    if tp.state_path in quarantined:
        return True
    if not quarantined or c.context.leadership(tp) is not None:
        return False
    topic = f"/brokers/topics/{tp.topic}"
    return topic in quarantined or f"{topic}/partitions/{tp.partition}" in quarantined


def _judge_all(
    event: AlterPartitionReceived, proposed: Mapping[TopicPartition, ProposedIsr], c: Controller
) -> tuple[dict[TopicPartition, Outcome], dict[TopicPartition, LeaderAndIsr]]:
    outcomes: dict[TopicPartition, Outcome] = {}
    wanted: dict[TopicPartition, LeaderAndIsr] = {}
    # KIP-841: INELIGIBLE_REPLICA came with version 2.
    ineligible = KafkaError.INELIGIBLE_REPLICA if event.version >= 2 else KafkaError.OPERATION_NOT_ATTEMPTED
    live = c.context.live
    release = _release_of(event, c)
    for tp, ask in proposed.items():
        if _waits_for_repair(tp, c):
            outcomes[tp] = _ASK_AGAIN
            continue
        proposal = Proposal(event.broker, ask.leader_epoch, ask.partition_epoch, ask.isr, ask.recovery_state)
        current, assignment = c.context.leadership(tp), c.context.assignment(tp)
        verdict = judge(proposal, current, assignment, live, c.context.epoch, ineligible=ineligible)
        match verdict:
            case AlreadySo(current=state):
                outcomes[tp] = state
            case Accepted(wanted=state):
                wanted[tp] = state
            case KafkaError() if current is not None and needs_newer_partition_epoch(verdict, release):
                wanted[tp] = current._replace(controller_epoch=c.context.epoch)  # unchanged, with a newer epoch
            case KafkaError() if current is not None and _has_missed_newer_epoch(verdict, current, event, c):
                outcomes[tp] = current
            case KafkaError():
                outcomes[tp] = verdict
                log.info("rejected ISR change", partition=str(tp), broker=event.broker, error=verdict.name)
    return outcomes, wanted


def _has_missed_newer_epoch(
    verdict: KafkaError, current: LeaderAndIsr, event: AlterPartitionReceived, c: Controller
) -> bool:
    """Whether a leader older than 3.0 repeats a request because it has missed the answer.

    The answer named the committed ISR with a newer partition epoch. Within one leader epoch and one term, only
    requests of the leader raise the partition epoch. A repeated request that had been granted would ask for the
    present ISR (``AlreadySo``). So this one had been refused: the ISR is still the one that the leader had, and the
    leader may return to it.
    """
    is_of_this_term = current.controller_epoch == c.context.epoch and current.leader == event.broker
    is_repeated = verdict is KafkaError.INVALID_UPDATE_VERSION and is_of_this_term
    return is_repeated and reads_newer_epochs_only(_release_of(event, c))


def _take_results(
    wanted: Mapping[TopicPartition, LeaderAndIsr], results: Mapping[TopicPartition, WriteResult], c: Controller
) -> dict[TopicPartition, Outcome]:
    outcomes: dict[TopicPartition, Outcome] = {}
    for tp, result in results.items():
        if isinstance(result, Written):
            leadership = wanted[tp]._replace(partition_epoch=result.version)
            c.context.set_leadership(tp, leadership)
            outcomes[tp] = leadership
        elif isinstance(result, Conflict):
            outcomes[tp] = KafkaError.INVALID_UPDATE_VERSION
        else:
            outcomes[tp] = KafkaError.UNKNOWN_SERVER_ERROR
            c.audit.record(AlarmRecord("state znode was not written", f"{tp}: {result.reason}"))
    return outcomes
