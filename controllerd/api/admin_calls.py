"""Admin requests to the controller: elections, reassignments, features. Each becomes a call in the event queue."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import structlog

from controllerd.api.admin_messages import NO_TEXT, election_text, feature_text, reassignment_text, top_level_text
from controllerd.api.event_calls import EffectWaiter, EventCaller
from controllerd.api.hang_up import HangUp, Reason
from controllerd.api.large_messages import decode_request, rows_in, run_in_thread_if_large
from controllerd.api.native import NativeRequest, serves
from controllerd.api.sessions import AclOperation
from controllerd.core.context import NO_ASSIGNMENT
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import Broker, BrokerId, ReplicaAssignment, TopicPartition
from controllerd.snapshot import ClusterSnapshot
from events.admin import FeatureUpdate, UpdateFeatures
from events.elections import ElectionTrigger, ElectionType, ReplicaLeaderElection
from events.reassignments import ApiPartitionReassignment, ListPartitionReassignments
from wire.api_codec import Request
from wire.api_elections import (
    FIRST_WITH_TYPE,
    ElectLeadersQuery,
    RowResult,
    decode_elect_leaders,
    encode_elect_leaders,
)
from wire.api_features import FeatureResult, decode_update_features, encode_update_features
from wire.api_reassignments import (
    WantedReplicas,
    decode_alter_reassignments,
    decode_list_reassignments,
    encode_alter_reassignments,
    encode_list_reassignments,
)
from wire.framing import RequestHeader
from wire.versions import ApiKey, VersionRange

_ELECTION_TYPES: Final = {kind.value: kind for kind in ElectionType}
_LOG = structlog.get_logger(__name__)

Elected = Mapping[TopicPartition, BrokerId | KafkaError]


class AdminCalls:
    """ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments and UpdateFeatures.

    Every method raises MalformedMessage for bytes that are no such request, and HangUp if there is no reply in time.
    """

    def __init__(self, asker: EventCaller, snapshot: ClusterSnapshot, awaiter: EffectWaiter | None = None) -> None:
        self._asker = asker
        self._snapshot = snapshot
        self._awaiter = awaiter or EffectWaiter(snapshot)

    # -- ElectLeaders --------------------------------------------------------------------------------------------------

    @serves(ApiKey.ELECT_LEADERS, VersionRange(0, 2), needs=AclOperation.ALTER, is_forwarded=True)
    async def elect_leaders(self, request: NativeRequest) -> bytes:
        """Answer ElectLeaders (key 43) when the new leaders are in this node's metadata, or after the timeout."""
        query = await run_in_thread_if_large(rows_in(request), decode_elect_leaders, request)
        until = self._awaiter.deadline(query.timeout_ms)
        kind = _ELECTION_TYPES.get(query.election_type)
        denied = request.denied or (KafkaError.INVALID_REQUEST if kind is None else None)
        wanted = None
        if query.partitions is not None:
            wanted = await run_in_thread_if_large(len(query.partitions), frozenset, query.partitions)
        event = ReplicaLeaderElection(wanted, kind or ElectionType.PREFERRED, ElectionTrigger.ADMIN_CLIENT, request.by)
        reply = await self._asker.ask(event, denied)
        if isinstance(reply, KafkaError):
            return await self._no_election(request, query, reply)
        results = await self._results(reply, wanted, until)
        return await run_in_thread_if_large(len(results), _election_answer, request.head, results, event.election_type)

    async def _no_election(self, request: Request, query: ElectLeadersQuery, error: KafkaError) -> bytes:
        """Return a response with one error.

        A standby sends it per partition, as brokers do. For a request about all partitions it sends a top-level error,
        because an empty response would mean that no election was needed.

        :raises HangUp: the version has no top-level error, and no partition is known here.
        """
        named = query.partitions
        top_level = KafkaError.NONE if error is KafkaError.NOT_CONTROLLER and named else error
        if named is None and request.head.version < FIRST_WITH_TYPE:
            named = [TopicPartition(t.name, p.partition) for t in self._snapshot.topics.values() for p in t.partitions]
            if not named:
                raise HangUp(Reason.NO_ERROR_FIELD, error.name)
        return await run_in_thread_if_large(
            len(named or ()), _no_election_answer, request.head, top_level, named or (), error
        )

    async def _results(
        self, reply: Elected, wanted: frozenset[TopicPartition] | None, until: float
    ) -> dict[TopicPartition, KafkaError]:
        expected = {tp: leader for tp, leader in reply.items() if not isinstance(leader, KafkaError)}
        results = {tp: result for tp, result in reply.items() if isinstance(result, KafkaError)}
        if wanted is None:
            results = {tp: error for tp, error in results.items() if error is not KafkaError.ELECTION_NOT_NEEDED}
        else:
            results |= _unanswered("elections", wanted - reply.keys())
        missing = await self._awaiter.wait_for_leaders(expected, until)
        results |= {tp: KafkaError.REQUEST_TIMED_OUT if tp in missing else KafkaError.NONE for tp in expected}
        return results

    # -- reassignments -------------------------------------------------------------------------------------------------

    @serves(ApiKey.ALTER_PARTITION_REASSIGNMENTS, VersionRange(0, 0), needs=AclOperation.ALTER, is_forwarded=True)
    async def alter_reassignments(self, request: NativeRequest) -> bytes:
        """Answer AlterPartitionReassignments (key 45) when the reassignments have begun, not when they are done."""
        wanted = await run_in_thread_if_large(rows_in(request), decode_alter_reassignments, request)
        targets, refused = await run_in_thread_if_large(len(wanted), _targets, wanted)
        reply = await self._asker.ask(ApiPartitionReassignment(request.by, targets), request.denied)
        if isinstance(reply, KafkaError):
            return await run_in_thread_if_large(len(wanted), _no_reassignment_answer, request.head, wanted, reply)
        results = {**reply, **_unanswered("reassignments", targets.keys() - reply.keys())}
        failed = {tp: error for tp, error in results.items() if error is not KafkaError.NONE}
        texts = self._reasons(failed, targets)
        return await run_in_thread_if_large(len(wanted), _reassignment_answer, request.head, results, texts, refused)

    def _reasons(
        self, failed: Mapping[TopicPartition, KafkaError], targets: Mapping[TopicPartition, tuple[BrokerId, ...] | None]
    ) -> dict[TopicPartition, str | None]:
        live = self._snapshot.brokers.keys() - self._snapshot.shutting_down
        texts = {}
        for tp, error in failed.items():
            view = self._snapshot.partition(tp)
            current = view.assignment if view is not None else NO_ASSIGNMENT
            texts[tp] = reassignment_text(error, targets.get(tp), current, live)
        return texts

    @serves(ApiKey.LIST_PARTITION_REASSIGNMENTS, VersionRange(0, 0), needs=AclOperation.DESCRIBE, is_forwarded=True)
    async def list_reassignments(self, request: NativeRequest) -> bytes:
        """Answer ListPartitionReassignments (key 46) with the requested reassignments that are in progress."""
        wanted = await decode_request(decode_list_reassignments, request)
        event = ListPartitionReassignments(None if wanted is None else frozenset(wanted))
        reply = await self._asker.ask(event, request.denied)
        if isinstance(reply, KafkaError):
            return encode_list_reassignments(request.head, reply, top_level_text(reply), {})
        return await run_in_thread_if_large(len(reply), _listing, request.head, reply)

    # -- features ------------------------------------------------------------------------------------------------------

    @serves(ApiKey.UPDATE_FEATURES, VersionRange(0, 1), needs=AclOperation.ALTER, is_forwarded=True)
    async def update_features(self, request: NativeRequest) -> bytes:
        """Answer UpdateFeatures (key 57). A cluster in ZooKeeper mode has no features, so most updates are refused."""
        query = await decode_request(decode_update_features, request)
        counts = Counter(row.name for row in query.rows)
        updates = {row.name: row.update for row in query.rows if row.update is not None and counts[row.name] == 1}
        reply = await self._asker.ask(UpdateFeatures(request.by, updates, query.validate_only), request.denied)
        if isinstance(reply, KafkaError):
            return encode_update_features(request.head, reply, top_level_text(reply), ())
        errors = {name: reply.get(name, KafkaError.UNKNOWN_SERVER_ERROR) for name in updates}
        live = list(self._snapshot.brokers.values())
        return await run_in_thread_if_large(len(counts), _features_answer, request.head, counts, updates, errors, live)


def _features_answer(
    head: RequestHeader,
    counts: Mapping[str, int],
    updates: Mapping[str, FeatureUpdate],
    errors: Mapping[str, KafkaError],
    live: Sequence[Broker],
) -> bytes:
    results = [
        FeatureResult(name, error, feature_text(error, name, updates.get(name), live, is_repeated=counts[name] > 1))
        for name, error in ((name, errors.get(name, KafkaError.INVALID_REQUEST)) for name in counts)
    ]
    return encode_update_features(head, KafkaError.NONE, None, results)


def _election_answer(head: RequestHeader, results: Mapping[TopicPartition, KafkaError], kind: ElectionType) -> bytes:
    rows = (
        (tp, RowResult(tp.partition, error, election_text(tp, error, kind))) for tp, error in sorted(results.items())
    )
    return encode_elect_leaders(head, KafkaError.NONE, _by_topic(rows))


def _no_election_answer(
    head: RequestHeader, top_level: KafkaError, named: Iterable[TopicPartition], error: KafkaError
) -> bytes:
    rows = ((tp, RowResult(tp.partition, error)) for tp in dict.fromkeys(named))
    return encode_elect_leaders(head, top_level, _by_topic(rows))


def _no_reassignment_answer(head: RequestHeader, wanted: Iterable[WantedReplicas], error: KafkaError) -> bytes:
    # Java's client requires a row for each partition beside a top-level error; otherwise it refuses the response.
    rows = [(tp, RowResult(tp.partition, error)) for tp in dict.fromkeys(row.tp for row in wanted)]
    return encode_alter_reassignments(head, error, top_level_text(error), _by_topic(rows))


def _reassignment_answer(
    head: RequestHeader,
    results: Mapping[TopicPartition, KafkaError],
    texts: Mapping[TopicPartition, str | None],
    refused: Iterable[TopicPartition],
) -> bytes:
    rows = [(tp, RowResult(tp.partition, error, texts.get(tp))) for tp, error in results.items()]
    rows += [(tp, RowResult(tp.partition, KafkaError.INVALID_REQUEST, "named twice")) for tp in refused]
    return encode_alter_reassignments(head, KafkaError.NONE, NO_TEXT, _by_topic(sorted(rows)))


def _listing(head: RequestHeader, reply: Mapping[TopicPartition, ReplicaAssignment]) -> bytes:
    topics: defaultdict[str, list[tuple[int, ReplicaAssignment]]] = defaultdict(list)
    for tp, assignment in sorted(reply.items()):
        if assignment.is_being_reassigned:
            topics[tp.topic].append((tp.partition, assignment))
    return encode_list_reassignments(head, KafkaError.NONE, NO_TEXT, topics)


def _targets(
    wanted: Sequence[WantedReplicas],
) -> tuple[dict[TopicPartition, tuple[BrokerId, ...] | None], list[TopicPartition]]:
    """Return the target of each partition, and the partitions with two different targets."""
    targets = dict(wanted)
    if len(targets) == len(wanted):
        return targets, []
    requested: defaultdict[TopicPartition, set[tuple[BrokerId, ...] | None]] = defaultdict(set)
    for tp, replicas in wanted:
        requested[tp].add(replicas)
    unambiguous = {
        tp: next(iter(targets_of_one)) for tp, targets_of_one in requested.items() if len(targets_of_one) == 1
    }
    return unambiguous, [tp for tp in requested if tp not in unambiguous]


def _unanswered(subject: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, KafkaError]:
    """Return an error for each partition without a result in the reply: clients expect a row for each partition."""
    missing = list(partitions)
    if missing:
        _LOG.warning("left partitions of an admin call unanswered", subject=subject, partitions=len(missing))
    return dict.fromkeys(missing, KafkaError.UNKNOWN_SERVER_ERROR)


def _by_topic(rows: Iterable[tuple[TopicPartition, RowResult]]) -> dict[str, list[RowResult]]:
    topics: defaultdict[str, list[RowResult]] = defaultdict(list)
    for tp, row in rows:
        topics[tp.topic].append(row)
    return dict(topics)
